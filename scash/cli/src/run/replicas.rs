//! What the user asks of a job that goes on when ranks die: `--replicas` and the options that need it, raw
//! and checked.

use super::{Refusal, status};
use scash_ft::inject::{self, AnyInjection, HostAction, HostInjection, HostTrigger, parse_any};
use scash_ft::interval::{DEFAULT_MTBF, IntervalPolicy, parse_mtbf};
use scash_ft::recovery::Restarts;
use scash_ft::store::vars;
use scash_join::boot::Layout;
use std::path::PathBuf;
use std::time::Duration;

/// Most copies of a checkpoint besides the ranks' own.
const MOST: i64 = 7;
#[derive(Debug, clap::Args)]
pub(super) struct Raw {
    /// Go on when ranks die: all ranks start again from their newest checkpoint, of which there are so many
    /// copies on other hosts besides their own (1 to 7; of several hosts, as many as that may be lost at
    /// once). What ranks print appears once it is part of a checkpoint, and they see files instead of a
    /// terminal
    #[arg(long, value_name = "K", group = "survival", value_parser = clap::value_parser!(u32).range(1..=MOST))]
    replicas: Option<u32>,

    /// Go on when ranks die, and after the machine was switched off: checkpoints are files in this directory,
    /// each on its disk before it counts. `scash resume DIR` goes on with a job that was ended; one that ends
    /// well leaves no file
    #[arg(long, value_name = "DIR", group = "survival", value_hint = clap::ValueHint::DirPath)]
    checkpoint_dir: Option<PathBuf>,

    /// Go on with the job of a directory (scash resume says so)
    #[arg(long, value_name = "DIR", hide = true)]
    resume: Option<PathBuf>,

    #[command(flatten)]
    schedule: Schedule,

    /// What becomes of ranks whose host is lost: adopt (they come back on a host that has a copy of their
    /// checkpoint), spare (on a host that is named as spare, while one is left), wait (all ranks wait until
    /// it is back, and after --wait-for it is adopt), or fail (the job ends; checkpoints are not copied to
    /// other hosts) [default: spare if hosts are named so, else adopt]
    #[arg(long, value_name = "WHAT", requires = "replicas")]
    on_loss: Option<OnLoss>,

    /// How long ranks wait for a lost host, with --on-loss wait: 90s, 5m, 24h [default: 10m]
    #[arg(long, value_name = "TIME", requires = "on_loss", value_parser = scash_ft::time::parse)]
    wait_for: Option<Duration>,

    /// Do not call hosts that are lost. Else each is called after a second, and then less and less often; if
    /// it is back, its ranks move back to it with the next checkpoint. (scash rejoin calls one at once)
    #[arg(long, requires = "replicas")]
    no_rejoin: bool,

    /// How long agents keep what they have when the launcher is lost, for `scash resume JOB`: 90s, 5m, 24h,
    /// or off: they end with it [default: 10m]
    #[arg(long, value_name = "TIME", requires = "replicas", value_parser = linger)]
    linger: Option<Linger>,

    /// Have another launcher wait on this host, which goes on with the job by itself when this one is lost
    /// and more than half of the hosts say so (a spare is one, too). What the job prints from then on is in
    /// files there: scash-JOB.out and scash-JOB.err
    #[arg(long, value_name = "HOST", requires = "replicas")]
    standby: Option<String>,

    /// Go on with the job that standard input describes, whose launcher is lost (scash resume says so)
    #[arg(long, hide = true)]
    pub(super) take_over: bool,

    /// End the job when ranks die again after so many restarts without a new checkpoint [default: 10]
    #[arg(long, value_name = "N", requires = "survival")]
    restarts: Option<u32>,
}

/// When ranks take checkpoints, and what fails.
#[derive(Debug, clap::Args)]
pub(super) struct Schedule {
    /// When ranks take checkpoints: every=N (at each N-th barrier), seconds=S (so far apart), or auto (by
    /// what they cost, and --mtbf) [default: auto]
    #[arg(long, value_name = "WHEN", requires = "survival", value_parser = str::parse::<IntervalPolicy>)]
    checkpoint: Option<IntervalPolicy>,

    /// How long the job is expected to run until a rank dies: 90s, 5m, 24h [default: 24h]
    #[arg(long, value_name = "TIME", requires = "survival", value_parser = parse_mtbf)]
    mtbf: Option<Duration>,

    /// Let ranks fail, to see how the job goes on: 'kill rank 2 at barrier 17 after flush'; or hosts: 'kill
    /// host b at checkpoint 3'
    #[arg(long, value_name = "SPEC", requires = "survival", value_parser = spec)]
    inject: Vec<AnyInjection>,

