//! What a run is, drawn from its seed.

use super::programs::{PROGRAMS, Program};
use super::spread::{self, Spread};
use crate::cluster::{Hosts, Kind, kinds};
use scash_ft::inject::{self, InjectedAction, Injection, Point, When};
use scash_sim::rng::Rng;
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Kinds of jobs. The first one, which users have who set nothing, is drawn more often.
const KINDS: [Kind; 5] = [
    Kind { engine: "mprotect", provider: "shm", shares: true },
    Kind { engine: "uffd", provider: "shm", shares: false },
    Kind { engine: "uffd", provider: "tcp", shares: false },
    Kind { engine: "mprotect", provider: "shm", shares: false },
    Kind { engine: "mprotect", provider: "tcp", shares: false },
];

/// Points at which ranks die, and the highest number of a time that is drawn.
const POINTS: [(&str, &[&str], u32); 10] = [
    ("barrier", &["enter", "flush", "meet", "done"], 25),
    ("checkpoint", &["due", "stop", "copy", "fence", "mark", "meet", "done"], 6),
    ("lock", &["asked", "got", "released"], 60),
    ("fetch", &[], 80),
    ("image", &["restored", "described"], 1),
    ("image", &["thread"], 12),
    ("image", &["page"], 2000),
    ("image", &["shared"], 200),
    ("recovery", &["joined", "copied", "resumed"], 1),
    ("recovery", &["filled"], 40),
];

/// Something that is done to a job from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strike {
    /// So long after the one before, or the job's start.
    pub after: Duration,
    /// What it is.
    pub blow: Blow,
}

/// What is done to a job from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// A rank is killed.
    KillOne,
    /// Some ranks are.
    KillSome,
    /// All are, one behind the other.
    KillAll,
    /// A rank is stopped, and goes on after so long.
    Stop(Duration),
    /// The launcher is killed.
    KillLauncher,
    /// The command that the user started is.
    KillFront,
    /// Both are.
    KillBoth,
    /// A host is lost: all its processes are killed.
    Lose(u32),
    /// Two are, at once.
    LoseBoth(u32, u32),
    /// A rank is killed, and a host is lost at once behind it.
    KillThenLose(u32),
    /// What a host's ranks and those of others send each other is lost for so long. They take no notice: the
    /// system sends it again.
    Cut(u32, Duration),
    /// The user wants a rank to run on a host (`scash migrate`).
    Move(u32, u32),
    /// The user wants a host to have no ranks (`scash drain`).
    Drain(u32),
}

impl Blow {
    /// Hosts that are lost by it.
    pub fn hosts(self) -> Vec<u32> {
        match self {
            Blow::Lose(host) | Blow::KillThenLose(host) => vec![host],
            Blow::LoseBoth(one, other) => vec![one, other],
            _ => Vec::new(),
        }
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What it is drawn from.
    pub seed: u64,
    /// What runs.
    pub program: Program,
    /// Ranks of the job.
    pub ranks: u32,
    /// How they are spread over hosts, if there are several.
    pub spread: Option<Spread>,
    /// Threads of each rank.
    pub threads: u32,
    /// What ranks communicate through, and the like.
    pub kind: Kind,
    /// When checkpoints are taken.
    pub checkpoint: String,
    /// Whether checkpoints are files.
    pub is_on_disk: bool,
    /// Failures that ranks bring about themselves.
    pub inject: Vec<String>,
    /// The seed of random ones.
    pub chaos: Option<u64>,
    /// Failures from outside.
    pub strikes: Vec<Strike>,
}

impl Plan {
    /// The run of a seed, on one host.
    pub fn draw(seed: u64) -> Plan {
        let mut rng = Rng::part(seed, 0);
        let program = rng.pick(&PROGRAMS);
        let ranks = rng.pick(&[1, 2, 2, 2, 3, 3, 4, 4]);
        let threads = rng.pick(&[1, 1, 1, 1, 2, 2, 2, 4]).min(program.threads);
        let kind = if rng.chance(40) { KINDS[0] } else { rng.pick(&KINDS[1..]) };
        let checkpoint = checkpoint(&mut rng);
        let is_on_disk = rng.chance(35);
        let plan = Plan { ranks, threads, kind, checkpoint, is_on_disk, ..Plan::of(seed, program) };
        plan.with_failures(&mut rng, |rng| strikes(rng, is_on_disk))
    }

