//! x86-64: the page fault's error code, as the processor pushed it (Intel SDM volume 3, "Page-Fault
//! Exceptions").

use crate::fault::Access;

/// Error code: the access was a write. A read-modify-write instruction counts as one.
const WRITE: i64 = 1 << 1;
/// Error code: the access was an instruction fetch.
const FETCH: i64 = 1 << 4;

/// Whether the access read or wrote; `None` for an attempt to execute.
pub(crate) fn access(context: &libc::ucontext_t) -> Option<Access> {
    let code = context.uc_mcontext.gregs[libc::REG_ERR as usize];
    match (code & FETCH != 0, code & WRITE != 0) {
        (true, _) => None,
        (false, true) => Some(Access::Write),
        (false, false) => Some(Access::Read),
    }
}

/// The address of the instruction that faulted.
pub(crate) fn instruction(context: &libc::ucontext_t) -> usize {
    usize::try_from(context.uc_mcontext.gregs[libc::REG_RIP as usize]).unwrap_or(0)
}