    /// Let ranks fail at random, the same way for the same seed
    #[arg(long, value_name = "SEED", requires = "survival")]
    chaos: Option<u64>,
}

/// What becomes of ranks whose host is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OnLoss {
    Adopt,
    Spare,
    Wait,
    Fail,
}

/// How long agents wait for another launcher, if they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Linger(Option<Duration>);

impl Linger {
    /// If the user says nothing else.
    const USUAL: Linger = Linger(Some(Duration::from_secs(600)));
}

/// How long ranks wait for a lost host if the user has not said that.
const WAIT: Duration = Duration::from_secs(600);

/// What is done so that lost hosts come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Return {
    /// Whether they are called by themselves.
    pub(super) calls: bool,
    /// How long ranks wait for theirs.
    pub(super) wait_for: Option<Duration>,
}

/// Where the launcher keeps what ranks save.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::run) enum StoreLocation {
    /// In memory.
    Memory,
    /// In a directory, for a new job.
    New(PathBuf),
    /// In the directory of a job that is there.
    Resumed(PathBuf),
}

/// What is to be done when ranks die.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Replicas {
    /// Copies of a checkpoint besides the ranks' own, on other hosts.
    pub(super) copies: u32,
    /// Whether ranks of lost hosts go to hosts that have none.
    pub(super) has_spares: bool,
    /// What is done so that lost hosts come back.
    pub(super) hosts_return: Return,
    /// How long agents wait for another launcher when theirs is lost; `None`: they do not.
    pub(super) linger: Option<Duration>,
    /// Restarts without a new checkpoint, at most.
    pub(super) restarts: u32,
    env: Vec<(&'static str, String)>,
    /// What is to go wrong with hosts and the launcher.
    pub(super) host_failures: Vec<HostInjection>,
    /// Where another launcher waits.
    pub(super) standby: Option<String>,
    /// Where checkpoints are kept.
    pub(super) place: StoreLocation,
}

impl Raw {
    /// Whether ranks are to go on.
    pub(super) fn is_given(&self) -> bool {
        self.replicas.is_some() || self.checkpoint_dir.is_some()
    }

    /// What the options mean, for a job of so many ranks over this provider, on these hosts if it has any.
    pub(super) fn check(
        self,
        ranks: u32,
        provider: &str,
        hosts: Option<&Layout>,
    ) -> Result<Option<Replicas>, Refusal> {
        let spares = hosts
            .map_or(0, |layout| (0..layout.hosts()).filter(|host| layout.first_of(*host).is_none()).count());
        let misused = |why: &str| Err(Refusal::new(status::USAGE, why));
        match self.on_loss {
            None | Some(OnLoss::Spare) if spares > 0 && self.replicas.is_none() => {
                return misused(
                    "a host is named as spare: that needs --replicas, or ranks cannot come back on it",
                );
            }
            Some(OnLoss::Spare) if spares == 0 => {
                return misused(
                    "--on-loss spare: no host is named as spare: `--host a:2,b:2,c:spare`, or `c spare` in --hostfile",
                );
            }
            Some(OnLoss::Adopt | OnLoss::Wait | OnLoss::Fail) if spares > 0 => {
                return misused("a host is named as spare, and --on-loss says that none is used");
            }
            Some(OnLoss::Wait) if self.no_rejoin => {
                return misused(
                    "--no-rejoin: with --on-loss wait ranks wait for hosts that are called again",
                );
            }
            Some(OnLoss::Adopt | OnLoss::Spare | OnLoss::Fail) if self.wait_for.is_some() => {
                return misused("--wait-for: say --on-loss wait, or ranks do not wait");
            }
            _ => {}
        }
        let is_wait = self.on_loss == Some(OnLoss::Wait);
        let hosts_return =
            Return { calls: !self.no_rejoin, wait_for: is_wait.then(|| self.wait_for.unwrap_or(WAIT)) };
        let copies = if self.on_loss == Some(OnLoss::Fail) { 0 } else { self.replicas.unwrap_or(0) };
        let (option, place) = match (self.replicas, self.checkpoint_dir, self.resume) {
            (_, Some(_), Some(directory)) => ("resume", StoreLocation::Resumed(directory)),
            (_, Some(directory), None) => ("--checkpoint-dir", StoreLocation::New(directory)),
            (Some(_), None, _) => ("--replicas", StoreLocation::Memory),
            (None, None, _) => return Ok(None),
        };
        let refuse = |why: &str| Err(Refusal::new(status::USAGE, format!("{option}: {why}")));
        if hosts.is_some() && place != StoreLocation::Memory {
            return refuse(
                "its files are on one host: with --host and --hostfile use --replicas, which keeps checkpoints in the memory of all hosts",
            );
        }
        if provider == "ofi" {
            return refuse("what libfabric knows of a rank cannot be saved: use --provider auto, shm or tcp");
        }
        let linger = self.linger.unwrap_or(Linger::USUAL).0;
        if self.standby.is_some() && hosts.map_or(0, Layout::hosts) < 3 {
            return misused(
                "--standby: of two hosts none knows whether the other one is lost: name three, of which one may be a spare (`--host a:2,b:2,c:spare`)",
            );
        }
        if self.standby.is_some() && linger.is_none() {
            return misused("--standby: with --linger off no host keeps anything for another launcher");
        }
        let mut schedule = self.schedule;
        let host_failures = schedule.take_host_failures(hosts.is_some(), &place);
        let (restarts, env) = (self.restarts.unwrap_or(Restarts::DEFAULT_LIMIT), schedule.env(ranks)?);
        let has_spares = spares > 0;
        Ok(Some(Replicas {
            copies,
            has_spares,
            hosts_return,
            linger,
            restarts,
            env,
            host_failures,
            standby: self.standby,
            place,
        }))
    }
}