    /// The run of a seed, on several hosts, of which some may be lost.
    pub fn draw_on_hosts(seed: u64) -> Plan {
        let mut rng = Rng::part(seed, 2);
        let program = rng.pick(&PROGRAMS);
        // Numbers of its own: the runs of former seeds stay what they were, but for that.
        let spread = Spread::draw(&mut rng).with_late(&mut Rng::part(seed, 3));
        let spread = spread.with_on_loss(&mut Rng::part(seed, 4)).with_racks(&mut Rng::part(seed, 5));
        let threads = rng.pick(&[1, 1, 1, 2]).min(program.threads);
        let kind = if rng.chance(50) { spread::KINDS[0] } else { rng.pick(&spread::KINDS[1..]) };
        let checkpoint = checkpoint(&mut rng);
        let plan = Plan { ranks: spread.ranks(), threads, kind, checkpoint, ..Plan::of(seed, program) };
        let mut plan = plan.with_failures(&mut rng, |rng| spread.strikes(rng));
        if plan.strikes.is_empty() {
            plan.strikes = spread.strikes(&mut rng);
        }
        Plan { spread: Some(spread), ..plan }
    }

    /// A run in which nothing fails, of one rank.
    fn of(seed: u64, program: Program) -> Plan {
        Plan {
            seed,
            program,
            ranks: 1,
            spread: None,
            threads: 1,
            kind: KINDS[0],
            checkpoint: "auto".to_owned(),
            is_on_disk: false,
            inject: Vec::new(),
            chaos: None,
            strikes: Vec::new(),
        }
    }

    /// With failures, or, seldom, none.
    fn with_failures(mut self, rng: &mut Rng, strikes: impl Fn(&mut Rng) -> Vec<Strike>) -> Plan {
        match rng.below(20) {
            0 => {}
            1..=6 => self.inject = injections(rng, self.ranks),
            7..=8 => self.set_chaos(rng),
            9..=11 => {
                self.inject = injections(rng, self.ranks);
                self.strikes = strikes(rng);
            }
            _ => self.strikes = strikes(rng),
        }
        self
    }

    /// Random failures, of which each incarnation has a good chance to come to a new checkpoint.
    fn set_chaos(&mut self, rng: &mut Rng) {
        self.checkpoint = format!("every={}", rng.between(1, 2));
        let bears = |injection: &Injection| match injection.point {
            Point::LockAsked | Point::LockGot | Point::LockReleased => {
                !self.program.locks_often || injection.act != InjectedAction::Kill
            }
            Point::Fetch => match injection.when {
                When::Randomly { probability, .. } => probability <= 0.000_05,
                When::Time(_) => true,
            },
            _ => true,
        };
        let drawn = (0..1000).map(|_| rng.bits() >> 40);
        self.chaos = drawn.into_iter().find(|seed| inject::chaos(*seed, self.ranks).iter().all(bears));
    }

