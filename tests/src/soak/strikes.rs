//! What is done to a job from outside: its ranks and its launcher are killed and stopped, its hosts are lost
//! and cut off, and the user moves ranks to other hosts.

use super::plan::{Blow, Strike};
use super::spread::Spread;
use crate::cluster::built::built;
use crate::cluster::{Hosts, children, is_interrupted, launcher, rank_of};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use scash_bench::namespaces::address;
use scash_sim::rng::Rng;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long is waited for ranks that are being started, so that a blow hits somebody.
const TIMEOUT: Duration = Duration::from_millis(300);
/// How long is waited for all hosts to have ranks: one that is lost before ends the job.
const START: Duration = Duration::from_secs(60);

/// A process of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its rank.
    pub rank: u32,
}

/// A strike that hit ranks or hosts.
#[derive(Clone, Debug, Default)]
pub struct Hit {
    /// All processes of ranks that were there.
    pub seen: BTreeSet<i32>,
    /// Those that were killed, and lived until then.
    pub killed: Vec<Process>,
    /// Hosts that were lost, and had processes until then.
    pub hosts: Vec<u32>,
}

/// What was done to one launcher's job.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    /// To ranks and hosts.
    pub hits: Vec<Hit>,
    /// What the user wants of ranks, and has not been refused.
    pub orders: Vec<Blow>,
    /// How orders have failed that were neither taken nor refused.
    pub failures: Vec<String>,
    /// Whether the launcher was killed, or the command.
    pub launcher_killed: bool,
    /// Whether no rank was there when the launcher was killed: the job may have been over.
    pub without_ranks: bool,
}

/// Where the processes of a job are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    /// The command that the user started.
    pub front: i32,
    /// Hosts of the job, and how it is spread over them.
    pub hosts: Option<(&'a Hosts, &'a Spread)>,
    /// Whether it goes on with a job that has lost its launcher.
    pub goes_on: bool,
}

/// Strikes a job, until it has ended, no strike is left, or its launcher is killed.
pub(super) fn strike_job(
    target: Target<'_>,
    strikes: &mut impl Iterator<Item = Strike>,
    rng: &mut Rng,
) -> Done {
    let (mut done, front) = (Done::default(), target.front);
    target.await_start();
    while !done.launcher_killed && is_alive(front) && !is_interrupted() {
        let Some(Strike { after, blow }) = strikes.next() else { break };
        sleep(after);
        match blow {
            Blow::KillLauncher | Blow::KillFront | Blow::KillBoth => {
                (done.launcher_killed, done.without_ranks) = target.strike_launcher(blow);
            }
            Blow::Stop(time) => stop(target, time, rng),
            Blow::KillOne | Blow::KillSome | Blow::KillAll => done.hits.extend(strike(target, blow, rng)),
            Blow::Lose(_) | Blow::LoseBoth(..) => done.hits.extend(target.lose(blow)),
            Blow::Cut(host, time) => target.cut(host, time),
            Blow::Move(..) | Blow::Drain(_) => match target.order(blow) {
                Ok(is_taken) => done.orders.extend(is_taken.then_some(blow)),
                Err(why) => done.failures.push(why),
            },
            Blow::KillThenLose(_) => {
                done.hits.extend(strike(target, Blow::KillOne, rng));
                done.hits.extend(target.lose(blow));
            }
        }
    }
    done
}

fn strike(target: Target<'_>, blow: Blow, rng: &mut Rng) -> Option<Hit> {
    let mut ranks = target.await_ranks();
    let seen = ranks.iter().map(|rank| rank.pid).collect();
    rng.shuffle(&mut ranks);
    let number = match blow {
        Blow::KillOne => 1,
        Blow::KillSome => 1 + rng.below(u32::try_from(ranks.len()).unwrap_or(1)) as usize,
        _ => ranks.len(),
    };
    let killed: Vec<Process> =
        ranks.into_iter().take(number).filter(|rank| send(rank.pid, Signal::SIGKILL)).collect();
    (!killed.is_empty()).then_some(Hit { seen, killed, hosts: Vec::new() })
}

fn stop(target: Target<'_>, time: Duration, rng: &mut Rng) {
    let ranks = target.await_ranks();
    if ranks.is_empty() {
        return;
    }
    let Process { pid, .. } = rng.pick(&ranks);
    if send(pid, Signal::SIGSTOP) {
        sleep(time);
        // It may have been killed meanwhile, but no other process has its number so soon.
        send(pid, Signal::SIGCONT);
    }
}