/// Whether this is what can fail on one host besides ranks: the launcher, when files have a checkpoint or it
/// brings ranks back.
fn is_of_launcher(injection: &HostInjection) -> bool {
    injection.act == HostAction::KillLauncher && !matches!(injection.when, HostTrigger::After(_))
}

impl Schedule {
    /// Takes what is to fail besides ranks, where it can. With a job that is resumed no launcher fails: that
    /// has happened.
    fn take_host_failures(&mut self, on_hosts: bool, place: &StoreLocation) -> Vec<HostInjection> {
        let can_fail = |injection: &HostInjection| {
            on_hosts || *place != StoreLocation::Memory && is_of_launcher(injection)
        };
        let mut failures = Vec::new();
        for injection in std::mem::take(&mut self.inject) {
            match injection {
                AnyInjection::Host(injection) if can_fail(&injection) => failures.push(injection),
                other => self.inject.push(other),
            }
        }
        if matches!(place, StoreLocation::Resumed(_)) { Vec::new() } else { failures }
    }

    /// The environment variables that tell ranks of it, the same in each incarnation of a job of so many.
    pub(super) fn env(self, ranks: u32) -> Result<Vec<(&'static str, String)>, Refusal> {
        let refuse = |why: &str| Refusal::new(status::USAGE, format!("--inject: {why}"));
        let mut inject = Vec::new();
        for injection in self.inject {
            match injection {
                AnyInjection::Rank(injection) => inject.push(injection),
                AnyInjection::Host(other) => {
                    let why = "hosts and launchers fail in jobs on several hosts (--host, and --replicas); on one \
                               host the launcher does at a checkpoint or in a recovery, with --checkpoint-dir";
                    return Err(refuse(&format!("'{other}': {why}")));
                }
            }
        }
        if let Some(wrong) = inject.iter().find_map(|injection| injection.check(ranks).err()) {
            return Err(refuse(&wrong.to_string()));
        }
        inject.extend(self.chaos.map_or(Vec::new(), |seed| inject::chaos(seed, ranks)));
        let mtbf = self.mtbf.unwrap_or(DEFAULT_MTBF);
        let mut env = vec![
            (vars::CHECKPOINT, self.checkpoint.unwrap_or_default().to_string()),
            (vars::MTBF, format!("{}s", mtbf.as_secs_f64())),
        ];
        if !inject.is_empty() {
            env.push((vars::INJECT, inject::list(&inject)));
        }
        Ok(env)
    }
}

impl Replicas {
    /// The environment variables that tell ranks of it, the same in each incarnation.
    pub(super) fn env(&self) -> Vec<(&'static str, String)> {
        self.env.clone()
    }
}

/// Parses how long agents wait for another launcher.
fn linger(text: &str) -> Result<Linger, String> {
    if text == "off" {
        return Ok(Linger(None));
    }
    let time = scash_ft::time::parse(text).map_err(|error| format!("{error}, or off"))?;
    Ok(Linger(Some(time)))
}

