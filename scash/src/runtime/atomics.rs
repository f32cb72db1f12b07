//! Atomic operations on words of shared memory.

use super::{Runtime, lock};
use crate::error::{Error, Result};
use crate::fault::PAGE;
use crate::runtime::core::Core;
use crate::runtime::owned::Guard;
use crate::runtime::within;
use scash_comm::{Atomic, Rmw};
use scash_proto::Pages;
use scash_proto::interpreter::{Step, WordPlace};
use scash_proto::node::Input;

impl Runtime {
    /// Executes an atomic operation on the word of shared memory at `address`, at its home, and returns what
    /// it was before. The operations of all ranks and threads have one order.
    ///
    /// Between two memory barriers, who uses the word at all operates on it: plain loads and stores of it may
    /// see and leave anything. After a memory barrier plain loads see what the operations before it have
    /// left, at every rank, and operations what was stored before. An operation orders nothing but itself:
    /// what else a rank wrote before it is not for that reason visible to those who see the operation.
    ///
    /// # Errors
    /// The address is not that of a word of the operation's width in allocated shared memory; a rank is gone.
    pub fn atomic(&self, address: *const u8, op: Atomic) -> Result<u64> {
        let width = op.width();
        if !(address as usize).is_multiple_of(width) {
            return Err(Error::Argument(format!(
                "an atomic operation on {width} bytes at {address:p}: its address has to be a multiple of {width}"
            )));
        }
        self.guarded(|| {
            let core = lock(&self.core);
            let page = self.pages_of(&core, address, width)?.first;
            let place = self.place(core, page, changes(op))?;
            let offset = page as usize * PAGE + address as usize % PAGE;
            let _inside = within::enter_for(&*self.context.endpoint, place.0);
            Ok(self.context.endpoint.atomic(place.0, self.context.segment, offset as u64, op)?)
        })
    }

    /// The rank in whose frame a page is to be operated on now.
    fn place<'a>(&'a self, mut core: Guard<'a, Core>, page: u32, changes: bool) -> Result<scash_proto::Rank> {
        let context = &self.context;
        if core.node.in_collective_call() {
            return Err(Error::Argument(
                "an atomic operation while another thread of this rank is in a collective call: let that return first"
                    .to_owned(),
            ));
        }
        if self.shares_frames() {
            return Ok(scash_proto::Rank(self.rank));
        }
        let mut turn = 0;
        loop {
            core.node.handle(Input::Operate { page, changes })?;
            while let Some(order) = core.node.poll_output() {
                match core.execute_now(context, order)? {
                    Step::Operate(WordPlace { at, mark: false, .. }) => return Ok(at),
                    Step::Operate(WordPlace { at, mark: true, .. }) => {
                        let epoch = core.node.epoch();
                        drop(core);
                        // Other threads that operate on the page before this is done do it, too.
                        let inside = within::enter_for(&*context.endpoint, at.0);
                        context.marks.set(&*context.endpoint, at, page, epoch)?;
                        drop(inside);
                        lock(&self.core).node.handle(Input::Marked(page))?;
                        return Ok(at);
                    }
                    Step::Claim(claim) => {
                        drop(core);
                        let brings = within::brings(Pages::one(claim.page).into());
                        let home = context.claims.ask(&*context.endpoint, claim);
                        drop(brings);
                        core = lock(&self.core);
                        core.node.handle(claim.answered(&home))?;
                        home?;
                    }
                    Step::Wait(page) => core = self.wait_for(core, page, &mut turn),
                    Step::Denied(page) => {
                        return Err(Error::Argument(format!("page {page} is not allocated any more")));
                    }
                    Step::Next | Step::Get(..) | Step::Done(_) | Step::Stage | Step::Committed(_) => {}
                }
            }
        }
    }
}

/// Whether an operation may leave the word other than it was.
fn changes(op: Atomic) -> bool {
    !matches!(op, Atomic::U32(Rmw::Load) | Atomic::U64(Rmw::Load))
}