impl Target<'_> {
    /// Loses the hosts that a blow names.
    fn lose(self, blow: Blow) -> Option<Hit> {
        let (hosts, _) = self.hosts?;
        let lost: Vec<u32> = blow.hosts().into_iter().filter(|host| hosts.kill(*host) > 0).collect();
        (!lost.is_empty()).then_some(Hit { hosts: lost, ..Hit::default() })
    }

    /// Cuts a host off for a while.
    fn cut(self, host: u32, time: Duration) {
        let Some((hosts, _)) = self.hosts else { return };
        hosts.cut(host);
        sleep(time);
        hosts.plug_in(host);
    }

    /// Tells the job what the user wants. Returns whether it may do so.
    fn order(self, blow: Blow) -> Result<bool, String> {
        let job = self.front.to_string();
        let words = match blow {
            Blow::Move(rank, host) => vec!["migrate".to_owned(), job, rank.to_string(), address(host)],
            Blow::Drain(host) => vec!["drain".to_owned(), job, address(host)],
            _ => return Ok(false),
        };
        let output = Command::new(built("scash")).args(&words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => Ok(true),
            // It may do so later.
            Some(1) => Ok(said.contains("does not answer")),
            _ => Err(format!("scash {} ended by {}: {said}", words.join(" "), output.status)),
        }
    }

    /// Waits until each host has ranks: its agent was told to start them, so all agents have answered. When
    /// the job goes on, some hosts may be lost.
    fn await_start(self) {
        let Some((hosts, spread)) = self.hosts else { return };
        let has_ranks = |host: u32| !ranks_of(hosts.processes(host)).is_empty();
        let have_ranks = || {
            let mut all = 1..=spread.hosts();
            if self.goes_on {
                all.any(has_ranks)
            } else {
                all.filter(|host| spread.has_ranks(*host)).all(has_ranks)
            }
        };
        waits(self.front, START, || have_ranks().then_some(()));
    }

    /// Returns whether somebody was hit, and whether no rank was there.
    fn strike_launcher(self, blow: Blow) -> (bool, bool) {
        let front = self.front;
        let launcher = waits(front, TIMEOUT, || launcher(front)).filter(|_| blow != Blow::KillFront);
        let front = Some(front).filter(|_| blow != Blow::KillLauncher);
        // Neither tidies up after the other: the front stands still, and its death, which would wake the
        // launcher, comes last. And a launcher that stands still learns of no rank's end: if there is a rank
        // now, the job is not over.
        for pid in front.into_iter().chain(launcher) {
            send(pid, Signal::SIGSTOP);
        }
        let without_ranks = self.ranks().is_empty();
        let killed = launcher.into_iter().chain(front).filter(|pid| send(*pid, Signal::SIGKILL));
        (killed.count() > 0, without_ranks)
    }

    fn await_ranks(self) -> Vec<Process> {
        waits(self.front, TIMEOUT, || Some(self.ranks()).filter(|ranks| !ranks.is_empty()))
            .unwrap_or_default()
    }

    /// The processes of ranks that live.
    fn ranks(self) -> Vec<Process> {
        match self.hosts {
            Some((hosts, spread)) => {
                ranks_of((1..=spread.hosts()).flat_map(|host| hosts.processes(host)).collect())
            }
            None => ranks_of(launcher(self.front).map(children).unwrap_or_default()),
        }
    }
}

/// Sends a signal to a process that lives; tells whether there was one.
fn send(pid: i32, signal: Signal) -> bool {
    is_alive(pid) && kill(Pid::from_raw(pid), signal).is_ok()
}

fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // PID (NAME) STATE …, where NAME may hold anything.
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    state.is_some_and(|state| !"ZX".contains(state))
}

/// Waits until somebody is there, for so long at the most.
fn waits<T>(front: i32, most: Duration, look: impl Fn() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        let found = look();
        if found.is_some() || started.elapsed() > most || !is_alive(front) || is_interrupted() {
            return found;
        }
        sleep(Duration::from_millis(1));
    }
}

/// Those of some processes that are ranks and live.
fn ranks_of(processes: Vec<i32>) -> Vec<Process> {
    processes
        .into_iter()
        .filter(|pid| is_alive(*pid))
        .filter_map(|pid| Some(Process { pid, rank: rank_of(pid)? }))
        .collect()
}
