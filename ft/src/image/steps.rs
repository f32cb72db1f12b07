//! The plan by which a process becomes another one: steps in scratch memory, carried out by code that uses no
//! memory but this, its stack there, and its own instructions.

use super::area;
use super::context;
use super::kernel;
use super::thread::{self, Thread};
use crate::store::{Entry, PAGE};
use std::ffi::c_void;

/// Status of a process that cannot go on from its image, and has said why (`EX_CONFIG`).
pub const REFUSED: i32 = 78;

/// One system call.
#[derive(Clone, Copy)]
#[repr(C)]
struct RestoreStep {
    number: i64,
    arguments: [usize; 6],
    /// Whether the plan ends if it fails.
    must: usize,
}

/// What a process does to become another one. Lies in scratch memory.
#[repr(C)]
struct RestorePlan {
    /// Steps before pages are copied, and all steps.
    before: usize,
    all: usize,
    entries: *const Entry,
    private: usize,
    /// Where slot 0 is.
    slots: *const u8,
    threads: Threads,
}

/// Threads of the image, one behind the other. Which of them the process begins with.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Threads {
    pub(super) first: *const Thread,
    pub(super) count: usize,
    pub(super) leader: usize,
}

const FIRST: usize = size_of::<RestorePlan>().next_multiple_of(64);

/// Writes a plan.
pub(super) struct Planner {
    plan: *mut RestorePlan,
    steps: *mut RestoreStep,
    most: usize,
    count: usize,
}

/// There is no room for a plan with so many steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooLong;

/// Pages to be copied, and where they go.
pub(super) struct PageCopies {
    pub(super) entries: *const Entry,
    pub(super) private: usize,
    pub(super) slots: *const u8,
}

impl Planner {
    /// The scratch memory must be mapped.
    pub(super) fn new() -> Planner {
        let (at, room) = area::part(area::STEPS);
        let most = (room - FIRST) / size_of::<RestoreStep>();
        Planner { plan: at.cast(), steps: at.wrapping_add(FIRST).cast(), most, count: 0 }
    }

    /// A system call that must succeed.
    pub(super) fn must(&mut self, number: i64, arguments: [usize; 6]) -> Result<(), TooLong> {
        self.add(RestoreStep { number, arguments, must: 1 })
    }

    /// A system call that may fail.
    pub(super) fn may(&mut self, number: i64, arguments: [usize; 6]) -> Result<(), TooLong> {
        self.add(RestoreStep { number, arguments, must: 0 })
    }

    fn add(&mut self, step: RestoreStep) -> Result<(), TooLong> {
        if self.count == self.most {
            return Err(TooLong);
        }
        // SAFETY: there is room for `most` steps in the scratch memory.
        unsafe { self.steps.wrapping_add(self.count).write(step) };
        self.count += 1;
        Ok(())
    }

    /// Steps so far.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Carries the plan out, with pages copied after the first `before` steps, and goes on as `thread`.
    ///
    /// # Safety
    /// The plan makes of this process the one that the pages and `thread` were saved from. Everything that it
    /// points to lies in memory that the plan leaves as it is. This is the only thread.
    pub(super) unsafe fn carry_out(self, before: usize, copies: &PageCopies, threads: Threads) -> ! {
        let PageCopies { entries, private, slots } = *copies;
        let plan = RestorePlan { before, all: self.count, entries, private, slots, threads };
        // SAFETY: the plan's place in scratch memory is aligned and free.
        unsafe { self.plan.write(plan) };
        let (stack, len) = area::part(area::STACK);
        // SAFETY: the scratch stack is memory of ours, and `carry_out` takes a plan.
        unsafe { context::switch(stack.wrapping_add(len), carry_out, self.plan.cast()) }
    }
}

