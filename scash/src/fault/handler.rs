//! The signal handler decides nothing. It looks at the address, hands the fault to the one function that was
//! registered, and goes; whatever is not addressed to the region is passed on as if we were not there.
//!
//! How a fault travels: the access traps → the kernel finds that the view does not allow it → signal, in the
//! faulting thread, with the address → [`on_fault`] → [`Serve`] → return, and the instruction runs again.
//!
//! The flags of the action, and why:
//! - `SA_SIGINFO`: the address and the machine context are what it is about.
//! - no `SA_ONSTACK`: serving a fault runs the protocol and may wait for another host. That needs a stack of
//!   ordinary size; alternate stacks are made for a last message (8–12 KiB in a Rust thread, of which the
//!   frame takes 3–11 KiB), and belong to the program. The price: a thread that overflows its stack under the
//!   `mprotect` engine dies of SIGSEGV without the previous handler's message, because there is no stack to
//!   run it on. Under `uffd` SIGSEGV is not ours.
//! - `SA_NODEFER`: a fault inside the handler is a bug (it may not touch the application view). With the
//!   signal blocked the kernel would drop every handler and kill; this way the nested fault is passed on like
//!   any foreign one, so the program's crash reporter sees the address of the bug.
//! - `SA_RESTART`: someone may send us the signal by `kill`; that should not make a system call of the
//!   program fail.
//! - mask: everything but the signals that an instruction can raise. A handler of the program (a timer's,
//!   say) may touch shared memory. Were it to run while this thread serves a fault, it could fault on a page
//!   that this very thread has locked, and wait for itself. So it runs after the fault is served.
//!
//! **Invariant:** no allocation, no lock, no formatting; only async-signal-safe calls. What [`Serve`] does is
//! its author's business.
//!
//! **Invariant:** `errno` is the program's: it is the same after the handler as before.

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{getpid, gettid};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use super::{Access, EngineError, EngineKind, PAGE, Region, arch};

/// What became of a fault in the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The access will succeed, or fault again for another reason: run the instruction again.
    Served,
    /// There is nothing at this address that the program may use: treat it as if the region were not there.
    NotOurs,
}

/// Serves a fault, in the thread that took it: page, exact address, what was tried, and the address of the
/// instruction (0 if that is not known). The interrupted code may be anywhere in the program (inside
/// `malloc`, with its lock held), so: no lock that program code can hold, and no access to the application
/// view.
///
/// A fault may come for a page that gives this access already: another thread was faster, or the system took
/// the page out of the view to reclaim its memory (swap). Such a page must be mapped again, or the
/// instruction faults for ever.
pub type Serve = fn(page: u32, addr: usize, access: Access, pc: usize) -> Verdict;

/// `si_code` of a SIGSEGV whose address is mapped but does not allow the access.
const SEGV_ACCERR: i32 = 2;

/// Signals that the kernel raises because of the running instruction. Blocked, they would kill without a
/// word.
const SYNCHRONOUS: [Signal; 7] = [
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGILL,
    Signal::SIGFPE,
    Signal::SIGTRAP,
    Signal::SIGSYS,
    Signal::SIGABRT,
];

/// What the handler needs to know. Never freed: a thread may be in the handler whenever it is replaced.
struct Post {
    app: Range<usize>,
    signal: i32,
    /// The `si_code` that a fault of the engine has; others (a broken memory module, `kill`) are foreign.
    code: i32,
    serve: Serve,
    state: AtomicU8,
    previous: libc::sigaction,
    /// The previous action was for one use (`SA_RESETHAND`), and was used.
    previous_spent: AtomicBool,
}

// `Post::state`: SERVING → REMOVED or REPLACED, once, by the drop of its `Handler`.
/// Faults in the region are served.
const SERVING: u8 = 0;
/// The previous action is back in place.
const REMOVED: u8 = 1;
/// Someone installed another action over ours and may call ours: we stay, and pass everything on.
const REPLACED: u8 = 2;

/// Null until the first [`install`].
static POST: AtomicPtr<Post> = AtomicPtr::new(ptr::null_mut());

/// Faults in the region go to their function as long as this lives.
#[derive(Debug)]
#[must_use = "faults are served as long as the handler lives"]
pub struct Handler {
    post: &'static Post,
}

impl std::fmt::Debug for Post {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Post").field("app", &self.app).field("signal", &self.signal).finish_non_exhaustive()
    }
}

