//! One node, or a few whose messages arrive at once: what they order, order by order. (Whole jobs, with
//! memory and delays, are for the simulator.)

mod agreement;
mod ahead;
mod checkpoint;
mod collective;
mod copies;
mod destroy;
mod fault;
mod first_touches;
mod home_runs;
mod leaving;
mod lies;
mod lies_of_locks;
mod migrate;
mod own;
mod readers;
mod reduce;
mod shared_frames;

use super::*;
use crate::PAGE_SIZE;
use crate::Placement;
use crate::wire::{Attendance, Token};
use std::collections::BTreeSet;

const PAGES: u32 = 32;
/// A thread.
const WHO: u64 = 7;

/// A few nodes whose messages arrive at once. Memory is left out: which pages a comparison finds changed is
/// said beforehand.
struct Job {
    nodes: Vec<Node>,
    /// Pages that differ from their twins at each rank.
    changed: BTreeSet<(u32, u32)>,
    /// What was ordered since it was last looked at, but for messages, by rank.
    orders: Vec<Vec<Output>>,
    /// Messages about objects, and ends of intervals, that were ordered, by rank.
    syncs: Vec<Vec<Output>>,
}

impl Job {
    fn new(size: u32) -> Job {
        Job::sharing(size, Sharing::Off)
    }

    fn sharing(size: u32, sharing: Sharing) -> Job {
        Job::of(size, sharing, 0)
    }

    fn of(size: u32, sharing: Sharing, replicas: u32) -> Job {
        let plain = |rank| Config::plain(Rank(rank), size, PAGES);
        let config = |rank| Config {
            fetch_most: 16,
            renewals: 15,
            migrate_after: 3,
            sharing,
            replicas,
            ..plain(rank)
        };
        let nodes = (0..size).map(|r| Node::new(config(r))).collect();
        let [orders, syncs] = [(); 2].map(|()| (0..size).map(|_| Vec::new()).collect());
        Job { nodes, changed: BTreeSet::new(), orders, syncs }
    }

    /// With one allocation.
    fn with(size: u32, pages: u32, options: AllocOptions) -> Job {
        let mut job = Job::new(size);
        job.all(Collective::Alloc(u64::from(pages) * PAGE_SIZE as u64, options));
        job.orders.iter_mut().for_each(Vec::clear);
        job
    }

    fn give(&mut self, rank: u32, input: Input) {
        let node = &mut self.nodes[rank as usize];
        node.handle(input).expect("correct peers");
        assert_eq!(
            node.check(),
            Ok(()),
            "{}",
            node.check().map_or_else(|e| node.describe(e.page), |()| String::new())
        );
    }

    /// What a node orders now.
    fn ordered(&mut self, rank: u32) -> Vec<Output> {
        std::iter::from_fn(|| self.nodes[rank as usize].poll_output()).collect()
    }

    /// Orders of one fault.
    fn fault(&mut self, rank: u32, page: u32, want: Access) -> Vec<Output> {
        self.give(rank, Input::Fault { page, want });
        self.ordered(rank)
    }

    /// Touches a page as often as it takes, with all fetches answered.
    fn touch(&mut self, rank: u32, page: u32, want: Access) {
        while self.nodes[rank as usize].access(page) < want {
            for order in self.fault(rank, page, want) {
                if let Output::Get { pages, .. } = order {
                    self.give(rank, Input::Fetched(pages));
                }
            }
        }
    }

    /// Writes to a page: it will differ from its twin.
    fn write(&mut self, rank: u32, page: u32) {
        self.touch(rank, page, Access::Write);
        self.changed.insert((rank, page));
    }

    fn barrier(&mut self) -> Vec<Outcome> {
        self.all(Collective::Barrier)
    }

    /// Every rank makes the call.
    fn all(&mut self, collective: Collective) -> Vec<Outcome> {
        self.each(|_| collective)
    }

    /// Every rank makes its call; returns what each is told at the end.
    fn each(&mut self, call: impl Fn(u32) -> Collective) -> Vec<Outcome> {
        let size = u32::try_from(self.nodes.len()).unwrap();
        (0..size).for_each(|r| self.give(r, Input::Arrive(call(r))));
        self.told()
    }