    /// What starts the job. `directory`: for its checkpoints, if they are files.
    ///
    /// # Panics
    /// It is a job on several hosts, and there are none.
    pub fn command(
        &self,
        hosts: Option<&Hosts>,
        directory: &str,
        program: &Path,
        arguments: &[&str],
    ) -> Command {
        let has_uffd = kinds().iter().any(|kind| kind.engine == "uffd");
        let engine = if has_uffd { self.kind.engine } else { "mprotect" };
        let kind = Kind { engine, ..self.kind };
        let options = self.options(directory);
        let Some(spread) = &self.spread else {
            let job = options.iter().fold(kind.job(self.ranks), |job, (name, value)| job.option(name, value));
            return job.command(program, arguments);
        };
        let hosts = hosts.expect("a job on hosts has some");
        let job = match spread.late {
            Some((host, milliseconds)) => hosts.job_where_late(&spread.list(), host, milliseconds),
            None => hosts.job(&spread.list()),
        };
        let job = match spread.file() {
            Some(lines) => {
                let file = hosts.file("hostfile");
                std::fs::write(&file, lines).expect("the hosts' directory takes files");
                job.of_file(&file.to_string_lossy())
            }
            None => job,
        };
        let job = if spread.hosts_return { job } else { job.options("--no-rejoin") };
        let job = if spread.ranks_wait { job.options("--on-loss wait") } else { job };
        // A job that ends for want of a checkpoint leaves what other hosts keep to another launcher.
        let job = job.options("--linger 25s");
        let job = job.option("--provider", kind.provider).option("--fault", kind.engine);
        let job = if spread.is_encrypted { job.options("--encrypt") } else { job };
        let job = options.iter().fold(job, |job, (name, value)| job.option(name, value));
        job.command(program, arguments)
    }

    /// Options of `scash run`, each with its value, that jobs on one host and on several have.
    fn options(&self, directory: &str) -> Vec<(&'static str, String)> {
        let copies = self.spread.as_ref().map_or(1, |spread| spread.copies);
        let mut options = vec![
            if self.is_on_disk {
                ("--checkpoint-dir", directory.to_owned())
            } else {
                ("--replicas", copies.to_string())
            },
            ("--checkpoint", self.checkpoint.clone()),
            ("--restarts", "1000".to_owned()),
            ("--threads", self.threads.to_string()),
        ];
        options.extend(self.chaos.map(|seed| ("--chaos", seed.to_string())));
        options.extend(self.inject.iter().map(|injection| ("--inject", injection.clone())));
        options
    }

