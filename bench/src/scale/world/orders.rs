//! Having carried out what nodes order.

use super::{State, World};
use scash_proto::interpreter::Step;
use scash_proto::node::{Outcome, Output};

impl World<'_> {
    /// Carries out everything that the node orders now.
    pub(super) fn carry_out_all(&mut self, rank: usize) {
        while let Some(order) = self.ranks[rank].node.poll_output() {
            self.carry_out(rank, order);
        }
    }

    /// Carries out an order that no fetch is.
    pub(super) fn carry_out(&mut self, rank: usize, order: Output) {
        match self.interpret(rank, order) {
            Step::Next => {}
            Step::Done(outcome) => self.finish(rank, outcome),
            step => panic!("rank {rank}: {step:?}, but traces run on one thread, and operate on no words"),
        }
    }

    fn finish(&mut self, rank: usize, outcome: Outcome) {
        match outcome {
            Outcome::Done => {}
            Outcome::Allocated(pages) => self.ranks[rank].arrays.push(pages.first),
            Outcome::OutOfSpace(_)
            | Outcome::Mismatch(_)
            | Outcome::Made(_)
            | Outcome::InUse(_)
            | Outcome::TooManyObjects(_)
            | Outcome::Reduced(_) => {
                panic!("rank {rank}: all ranks make the same calls, and there is room for them: {outcome:?}")
            }
        }
        assert_eq!(self.ranks[rank].state, State::Meeting, "a collective call ends in a meeting");
        self.leave(rank);
    }
}
