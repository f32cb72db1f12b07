//! A rank that has waited for as long as `SCASH_STALL` says asks all others what they do, and prints who
//! waits for what, and who has it; again when it has waited twice as long, and so on.

use super::Runtime;
use super::objects::name;
use crate::error::{Result, call};
use crate::runtime::core::{Core, all_activities};
use scash_comm::say::say;
use scash_proto::Rank;
use scash_proto::stall::{Because, WaitEdge, circle};
use scash_proto::wire::Kind;
use scash_proto::wire::stall::{Activities, Activity, Relation, StallMessage};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// How long the answers of others are waited for.
const ANSWERS: Duration = Duration::from_secs(1);

/// Looks at a wait of which one looks at the clock.
const LOOKS: u32 = 16;

/// A wait of one thread. It costs nothing but counting until it has lasted for [`LOOKS`] looks.
pub(super) struct WaitTimer {
    /// How long it is thought to be normal; longer when that was told. `None`: for ever.
    normal: Option<Duration>,
    /// How often somebody has looked.
    looks: u32,
    /// When it began, as far as it was looked at.
    since: Option<Instant>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    /// The others were asked at this time.
    Asked(Instant),
    /// It was told, or another rank has, or will.
    Told(Instant),
}

impl WaitTimer {
    pub(super) fn new(runtime: &Runtime) -> WaitTimer {
        WaitTimer { normal: runtime.stall, looks: 0, since: None, state: State::Waiting }
    }

