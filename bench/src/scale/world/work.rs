//! The program: accesses, faults, fetches, arithmetic.

use super::{State, World};
use crate::scale::queue::Freight;
use crate::scale::trace::Op;
use scash_proto::node::{Input, Output};
use scash_proto::{Access, PAGE_SIZE, Rank, Strided};
use std::ops::Range;

const PAGE: u64 = PAGE_SIZE as u64;
/// Bytes of a request for a run of pages: where it is, how long, and where the answer goes.
pub(super) const REQUEST: u64 = 32;

impl World<'_> {
    /// Does what the rank's trace says. `false` if it has to wait, `true` if the interval's work is done.
    pub(super) fn work(&mut self, rank: usize) -> bool {
        loop {
            let me = &mut self.ranks[rank];
            let finished = match me.ops.get(me.at) {
                None => return true,
                Some(Op::Compute(work)) => {
                    me.clock += self.machine.compute.time(*work);
                    true
                }
                Some(Op::Read(array, bytes)) => {
                    let (array, bytes) = (*array, bytes.clone());
                    self.access(rank, array, bytes, Access::Read, false)
                }
                Some(op @ (Op::Write(array, bytes) | Op::Clear(array, bytes))) => {
                    let (array, bytes, changes) = (*array, bytes.clone(), matches!(op, Op::Write(..)));
                    self.access(rank, array, bytes, Access::Write, changes)
                }
            };
            if !finished {
                return false;
            }
            let me = &mut self.ranks[rank];
            me.at += 1;
            me.done = 0;
        }
    }

    /// Goes through bytes of an array, from where the rank left off, and `changes` them or not. `false` if it
    /// has to wait for a page.
    fn access(&mut self, rank: usize, array: usize, bytes: Range<u64>, want: Access, changes: bool) -> bool {
        let mut next = bytes.start + self.ranks[rank].done;
        while next < bytes.end {
            let me = &mut self.ranks[rank];
            let page = me.arrays[array] + u32::try_from(next / PAGE).unwrap_or(u32::MAX);
            if me.node.access(page) < want {
                if !self.fault(rank, page, want) {
                    return false;
                }
                continue;
            }
            let end = bytes.end.min((next / PAGE + 1) * PAGE);
            if changes {
                let offset = |at: u64| usize::try_from(at - next / PAGE * PAGE).unwrap_or(PAGE_SIZE);
                me.written.entry(page).or_default().add(offset(next)..offset(end));
            }
            next = end;
            me.done = next - bytes.start;
        }
        true
    }

    /// Serves a fault. `false` if pages are on their way.
    fn fault(&mut self, rank: usize, page: u32, want: Access) -> bool {
        self.ranks[rank].clock += self.machine.pages.fault;
        self.tell(rank, Input::Fault { page, want });
        while let Some(order) = self.ranks[rank].node.poll_output() {
            let Output::Get { from, pages } = order else {
                self.carry_out(rank, order);
                continue;
            };
            // Nothing is ordered behind a fetch.
            return self.fetch(rank, from, pages);
        }
        true
    }

    /// Fetches pages. `false` if they are on their way: they are here already where memory can be accessed
    /// directly.
    fn fetch(&mut self, rank: usize, from: Rank, pages: Strided) -> bool {
        let bytes = u64::from(pages.count()) * PAGE;
        if !self.machine.network.direct {
            self.ranks[rank].state = State::Fetching;
            self.send(rank, from, REQUEST, Freight::Get(pages));
            return false;
        }
        self.copy_directly(rank, bytes);
        let tally = &mut self.ranks[rank].tally;
        tally.received.add(tally.is_timed(), bytes);
        self.fetched(rank, pages);
        true
    }

    /// The pages of a fetch are here.
    pub(super) fn fetched(&mut self, rank: usize, pages: Strided) {
        self.ranks[rank].clock += self.machine.pages.call;
        self.ranks[rank].state = State::Working;
        self.tell(rank, Input::Fetched(pages));
        self.carry_out_all(rank);
    }
}
