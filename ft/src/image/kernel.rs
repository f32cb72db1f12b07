//! System calls without the C library: what is called here runs while the library's own memory is being saved
//! or replaced.

use std::arch::asm;
use std::fmt;

/// Protection of memory that is being filled.
pub(super) const READ_WRITE: usize = 3;

/// A system call that failed: the error's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyscallFailure(pub i32);

impl fmt::Display for SyscallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

impl std::error::Error for SyscallFailure {}

/// Flags as a system call's argument.
pub(super) const fn bits(flags: i32) -> usize {
    flags.cast_unsigned() as usize
}

/// Makes a system call, and returns what the kernel does: a small negative number stands for an error.
///
/// # Safety
/// That of the call.
#[inline(always)]
pub(super) unsafe fn raw(number: i64, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: as the caller promises; the kernel changes the named registers only.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a[0], in("rsi") a[1],
             in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
             lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Makes a system call.
///
/// # Safety
/// That of the call.
#[inline(always)]
pub(super) unsafe fn call(number: i64, a: [usize; 6]) -> Result<usize, SyscallFailure> {
    // SAFETY: as the caller promises.
    let result = unsafe { raw(number, a) };
    match usize::try_from(result) {
        Ok(result) => Ok(result),
        Err(_) if result >= -4095 => Err(SyscallFailure(-(result as i32))),
        Err(_) => Ok(result.cast_unsigned()),
    }
}

/// Copies bytes, without a call of any function.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
#[inline(always)]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: as the caller promises; the direction flag is clear, as always between functions.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
             options(nostack, preserves_flags));
    }
}

/// The policy by which the calling thread gets memory of which nodes, in the kernel's numbers; none if the
/// kernel knows no nodes.
pub(super) fn memory_policy() -> Option<String> {
    // As many as the kernel knows at most.
    let (mut mode, mut nodes) = (0i32, [0u64; 16]);
    let (mode_at, nodes_at) = ((&raw mut mode).expose_provenance(), (&raw mut nodes).expose_provenance());
    let most = size_of_val(&nodes) * 8;
    // SAFETY: the kernel writes a number and so many bits.
    let told = unsafe { call(libc::SYS_get_mempolicy, [mode_at, nodes_at, most, 0, 0, 0]) };
    told.ok().map(|_| format!("{mode} {nodes:?}"))
}

/// A thread's priority in input and output, in the kernel's number; 0 if it was given none.
pub(super) fn io_priority(thread: u32) -> Option<usize> {
    const PROCESS: usize = 1;
    // SAFETY: the call takes numbers.
    let told = unsafe { call(libc::SYS_ioprio_get, [PROCESS, thread as usize, 0, 0, 0, 0]) };
    // Without a class the rest says nothing: kernels disagree, and some change it with the first access.
    let class = |number: usize| number >> 13;
    told.ok().map(|number| if class(number) == 0 { 0 } else { number })
}

/// The parts of a processor's state that this process has leave to use, in the kernel's bits; none if the
/// kernel knows nothing of that.
pub(super) fn permitted_states() -> Option<String> {
    const ARCH_GET_XCOMP_PERM: usize = 0x1022;
    let mut states = 0u64;
    let at = (&raw mut states).expose_provenance();
    // SAFETY: the kernel writes one number.
    let told = unsafe { call(libc::SYS_arch_prctl, [ARCH_GET_XCOMP_PERM, at, 0, 0, 0, 0]) };
    told.ok().map(|_| format!("{states:x}"))
}
