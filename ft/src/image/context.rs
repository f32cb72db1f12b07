//! Where a thread stands that takes an image of its process, and the way back to there.
//!
//! To the compiler, [`capture`] is a call that returns once, with one of two numbers: no frame of the
//! caller's is left before it returns, in the process that took the image or in the one that came back from
//! it.

use std::arch::global_asm;
use std::ffi::c_void;

/// What a function must find again that called another: all else lies on its stack.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct SavedContext {
    pub(super) stack: u64,
    /// Control bits of SSE and x87.
    pub(super) mxcsr: u32,
    pub(super) fcw: u32,
}

/// What [`capture`] returns in the process that came back.
pub(super) const CAME_BACK: u64 = 1;

global_asm!(
    ".pushsection .text.scash_image,\"ax\",@progbits",
    ".globl scash_image_capture",
    ".hidden scash_image_capture",
    ".type scash_image_capture,@function",
    "scash_image_capture:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, 8",
    "mov [rdi], rsp",
    "stmxcsr [rdi + 8]",
    "fnstcw [rdi + 12]",
    "mov rdi, rdx",
    "call rsi",
    "xor eax, eax",
    "2:",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    ".size scash_image_capture, . - scash_image_capture",
    ".globl scash_image_resume",
    ".hidden scash_image_resume",
    ".type scash_image_resume,@function",
    "scash_image_resume:",
    "mov rsp, [rdi]",
    "ldmxcsr [rdi + 8]",
    "fldcw [rdi + 12]",
    "mov eax, 1",
    "jmp 2b",
    ".size scash_image_resume, . - scash_image_resume",
    ".globl scash_image_switch",
    ".hidden scash_image_switch",
    ".type scash_image_switch,@function",
    "scash_image_switch:",
    "mov rsp, rdi",
    "mov rdi, rdx",
    "xor ebp, ebp",
    "call rsi",
    "ud2",
    ".size scash_image_switch, . - scash_image_switch",
    // clone(flags, stack, 0, 0, 0); the child calls `to` with `with`, and never returns.
    ".globl scash_image_clone",
    ".hidden scash_image_clone",
    ".type scash_image_clone,@function",
    "scash_image_clone:",
    "push r12",
    "push r13",
    "mov r12, rdx",
    "mov r13, rcx",
    "xor edx, edx",
    "xor r10d, r10d",
    "xor r8d, r8d",
    "mov eax, 56",
    "syscall",
    "test rax, rax",
    "jnz 3f",
    "xor ebp, ebp",
    "mov rdi, r13",
    "call r12",
    "ud2",
    "3:",
    "pop r13",
    "pop r12",
    "ret",
    ".size scash_image_clone, . - scash_image_clone",
    // Goes on where a thread was stopped: the kernel finds all it needs at the stack pointer.
    ".globl scash_image_return",
    ".hidden scash_image_return",
    ".type scash_image_return,@function",
    "scash_image_return:",
    "mov rsp, rdi",
    "mov eax, 15",
    "syscall",
    "ud2",
    ".size scash_image_return, . - scash_image_return",
    ".popsection",
);

unsafe extern "C" {
    fn scash_image_capture(
        context: *mut SavedContext,
        save: extern "C" fn(*mut c_void),
        with: *mut c_void,
    ) -> u64;
    fn scash_image_resume(context: *const SavedContext) -> !;
    fn scash_image_clone(
        flags: usize,
        stack: *mut u8,
        to: extern "C" fn(*mut c_void) -> !,
        with: *mut c_void,
    ) -> isize;
    fn scash_image_return(frame: *mut c_void) -> !;
    fn scash_image_switch(stack: *mut u8, to: extern "C" fn(*mut c_void) -> !, with: *mut c_void) -> !;
}

/// Notes where the caller stands, calls `save` with `with`, and returns 0; or [`CAME_BACK`], when [`resume`]
/// is called with what was noted, in a process whose memory is as `save` has saved it.
///
/// # Safety
/// `save` does with `with` what it may, and does not unwind.
#[inline(never)]
pub(super) unsafe fn capture(
    context: *mut SavedContext,
    save: extern "C" fn(*mut c_void),
    with: *mut c_void,
) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { scash_image_capture(context, save, with) }
}

/// Goes on where the context was noted.
///
/// # Safety
/// The stack that it leads to is as it was then.
pub(super) unsafe fn resume(context: *const SavedContext) -> ! {
    // SAFETY: as the caller promises.
    unsafe { scash_image_resume(context) }
}

/// Leaves this stack for another one, which ends at `stack`, for ever.
///
/// # Safety
/// There is memory below `stack`, which is a multiple of 16; `to` does with `with` what it may.
pub(super) unsafe fn switch(stack: *mut u8, to: extern "C" fn(*mut c_void) -> !, with: *mut c_void) -> ! {
    // SAFETY: as the caller promises.
    unsafe { scash_image_switch(stack, to, with) }
}

/// Starts a thread of this process, on a stack that ends at `stack`; a negative number if there is none to be
/// had.
///
/// # Safety
/// As for [`switch`]; `to` sets up all that a thread of the C library needs.
#[inline(always)]
pub(super) unsafe fn start(stack: *mut u8, to: extern "C" fn(*mut c_void) -> !, with: *mut c_void) -> isize {
    const FLAGS: i32 = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM;
    // SAFETY: as the caller promises.
    unsafe { scash_image_clone(super::kernel::bits(FLAGS), stack, to, with) }
}

/// Returns from the handler for which the kernel has put `frame` on a stack.
///
/// # Safety
/// The stack is as it was then.
pub(super) unsafe fn return_from_handler(frame: *mut c_void) -> ! {
    // SAFETY: as the caller promises.
    unsafe { scash_image_return(frame) }
}