/// Sends the faults of `region`'s application view to `serve`. `kind` is the engine that raises them. One
/// region a process: a second call is refused until the first handler is dropped.
///
/// # Safety
/// `serve` is called in a signal handler, at any instruction that touches the application view: it keeps to
/// what [`Serve`] says (no lock that program code can hold, no access to the view). The view's addresses stay
/// `region`'s as long as the handler lives.
pub unsafe fn install(region: &Region, kind: EngineKind, serve: Serve) -> Result<Handler, EngineError> {
    let old = POST.load(Ordering::Acquire);
    // SAFETY: a post is never freed.
    match unsafe { old.as_ref() }.map(|old| old.state.load(Ordering::Acquire)) {
        None | Some(REMOVED) => {}
        Some(REPLACED) => return Err(refused("another handler was installed over an earlier one of ours")),
        Some(_) => return Err(refused("one region a process, and it has one")),
    }
    let signal = kind.signal();
    let post = Box::into_raw(Box::new(Post {
        app: region.app_range(),
        signal,
        code: if signal == libc::SIGBUS { libc::BUS_ADRERR } else { SEGV_ACCERR },
        serve,
        state: AtomicU8::new(SERVING),
        previous: exchange_action(signal, None)?,
        previous_spent: AtomicBool::new(false),
    }));
    // In place before the action that reads it: a foreign fault may come at any time.
    if POST.compare_exchange(old, post, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: the box made above, which nobody else has seen.
        drop(unsafe { Box::from_raw(post) });
        return Err(refused("another thread installs one at this moment"));
    }
    // SAFETY: made above, and never freed once it was published.
    let handler = Handler { post: unsafe { &*post } };
    exchange_action(signal, Some(&our_action()))?;
    Ok(handler)
}

impl Drop for Handler {
    fn drop(&mut self) {
        let Post { signal, previous, state, .. } = self.post;
        let ours = exchange_action(*signal, None)
            .is_ok_and(|now| now.sa_sigaction == on_fault as *const () as usize);
        let restored = ours && exchange_action(*signal, Some(previous)).is_ok();
        state.store(if restored { REMOVED } else { REPLACED }, Ordering::Release);
    }
}

fn refused(why: &'static str) -> EngineError {
    EngineError::invalid("install the fault handler", why)
}

fn our_action() -> libc::sigaction {
    let mut mask = SigSet::all();
    SYNCHRONOUS.into_iter().for_each(|signal| mask.remove(signal));
    libc::sigaction {
        sa_sigaction: on_fault as *const () as usize,
        sa_mask: *mask.as_ref(),
        sa_flags: libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_RESTART,
        sa_restorer: None,
    }
}

/// Sets a signal's action, if one is given, and returns the one before.
fn exchange_action(signal: i32, new: Option<&libc::sigaction>) -> Result<libc::sigaction, EngineError> {
    let mut old = default_action();
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `new` is null or an action: ours, whose function lives as long as the program, or one that was
    // in place before; `old` is a place for an action.
    if unsafe { libc::sigaction(signal, new, &raw mut old) } == 0 {
        return Ok(old);
    }
    Err(EngineError::last(format!("set the action of signal {signal}")))
}

pub(super) fn default_action() -> libc::sigaction {
    libc::sigaction { sa_sigaction: libc::SIG_DFL, sa_mask: empty_mask(), sa_flags: 0, sa_restorer: None }
}

pub(super) fn empty_mask() -> libc::sigset_t {
    *SigSet::empty().as_ref()
}

/// Entered by the kernel only.
extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: asks where the calling thread's errno is.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: `place` is the calling thread's own, as long as it lives.
    let errno = unsafe { place.read() };
    // SAFETY: `install` published a post before it set this action, and posts are never freed.
    let post = unsafe { &*POST.load(Ordering::Acquire) };
    if post.signal != signal {
        return; // Entered just before our action was taken away: the instruction faults again, under its successor.
    }
    let served = serve(post, info, context.cast()) == Verdict::Served;
    // SAFETY: as above. Before the previous handler runs, too: to it, we are not there.
    unsafe { place.write(errno) };
    if !served {
        pass_on(post, info, context);
        // SAFETY: as above.
        unsafe { place.write(errno) };
    }
}

