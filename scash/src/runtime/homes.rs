//! What a rank has written goes to the homes of its pages, and what these have comes, before the next memory
//! barrier.

use super::core::Core;
use super::{Runtime, lock, within};
use crate::error::{Error, Result};
use scash_proto::Pages;
use scash_proto::interpreter::Step;
use scash_proto::node::Input;

impl Runtime {
    /// Brings this rank's changes of the range to the homes of its pages now, before the next memory barrier.
    pub fn write_back(&self, address: *const u8, len: usize) -> Result<()> {
        let pages = self.pages(address, len)?;
        self.guarded(|| {
            let mut core = lock(&self.core);
            refuse_in_meetings(&core)?;
            core.node.handle(Input::WriteBack(pages))?;
            while let Some(order) = core.node.poll_output() {
                core.execute(&self.context, order)?;
            }
            let homes = core.unfenced();
            drop(core);
            let _inside = within::enter(&*self.context.endpoint);
            homes.into_iter().try_for_each(|to| Ok(self.context.endpoint.fence(to.0)?))
        })
    }

    /// Brings the cached pages of the range up to what their homes hold now; what this rank wrote in them
    /// stays.
    pub fn read_home(&self, address: *const u8, len: usize) -> Result<()> {
        let pages = self.pages(address, len)?;
        self.guarded(|| self.read_pages_home(pages))
    }

    fn read_pages_home(&self, mut pages: Pages) -> Result<()> {
        let (mut core, mut turn) = (lock(&self.core), 0);
        loop {
            refuse_in_meetings(&core)?;
            core.node.handle(Input::ReadHome(pages))?;
            let mut awaited = None;
            while let Some(order) = core.node.poll_output() {
                if let Step::Wait(page) = core.execute(&self.context, order)? {
                    awaited = Some(page);
                }
            }
            let Some(page) = awaited else { return Ok(()) };
            // What is waited for may never come.
            if let Some(error) = self.broken.why() {
                return Err(error);
            }
            core = self.wait_for(core, page, &mut turn);
            pages = pages.rest_from(page);
        }
    }
}

/// An error while another thread of this rank is in a collective call. By a memory barrier it has said what
/// it has written, and what it wants: others may have gone on from that.
pub(super) fn refuse_in_meetings(core: &Core) -> Result<()> {
    if !core.node.in_collective_call() {
        return Ok(());
    }
    Err(Error::Argument(
        "pages are written back, read from home, or get another protocol while another thread of this rank is in a \
         collective call: let that return first"
            .to_owned(),
    ))
}
