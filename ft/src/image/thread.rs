//! What the kernel knows of a thread, and the thread's own memory does not say.

use super::context::SavedContext;
use super::description::Record;
use super::kernel::{self, SyscallFailure};
use std::sync::atomic::{AtomicI64, Ordering};

const ARCH_SET_FS: usize = 0x1002;
const ARCH_GET_FS: usize = 0x1003;
const RSEQ_UNREGISTER: usize = 1;
/// What glibc registers restartable sequences with on x86-64.
const RSEQ_SIGNATURE: usize = 0x5305_3053;
/// Bytes of the kernel's set of signals.
pub(super) const SIGNALS: usize = 8;
/// Bytes of the head of a list of robust mutexes.
const ROBUST_HEAD: usize = 24;

/// A thread of an image.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Thread {
    /// Where its local storage is.
    fs: u64,
    /// The word that becomes zero when it ends: in glibc, that of its number.
    tid_address: u64,
    robust_list: u64,
    /// Address and bytes of the area for restartable sequences; 0: none.
    rseq: [u64; 2],
    /// The alternate signal stack as the kernel has it: address, flags, bytes.
    alternate: [u64; 3],
    mask: u64,
    /// Where it goes on, if it took the image.
    context: [u64; 2],
    /// What the kernel has put on its stack for a handler, if it was stopped in one; 0 if it took the image.
    frame: u64,
    name: [u64; 2],
}

// SAFETY: it consists of 64-bit words.
unsafe impl Record for Thread {}

impl Thread {
    /// Finds out what handlers cannot.
    pub(super) fn learn() {
        let [offset, len] = rseq_offset();
        RSEQ_OFFSET.store(offset, Ordering::Relaxed);
        RSEQ_LEN.store(len, Ordering::Relaxed);
    }

    /// The calling thread.
    pub(super) fn current() -> Result<Thread, SyscallFailure> {
        Thread::learn();
        Thread::in_handler(0)
    }

    /// The calling thread, which is in the handler of a signal for which the kernel has put `frame` on its
    /// stack.
    pub(super) fn in_handler(frame: u64) -> Result<Thread, SyscallFailure> {
        let mut thread = Thread { frame, ..Thread::default() };
        let name = (&raw mut thread.name).expose_provenance();
        let mut head_len = 0u64;
        let fs = (&raw mut thread.fs).expose_provenance();
        let tid_address = (&raw mut thread.tid_address).expose_provenance();
        let robust = (&raw mut thread.robust_list).expose_provenance();
        let head_len = (&raw mut head_len).expose_provenance();
        let alternate = (&raw mut thread.alternate).expose_provenance();
        let mask = (&raw mut thread.mask).expose_provenance();
        let calls = [
            (libc::SYS_arch_prctl, [ARCH_GET_FS, fs, 0, 0, 0, 0]),
            (libc::SYS_prctl, [kernel::bits(libc::PR_GET_TID_ADDRESS), tid_address, 0, 0, 0, 0]),
            (libc::SYS_get_robust_list, [0, robust, head_len, 0, 0, 0]),
            (libc::SYS_sigaltstack, [0, alternate, 0, 0, 0, 0]),
            (libc::SYS_rt_sigprocmask, [0, 0, mask, SIGNALS, 0, 0]),
            (libc::SYS_prctl, [kernel::bits(libc::PR_GET_NAME), name, 0, 0, 0, 0]),
        ];
        for (number, arguments) in calls {
            // SAFETY: each call writes the field that it is given, which has the size that it writes.
            unsafe { kernel::call(number, arguments) }?;
        }
        thread.rseq = rseq_area(thread.fs);
        Ok(thread)
    }

    pub(super) fn set_context(&mut self, context: &SavedContext) {
        // As `SavedContext` lies in memory.
        self.context = [context.stack, u64::from(context.mxcsr) | u64::from(context.fcw) << 32];
    }

    /// Whether it has a robust mutex.
    ///
    /// # Safety
    /// The thread's list of them is where the kernel was told, and nobody changes it.
    pub(super) unsafe fn has_robust_mutex(&self) -> bool {
        let head: *const u64 = std::ptr::with_exposed_provenance(self.robust_list as usize);
        // SAFETY: as the caller promises. An empty list points to itself.
        !head.is_null() && unsafe { head.read() } & !1 != self.robust_list
    }

    /// Has the calling thread take no signals, and returns which it blocked before.
    #[inline(always)]
    pub(super) fn block_signals() -> u64 {
        Thread::set_signals(u64::MAX)
    }

    /// Has the calling thread block these signals, and returns which it blocked before.
    #[inline(always)]
    pub(super) fn set_signals(mask: u64) -> u64 {
        let mut before = 0u64;
        let [at, old] = [(&raw const mask).expose_provenance(), (&raw mut before).expose_provenance()];
        // SAFETY: the kernel reads and writes sets of these sizes.
        let _ = unsafe {
            kernel::raw(libc::SYS_rt_sigprocmask, [kernel::bits(libc::SIG_SETMASK), at, old, SIGNALS, 0, 0])
        };
        before
    }