#[allow(clippy::multiple_unsafe_ops_per_block, reason = "one promise of the caller for all of it")]
extern "C" fn carry_out(plan: *mut c_void) -> ! {
    let plan: *const RestorePlan = plan.cast_const().cast();
    let steps: *const RestoreStep = plan.cast::<u8>().wrapping_add(FIRST).cast();
    // SAFETY: `Planner::carry_out` has written the plan, and its caller promises the rest. No function is
    // called from here on but those that are part of this one: the pages of other functions' data come and
    // go.
    unsafe {
        let (before, all) = ((*plan).before, (*plan).all);
        let mut i = 0;
        while i < before {
            make(steps.wrapping_add(i));
            i += 1;
        }
        let (mut entry, mut left) = ((*plan).entries, (*plan).private);
        while left > 0 {
            let pages = run(entry, left);
            let to = (&raw const (*entry).key).cast::<u64>().read() as usize * PAGE;
            let from = (*plan).slots.wrapping_add((*entry).slot as usize * PAGE);
            if pages >= FEW {
                // At once, instead of a fault for each. What the system cannot do now, it does then.
                let read = [from.expose_provenance(), pages * PAGE, POPULATE_READ, 0, 0, 0];
                kernel::raw(libc::SYS_madvise, read);
                kernel::raw(libc::SYS_madvise, [to, pages * PAGE, POPULATE_WRITE, 0, 0, 0]);
            }
            kernel::copy(from, std::ptr::with_exposed_provenance_mut(to), pages * PAGE);
            entry = entry.wrapping_add(pages);
            left -= pages;
        }
        while i < all {
            make(steps.wrapping_add(i));
            i += 1;
        }
        let Threads { first, count, leader } = (&raw const (*plan).threads).read();
        let (stacks, _) = area::part(area::STACKS);
        let mut number = 0;
        while number < count {
            if number != leader {
                // Its end: the one that is here already needs none.
                let others = number - (number > leader) as usize;
                let stack = stacks.wrapping_add((others + 1) * A_STACK);
                let thread = first.wrapping_add(number).cast_mut().cast();
                if context::start(stack, go_on, thread) < 0 {
                    fail();
                }
            }
            number += 1;
        }
        go_on(first.wrapping_add(leader).cast_mut().cast())
    }
}

/// Fewer pages are left to faults.
const FEW: usize = 8;
const POPULATE_READ: usize = kernel::bits(libc::MADV_POPULATE_READ);
const POPULATE_WRITE: usize = kernel::bits(libc::MADV_POPULATE_WRITE);
/// Most pages that are copied at once: as many as caches hold.
const MOST_AT_ONCE: usize = 64;

/// How many entries from this one on are of pages, and slots, that lie one behind the other.
///
/// # Safety
/// There are `left` entries.
#[allow(clippy::multiple_unsafe_ops_per_block, reason = "one promise of the caller for all of it")]
#[inline(always)]
unsafe fn run(entry: *const Entry, left: usize) -> usize {
    // SAFETY: as the caller promises.
    unsafe {
        let key = (&raw const (*entry).key).cast::<u64>().read();
        let slot = (&raw const (*entry).slot).read();
        let mut pages = 1;
        while pages < left && pages < MOST_AT_ONCE {
            let next = entry.wrapping_add(pages);
            let follows = (&raw const (*next).key).cast::<u64>().read() == key + pages as u64
                && (&raw const (*next).slot).read() == slot + pages as u32;
            if !follows {
                break;
            }
            pages += 1;
        }
        pages
    }
}

/// Bytes of the stack that a thread has until it has its own again.
const A_STACK: usize = 32 << 10;
const _: () = assert!(super::threads::MOST * A_STACK <= area::STACKS.end - area::STACKS.start);

/// Makes the calling thread the one that was saved.
#[allow(clippy::multiple_unsafe_ops_per_block, reason = "one promise of the caller for all of it")]
extern "C" fn go_on(thread: *mut c_void) -> ! {
    let thread: *const Thread = thread.cast_const().cast();
    // SAFETY: `carry_out` has given the record of a thread whose memory is there again.
    unsafe {
        Thread::put_on(thread);
        match thread::frame_of(thread) {
            0 => context::resume(thread::context_of(thread)),
            frame => context::return_from_handler(std::ptr::with_exposed_provenance_mut(frame as usize)),
        }
    }
}

/// Makes a step's call; if it must not fail and does, ends the process with a line.
///
/// # Safety
/// As for [`carry_out`].
#[allow(clippy::multiple_unsafe_ops_per_block, reason = "one promise of the caller for all of it")]
#[inline(always)]
unsafe fn make(step: *const RestoreStep) {
    // SAFETY: as the caller promises.
    unsafe {
        let result = kernel::raw((*step).number, (&raw const (*step).arguments).read());
        if (*step).must != 0 && (-4095..0).contains(&result) {
            fail();
        }
    }
}

/// Ends the process, of which nobody knows what it is.
fn fail() {
    const WHY: &[u8] = b"scash: this process cannot become what was saved: a step of the plan failed\n";
    let write = [2, WHY.as_ptr().expose_provenance(), WHY.len(), 0, 0, 0];
    // SAFETY: the bytes are there.
    let _ = unsafe { kernel::raw(libc::SYS_write, write) };
    // SAFETY: ends the process.
    let _ = unsafe { kernel::raw(libc::SYS_exit_group, [REFUSED as usize, 0, 0, 0, 0, 0]) };
}
