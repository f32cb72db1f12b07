//! Who has joined, who has finished, who is missing: the launcher's side of the boot line as a value. No IO.
//!
//! Messages and exits of ranks go in; what to tell the ranks, what to write into the job page and what has
//! failed come out ([`Output`]). After the first failure the ranks have been told to end, and nothing but
//! exits counts any more.

use super::frame::{LineKind, Message, Share, encode_gathered};
use super::identity::{Identity, text};
use super::page::RankState;
use nix::sys::signal::Signal;
use std::fmt;

/// How a rank's process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this status.
    Status(u8),
    /// This signal killed it.
    Signal(u8),
    /// It ended, as only its own launcher knows.
    Unseen,
}

impl Exit {
    /// The status by which a shell reports such an end.
    pub fn shell_status(self) -> u8 {
        match self {
            Exit::Status(status) => status,
            Exit::Signal(signal) => signal.saturating_add(128),
            Exit::Unseen => 1,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Exit::Status(status) => write!(f, "exited with status {status}"),
            Exit::Signal(signal) => match Signal::try_from(i32::from(signal)) {
                Ok(name) => write!(f, "was killed by signal {signal} ({name})"),
                Err(_) => write!(f, "was killed by signal {signal}"),
            },
            Exit::Unseen => f.write_str("has ended"),
        }
    }
}

/// Why a job cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFailure {
    /// The rank that failed, if it was a single one.
    pub rank: Option<u32>,
    /// What happened. Where `rank` is given, a sentence whose subject is that rank: "exited with status 3".
    pub why: String,
    /// The status that the launcher should exit with.
    pub status: u8,
}

/// What the launcher must do.
#[derive(Debug)]
pub(super) enum Output {
    /// Send this to every rank.
    Tell(Message),
    /// Write this into the job page.
    Mark(u32, RankState),
    /// The job ends.
    Fail(JobFailure),
    /// A rank cannot reach another one, and waits until all are started again.
    Accuse(Accusation),
}

/// A rank cannot reach another one that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accusation {
    /// The rank that says so.
    pub rank: u32,
    /// The one that it cannot reach.
    pub other: u32,
    /// What happened to the connection.
    pub why: String,
    /// Whether it was still to be made.
    pub is_joining: bool,
}

/// What a rank does that cannot reach another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterCut {
    /// It ends with an error.
    Ends = 0,
    /// It waits until all are started again.
    Waits = 1,
    /// The same, and it was connecting to the other one.
    WaitsToJoin = 2,
}

/// How far a rank has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RankStage {
    /// It has not said hello; perhaps it never will (a program that knows nothing of scash).
    New,
    /// It has said hello.
    Joined,
    /// It has said that it is done.
    Finalized,
}

#[derive(Debug)]
struct Entry {
    stage: RankStage,
    identity: Option<Identity>,
    /// What it has given to the gather that is under way.
    share: Option<Share>,
    exit: Option<Exit>,
}

/// All ranks of a job.
#[derive(Debug)]
pub(super) struct Roster {
    entries: Vec<Entry>,
    /// Number of the gather that is under way.
    sequence: u32,
    failed: bool,
    outputs: Vec<Output>,
}

impl Roster {
    pub(super) fn new(size: u32) -> Roster {
        let entry = |_| Entry { stage: RankStage::New, identity: None, share: None, exit: None };
        Roster { entries: (0..size).map(entry).collect(), sequence: 0, failed: false, outputs: Vec::new() }
    }

    /// What there is to do since the last call, in order.
    pub(super) fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// `rank` has sent a message.
    pub(super) fn message(&mut self, rank: u32, message: Message) {
        if self.failed {
            return; // it has been told to end, and will find out
        }
        let stage = self.entry(rank).stage;
        match (message.kind, stage) {
            (LineKind::Hello, RankStage::New) => self.hello(rank, &message),
            (LineKind::Gather, RankStage::Joined) => self.gather(rank, message),
            (LineKind::Finalized, RankStage::Joined) if self.entry(rank).share.is_none() => {
                self.finalized(rank)
            }
            (LineKind::Cut, RankStage::Joined) => self.cut(rank, &message),
            (kind, _) => self.sent_malformed(rank, &format!("a {kind:?} message out of turn")),
        }
        self.check_for_missing();
    }

