//! What every rank but a host's lead does about its lead: a thread waits for the end of the lead's process,
//! and tells this one.

use super::{GRACE, HEARING, SharedSpace, lock, say, start_thread};
use crate::boot::RankState;
use crate::boot::page::PageWriter;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use scash_comm::Result;
use std::os::fd::{AsFd, OwnedFd};

/// Begins to watch the process of `lead`. A rank that reads the job page finds its end there. The launcher is
/// asked to end the job if this process goes on in spite of it.
pub(super) fn begin(process: OwnedFd, lead: u32, page: PageWriter, space: SharedSpace) -> Result<()> {
    start_thread(move || {
        while poll(&mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE) != Ok(1) {}
        if page.state(lead) != RankState::Running {
            return; // it was done
        }
        page.mark(lead, RankState::Gone);
        std::thread::sleep(GRACE);
        say(format_args!(
            "rank {lead} has ended without calling dsm_finalize or scomm_finalize; ending the job"
        ));
        std::thread::sleep(HEARING);
        lock(&space).abort();
    })
    .map(drop)
}
