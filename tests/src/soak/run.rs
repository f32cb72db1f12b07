//! A run: its job is started, struck, gone on with, and looked at.

use super::losses::Losses;
use super::output::Expected;
use super::plan::{Blow, Plan, Strike, pause};
use super::programs::{self, Programs};
use super::spread::Spread;
use super::strikes::{Done, Hit, Process, Target, strike_job};
use super::told::{self, Injected, News, Told};
use crate::cluster::built::built;
use crate::cluster::{Hosts, MARK, Observed, hung_up, new_mark, observe_losable};
use scash_sim::rng::Rng;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long after its launcher's death a job on hosts is gone on with, at most, in milliseconds.
const RESUME: u32 = 300;
/// How long processes may take to end that have nothing left to do.
const ENDING: Duration = Duration::from_secs(5);
/// How a job ends that goes on from nowhere: as a rank that was killed.
const AS_LOST: i32 = 128 + 9;
/// And of one that ends for want of what its ranks have printed.
const AS_LAUNCHER: i32 = 125;

/// What a run may have done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A result or a line is not what it must be.
    Result,
    /// It has not ended.
    Hang,
    /// It has left processes.
    Process,
    /// It has left files in `/dev/shm`.
    SharedFile,
    /// It has left files in the directory of its checkpoints.
    Checkpoint,
    /// A restart that no kill explains.
    Spontaneous,
    /// It has failed, or said something that nobody expects.
    Failure,
}

/// Something that a run has done wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing.
    pub wrong: Wrong,
    /// What exactly.
    pub what: String,
}

/// A job that is to be run.
#[derive(Debug)]
pub struct Job<'a> {
    /// Starts it. The run tells ranks where to note what they inject.
    pub command: Command,
    /// What it must print.
    pub expected: Expected,
    /// What is done to it.
    pub strikes: Vec<Strike>,
    /// The seed of what is drawn while it runs.
    pub seed: u64,
    /// What takes longer hangs.
    pub limit: Duration,
    /// The hosts that it runs on, if there are several, and how it is spread over them.
    pub hosts: Option<(&'a Hosts, &'a Spread)>,
}

/// The directories of a run.
#[derive(Debug)]
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    /// Where memory is the disk, or on one: a checkpoint takes as long as that.
    fn new(is_in_memory: bool) -> Place {
        let memory = Path::new("/dev/shm");
        let directory =
            if is_in_memory && memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let place = Place { directory: directory.unwrap() };
        std::fs::create_dir(place.program()).unwrap();
        place
    }

    /// Of checkpoints.
    fn job(&self) -> PathBuf {
        self.directory.path().join("job")
    }

    /// Of what the program writes.
    fn program(&self) -> PathBuf {
        self.directory.path().join("program")
    }

    /// Of notes of ranks that kill themselves.
    fn injected(&self) -> PathBuf {
        self.directory.path().join("injected")
    }

    fn has_job(&self) -> bool {
        self.job().join("job.json").exists()
    }
}

/// What has become of a job.
#[derive(Debug, Default)]
pub struct Run {
    /// Its launchers, one behind the other.
    pub launchers: Vec<Observed>,
    /// What was done to it from outside.
    pub hits: Vec<Hit>,
    /// What the user wanted of its ranks, and was not refused.
    pub orders: Vec<Blow>,
    /// What its ranks have done to themselves.
    pub injected: Vec<Injected>,
    /// Launchers that were killed.
    pub launchers_killed: u64,
    /// Restarts that were told of.
    pub restarts: u64,
    /// Whether its launcher was killed when it was over or nearly, so that nobody could go on with it.
    pub was_over: bool,
    /// Whether it has ended since a rank's checkpoint was lost with hosts, as it may when more are lost than
    /// there are copies; or what ranks printed at their end.
    pub is_lost: bool,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// Runs what a plan says, on hosts if it says so.
pub fn run(plan: &Plan, programs: &Programs, hosts: Option<&Hosts>, limit: Duration) -> Run {
    let place = Place::new(!plan.seed.is_multiple_of(4));
    let arguments = programs::arguments(&plan.program, &place.program());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (directory, program) = (place.job(), programs.path(&plan.program));
    let job = Job {
        command: plan.command(hosts, directory.to_str().unwrap(), &program, &arguments),
        expected: programs.expected(&plan.program, plan.ranks, plan.threads),
        strikes: plan.strikes.clone(),
        seed: plan.seed,
        limit,
        hosts: hosts.zip(plan.spread.as_ref()),
    };
    job.run_at(&place)
}

impl Job<'_> {
    /// Runs a job whose program writes no files and whose checkpoints are in memory.
    pub fn run(self) -> Run {
        self.run_at(&Place::new(true))
    }

