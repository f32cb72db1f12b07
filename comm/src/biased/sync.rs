//! Fences, threads' names, and what else the lock takes from the system.

use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub(super) use std::sync::{Mutex, MutexGuard};

/// Turns of a wait in which a thread spins, and in which it lets others have its core; later ones sleep.
const SPINS: u32 = 64;
const YIELDS: u32 = 128;
const SLEEP: Duration = Duration::from_micros(50);

/// Names the thread that calls, as long as it lives: never 0. Where its thread-local memory begins; a
/// `thread_local!` would do, but its first use in a thread may allocate, and a fault handler may be the
/// first.
#[inline]
pub(super) fn this_thread() -> usize {
    let name: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: by the ABI the word at fs:0 is its own address, which no other thread has.
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) name, options(pure, readonly, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the register is the program's to read, and has an address that no other thread has.
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) name, options(pure, nomem, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        // SAFETY: it always succeeds.
        name = unsafe { libc::pthread_self() } as usize;
    }
    name
}

/// The cheap one of the two fences between a store and a load: the compiler keeps their order, and where the
/// processor does not, [`heavy_fence`] does.
#[inline]
pub(super) fn light_fence() {
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// The other one: a full fence here and in all threads of this process, wherever they are. Some microseconds.
/// Only where [`has_heavy_fence`].
pub(super) fn heavy_fence() {
    // The kernel has agreed to it before. Without it there is no way to know who is in.
    assert!(
        membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED),
        "the kernel takes back what it has agreed to: no membarrier"
    );
}

/// Whether the kernel knows of these fences; the first call asks for them. Cheapest where this is the
/// process's only thread.
pub(super) fn has_heavy_fence() -> bool {
    static IS_THERE: OnceLock<bool> = OnceLock::new();
    *IS_THERE.get_or_init(|| membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
}

fn membarrier(command: libc::c_int) -> bool {
    const FAVOURITES: libc::c_uint = 0;
    // SAFETY: the call takes two numbers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, FAVOURITES) == 0 }
}

/// A turn of a wait for a thread that will be out soon.
pub(super) fn wait(turn: u32) {
    match turn {
        ..SPINS => std::hint::spin_loop(),
        SPINS..YIELDS => thread::yield_now(),
        _ => thread::sleep(SLEEP),
    }
}