    /// What each rank is told at the end of the call that all have come to.
    fn told(&mut self) -> Vec<Outcome> {
        let done = self.calm();
        assert!(done.iter().all(Option::is_some), "the call does not end: {done:?}");
        done.into_iter().flatten().collect()
    }

    /// Lets happen what can. Returns what each rank was told.
    fn calm(&mut self) -> Vec<Option<Outcome>> {
        let mut done = vec![None; self.nodes.len()];
        let mut idle = false;
        while !std::mem::replace(&mut idle, true) {
            for rank in 0..u32::try_from(done.len()).unwrap() {
                let done = &mut done[rank as usize];
                while let Some(order) = self.nodes[rank as usize].poll_output() {
                    idle = false;
                    self.carry_out(rank, order, done);
                }
                *done = done.take().or(self.nodes[rank as usize].take_reduced());
            }
        }
        done
    }

    fn carry_out(&mut self, rank: u32, order: Output, done: &mut Option<Outcome>) {
        let (from, meeting) = (Rank(rank), self.nodes[rank as usize].meeting());
        if matches!(order, Output::Closed { .. } | Output::Sync(..)) {
            self.syncs[rank as usize].push(order.clone());
        }
        match order {
            Output::Token(to, token) => return self.give(to.0, Input::Token(from, token)),
            Output::Control(to, meeting, c) => return self.give(to.0, Input::Control(from, meeting, c)),
            Output::Parcel { to, meeting, home } => {
                return self.give(to.0, Input::Parcel(from, meeting, home));
            }
            Output::Flushed => return self.give(rank, Input::Flushed),
            Output::Closed { .. } => return self.give(rank, Input::Closed { behind: false }),
            Output::Reduce(to, message) => return self.give(to.0, Input::Reducing(from, message)),
            Output::Sync(to, message) => return self.give(to.0, Input::Sync(from, message)),
            Output::Done(ref outcome) => *done = Some(outcome.clone()),
            Output::Diff { page, to, force } => {
                let changed = self.changed.remove(&(rank, page));
                if changed || force {
                    self.give(to.0, Input::Diff(from, meeting, page));
                    self.nodes[to.0 as usize].batch_taken().expect("correct peers");
                }
                self.give(rank, Input::Compared { page, changed });
            }
            Output::Report { page, to } => {
                self.give(to.0, Input::Diff(from, meeting, page));
                self.nodes[to.0 as usize].batch_taken().expect("correct peers");
            }
            Output::DiffZero { page, to } => {
                self.give(to.0, Input::Diff(from, meeting, page));
                self.nodes[to.0 as usize].batch_taken().expect("correct peers");
                self.give(rank, Input::Compared { page, changed: true });
            }
            Output::PutDiff { page, .. } => {
                let changed = self.changed.remove(&(rank, page));
                self.give(rank, Input::PutBack { page, changed });
            }
            Output::CompareToZeros(pages) => {
                for page in pages.iter() {
                    let zero = !self.changed.contains(&(rank, page));
                    self.give(rank, Input::IsZero { page, zero });
                }
            }
            Output::Push(page) => {
                let changed = self.changed.remove(&(rank, page));
                self.give(rank, Input::Compared { page, changed });
            }
            _ => {}
        }
        self.orders[rank as usize].push(order);
    }

    /// A thread of a rank takes a lock and gives it back, and all that follows happens.
    fn section(&mut self, rank: u32, lock: u32) {
        self.give(rank, Input::Acquire { lock, who: WHO });
        self.calm();
        assert_eq!(self.nodes[rank as usize].holder(lock), Some(WHO), "lock {lock}");
        self.give(rank, Input::Release(lock));
        self.calm();
    }

    /// The same for each of these locks.
    fn walk(&mut self, rank: u32, locks: impl IntoIterator<Item = u32>) {
        locks.into_iter().for_each(|lock| self.section(rank, lock));
    }

    /// Orders of a rank since they were last asked for.
    fn orders(&mut self, rank: u32) -> Vec<Output> {
        std::mem::take(&mut self.orders[rank as usize])
    }
}

fn at(rank: u32, protocol: Protocol) -> AllocOptions {
    AllocOptions { placement: Placement::Rank(rank), protocol, block: 1 }
}

fn one(page: u32) -> Pages {
    Pages::one(page)
}