    /// To be called now and then while the thread waits.
    pub(super) fn look(&mut self, runtime: &Runtime, core: &mut Core) -> Result<()> {
        let Some(normal) = self.normal else { return Ok(()) };
        self.looks = self.looks.wrapping_add(1);
        if !self.looks.is_multiple_of(LOOKS) {
            return Ok(());
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        match self.state {
            State::Asked(at) => {
                let all = core.inquiry().answers.len() + 1 >= runtime.size as usize;
                if all || at.elapsed() > ANSWERS {
                    self.tell(runtime, core, normal);
                }
            }
            State::Waiting | State::Told(_) if since.elapsed() < normal => {}
            state => {
                let last = if let State::Told(at) = state { at } else { since };
                if core.inquiry().asked.is_some_and(|at| at >= last) {
                    self.rest();
                    return Ok(());
                }
                core.inquiry().answers.clear();
                for rank in (0..runtime.size).filter(|&rank| rank != runtime.rank) {
                    let query = StallMessage::Query.encode();
                    runtime.context.endpoint.send(rank, Kind::Stall.number(), &[&query])?;
                }
                runtime.context.endpoint.flush()?;
                self.state = State::Asked(Instant::now());
            }
        }
        Ok(())
    }

    fn tell(&mut self, runtime: &Runtime, core: &mut Core, waited: Duration) {
        let mut activities = std::mem::take(&mut core.inquiry().answers);
        activities.insert(Rank(runtime.rank), all_activities(&runtime.context, &core.node));
        let called = |object| core.node.kind(object).map_or("object", name);
        say(report(runtime.rank, runtime.size, waited, &activities, called));
        self.rest();
    }

    /// Nothing is to be told until the wait is twice as long.
    fn rest(&mut self) {
        self.normal = self.normal.map(|normal| normal.saturating_mul(2));
        self.state = State::Told(Instant::now());
    }
}

/// The text for people.
fn report(
    rank: u32,
    size: u32,
    waited: Duration,
    all: &BTreeMap<Rank, Activities>,
    name: impl Fn(u32) -> &'static str,
) -> String {
    let mut out = format!(
        "scash: rank {rank} has waited for {} s (SCASH_STALL says when that is told). What each rank does:\n",
        waited.as_secs_f64()
    );
    let meeting = all.values().find_map(|activities| activities.meets).map(call);
    let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
    let mut busy = Vec::new();
    for rank in 0..size {
        let activities = all.get(&Rank(rank));
        let does =
            activities.map_or_else(|| "no answer".to_owned(), |activities| describe(activities, &name));
        let is_busy = does.is_empty() || activities.is_none();
        let does = match &meeting {
            _ if !is_busy => does,
            Some(meeting) if activities.is_none() => {
                format!("has not come to {meeting} yet: it computes, or is stopped")
            }
            Some(meeting) => format!("computes, and has not come to {meeting} yet"),
            None if activities.is_none() => "no answer: it computes, or is stopped".to_owned(),
            None => "has nothing, waits for nothing: it computes".to_owned(),
        };
        if is_busy {
            busy.push(rank);
        }
        match groups.iter_mut().find(|(known, _)| *known == does) {
            Some((_, ranks)) => ranks.push(rank),
            None => groups.push((does, vec![rank])),
        }
    }
    // Writing to a string does not fail.
    for (does, ranks) in groups {
        let _ = writeln!(out, "scash:   {}: {does}", people(&ranks));
    }
    if let Some(links) = circle(all) {
        let links: Vec<String> = links.iter().map(|link| describe_link(link, &name)).collect();
        let _ = writeln!(
            out,
            "scash: a deadlock: {}, which waits for the first",
            links.join(", which waits for ")
        );
    } else if !busy.is_empty() {
        let _ = writeln!(
            out,
            "scash: no deadlock is seen: nothing is wrong if {} {} for long",
            people(&busy),
            if busy.len() == 1 { "computes" } else { "compute" }
        );
    }
    out
}

/// "rank 3", "ranks 0-2, 5": the ranks are ascending.
fn people(ranks: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let words = runs.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") });
    let words: Vec<String> = words.collect();
    format!("{} {}", if ranks.len() == 1 { "rank" } else { "ranks" }, words.join(", "))
}

/// What a rank does that waits or has something; nothing for one that computes.
fn describe(activities: &Activities, name: impl Fn(u32) -> &'static str) -> String {
    let mut parts: Vec<String> =
        activities.meets.map(|purpose| format!("in {}", call(purpose))).into_iter().collect();
    parts.extend(activities.threads.iter().map(|&Activity { who, relation, object }| {
        let relation = if relation == Relation::Holds { "has" } else { "waits for" };
        format!("thread {who} {relation} {} {object}", name(object))
    }));
    parts.join(", ")
}

fn describe_link(link: &WaitEdge, name: impl Fn(u32) -> &'static str) -> String {
    let WaitEdge { rank, who, because } = *link;
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

    fn in_barrier() -> Activities {
        Activities { meets: Some(scash_proto::wire::Purpose::default()), threads: Vec::new() }
    }

    #[test]
    fn ranks_that_compute_while_others_wait_are_no_alarm() {
        let computes = || Activities { meets: None, threads: Vec::new() };
        let ranks = [in_barrier(), in_barrier(), computes(), in_barrier(), in_barrier()];
        let all: BTreeMap<Rank, Activities> = (0..).map(Rank).zip(ranks).collect();
        assert_eq!(
            report(0, 6, Duration::from_secs(60), &all, |_| "lock"),
            "scash: rank 0 has waited for 60 s (SCASH_STALL says when that is told). What each rank does:\n\
             scash:   ranks 0-1, 3-4: in dsm_barrier\n\
             scash:   rank 2: computes, and has not come to dsm_barrier yet\n\
             scash:   rank 5: has not come to dsm_barrier yet: it computes, or is stopped\n\
             scash: no deadlock is seen: nothing is wrong if ranks 2, 5 compute for long\n"
        );
    }

    #[test]
    fn a_report_names_who_has_what_and_the_circle() {
        let activity = |who, relation, object| Activity { who, relation, object };
        let of = |threads| Activities { meets: None, threads };
        let all = BTreeMap::from([
            (Rank(0), of(vec![activity(1, Relation::Holds, 0), activity(1, Relation::Awaits, 1)])),
            (Rank(1), of(vec![activity(1, Relation::Holds, 1), activity(1, Relation::Awaits, 0)])),
            (Rank(3), in_barrier()),
        ]);
        let text = report(1, 4, Duration::from_millis(1500), &all, |_| "lock");
        assert_eq!(
            text,
            "scash: rank 1 has waited for 1.5 s (SCASH_STALL says when that is told). What each rank does:\n\
             scash:   rank 0: thread 1 has lock 0, thread 1 waits for lock 1\n\
             scash:   rank 1: thread 1 has lock 1, thread 1 waits for lock 0\n\
             scash:   rank 2: has not come to dsm_barrier yet: it computes, or is stopped\n\
             scash:   rank 3: in dsm_barrier\n\
             scash: a deadlock: thread 1 of rank 0 (for lock 1), which waits for thread 1 of rank 1 (for lock 0), which waits for the first\n"
        );
    }
}