    fn run_at(mut self, place: &Place) -> Run {
        let mark = new_mark();
        let mut run = Run::default();
        let mut strikes = std::mem::take(&mut self.strikes).into_iter();
        let mut rng = Rng::part(self.seed, 1);
        let hosts = self.hosts;
        self.command.env("SCASH_INJECTED", place.injected());
        // A job on hosts that has lost its launcher, and whether it may have been over then.
        let mut orphan: Option<(i32, bool)> = None;
        loop {
            let mut command = self.next_command(place, orphan.map(|(job, _)| job));
            if orphan.is_none() && !place.has_job() {
                // If there was one, it has begun anew.
                run.launchers.clear();
            }
            command.env(MARK, &mark);
            let (mut done, mut first) = (Done::default(), 0);
            let goes_on = orphan.is_some();
            let act = |front| {
                first = front;
                done = strike_job(Target { front, hosts, goes_on }, &mut strikes, &mut rng);
                hosts.is_some() && done.launcher_killed
            };
            let observed = observe_losable(command, self.limit, act);
            if let Some((_, may_be_over)) = orphan
                && (may_be_over || run.says_lost())
                && finds_nothing(&observed)
            {
                run.was_over = true;
                break;
            }
            run.launchers_killed += u64::from(done.launcher_killed);
            run.hits.extend(done.hits);
            run.orders.extend(done.orders);
            done.failures.into_iter().for_each(|why| run.find(Wrong::Failure, why));
            let has_hung = !observed.hanging.is_empty();
            let has_ended = !done.launcher_killed || observed.ended.status == 0;
            run.launchers.push(observed);
            // A launcher may be killed behind its job's end.
            let is_complete =
                || !place.has_job() && self.expected.check(&run.outputs(), &place.program(), false).is_ok();
            if has_hung || has_ended || hosts.is_none() && is_complete() {
                break;
            }
            if hosts.is_some() {
                orphan = Some((orphan.map_or(first, |(job, _)| job), done.without_ranks));
                sleep(pause(RESUME, &mut rng));
            }
        }
        run.injected = told::injected(&std::fs::read_to_string(place.injected()).unwrap_or_default());
        run.look_at_hosts(self.hosts.map(|(hosts, _)| hosts));
        run.check(&self.expected, place, self.hosts.map(|(_, spread)| spread));
        run
    }

    /// The command that starts the job, or goes on with it: with this one, if it is on hosts and has lost its
    /// launcher.
    fn next_command(&self, place: &Place, orphan: Option<i32>) -> Command {
        let resume = |what: &OsStr| {
            let mut command = Command::new(built("scash"));
            command.arg("resume").arg(what);
            command
        };
        match (orphan, self.hosts) {
            (Some(job), Some((hosts, spread))) => {
                let mut command = resume(job.to_string().as_ref());
                command.arg("--host").arg(spread.names()).arg("--rsh").arg(hosts.file("rsh"));
                command
            }
            _ if place.has_job() => resume(place.job().as_os_str()),
            _ => again(&self.command),
        }
    }
}

/// Whether agents of the job were looked for in vain.
fn finds_nothing(observed: &Observed) -> bool {
    observed.ended.err.contains("no agent of job ") || observed.ended.err.contains("no host keeps anything")
}

/// The same command once more.
fn again(command: &Command) -> Command {
    let mut again = Command::new(command.get_program());
    again.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => again.env(name, value),
            None => again.env_remove(name),
        };
    }
    again
}

impl Run {
    /// Ranks that were killed.
    pub fn kills(&self) -> u64 {
        (self.hits.iter().map(|hit| hit.killed.len()).sum::<usize>() + self.injected.len()) as u64
    }

    /// Hosts that were lost.
    pub fn hosts_lost(&self) -> u64 {
        self.hits.iter().map(|hit| hit.hosts.len()).sum::<usize>() as u64
    }

    /// Whether somebody was killed.
    fn is_struck(&self) -> bool {
        self.kills() + self.hosts_lost() > 0
    }

    fn outputs(&self) -> Vec<&str> {
        self.launchers.iter().map(|observed| observed.ended.out.as_str()).collect()
    }

    fn find(&mut self, wrong: Wrong, what: impl Into<String>) {
        self.findings.push(Finding { wrong, what: what.into() });
    }

    /// No process of a job may be left on its hosts, whatever it has made of its environment.
    fn look_at_hosts(&mut self, hosts: Option<&Hosts>) {
        let Some(hosts) = hosts else { return };
        for host in 1..=hosts.count() {
            // An agent that has had two launchers is nobody's child that is waited for. It may be ending.
            let started = Instant::now();
            while started.elapsed() < ENDING && !hosts.processes(host).is_empty() {
                sleep(Duration::from_millis(5));
            }
            let left = hosts.kill(host);
            if left > 0 {
                self.find(Wrong::Process, format!("{left} processes on host {host}"));
            }
        }
    }

    fn check(&mut self, expected: &Expected, place: &Place, spread: Option<&Spread>) {
        for observed in std::mem::take(&mut self.launchers) {
            if !observed.hanging.is_empty() {
                self.find(Wrong::Hang, format!("threads:\n{}", observed.hanging.join("\n")));
            }
            if !observed.processes.is_empty() {
                self.find(Wrong::Process, format!("{:?}", observed.processes));
            }
            if !observed.files.is_empty() {
                self.find(Wrong::SharedFile, format!("{:?}", observed.files));
            }
            self.launchers.push(observed);
        }
        let told = self.told();
        self.check_restarts(&told, spread);
        // Whoever is killed while it connects with another has hung up.
        let is_expected = |line: &&String| self.is_struck() && hung_up(line);
        let others = told.iter().flat_map(|told| &told.others).filter(|line| !is_expected(line));
        for line in others.cloned().collect::<Vec<String>>() {
            self.find(Wrong::Failure, format!("nobody expects this on stderr: {line}"));
        }
        self.check_end(&told, expected, place, spread);
    }

