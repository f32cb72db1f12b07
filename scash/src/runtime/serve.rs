//! Serving a fault, in the thread that took it.
//!
//! fault → page table → protocol → (fetch) → access given → return. Nothing here allocates on its way to
//! success.

use crate::error::{Error, Result};
use crate::fault::line::Line;
use crate::fault::{self, Verdict};
use crate::runtime::{Runtime, current, lock, within};
use scash_comm::say::say;
use scash_ft::inject::Point;
use scash_proto::Access;
use scash_proto::Pages;
use scash_proto::interpreter::Step;
use scash_proto::node::Input;
use std::sync::atomic::Ordering;

/// Exit status of a rank that cannot go on in the middle of an access to shared memory (`EX_IOERR`).
const EXIT_LOST: i32 = 74;

/// What the signal handler calls.
pub(crate) fn fault(page: u32, addr: usize, access: fault::Access, pc: usize) -> Verdict {
    let Some(runtime) = current() else { return Verdict::NotOurs };
    if runtime.is_finalized() {
        return deny(
            runtime,
            page,
            addr,
            "which was shared memory until dsm_finalize: copy what is needed later",
        );
    }
    runtime.faults.fetch_add(1, Ordering::Relaxed);
    let want = match access {
        fault::Access::Read => Access::Read,
        fault::Access::Write => Access::Write,
    };
    match serve(runtime, page, want, pc) {
        Ok(Verdict::Served) => Verdict::Served,
        Ok(Verdict::NotOurs) => deny(
            runtime,
            page,
            addr,
            "which is in the region of shared memory but not allocated (freed, or past the end?)",
        ),
        Err(e) => {
            if matches!(e, Error::Lost { .. }) {
                runtime.await_restart();
            }
            // The access can neither be completed nor fail: the rank ends here.
            let e = runtime.let_the_dead_be_noticed(e);
            let rank = runtime.rank();
            say(format!("scash: rank {rank}: access to shared memory at {addr:#x}: {e}\n"));
            runtime.tell_cuts(false);
            // SAFETY: ends the process at once, running no code of the program.
            unsafe { libc::_exit(EXIT_LOST) }
        }
    }
}

/// The program touched what it does not have: says so, and sees to it that the access raises SIGSEGV, under
/// every engine.
fn deny(runtime: &Runtime, page: u32, addr: usize, why: &str) -> Verdict {
    report_bad_access(runtime.rank(), addr, why);
    let core = lock(&runtime.core);
    if !runtime.is_finalized() && core.node.allocation(page).is_some() {
        // At this very moment another thread allocates it: then it is not to be closed.
        return Verdict::Served;
    }
    match runtime.context.engine.refuse(page) {
        Ok(true) => Verdict::Served,
        // The signal is a SIGSEGV already, or can only be the engine's own.
        Ok(false) | Err(_) => Verdict::NotOurs,
    }
}

/// Gives `want` access to a page of shared memory, to the instruction at `pc`; 0: to no instruction.
pub(crate) fn serve(runtime: &Runtime, page: u32, want: Access, pc: usize) -> Result<Verdict> {
    let context = &runtime.context;
    let mut core = lock(&runtime.core);
    if core.node.access(page) >= want {
        // Another thread was faster, or the system had taken the page out of memory. Under the lock, lest a
        // barrier takes the page meanwhile.
        context.restore(page, core.node.access(page))?;
        return Ok(Verdict::Served);
    }
    if want == Access::Write
        && let Some((search, node)) = core.search()
    {
        search.wants_to_write(node, page, pc);
    }
    let mut turn = 0;
    while core.node.access(page) < want {
        core.node.handle(Input::Fault { page, want })?;
        while let Some(order) = core.node.poll_output() {
            match core.execute_now(context, order)? {
                // No fault orders an operation, nor what ends a barrier.
                Step::Next | Step::Done(_) | Step::Operate(_) | Step::Stage | Step::Committed(_) => {}
                Step::Denied(_) => return Ok(Verdict::NotOurs),
                Step::Get(from, pages) => {
                    drop(core);
                    let brings = within::brings(pages);
                    let got = context.fetch(from, pages);
                    drop(brings);
                    core = lock(&runtime.core);
                    let failed = got.is_err();
                    core.node.handle(if failed {
                        Input::FetchFailed(pages)
                    } else {
                        Input::Fetched(pages)
                    })?;
                    got?;
                    runtime.passes(Point::Fetch);
                }
                Step::Claim(claim) => {
                    drop(core);
                    let brings = within::brings(Pages::one(claim.page).into());
                    let home = context.claims.ask(&*context.endpoint, claim);
                    drop(brings);
                    core = lock(&runtime.core);
                    core.node.handle(claim.answered(&home))?;
                    home?;
                }
                Step::Wait(page) => {
                    // What is waited for may never come.
                    if let Some(error) = runtime.broken.why() {
                        return Err(error);
                    }
                    core = runtime.wait_for(core, page, &mut turn);
                }
            }
        }
    }
    Ok(Verdict::Served)
}

/// Says which address the program touched that it may not.
fn report_bad_access(rank: u32, addr: usize, why: &str) {
    let line = Line::new().words("rank ").number(rank as usize).words(": access to ").address(addr);
    line.words(", ").words(why).tell();
}