    /// Tells the kernel of the calling thread, whose memory is this thread's now. `at` is where this record
    /// lies.
    ///
    /// # Safety
    /// The memory is that of the image. The record lies outside of it.
    #[allow(clippy::multiple_unsafe_ops_per_block, reason = "one promise of the caller for all of it")]
    #[inline(always)]
    pub(super) unsafe fn put_on(at: *const Thread) {
        // SAFETY: the caller's word for all of this function: the kernel is told what it knew of the thread
        // in the process that was saved, and each address belongs to the memory that is the same now.
        unsafe {
            let tid_address = (&raw const (*at).tid_address).read() as usize;
            let tid = kernel::raw(libc::SYS_set_tid_address, [tid_address, 0, 0, 0, 0, 0]);
            if cfg!(target_env = "gnu") && tid_address != 0 {
                std::ptr::with_exposed_provenance_mut::<i32>(tid_address).write(tid as i32);
            }
            let fs = (&raw const (*at).fs).read() as usize;
            kernel::raw(libc::SYS_arch_prctl, [ARCH_SET_FS, fs, 0, 0, 0, 0]);
            let robust = (&raw const (*at).robust_list).read() as usize;
            kernel::raw(libc::SYS_set_robust_list, [robust, ROBUST_HEAD, 0, 0, 0, 0]);
            let [area, len] = (&raw const (*at).rseq).read();
            if area != 0 {
                kernel::raw(libc::SYS_rseq, [area as usize, len as usize, 0, RSEQ_SIGNATURE, 0, 0]);
            }
            let alternate = (&raw const (*at).alternate).expose_provenance();
            kernel::raw(libc::SYS_sigaltstack, [alternate, 0, 0, 0, 0, 0]);
            let name = (&raw const (*at).name).expose_provenance();
            kernel::raw(libc::SYS_prctl, [kernel::bits(libc::PR_SET_NAME), name, 0, 0, 0, 0]);
            let mask = (&raw const (*at).mask).expose_provenance();
            let set = kernel::bits(libc::SIG_SETMASK);
            kernel::raw(libc::SYS_rt_sigprocmask, [set, mask, 0, SIGNALS, 0, 0]);
        }
    }
}

/// That this thread takes no signals, until it is dropped; and the thread as it was before.
#[derive(Debug)]
pub(super) struct Quiet {
    pub(super) thread: Thread,
}

impl Quiet {
    pub(super) fn now() -> Result<Quiet, SyscallFailure> {
        let thread = Thread::current()?;
        Thread::block_signals();
        Ok(Quiet { thread })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        Thread::set_signals(self.thread.mask);
    }
}

/// Where a thread goes on that took the image.
#[inline(always)]
pub(super) fn context_of(at: *const Thread) -> *const SavedContext {
    at.cast::<u8>().wrapping_add(std::mem::offset_of!(Thread, context)).cast()
}

/// Where the kernel has put what a thread needs that was stopped in a handler; 0 for one that took the image.
///
/// # Safety
/// It is the address of a thread.
#[inline(always)]
pub(super) unsafe fn frame_of(at: *const Thread) -> u64 {
    let frame: *const u64 = at.cast::<u8>().wrapping_add(std::mem::offset_of!(Thread, frame)).cast();
    // SAFETY: as the caller promises.
    unsafe { frame.read() }
}

/// Ends what the C library has registered for the calling thread: the kernel must not write there while the
/// memory is replaced.
pub(super) fn end_rseq() -> Result<(), SyscallFailure> {
    let [area, len] = Thread::current()?.rseq.map(|word| word as usize);
    if area != 0 {
        // SAFETY: the call ends a registration.
        let _ = unsafe { kernel::raw(libc::SYS_rseq, [area, len, RSEQ_UNREGISTER, RSEQ_SIGNATURE, 0, 0]) };
    }
    Ok(())
}

/// Where the C library has put a thread's area for restartable sequences, from the thread's local storage on,
/// and how long it is; 0 if there is none.
static RSEQ_OFFSET: AtomicI64 = AtomicI64::new(0);
static RSEQ_LEN: AtomicI64 = AtomicI64::new(0);

/// Address and length of the area of a thread.
fn rseq_area(fs: u64) -> [u64; 2] {
    let (offset, len) = (RSEQ_OFFSET.load(Ordering::Relaxed), RSEQ_LEN.load(Ordering::Relaxed));
    if len == 0 { [0; 2] } else { [fs.wrapping_add_signed(offset), len.cast_unsigned()] }
}

/// What glibc (2.35) says of these areas.
fn rseq_offset() -> [i64; 2] {
    // SAFETY: the names are C strings; the library exports them as two constants, or not at all.
    let [offset, size] = [c"__rseq_offset", c"__rseq_size"]
        .map(|name| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) });
    if offset.is_null() || size.is_null() {
        return [0; 2];
    }
    // SAFETY: `const ptrdiff_t __rseq_offset`.
    let offset = unsafe { offset.cast::<isize>().read() };
    // SAFETY: `const unsigned int __rseq_size`.
    let size = unsafe { size.cast::<u32>().read() };
    // The kernel wants the length that it was registered with: 32 bytes, whatever part of them is in use.
    if size == 0 { [0; 2] } else { [offset as i64, i64::from(size.max(32))] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::{SigHandler, Signal, raise, signal};
    use std::sync::atomic::AtomicU32;

    static CAUGHT: AtomicU32 = AtomicU32::new(0);

    extern "C" fn catch(_: i32) {
        CAUGHT.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn a_thread_that_is_quiet_takes_a_signal_afterwards() {
        // SAFETY: the handler adds to an atomic number.
        unsafe { signal(Signal::SIGUSR1, SigHandler::Handler(catch)) }.unwrap();
        let before = Thread::current().unwrap().mask;
        let quiet = Quiet::now().unwrap();
        assert_eq!(quiet.thread.mask, before, "an image has the mask that the program has set");
        raise(Signal::SIGUSR1).unwrap();
        assert_eq!(CAUGHT.load(Ordering::Relaxed), 0);
        drop(quiet);
        assert_eq!(CAUGHT.load(Ordering::Relaxed), 1);
        assert_eq!(Thread::current().unwrap().mask, before);
    }
}