/// Is it a data access, to the region, that the engine refused? Then to whom it belongs.
fn serve(post: &Post, info: *const libc::siginfo_t, context: *const libc::ucontext_t) -> Verdict {
    // SAFETY: the kernel gave it to `on_fault` for the duration of its call (SA_SIGINFO), and nobody writes
    // to it.
    let info = unsafe { &*info };
    // SAFETY: as above.
    let context = unsafe { &*context };
    // SAFETY: these signals have an address; one that was sent by `kill` has other bytes in its place, which
    // the check of the code keeps us from using.
    let addr = unsafe { info.si_addr() } as usize;
    if info.si_code != post.code || !post.app.contains(&addr) || post.state.load(Ordering::Acquire) != SERVING
    {
        return Verdict::NotOurs;
    }
    let page = u32::try_from((addr - post.app.start) / PAGE);
    match (page, arch::access(context)) {
        (Ok(page), Some(access)) => (post.serve)(page, addr, access, arch::instruction(context)),
        _ => Verdict::NotOurs,
    }
}

/// Does what would have been done without us.
fn pass_on(post: &Post, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gave it to `on_fault`, which we are called by.
    let by_instruction = unsafe { (*info).si_code } > 0;
    let previous = &post.previous;
    let spent =
        previous.sa_flags & libc::SA_RESETHAND != 0 && post.previous_spent.swap(true, Ordering::AcqRel);
    match previous.sa_sigaction {
        // Ignoring works for signals that were sent; the kernel takes no notice of it for its own.
        libc::SIG_IGN if !by_instruction => {}
        libc::SIG_DFL | libc::SIG_IGN => die(post.signal, info, by_instruction),
        _ if spent => die(post.signal, info, by_instruction),
        _ => call_previous(post, info, context),
    }
}

/// The default action: a core, and death by this signal. Not done here: the instruction runs again after the
/// return and faults under the default action, so that the core shows it, its registers and its address.
fn die(signal: i32, info: *mut libc::siginfo_t, by_instruction: bool) {
    let default = default_action();
    // SAFETY: sets the default; we are only called where that is what the program had asked for.
    unsafe { libc::sigaction(signal, &raw const default, ptr::null_mut()) };
    if !by_instruction {
        send_again(signal, info);
    }
}

/// For a signal that no instruction will raise again: the same one, with its sender, to this thread.
pub(super) fn send_again(signal: i32, info: *mut libc::siginfo_t) {
    let (process, thread) = (getpid().as_raw(), gettid().as_raw());
    // SAFETY: sends a signal to the calling thread; `info` is what the kernel gave to a handler.
    unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info) };
}

/// Calls the previous handler as the kernel would have: with its arguments, and under its mask.
fn call_previous(post: &Post, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let previous = &post.previous;
    let mask = previous_mask(post, context.cast());
    // SAFETY: sets the calling thread's mask; returning from `on_fault` restores the one of the interrupted
    // code.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, ptr::null_mut()) };
    if previous.sa_flags & libc::SA_SIGINFO != 0 {
        type Action = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
        // SAFETY: neither SIG_DFL nor SIG_IGN (checked by `pass_on`), so whoever set it vouched for this
        // type.
        let action: Action = unsafe { std::mem::transmute(previous.sa_sigaction) };
        action(post.signal, info, context);
    } else {
        // SAFETY: as above; without SA_SIGINFO it takes the signal only.
        let action: extern "C" fn(i32) = unsafe { std::mem::transmute(previous.sa_sigaction) };
        action(post.signal);
    }
}

/// What the previous action would block: what the interrupted code did, its own mask, and its own signal.
fn previous_mask(post: &Post, context: *const libc::ucontext_t) -> libc::sigset_t {
    // SAFETY: the kernel gave it to `on_fault` for the duration of its call, and nobody writes to it.
    let interrupted = unsafe { &(*context).uc_sigmask };
    let mut mask = post.previous.sa_mask;
    let word = signals(&mask) | signals(interrupted);
    // SAFETY: `signals` asserts that a signal set is at least this long.
    unsafe { (&raw mut mask).cast::<u64>().write_unaligned(word) };
    if post.previous.sa_flags & libc::SA_NODEFER == 0 {
        // SAFETY: `mask` is a signal set and `signal` a signal.
        unsafe { libc::sigaddset(&raw mut mask, post.signal) };
    }
    mask
}

/// The 64 signals that the kernel knows: all of its own type, and the start of the C library's longer one.
fn signals(set: &libc::sigset_t) -> u64 {
    const { assert!(size_of::<libc::sigset_t>() >= size_of::<u64>()) };
    // SAFETY: long enough, as just said.
    unsafe { ptr::from_ref(set).cast::<u64>().read_unaligned() }
}