    /// `rank` has sent what is no message.
    pub(super) fn sent_malformed(&mut self, rank: u32, what: &str) {
        let why = format!("sent what no rank sends: {what}");
        self.fail(JobFailure { rank: Some(rank), why, status: 1 }, Reason::Refused);
    }

    /// The process of `rank` has ended, and all that it ever sent has been taken.
    pub(super) fn exited(&mut self, rank: u32, exit: Exit) {
        let entry = self.entry(rank);
        entry.exit = Some(exit);
        let stage = entry.stage;
        self.outputs.push(Output::Mark(
            rank,
            match exit {
                Exit::Status(status) => RankState::Exited(status),
                Exit::Signal(signal) => RankState::Killed(signal),
                Exit::Unseen => RankState::Gone,
            },
        ));
        let why = match (exit, stage) {
            (Exit::Status(0) | Exit::Unseen, RankStage::Joined) => {
                format!("{exit} without calling dsm_finalize or scomm_finalize")
            }
            (Exit::Status(0) | Exit::Unseen, _) => return self.check_for_missing(),
            _ => exit.to_string(),
        };
        self.fail(JobFailure { rank: Some(rank), why, status: exit.shell_status().max(1) }, Reason::Gone);
    }

    /// These ranks are out of reach, and taken for dead; those of them that had ended stay as they were.
    pub(super) fn lost(&mut self, ranks: &[u32], failure: JobFailure) {
        let killed = u8::try_from(Signal::SIGKILL as i32).unwrap_or(u8::MAX);
        for &rank in ranks {
            self.entry(rank).exit.get_or_insert(Exit::Signal(killed));
            self.outputs.push(Output::Mark(rank, RankState::Killed(killed)));
        }
        if !self.failed {
            self.failed = true;
            let rank = ranks.first().copied().unwrap_or(u32::MAX);
            self.outputs.push(Output::Tell(abort(Reason::Gone, rank, &failure.why)));
        }
        self.outputs.push(Output::Fail(failure));
    }

    /// Ends the job for a reason that is no rank's doing: every waiting rank is told `why`.
    pub(super) fn abandon(&mut self, why: &str) {
        if !self.failed {
            self.failed = true;
            self.outputs.push(Output::Tell(abort(Reason::Refused, u32::MAX, why)));
        }
    }

    /// Whether all ranks have joined, and nothing has failed.
    pub(super) fn have_all_joined(&self) -> bool {
        !self.failed && self.entries.iter().all(|entry| entry.stage != RankStage::New)
    }

    fn entry(&mut self, rank: u32) -> &mut Entry {
        &mut self.entries[rank as usize]
    }

    fn hello(&mut self, rank: u32, message: &Message) {
        let identity = match Identity::decode(&message.bytes) {
            Ok(identity) => identity,
            Err(rubbish) => return self.sent_malformed(rank, &rubbish.0),
        };
        let entry = self.entry(rank);
        entry.identity = Some(identity);
        entry.stage = RankStage::Joined;
        let identities: Vec<&Identity> =
            self.entries.iter().filter_map(|entry| entry.identity.as_ref()).collect();
        if identities.len() < self.entries.len() {
            return;
        }
        if let Some(why) = disagreement(&identities) {
            self.fail(JobFailure { rank: None, why, status: 1 }, Reason::Refused);
        } else {
            self.outputs.push(Output::Tell(Message::plain(LineKind::Welcome, Vec::new())));
        }
    }

    fn gather(&mut self, rank: u32, message: Message) {
        let sequence = self.sequence;
        let entry = self.entry(rank);
        if message.sequence != sequence || entry.share.is_some() {
            let what =
                format!("its share of exchange {} while exchange {sequence} is under way", message.sequence);
            return self.sent_malformed(rank, &what);
        }
        entry.share = Some((message.bytes, message.fds));
        if self.entries.iter().all(|entry| entry.share.is_some()) {
            let shares = self.entries.iter_mut().filter_map(|entry| entry.share.take()).collect();
            self.outputs.push(Output::Tell(encode_gathered(sequence, shares)));
            self.sequence = sequence.wrapping_add(1);
        }
    }

    fn finalized(&mut self, rank: u32) {
        self.entry(rank).stage = RankStage::Finalized;
        self.outputs.push(Output::Mark(rank, RankState::Finalized));
    }

