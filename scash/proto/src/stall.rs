//! Who waits for whom: what all ranks say they do, put together.

use crate::Rank;
use crate::wire::stall::{Activities, Relation};
use std::collections::BTreeMap;

/// A thread of a rank.
type Thread = (Rank, u64);

/// Why one thread cannot go on before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// It waits for an object that the other has.
    Object(u32),
    /// Its rank is in a collective call, to which the other's has not come.
    Meeting,
}

/// A thread in a circle of threads of which each waits for the next, and the last for the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitEdge {
    /// Whose thread.
    pub rank: Rank,
    /// Which.
    pub who: u64,
    /// What it waits for.
    pub because: Because,
}

/// A circle of threads of which each waits for the next, if there is one: a deadlock.
///
/// A thread that has something while its rank is in a collective call is taken for the one that makes the
/// call.
pub fn circle(ranks: &BTreeMap<Rank, Activities>) -> Option<Vec<WaitEdge>> {
    let threads =
        || ranks.iter().flat_map(|(&rank, d)| d.threads.iter().map(move |activity| (rank, activity)));
    let mut edges: BTreeMap<Thread, Vec<(Because, Thread)>> = BTreeMap::new();
    for (rank, activity) in threads() {
        let from = (rank, activity.who);
        let edges = edges.entry(from).or_default();
        match activity.relation {
            Relation::Awaits => {
                let has =
                    threads().filter(|(_, d)| (d.relation, d.object) == (Relation::Holds, activity.object));
                edges.extend(has.map(|(rank, d)| (Because::Object(activity.object), (rank, d.who))));
            }
            Relation::Holds if ranks[&rank].meets.is_some() => {
                let away = threads()
                    .filter(|(rank, d)| ranks[rank].meets.is_none() && d.relation == Relation::Awaits);
                edges.extend(away.map(|(rank, d)| (Because::Meeting, (rank, d.who))));
            }
            Relation::Holds => {}
        }
    }
    let mut done = Vec::new();
    edges.keys().find_map(|&start| walk(start, &edges, &mut Vec::new(), &mut done))
}

/// Goes on from a thread until one comes round that is on the way already.
fn walk(
    at: Thread,
    edges: &BTreeMap<Thread, Vec<(Because, Thread)>>,
    way: &mut Vec<WaitEdge>,
    done: &mut Vec<Thread>,
) -> Option<Vec<WaitEdge>> {
    if let Some(begin) = way.iter().position(|link| (link.rank, link.who) == at) {
        return Some(way.split_off(begin));
    }
    if done.contains(&at) {
        return None;
    }
    done.push(at);
    edges.get(&at).into_iter().flatten().find_map(|&(because, next)| {
        way.push(WaitEdge { rank: at.0, who: at.1, because });
        let found = walk(next, edges, way, done);
        way.pop();
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Purpose;
    use crate::wire::stall::Activity;

    fn activities(meets: bool, threads: &[(u64, Relation, u32)]) -> Activities {
        let threads =
            threads.iter().map(|&(who, relation, object)| Activity { who, relation, object }).collect();
        Activities { meets: meets.then(Purpose::default), threads }
    }

    fn ranks(all: Vec<Activities>) -> BTreeMap<Rank, Activities> {
        (0..).map(Rank).zip(all).collect()
    }

    use Relation::{Awaits, Holds};

    #[test]
    fn two_ranks_that_take_two_locks_in_different_order_are_a_circle() {
        let all = ranks(vec![
            activities(false, &[(1, Holds, 3), (1, Awaits, 7)]),
            activities(false, &[(2, Awaits, 3)]),
            activities(false, &[(1, Holds, 7), (1, Awaits, 3)]),
        ]);
        let link = |rank, object| WaitEdge { rank: Rank(rank), who: 1, because: Because::Object(object) };
        assert_eq!(circle(&all), Some(vec![link(0, 7), link(2, 3)]));
    }

    #[test]
    fn a_queue_for_a_lock_is_no_circle() {
        let all = ranks(vec![
            activities(false, &[(1, Holds, 0)]),
            activities(false, &[(1, Awaits, 0), (2, Awaits, 0), (2, Holds, 1)]),
            activities(false, &[(1, Awaits, 1)]),
            activities(true, &[]),
        ]);
        assert_eq!(circle(&all), None);
    }

    #[test]
    fn a_lock_that_is_taken_into_a_barrier_is_a_circle_with_whoever_waits_for_it() {
        let all = ranks(vec![activities(true, &[(1, Holds, 0)]), activities(false, &[(5, Awaits, 0)])]);
        let found = circle(&all).expect("a circle");
        let because: Vec<Because> = found.iter().map(|link| link.because).collect();
        assert_eq!(because, [Because::Meeting, Because::Object(0)]);
    }
}
