//! What is done to a job from outside: its ranks and its launcher are killed and stopped.

use super::plan::{Blow, Strike};
use crate::sim::rng::Rng;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long is waited for ranks that are being started, so that a blow hits somebody.
const PATIENCE: Duration = Duration::from_millis(300);

/// A process of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its rank.
    pub rank: u32,
}

/// A strike that hit ranks.
#[derive(Clone, Debug, Default)]
pub struct Hit {
    /// All processes of ranks that were there.
    pub seen: BTreeSet<i32>,
    /// Those that were killed, and lived until then.
    pub killed: Vec<Process>,
}

/// What was done to one launcher's job.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    /// To ranks.
    pub hits: Vec<Hit>,
    /// Whether the launcher was killed, or the command.
    pub launcher_killed: bool,
}

/// Strikes the job of this command, until it has ended, no strike is left, or its launcher is killed.
pub(super) fn torment(front: i32, strikes: &mut impl Iterator<Item = Strike>, rng: &mut Rng) -> Done {
    let mut done = Done::default();
    while !done.launcher_killed && is_alive(front) {
        let Some(Strike { after, blow }) = strikes.next() else { break };
        sleep(after);
        match blow {
            Blow::KillLauncher | Blow::KillFront | Blow::KillBoth => {
                done.launcher_killed = strike_launcher(front, blow);
            }
            Blow::Stop(time) => stop(front, time, rng),
            Blow::KillOne | Blow::KillSome | Blow::KillAll => done.hits.extend(strike(front, blow, rng)),
        }
    }
    done
}

fn strike(front: i32, blow: Blow, rng: &mut Rng) -> Option<Hit> {
    let mut ranks = await_ranks(front);
    let seen = ranks.iter().map(|rank| rank.pid).collect();
    rng.shuffle(&mut ranks);
    let number = match blow {
        Blow::KillOne => 1,
        Blow::KillSome => 1 + rng.below(u32::try_from(ranks.len()).unwrap_or(1)) as usize,
        _ => ranks.len(),
    };
    let killed: Vec<Process> =
        ranks.into_iter().take(number).filter(|rank| send(rank.pid, Signal::SIGKILL)).collect();
    (!killed.is_empty()).then_some(Hit { seen, killed })
}

fn stop(front: i32, time: Duration, rng: &mut Rng) {
    let ranks = await_ranks(front);
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

/// Returns whether somebody was hit.
fn strike_launcher(front: i32, blow: Blow) -> bool {
    let launcher = await_launcher(front).filter(|_| blow != Blow::KillFront);
    let front = Some(front).filter(|_| blow != Blow::KillLauncher);
    // Of two, the launcher first: it would end its ranks in an orderly way.
    [launcher, front].into_iter().flatten().filter(|pid| send(*pid, Signal::SIGKILL)).count() > 0
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

/// Waits until somebody is there.
fn waits<T>(front: i32, look: impl Fn(i32) -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        let found = look(front);
        if found.is_some() || started.elapsed() > PATIENCE || !is_alive(front) {
            return found;
        }
        sleep(Duration::from_millis(1));
    }
}

fn await_launcher(front: i32) -> Option<i32> {
    waits(front, launcher)
}

fn await_ranks(front: i32) -> Vec<Process> {
    waits(front, |front| Some(ranks(front)).filter(|ranks| !ranks.is_empty())).unwrap_or_default()
}

/// The processes of ranks that live.
fn ranks(front: i32) -> Vec<Process> {
    let children = launcher(front).map(children).unwrap_or_default();
    children
        .into_iter()
        .filter(|pid| is_alive(*pid))
        .filter_map(|pid| Some(Process { pid, rank: rank_of(pid)? }))
        .collect()
}

/// Which rank a process is; none if it has not become one yet.
fn rank_of(pid: i32) -> Option<u32> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(b"SCASH_RANK="))?;
    str::from_utf8(value).ok()?.parse().ok()
}

/// The process that the command has started to launch ranks.
fn launcher(front: i32) -> Option<i32> {
    children(front).into_iter().min()
}

fn children(pid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}