/// One failure to be injected.
fn spec(text: &str) -> Result<AnyInjection, String> {
    if text.trim().is_empty() {
        return Err("what is to fail? for example: kill rank 2 at barrier 17".to_owned());
    }
    parse_any(text).map_err(|wrong| wrong.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        raw: Raw,
    }

    fn checked(words: &[&str], provider: &str, has_hosts: bool) -> Result<Option<Replicas>, String> {
        let words = std::iter::once(&"run").chain(words);
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        let layout = Layout::new(&[3]).filter(|_| has_hosts);
        cli.raw.check(3, provider, layout.as_ref()).map_err(|refusal| refusal.why)
    }

    fn env(words: &[&str]) -> Vec<(&'static str, String)> {
        checked(words, "auto", false).unwrap().expect("there are replicas").env()
    }

    #[test]
    fn without_replicas_nothing_is_asked_of_ranks() {
        assert_eq!(checked(&[], "ofi", true), Ok(None));
    }

    #[test]
    fn a_job_without_progress_ends_after_ten_restarts_if_the_user_says_nothing_else() {
        let limit = |words: &[&str]| checked(words, "auto", false).unwrap().map(|replicas| replicas.restarts);
        assert_eq!(limit(&["--replicas", "1"]), Some(10));
        assert_eq!(limit(&["--replicas", "1", "--restarts", "3"]), Some(3));
    }

    #[test]
    fn ranks_are_told_when_to_take_checkpoints_and_what_fails() {
        let (checkpoint, mtbf) = ("SCASH_CHECKPOINT", "SCASH_MTBF");
        assert_eq!(env(&["--replicas", "1"]), [(checkpoint, "auto".to_owned()), (mtbf, "86400s".to_owned())]);
        let words = [
            "--replicas",
            "2",
            "--checkpoint",
            "every=3",
            "--mtbf",
            "1.5m",
            "--inject",
            "kill rank 0 at barrier 3",
            "--inject",
            "stop rank 1 for 5ms at fetch 2",
        ];
        let told = env(&words);
        assert_eq!(told[..2], [(checkpoint, "every=3".to_owned()), (mtbf, "90s".to_owned())]);
        let list = inject::parse_list(&told[2].1).unwrap();
        assert_eq!((told[2].0, list.len()), ("SCASH_INJECT", 2));
        let chaos = env(&["--replicas", "1", "--chaos", "7"]);
        assert_eq!(inject::parse_list(&chaos[2].1).unwrap(), inject::chaos(7, 3));
    }

    #[test]
    fn what_makes_no_sense_with_replicas_is_refused_by_name() {
        let cases: [(&[&str], &str, bool, &str); 16] = [
            (&["--linger", "5m"], "auto", true, "--replicas"),
            (&["--replicas", "1", "--linger", "soon"], "auto", true, "or off"),
            (&["--replicas", "0"], "auto", false, "0 is not in 1..=7"),
            (&["--replicas", "8"], "auto", false, "8 is not in 1..=7"),
            (&["--replicas", "1"], "ofi", false, "--provider auto, shm or tcp"),
            (&["--checkpoint-dir", "d"], "auto", true, "use --replicas"),
            (&["--replicas", "1", "--on-loss", "spare"], "auto", true, "no host is named as spare"),
            (&["--restarts", "1"], "auto", false, "--replicas"),
            (&["--chaos", "1"], "auto", false, "--replicas"),
            (&["--replicas", "1", "--checkpoint", "every=0"], "auto", false, "every=100"),
            (&["--replicas", "1", "--checkpoint", "seconds=x"], "auto", false, "seconds"),
            (&["--replicas", "1", "--mtbf", "5"], "auto", false, "unit"),
            (&["--replicas", "1", "--inject", " "], "auto", false, "what is to fail?"),
            (&["--replicas", "1", "--inject", "kill rank 3 at barrier 1"], "auto", false, "rank 3"),
            (
                &["--replicas", "1", "--inject", "kill host b at checkpoint 1"],
                "auto",
                false,
                "on several hosts",
            ),
            (&["--replicas", "1", "--inject", "stop host b at checkpoint 1"], "auto", true, "expected 'for'"),
        ];
        let layout = Layout::with_spares(&[3], 1).unwrap();
        for (words, expected) in [
            (&[][..], "that needs --replicas"),
            (&["--replicas", "1", "--on-loss", "adopt"], "says that none is used"),
        ] {
            let words: Vec<&str> = ["raw"].iter().chain(words).copied().collect();
            let raw = Cli::try_parse_from(words).unwrap().raw;
            assert!(raw.check(3, "auto", Some(&layout)).unwrap_err().why.contains(expected));
        }
        for (words, provider, has_hosts, expected) in cases {
            let error = checked(words, provider, has_hosts).unwrap_err();
            assert!(error.contains(expected), "{words:?}: {error}");
        }
    }
}