    /// Whether more hosts are lost than stores have copies: then the job may end with a word of the rank
    /// whose checkpoint is gone.
    fn may_be_lost(&self) -> bool {
        let lost = self.strikes.iter().flat_map(|strike| strike.blow.hosts()).count();
        self.spread.as_ref().is_some_and(|spread| lost > spread.copies as usize)
    }
}

fn checkpoint(rng: &mut Rng) -> String {
    match rng.below(20) {
        0..=13 => format!("every={}", rng.between(1, 10)),
        14..=17 => format!("seconds=0.0{}", rng.between(1, 9)),
        _ => "auto".to_owned(),
    }
}

/// One to four failures; most kill.
fn injections(rng: &mut Rng, ranks: u32) -> Vec<String> {
    let number = rng.between(1, 4);
    let mut all: Vec<String> = (0..number).map(|nth| injection(rng, ranks, nth)).collect();
    // What happens in a recovery happens only if there is one.
    let is_late = |text: &String| text.contains("at image") || text.contains("at recovery");
    if all.iter().all(is_late) {
        all.push(format!("kill rank {} at barrier {}", rng.below(ranks), rng.between(1, 8)));
    }
    all
}

fn injection(rng: &mut Rng, ranks: u32, nth: u32) -> String {
    let who = if rng.chance(25) { "all ranks".to_owned() } else { format!("rank {}", rng.below(ranks)) };
    let (what, moments, most) = rng.pick(&POINTS);
    let time = rng.between(1, most);
    let moment = if moments.is_empty() { String::new() } else { format!(" after {}", rng.pick(moments)) };
    let act = match rng.below(10) {
        0 => format!("stop {who} for {}ms", rng.between(1, 50)),
        1 => format!("delay {who} by {}ms", rng.between(1, 50)),
        _ => format!("kill {who}"),
    };
    let is_late = what == "image" || what == "recovery";
    let incarnation = if is_late { nth + 1 } else { rng.below(nth + 1) };
    format!("{act} at {what} {time}{moment} in incarnation {incarnation}")
}

/// One to six failures. The launcher is killed only where checkpoints are on disk.
fn strikes(rng: &mut Rng, is_on_disk: bool) -> Vec<Strike> {
    let number = rng.between(1, 6);
    (0..number)
        .map(|_| {
            // A few milliseconds behind a kill all ranks are on their way back.
            let most = rng.pick(&[5, 30, 80, 150, 400, 800]);
            let blow = match rng.below(20) {
                0..=6 if is_on_disk => rng.pick(&[Blow::KillLauncher, Blow::KillFront, Blow::KillBoth]),
                number => rank_blow(number, rng),
            };
            Strike { after: pause(most, rng), blow }
        })
        .collect()
}

/// What is done to ranks, by a number below 20.
pub(super) fn rank_blow(number: u32, rng: &mut Rng) -> Blow {
    match number {
        0..=12 => Blow::KillOne,
        13..=14 => Blow::KillSome,
        15..=17 => Blow::KillAll,
        _ => Blow::Stop(Duration::from_millis(rng.between(1, 100).into())),
    }
}

/// A time of so many milliseconds at the most.
pub(super) fn pause(most: u32, rng: &mut Rng) -> Duration {
    Duration::from_micros((1000 * most * rng.below(1000) / 1000).into())
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { seed, program, ranks, threads, kind, checkpoint, strikes, .. } = self;
        write!(f, "seed {seed}: {} {}, {ranks} ranks, {threads} threads, ", program.name, program.arguments)?;
        if let Some(spread) = &self.spread {
            write!(f, "--host {} --replicas {}, ", spread.list(), spread.copies)?;
            f.write_str(if spread.is_encrypted { "encrypted, " } else { "" })?;
            f.write_str(if spread.hosts_return { "hosts return, " } else { "" })?;
            f.write_str(if spread.ranks_wait { "ranks wait, " } else { "" })?;
            if let Some(racks) = &spread.racks {
                write!(f, "in racks {racks:?}, ")?;
            }
            if let Some((host, milliseconds)) = spread.late {
                write!(f, "host {host} is heard {milliseconds} ms late, ")?;
            }
        }
        let frames = if kind.shares {
            "shared frames".to_owned()
        } else {
            format!("{} {}", kind.provider, kind.engine)
        };
        let place = if self.is_on_disk { "on disk" } else { "in memory" };
        write!(f, "{frames}, checkpoints {checkpoint} {place}")?;
        for injection in &self.inject {
            write!(f, "; {injection}")?;
        }
        if let Some(seed) = self.chaos {
            let all: Vec<String> = inject::chaos(seed, *ranks).iter().map(Injection::to_string).collect();
            write!(f, "; chaos {seed}: {}", all.join("; "))?;
        }
        for Strike { after, blow } in strikes {
            write!(f, "; after {:.1} ms {blow:?}", after.as_secs_f64() * 1e3)?;
        }
        f.write_str(if self.may_be_lost() { "; it may end as lost" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_plan_whose_failures_are_understood() {
        for seed in 0..2000 {
            let (plan, on_hosts) = (Plan::draw(seed), Plan::draw_on_hosts(seed));
            assert_eq!((&plan, &on_hosts), (&Plan::draw(seed), &Plan::draw_on_hosts(seed)));
            for plan in [&plan, &on_hosts] {
                for text in &plan.inject {
                    let injection = inject::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
                    injection.check(plan.ranks).unwrap_or_else(|why| panic!("{text}: {why}"));
                }
            }
            assert!(plan.spread.is_none() && on_hosts.spread.is_some() && !on_hosts.is_on_disk, "{on_hosts}");
            let strikes = plan.strikes.iter();
            let on_launchers = strikes.filter(|strike| {
                matches!(strike.blow, Blow::KillLauncher | Blow::KillFront | Blow::KillBoth)
            });
            assert!(plan.is_on_disk || on_launchers.count() == 0, "{plan}");
        }
    }
}
