//! Children that the rank forks, and shared memory: they have none of it (both views are left out of them,
//! see `region`), so to touch it is a segmentation fault there. This says why, and leaves the rest to whoever
//! takes such faults: the child dies, and nobody else.

use nix::unistd::getpid;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::handler::{default_action, empty_mask};
use crate::fault::line::Line;

/// Where the application view is in the parent, and the parent's rank.
static START: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
static RANK: AtomicUsize = AtomicUsize::new(0);

/// Who takes segmentation faults of the child but for us.
struct Previous(UnsafeCell<Option<libc::sigaction>>);

// SAFETY: written in `born` only, when the process has one thread and no fault was taken yet; read in
// handlers afterwards.
unsafe impl Sync for Previous {}

static PREVIOUS: Previous = Previous(UnsafeCell::new(None));

/// From now on, children that are forked say so when they touch these addresses.
pub(crate) fn watch(app: Range<usize>, rank: u32) {
    static ASKED: Once = Once::new();
    START.store(app.start, Ordering::Relaxed);
    END.store(app.end, Ordering::Relaxed);
    RANK.store(rank as usize, Ordering::Relaxed);
    ASKED.call_once(|| {
        // It fails for want of memory only: then a child dies without a word.
        // SAFETY: `born` makes calls that a child of a process with threads may make, and lives as long as
        // the program.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(born)) };
    });
}

/// Called in a child when it is made.
extern "C" fn born() {
    let mut before = default_action();
    // SAFETY: asks for the action; `before` is a place for it.
    unsafe { libc::sigaction(libc::SIGSEGV, ptr::null(), &raw mut before) };
    let ours = on_touch as *const () as usize;
    // A child's child has it already.
    if before.sa_sigaction == ours {
        return;
    }
    // SAFETY: see `Previous`.
    unsafe { PREVIOUS.0.get().write(Some(before)) };
    // ONSTACK: where the child overflows its stack, whoever takes that from here has an alternate one.
    let action = libc::sigaction {
        sa_sigaction: ours,
        sa_mask: empty_mask(),
        sa_flags: libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK,
        sa_restorer: None,
    };
    // SAFETY: sets the action of this process; the function lives as long as the program.
    unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut()) };
}

/// Entered by the kernel only, in a child.
extern "C" fn on_touch(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gave it for the duration of this call, and nobody writes to it.
    let told = unsafe { &*info };
    let by_instruction = told.si_code > 0;
    // SAFETY: where there is no address, `by_instruction` keeps what is in its place from being used.
    let at = unsafe { told.si_addr() } as usize;
    if by_instruction && (START.load(Ordering::Relaxed)..END.load(Ordering::Relaxed)).contains(&at) {
        tell(at);
    }
    // SAFETY: see `Previous`.
    let previous = unsafe { *PREVIOUS.0.get() }.unwrap_or_else(default_action);
    // SAFETY: puts back the action that was there before ours. The instruction runs again after the return,
    // and faults under that one.
    unsafe { libc::sigaction(libc::SIGSEGV, &raw const previous, ptr::null_mut()) };
    if !by_instruction {
        super::handler::send_again(signal, info);
    }
}

fn tell(at: usize) {
    Line::new()
        .words("process ")
        .number(usize::try_from(getpid().as_raw()).unwrap_or(0))
        .words(", a child that rank ")
        .number(RANK.load(Ordering::Relaxed))
        .words(" has forked, touched ")
        .address(at)
        .words(", shared memory, which children do not have: let them compute on copies that were made before, or call exec")
        .tell();
}
