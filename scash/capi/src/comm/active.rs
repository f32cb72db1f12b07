//! Active messages.

#![allow(non_camel_case_types, reason = "C's way to name types")]
#![allow(clippy::missing_safety_doc, reason = "the texts are those of the header: C has no section for it")]

use super::conversions::rank;
use super::job::{done, invalid, told};
use super::memory::check;
use scash_comm::Result;
use scash_mp::Caller;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::null;

/// What is called with an active message: the rank that has sent it, its bytes, which are there until
/// this returns, and what was given with the function.
pub type scomm_handler_t =
    Option<unsafe extern "C" fn(from: c_int, bytes: *const c_void, len: usize, context: *mut c_void)>;

thread_local! {
    /// Whom this thread's handler has its message from, while one runs.
    static CALLER: Cell<*const Caller<'static>> = const { Cell::new(null()) };
}

/// Registers a handler of active messages under a number from 0 to 65535; `context` is given to each of
/// its calls. Collective: all ranks register the same numbers in the same order.
///
/// The handler is called with each active message of that number, whether or not the program calls in:
/// by a thread that waits or tests, or one of the library's; one at a time. Other active messages wait
/// meanwhile, and messages may, too: so it is short, and waits for nothing. It answers, and sends others,
/// by `scomm_call`, which does not wait there.
///
/// Returns 0, or an error: the number is none or has a handler, `handler` is NULL, ranks name different
/// numbers, or a rank is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_register_handler(
    number: c_int,
    handler: scomm_handler_t,
    context: *mut c_void,
) -> c_int {
    done("scomm_register_handler", |job| {
        let Some(handler) = handler else {
            return invalid("scomm_register_handler(..., NULL, ...): give it a function");
        };
        let context = context.expose_provenance();
        job.register_handler(self::number(number)?, move |caller, bytes| {
            let from = c_int::try_from(caller.rank()).unwrap_or(c_int::MAX);
            let context = std::ptr::with_exposed_provenance_mut(context);
            CALLER.set(std::ptr::from_ref(caller).cast());
            // SAFETY: a handler by the word of who has registered it; the bytes are there until it returns.
            unsafe { handler(from, bytes.as_ptr().cast(), bytes.len(), context) };
            CALLER.set(null());
        })
    })
}

/// Sends an active message: the bytes may be changed when this returns, and the handler of that number
/// runs with them at the rank `to`. Where many are on their way it waits until those before it have left,
/// but not in a handler. `scomm_fence` tells that the message was handled.
///
/// Returns 0, or an error: there is no such rank or handler, the message is longer than those that are
/// pushed (SCASH_MP_PUSH), or the rank is gone. In a handler also SCOMM_ERROR_FULL: so much that handlers
/// have sent to that rank waits to leave that no more is kept (SCASH_MP_HELD); a handler may leave the
/// message, or put it where another thread finds it, whose call waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_call(to: c_int, handler: c_int, bytes: *const c_void, len: usize) -> c_int {
    let message = || {
        check("scomm_call", bytes.cast(), len)?;
        let bytes: &[u8] = match len {
            0 => &[],
            // SAFETY: not null, so there are as many by the caller's word.
            len => unsafe { std::slice::from_raw_parts(bytes.cast(), len) },
        };
        Ok((rank(to)?, number(handler)?, bytes))
    };
    // SAFETY: null, or set by a handler's call that is under way in this thread, and has borrowed it.
    match unsafe { CALLER.get().as_ref() } {
        Some(caller) => {
            told(message().and_then(|(to, handler, bytes)| caller.call(to, handler, bytes)).map(|()| 0))
        }
        None => done("scomm_call", |job| {
            let (to, handler, bytes) = message()?;
            job.call(to, handler, bytes)
        }),
    }
}

/// The number of a handler.
fn number(number: c_int) -> Result<u16> {
    u16::try_from(number)
        .or_else(|_| invalid(&format!("there is no handler {number}: numbers go from 0 to 65535")))
}
