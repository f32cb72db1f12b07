//! A simulated run: one [`Node`] a rank, with a clock of its own, and the network between them.
//!
//! A rank's clock is how far its processor has come. It runs ahead of the queue of events for as long as
//! nothing that others do can matter: to the next get that must be waited for, or until it waits in a
//! barrier. Whatever it sends comes to its port by an event, at its time, so the ports serve in the order of
//! time.
//!
//! What a message means is the protocol's affair: nodes get real messages and hand out real orders. No page
//! has contents. Which bytes were written is remembered for each interval, so that diffs and puts have their
//! sizes.
//!
//! Reading order: [`work`] (the program), [`orders`] (what nodes order), [`machine`] (what that takes),
//! [`transport`] (what travels), [`tally`] (what is counted).

mod machine;
mod orders;
mod tally;
#[cfg(test)]
mod tests;
mod transport;
mod work;

use super::machine::Machine;
use super::queue::{Packet, PacketEvent, Queue};
use super::time::Time;
use super::trace::{Op, Trace};
use super::written::WrittenBytes;
use scash_proto::diff::PageBytes;
use scash_proto::interpreter::Interpreter;
use scash_proto::node::{Collective, Eviction, Input, MIGRATE_AFTER, Node};
use scash_proto::{AllocOptions, Config, PAGE_SIZE, Rank};
use std::collections::{HashMap, VecDeque};
use tally::Tally;
pub use tally::{Totals, Traffic};

/// Pages of the first fetch of a run, as the runtime has them by default: one where memory is accessed
/// directly, eight where a fetch is a round trip.
const FETCH_FIRST: [u32; 2] = [8, 1];
/// Most pages of one fetch, as the runtime has them by default.
const FETCH_MOST: u32 = 32;
/// Shortest run of pages whose writes are noticed without faults, as the runtime has it by default.
const WATCH_FROM: u32 = 64;

/// What a rank is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It does what its trace says.
    Working,
    /// It waits for pages.
    Fetching,
    /// It is in a collective call.
    Meeting,
    /// It has done everything.
    Finished,
}

/// When a port has got through with what it has.
#[derive(Clone, Copy, Debug, Default)]
struct Port {
    out: Time,
    into: Time,
}

/// One rank.
#[derive(Debug)]
struct RankState {
    node: Node,
    clock: Time,
    port: Port,
    state: State,
    /// Collective calls made so far.
    calls: u32,
    /// What it does in this interval, and how far it has come: the operation and the byte of its range.
    ops: Vec<Op>,
    at: usize,
    done: u64,
    /// Messages that came while it was not in a meeting.
    inbox: VecDeque<Packet>,
    /// First pages of the shared arrays.
    arrays: Vec<u32>,
    /// What it wrote in this interval, by page.
    written: HashMap<u32, WrittenBytes>,
    /// Is there, but while it carries out an order.
    interpreter: Option<Interpreter>,
    tally: Tally,
}

/// A run that has not ended.
pub struct World<'a> {
    machine: &'a Machine,
    trace: &'a dyn Trace,
    /// The sizes of the shared arrays.
    arrays: Vec<u64>,
    ranks: Vec<RankState>,
    queue: Queue,
    /// What the rank that carries out an order saw when it looked at a page last.
    seen: Box<PageBytes>,
}

