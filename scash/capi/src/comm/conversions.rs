//! What the types of `scash_comm.h` mean to [`scash_mp`], and how its values become theirs.

use super::job::invalid;
use super::memory::hand_out;
use super::types::{
    SCOMM_ANY_SOURCE, SCOMM_ANY_TAG, SCOMM_REQUEST_NULL, SCOMM_REQUEST_OVER, code, scomm_large_t, scomm_op_t,
    scomm_options_t, scomm_request_t, scomm_status_t, scomm_type_t,
};
use crate::types::number;
use scash_comm::{Error, Result};
use scash_mp::{Element, Large, Op, Options, Received, Reduction, Request, Status};
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// The number of a rank that is named.
pub(super) fn rank(number: c_int) -> Result<u32> {
    u32::try_from(number).or_else(|_| invalid(&format!("there is no rank {number}: ranks count from 0")))
}

/// The source of a receive.
pub(super) fn source(number: c_int) -> Result<Option<u32>> {
    if number == SCOMM_ANY_SOURCE { Ok(None) } else { rank(number).map(Some) }
}

/// The tag of a send.
pub(super) fn tag(number: i64) -> Result<u64> {
    u64::try_from(number).or_else(|_| invalid(&format!("a message of tag {number}: tags count from 0")))
}

/// The tag of a receive.
pub(super) fn any_tag(number: i64) -> Result<Option<u64>> {
    if number == SCOMM_ANY_TAG { Ok(None) } else { tag(number).map(Some) }
}

/// A request for C.
pub(super) fn given_out(request: Request) -> scomm_request_t {
    request.into_raw().max(SCOMM_REQUEST_OVER)
}

/// A request that C gives; none if it is null.
pub(super) fn given_back(request: scomm_request_t) -> Option<Request> {
    match request {
        SCOMM_REQUEST_NULL => None,
        SCOMM_REQUEST_OVER => Some(Request::from_raw(0)),
        number => Some(Request::from_raw(number)),
    }
}

impl scomm_status_t {
    /// That of no operation.
    pub(super) const NONE: Self =
        Self { source: 0, error: 0, tag: 0, len: 0, bytes: std::ptr::null_mut(), reserved: 0 };

    /// That of an operation that went well, whose memory becomes the program's.
    pub(super) fn of(received: Received) -> Self {
        Self { bytes: hand_out(received.bytes), ..Self::of_message(received.status) }
    }

    /// That of an operation that failed.
    pub(super) fn of_error(error: &Error) -> Self {
        // Of a message without room, how much it takes.
        let len = if let Error::TooLong { len, .. } = error { *len } else { 0 };
        Self { error: code(error), len, ..Self::NONE }
    }

    /// That of a message.
    pub(super) fn of_message(status: Status) -> Self {
        // Ranks and tags of C programs fit.
        let source = c_int::try_from(status.source).unwrap_or(c_int::MAX);
        let tag = i64::try_from(status.tag).unwrap_or(i64::MAX);
        Self { source, tag, len: status.len, ..Self::NONE }
    }
}

impl scomm_options_t {
    /// These options.
    pub(super) fn of(options: Options) -> Self {
        let Options { eager, push, large, window, registered, held, calibrate, .. } = options;
        let large = match large {
            Large::Auto => scomm_large_t::SCOMM_LARGE_AUTO,
            Large::Get => scomm_large_t::SCOMM_LARGE_GET,
            Large::Push => scomm_large_t::SCOMM_LARGE_PUSH,
            Large::Rendezvous => scomm_large_t::SCOMM_LARGE_RENDEZVOUS,
        };
        let large = MaybeUninit::new(large);
        Self {
            eager,
            push,
            window,
            registered,
            large,
            calibrate: usize::from(calibrate),
            held,
            reserved: [0; 5],
        }
    }

    /// What they say, checked.
    ///
    /// # Safety
    /// All bytes of the member `large` are set.
    pub(super) unsafe fn checked(&self) -> Result<Options> {
        if self.reserved.iter().any(|word| *word != 0) {
            return invalid(
                "scomm_options_t has reserved words that are not 0: have scomm_options fill it before you set \
                 its members, or run with the library that the program was compiled for",
            );
        }
        // SAFETY: by the caller's word.
        let large = match unsafe { number(self.large) } {
            n if n == scomm_large_t::SCOMM_LARGE_AUTO as c_int => Large::Auto,
            n if n == scomm_large_t::SCOMM_LARGE_GET as c_int => Large::Get,
            n if n == scomm_large_t::SCOMM_LARGE_PUSH as c_int => Large::Push,
            n if n == scomm_large_t::SCOMM_LARGE_RENDEZVOUS as c_int => Large::Rendezvous,
            other => return invalid(&format!("{other} is no scomm_large_t: use a SCOMM_LARGE_ constant")),
        };
        let Self { eager, push, window, registered, calibrate, held, .. } = *self;
        if calibrate > 1 {
            return invalid(&format!(
                "{calibrate} is no `calibrate` of a scomm_options_t: 0 or 1 is expected"
            ));
        }
        // What the program has set itself stands. If the environment makes no sense, it has said nothing.
        let said = Options::from_env().unwrap_or_default();
        let calibrate = calibrate == 1 && push == said.push;
        // What the program cannot say here, the environment does.
        Ok(Options { eager, push, large, window, registered, held, calibrate, ..said })
    }
}

/// How elements of this type are combined by this operation.
///
/// # Safety
/// All bytes of both are set.
pub(super) unsafe fn reduction(
    of: MaybeUninit<scomm_type_t>,
    op: MaybeUninit<scomm_op_t>,
) -> Result<Reduction> {
    const ELEMENTS: [Element; 10] = [
        Element::I8,
        Element::U8,
        Element::I16,
        Element::U16,
        Element::I32,
        Element::U32,
        Element::I64,
        Element::U64,
        Element::F32,
        Element::F64,
    ];
    const OPS: [Op; 7] = [Op::Sum, Op::Product, Op::Min, Op::Max, Op::And, Op::Or, Op::Xor];
    const _: () = assert!(ELEMENTS.len() == scomm_type_t::SCOMM_TYPE_F64 as usize + 1);
    const _: () = assert!(OPS.len() == scomm_op_t::SCOMM_OP_XOR as usize + 1);
    // SAFETY: by the caller's word.
    let of = unsafe { number(of) };
    // SAFETY: by the caller's word.
    let op = unsafe { number(op) };
    let Some(element) = usize::try_from(of).ok().and_then(|n| ELEMENTS.get(n)) else {
        return invalid(&format!("{of} is no scomm_type_t: use a SCOMM_TYPE_ constant"));
    };
    let Some(by) = usize::try_from(op).ok().and_then(|n| OPS.get(n)) else {
        return invalid(&format!("{op} is no scomm_op_t: use a SCOMM_OP_ constant"));
    };
    Reduction::new(*element, *by).map_or_else(
        || invalid("floating-point numbers have no bits to be combined: reduce whole numbers"),
        Ok,
    )
}
