//! Memory that is the program's until it gives it back: registered buffers, and messages that came with
//! memory of their own.

use super::job::{call, invalid, recycle, refuse_children, told};
use crate::call::runtime;
use scash_comm::Result;
use scash_mp::Buffer;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// What was handed out, by its address. It is never looked into from here.
static OUT: OnceLock<Mutex<HashMap<usize, Out>>> = OnceLock::new();

enum Out {
    Registered { _memory: Buffer },
    Message(Vec<u8>),
}

fn out() -> MutexGuard<'static, HashMap<usize, Out>> {
    // A panic ends the process.
    OUT.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hands a message out; null if it has no bytes.
pub(super) fn hand_out(mut message: Vec<u8>) -> *mut c_void {
    if message.is_empty() {
        return std::ptr::null_mut();
    }
    let address = message.as_mut_ptr();
    out().insert(address as usize, Out::Message(message));
    address.cast()
}

/// Whether the `len` bytes at `address`, which the function `name` was given, can be those of a message.
pub(super) fn check(name: &str, address: *const u8, len: usize) -> Result<()> {
    if address.is_null() && len > 0 {
        return invalid(&format!("{name}: NULL for memory of {len} bytes"));
    }
    if isize::try_from(len).is_err() || (address as usize).checked_add(len).is_none() {
        return invalid(&format!("{name}: {len} bytes are more than any memory has"));
    }
    if runtime().is_some_and(|runtime| runtime.is_shared(address, len)) {
        return invalid(&format!(
            "{name}: messages are not sent from or received into memory of dsm_alloc: copy them, or use memory of scomm_alloc"
        ));
    }
    Ok(())
}

/// Allocates `bytes` bytes of registered memory, filled with zeros: long messages from there travel
/// within a host in one copy that needs no system call. It is private to this rank, which alone has to
/// ask for it, and otherwise like any other. The address is that of a page.
///
/// Returns NULL if `bytes` is 0, or there is no room (SCASH_MP_REGISTERED sets how much there is).
#[unsafe(no_mangle)]
pub extern "C" fn scomm_alloc(bytes: usize) -> *mut c_void {
    let mut address = std::ptr::null_mut();
    call("scomm_alloc", |job| {
        if bytes == 0 {
            return invalid("scomm_alloc of 0 bytes: ask for one at least");
        }
        let mut memory = job.allocate(bytes)?;
        address = memory.as_mut_ptr().cast();
        out().insert(address as usize, Out::Registered { _memory: memory });
        Ok(0)
    });
    address
}

/// Frees what `scomm_alloc` returned, or a message that came with its memory (the member `bytes` of a
/// status). No operation uses it any more. `scomm_free(NULL)` does nothing. May be called after
/// `scomm_finalize`.
///
/// Returns 0, or an error if `p` is neither, or was freed before; nothing is done then.
#[unsafe(no_mangle)]
pub extern "C" fn scomm_free(p: *mut c_void) -> c_int {
    if p.is_null() {
        return 0;
    }
    if let Err(refused) = refuse_children("scomm_free") {
        return told(Err(refused));
    }
    // Given back when nobody holds the table.
    let memory = out().remove(&(p as usize));
    told(match memory {
        Some(Out::Registered { .. }) => Ok(0),
        Some(Out::Message(message)) => {
            recycle(message);
            Ok(0)
        }
        None => invalid(&format!(
            "scomm_free({p:p}): neither memory of scomm_alloc nor the bytes of a status, or freed before"
        )),
    })
}