impl<'a> World<'a> {
    /// A run of the trace on so many ranks.
    pub fn new(machine: &'a Machine, trace: &'a dyn Trace, ranks: u32) -> Self {
        let arrays = trace.arrays();
        let pages: u64 = arrays.iter().map(|bytes| bytes.div_ceil(PAGE_SIZE as u64).max(1)).sum();
        let direct = machine.network.direct;
        let rank = |rank| RankState {
            node: Node::new(Config {
                puts_at_once: direct,
                fetch_first: FETCH_FIRST[usize::from(direct)],
                fetch_most: FETCH_MOST,
                eviction: Eviction::default(),
                migrate_after: MIGRATE_AFTER,
                watch_from: WATCH_FROM,
                ..Config::plain(Rank(rank), ranks, u32::try_from(pages).unwrap_or(u32::MAX))
            }),
            clock: Time::ZERO,
            port: Port::default(),
            state: State::Working,
            calls: 0,
            ops: Vec::new(),
            at: 0,
            done: 0,
            inbox: VecDeque::new(),
            arrays: Vec::new(),
            written: HashMap::new(),
            // Nothing is put before a barrier.
            interpreter: Some(Interpreter::new(0)),
            tally: Tally::default(),
        };
        World {
            machine,
            trace,
            arrays,
            ranks: (0..ranks).map(rank).collect(),
            queue: Queue::default(),
            seen: Box::new([0; PAGE_SIZE]),
        }
    }

    /// Runs to the end.
    ///
    /// # Panics
    /// If the protocol refuses what its own nodes sent, or gets stuck: a bug in one or the other.
    pub fn run(mut self) -> Totals {
        for rank in 0..self.ranks.len() {
            self.begin(rank);
            self.go_on(rank);
        }
        while let Some((at, stage, packet)) = self.queue.pop() {
            match stage {
                PacketEvent::Leaves => self.leaves(at, packet),
                PacketEvent::Comes => self.comes(at, packet),
                PacketEvent::IsThere => self.is_there(at, *packet),
            }
        }
        let stuck = self.ranks.iter().find(|rank| rank.state != State::Finished);
        assert!(stuck.is_none(), "a rank waits for something that will never come: {stuck:?}");
        Totals::of(&self.ranks)
    }

    /// Lets a rank go on until it has to wait.
    fn go_on(&mut self, rank: usize) {
        loop {
            match self.ranks[rank].state {
                State::Working => {
                    if !self.work(rank) {
                        return;
                    }
                    self.arrive(rank);
                }
                State::Meeting => {
                    let Some(packet) = self.ranks[rank].inbox.pop_front() else { return };
                    self.take(rank, packet);
                }
                State::Fetching | State::Finished => return,
            }
        }
    }

    /// The rank comes to the collective call that ends its interval.
    fn arrive(&mut self, rank: usize) {
        let call = self.call(self.ranks[rank].calls);
        self.ranks[rank].state = State::Meeting;
        self.tell(rank, Input::Arrive(call));
        self.carry_out_all(rank);
    }

    /// First the arrays are allocated, then there are memory barriers.
    fn call(&self, number: u32) -> Collective {
        match self.arrays.get(number as usize) {
            Some(&bytes) => Collective::Alloc(bytes, AllocOptions::default()),
            None => Collective::Barrier,
        }
    }

    /// A collective call is over.
    fn leave(&mut self, rank: usize) {
        let me = &mut self.ranks[rank];
        me.written.clear();
        me.calls += 1;
        me.tally.left_barrier(&me.node);
        self.begin(rank);
    }

    /// What the rank does next.
    fn begin(&mut self, rank: usize) {
        let allocations = u32::try_from(self.arrays.len()).unwrap_or(u32::MAX);
        let me = &mut self.ranks[rank];
        (me.at, me.done) = (0, 0);
        me.ops.clear();
        me.state = State::Working;
        let Some(interval) = me.calls.checked_sub(allocations) else { return };
        if interval == self.trace.untimed() {
            me.tally.start(me.clock, me.node.counters());
        }
        if interval == self.trace.untimed() + self.trace.timed() {
            me.tally.stop(me.clock, me.node.counters());
            me.state = State::Finished;
            return;
        }
        let number = u32::try_from(rank).unwrap_or(u32::MAX);
        self.trace.work(number, interval, &mut me.ops);
    }

    /// Gives something to a node.
    fn tell(&mut self, rank: usize, input: Input) {
        if let Err(violation) = self.ranks[rank].node.handle(input) {
            panic!("rank {rank} refuses what a peer of its own kind did: {violation}");
        }
    }
}