    /// A rank cannot reach another one, which has not ended: nobody's doing.
    fn cut(&mut self, rank: u32, message: &Message) {
        /// More is no sentence.
        const MOST: usize = 1000;
        let size = self.entries.len();
        let Some((&[then, a, b, c, d], why)) = message.bytes.split_first_chunk() else {
            return self.sent_malformed(rank, "a cut link without the rank behind it");
        };
        let other = u32::from_le_bytes([a, b, c, d]);
        if other as usize >= size || other == rank {
            return self.sent_malformed(rank, "a cut link to a rank that there is not");
        }
        let is_joining = then == AfterCut::WaitsToJoin as u8;
        let accusation = Accusation { rank, other, why: text(&why[..why.len().min(MOST)]), is_joining };
        let waits = is_joining || then == AfterCut::Waits as u8;
        if waits { self.outputs.push(Output::Accuse(accusation)) } else { self.believe(&accusation) }
    }

    /// The job ends because a rank cannot reach another one.
    pub(super) fn believe(&mut self, Accusation { rank, why, .. }: &Accusation) {
        let why = format!("has lost another rank: {why}");
        self.fail(JobFailure { rank: Some(*rank), why, status: 1 }, Reason::Refused);
    }

    /// Somebody may be waiting for a rank that will never come.
    fn check_for_missing(&mut self) {
        if self.failed {
            return;
        }
        let joining = self.entries.iter().any(|entry| entry.stage != RankStage::New);
        let gathering = self.entries.iter().any(|entry| entry.share.is_some());
        let missing = |entry: &Entry| match entry.stage {
            RankStage::New if joining && entry.exit.is_some() => {
                Some("exited before it had joined the others")
            }
            RankStage::Finalized if gathering => {
                Some("called dsm_finalize or scomm_finalize while others still exchange with it")
            }
            _ => None,
        };
        let found = (0..).zip(&self.entries).find_map(|(rank, entry)| Some((rank, missing(entry)?)));
        if let Some((rank, why)) = found {
            self.fail(JobFailure { rank: Some(rank), why: why.to_owned(), status: 1 }, Reason::Gone);
        }
    }

    fn fail(&mut self, failure: JobFailure, reason: Reason) {
        if !self.failed {
            self.failed = true;
            let text = match failure.rank {
                // Who is gone is told by the number; a refusal must say it in words.
                Some(rank) if reason == Reason::Refused => format!("rank {rank} {}", failure.why),
                _ => failure.why.clone(),
            };
            self.outputs.push(Output::Tell(abort(reason, failure.rank.unwrap_or(u32::MAX), &text)));
        }
        self.outputs.push(Output::Fail(failure));
    }
}

/// What an Abort message tells the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Reason {
    Refused = 0,
    Gone = 1,
}

pub(super) fn abort(reason: Reason, rank: u32, text: &str) -> Message {
    let mut bytes = vec![reason as u8];
    bytes.extend_from_slice(&rank.to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    Message::plain(LineKind::Abort, bytes)
}

/// What a rank says that cannot reach another one.
pub(super) fn cut(other: u32, why: &str, then: AfterCut) -> Vec<u8> {
    [&[then as u8][..], &other.to_le_bytes(), why.as_bytes()].concat()
}

/// What is wrong with a job of ranks with these identities, if they are not all the same.
fn disagreement(identities: &[&Identity]) -> Option<String> {
    /// Groups that are spelled out; the rest is counted.
    const SHOWN: usize = 4;
    let mut groups: Vec<(&Identity, Vec<usize>)> = Vec::new();
    for (rank, identity) in identities.iter().enumerate() {
        match groups.iter_mut().find(|(first, _)| first.agrees_with(identity)) {
            Some((_, ranks)) => ranks.push(rank),
            None => groups.push((identity, vec![rank])),
        }
    }
    if groups.len() < 2 {
        return None;
    }
    let mut parts: Vec<String> = groups
        .iter()
        .take(SHOWN)
        .map(|(identity, ranks)| {
            let verb = if ranks.len() == 1 { "runs" } else { "run" };
            format!("{} {verb} {identity}", people(ranks))
        })
        .collect();
    if groups.len() > SHOWN {
        parts.push(format!("and {} more", groups.len() - SHOWN));
    }
    Some(format!("two different programs or versions in one job: {}", parts.join("; ")))
}

/// "rank 3", "ranks 0-2, 5": the ranks are ascending.
pub(super) fn people(ranks: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let words: Vec<String> =
        runs.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") }).collect();
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}", words.join(", "))
}

#[cfg(test)]
mod tests;
