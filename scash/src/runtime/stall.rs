//! A rank that has waited for as long as `SCASH_STALL` says asks all others what they do, and prints who waits for what, and who has it.

use super::{Runtime, objects};
use crate::core::Core;
use crate::error::{Result, call};
use crate::house::House;
use crate::say::say;
use scash_proto::Rank;
use scash_proto::stall::{Because, Link, circle};
use scash_proto::wire::Kind;
use scash_proto::wire::stall::{Deal, Doing, Doings, StallMessage};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// How long the answers of others are waited for.
const ANSWERS: Duration = Duration::from_secs(1);

/// What has arrived of questions and answers.
#[derive(Debug, Default)]
pub(crate) struct Inquiry {
    /// Ranks that have asked and are still to be answered.
    askers: Vec<Rank>,
    /// When somebody asked last: that one tells, and others need not.
    asked: Option<Instant>,
    answers: BTreeMap<Rank, Doings>,
}

impl Inquiry {
    /// Takes what a peer says. The answer leaves with [`answer`](Self::answer).
    pub(crate) fn take(&mut self, from: Rank, message: StallMessage) {
        match message {
            StallMessage::Query => {
                self.asked = Some(Instant::now());
                self.askers.push(from);
            }
            StallMessage::Answer(doings) => {
                self.answers.insert(from, doings);
            }
        }
    }

    /// Whether somebody is to be answered.
    pub(crate) fn is_asked(&self) -> bool {
        !self.askers.is_empty()
    }

    /// Answers those that have asked.
    pub(crate) fn answer(&mut self, house: &House, doings: Doings) -> Result<()> {
        let answer = StallMessage::Answer(doings).encode();
        for to in self.askers.drain(..) {
            house.endpoint.send(to.0, Kind::Stall.number(), &[&answer])?;
        }
        Ok(house.endpoint.flush()?)
    }
}

/// A wait of one thread.
pub(super) struct Patience {
    /// How long it is thought to be normal, and when it began; `None`: for ever.
    normal: Option<(Duration, Instant)>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    /// The others were asked at this time.
    Asked(Instant),
    Told,
}

impl Patience {
    pub(super) fn new(runtime: &Runtime) -> Patience {
        Patience { normal: runtime.stall.map(|normal| (normal, Instant::now())), state: State::Waiting }
    }

    /// To be called now and then while the thread waits.
    pub(super) fn look(&mut self, runtime: &Runtime, core: &mut Core) -> Result<()> {
        let Some((normal, since)) = self.normal else { return Ok(()) };
        match self.state {
            State::Waiting if since.elapsed() >= normal => {
                if core.inquiry().asked.is_some_and(|at| at >= since) {
                    self.state = State::Told;
                    return Ok(());
                }
                core.inquiry().answers.clear();
                for rank in (0..runtime.size).filter(|&rank| rank != runtime.rank) {
                    let query = StallMessage::Query.encode();
                    runtime.house.endpoint.send(rank, Kind::Stall.number(), &[&query])?;
                }
                runtime.house.endpoint.flush()?;
                self.state = State::Asked(Instant::now());
            }
            State::Asked(at) => {
                let all = core.inquiry().answers.len() + 1 >= runtime.size as usize;
                if all || at.elapsed() > ANSWERS {
                    self.state = State::Told;
                    let mut doings = std::mem::take(&mut core.inquiry().answers);
                    doings.insert(Rank(runtime.rank), core.node.doings());
                    let name = |object| core.node.kind(object).map_or("object", objects::name);
                    say(&report(runtime.rank, runtime.size, normal, &doings, name));
                }
            }
            State::Waiting | State::Told => {}
        }
        Ok(())
    }
}

/// The text for people.
fn report(
    rank: u32,
    size: u32,
    normal: Duration,
    all: &BTreeMap<Rank, Doings>,
    name: impl Fn(u32) -> &'static str,
) -> String {
    let mut out = format!(
        "scash: rank {rank} has waited for {} s (SCASH_STALL). What each rank does:\n",
        normal.as_secs_f64()
    );
    for rank in (0..size).map(Rank) {
        let does = all.get(&rank).map_or_else(
            || "no answer: it computes, or is stopped".to_owned(),
            |doings| describe(doings, &name),
        );
        // Writing to a string does not fail.
        let _ = writeln!(out, "scash:   {rank}: {does}");
    }
    if let Some(links) = circle(all) {
        let links: Vec<String> = links.iter().map(|link| describe_link(link, &name)).collect();
        let _ = writeln!(
            out,
            "scash: a deadlock: {}, which waits for the first",
            links.join(", which waits for ")
        );
    }
    out
}

fn describe(doings: &Doings, name: impl Fn(u32) -> &'static str) -> String {
    let mut parts: Vec<String> =
        doings.meets.map(|purpose| format!("in {}", call(purpose))).into_iter().collect();
    parts.extend(doings.threads.iter().map(|&Doing { who, deal, object }| {
        let deal = if deal == Deal::Has { "has" } else { "waits for" };
        format!("thread {who} {deal} {} {object}", name(object))
    }));
    if parts.is_empty() { "has nothing, waits for nothing: it computes".to_owned() } else { parts.join(", ") }
}

fn describe_link(link: &Link, name: impl Fn(u32) -> &'static str) -> String {
    let Link { rank, who, because } = *link;
    match because {
        Because::Object(object) => {
            format!("thread {who} of {rank} (for {} {object})", name(object))
        }
        Because::Meeting => format!("{rank} (in a collective call, for all to come)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_who_has_what_and_the_circle() {
        let doing = |who, deal, object| Doing { who, deal, object };
        let of = |threads| Doings { meets: None, threads };
        let all = BTreeMap::from([
            (Rank(0), of(vec![doing(1, Deal::Has, 0), doing(1, Deal::Awaits, 1)])),
            (Rank(1), of(vec![doing(1, Deal::Has, 1), doing(1, Deal::Awaits, 0)])),
            (Rank(3), Doings { meets: Some(scash_proto::wire::Purpose::default()), threads: Vec::new() }),
        ]);
        let text = report(1, 4, Duration::from_millis(1500), &all, |_| "lock");
        assert_eq!(
            text,
            "scash: rank 1 has waited for 1.5 s (SCASH_STALL). What each rank does:\n\
             scash:   rank 0: thread 1 has lock 0, thread 1 waits for lock 1\n\
             scash:   rank 1: thread 1 has lock 1, thread 1 waits for lock 0\n\
             scash:   rank 2: no answer: it computes, or is stopped\n\
             scash:   rank 3: in dsm_barrier\n\
             scash: a deadlock: thread 1 of rank 0 (for lock 1), which waits for thread 1 of rank 1 (for lock 0), which waits for the first\n"
        );
    }
}