    /// Looks at how it has ended, and at what it has printed and left.
    fn check_end(&mut self, told: &[Told], expected: &Expected, place: &Place, spread: Option<&Spread>) {
        let status = self.launchers.last().map_or(-1, |last| last.ended.status);
        if status == -1 {
            return;
        }
        let news: Vec<&News> = told.iter().flat_map(|told| &told.news).collect();
        let lost = told.iter().find_map(Told::lost);
        self.is_lost = lost.is_some_and(|epoch| self.losses(spread).may_have_lost(epoch, &news));
        if self.is_lost && (status == AS_LOST || status == AS_LAUNCHER) {
            return;
        }
        if status == AS_LAUNCHER && told.last().is_some_and(Told::lacks_end) {
            self.is_lost = true;
            return;
        }
        let was_killed = self.launchers_killed > 0 && status > 128;
        if told.iter().any(Told::lacks_output) {
            self.find(Wrong::Result, "what a rank had printed is lost with its host");
        }
        if status != 0 && !was_killed {
            self.find(Wrong::Failure, format!("the job has ended with status {status}"));
        } else if let Err(what) = expected.check(&self.outputs(), &place.program(), self.was_over) {
            self.find(Wrong::Result, what);
        }
        let left: Vec<_> = std::fs::read_dir(place.job()).into_iter().flatten().flatten().collect();
        if status == 0 && !left.is_empty() {
            self.find(Wrong::Checkpoint, format!("{left:?}"));
        }
    }

    /// Whether a launcher has said that the job ends for want of a checkpoint.
    fn says_lost(&self) -> bool {
        self.told().iter().any(|told| told.lost().is_some())
    }

    /// What each launcher has told.
    fn told(&self) -> Vec<Told> {
        let last = self.launchers.len().saturating_sub(1);
        let of = |(number, observed): (usize, &Observed)| {
            let was_killed = number < last || self.launchers_killed > 0 && observed.ended.status > 128;
            told::told(&observed.ended.err, was_killed)
        };
        self.launchers.iter().enumerate().map(of).collect()
    }

    /// Who was lost.
    fn losses<'a>(&self, spread: Option<&'a Spread>) -> Losses<'a> {
        let killed = self.hits.iter().flat_map(|hit| &hit.killed).map(|process: &Process| process.rank);
        let ranks = killed.chain(self.injected.iter().map(|one| one.rank)).collect();
        let hosts = self.hits.iter().flat_map(|hit| hit.hosts.clone()).collect();
        Losses { spread, hosts, ranks, orders: self.orders.clone(), launchers: self.launchers_killed }
    }

    fn check_restarts(&mut self, told: &[Told], spread: Option<&Spread>) {
        self.restarts = told.iter().map(|told| told.restarts).sum();
        // Ranks go home to a host that is back, which is a restart of its own.
        let news = || told.iter().flat_map(|told| &told.news);
        let returns = news().filter(|news| matches!(news, News::Back(_))).count() as u64;
        // On several hosts a launcher that goes on with a job says so as of any restart.
        let launchers = if spread.is_some() { self.launchers_killed } else { 0 };
        // So it is when they move as the user wants.
        let moves = returns + self.orders.len() as u64;
        let hit = told::incarnations_hit(&self.hits, &self.injected) + moves + launchers;
        let newest = told.iter().filter_map(|told| told.incarnation).max().unwrap_or(0);
        // Each launcher begins one incarnation, unless it was killed before it could.
        let restarts = newest.saturating_sub(self.launchers.len() as u64 - 1).max(self.restarts);
        if restarts > hit {
            let what = format!("{restarts} restarts, and kills in {hit} incarnations");
            self.find(Wrong::Spontaneous, what);
        }
        // A restart that comes to nothing, since a host is lost before ranks begin, has a number, too.
        let numbers = self.restarts..=self.restarts + self.hosts_lost() + moves;
        if self.launchers_killed == 0 && !numbers.contains(&newest) {
            let what = format!("it tells of {} restarts, and of incarnation {newest}", self.restarts);
            self.find(Wrong::Failure, what);
        }
        let untrue = self.losses(spread).untrue(news());
        self.findings.extend(untrue);
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Finding { wrong, what } in &self.findings {
            writeln!(f, "{wrong:?}: {what}")?;
        }
        writeln!(f, "lost to strikes from outside: {:?}", self.hits)?;
        writeln!(f, "killed as they were told to: {:?}", self.injected)?;
        writeln!(f, "what the user wanted: {:?}", self.orders)?;
        self.launchers.iter().try_for_each(|observed| writeln!(f, "{}", observed.ended))
    }
}
