//! Types and constants of `scash_comm.h`.
//!
//! Structures keep their size, as those of `scash.h` do.

#![allow(non_camel_case_types, reason = "C's way to name types")]

use scash_comm::Error;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

/// An operation that was begun: a number, which may be copied. A function that finds the operation
/// over sets the request that it was given to SCOMM_REQUEST_NULL; copies of it name nothing then,
/// and each function that is given one fails.
pub type scomm_request_t = u64;

/// No operation. Waits and tests return at once, with a status of zeros.
pub const SCOMM_REQUEST_NULL: scomm_request_t = 0;
/// A send that was over when `scomm_isend` returned. Waits and tests return at once, with a status of zeros.
pub const SCOMM_REQUEST_OVER: scomm_request_t = 1;

/// Any rank, as the source of a receive.
pub const SCOMM_ANY_SOURCE: c_int = -1;
/// Any tag, for a receive.
pub const SCOMM_ANY_TAG: i64 = -1;
/// The index of no operation.
pub const SCOMM_NO_INDEX: c_int = -1;

/// What functions return, and what became of an operation. Errors are less than 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum scomm_result_t {
    /// No error.
    SCOMM_OK = 0,
    /// An argument or a setting makes no sense, or the call comes at the wrong time.
    SCOMM_ERROR_INVALID = -1,
    /// A rank is gone.
    SCOMM_ERROR_DOWN = -2,
    /// A message is longer than the memory that it was to be received into. What is in that memory is
    /// not said.
    SCOMM_ERROR_TOO_LONG = -3,
    /// A rank did what no correct rank does: one that calls a collective operation with other numbers
    /// than the others, for example.
    SCOMM_ERROR_PROTOCOL = -4,
    /// The system refused something.
    SCOMM_ERROR_SYSTEM = -5,
    /// So much that handlers of active messages have sent to a rank waits to leave that no more is kept:
    /// this message was not sent.
    SCOMM_ERROR_FULL = -6,
}

/// What is known of a message.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct scomm_status_t {
    /// The rank that sent it; of a send, the one that it went to.
    pub source: c_int,
    /// What became of the operation: 0, or an error (SCOMM_ERROR_...).
    pub error: c_int,
    /// Its tag.
    pub tag: i64,
    /// Its length in bytes; also with SCOMM_ERROR_TOO_LONG.
    pub len: usize,
    /// The message, if it was received by `scomm_recv_alloc` or `scomm_irecv_alloc` and has bytes: to
    /// be given to `scomm_free`. Else NULL.
    pub bytes: *mut c_void,
    /// For later versions: 0 today.
    pub reserved: usize,
}

/// How messages travel that are longer than `eager`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum scomm_large_t {
    /// As SCOMM_LARGE_GET within a host; as SCOMM_LARGE_PUSH elsewhere. The default.
    SCOMM_LARGE_AUTO = 0,
    /// The receiver reads the sender's memory where it can; else as SCOMM_LARGE_RENDEZVOUS.
    SCOMM_LARGE_GET = 1,
    /// Up to `push` bytes unasked, into memory that is made for them if no receive awaits them; else as
    /// SCOMM_LARGE_RENDEZVOUS.
    SCOMM_LARGE_PUSH = 2,
    /// When the receiver asks for it.
    SCOMM_LARGE_RENDEZVOUS = 3,
}

/// Which protocol serves which messages. `scomm_options` fills it with what the environment says:
///
/// ```c
/// scomm_options_t options;
/// scomm_options(&options);
/// options.eager = 1024;
/// scomm_init(&options);
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct scomm_options_t {
    /// Bytes of the longest message that travels at once (SCASH_MP_EAGER).
    pub eager: usize,
    /// Bytes of the longest message that is pushed (SCASH_MP_PUSH).
    pub push: usize,
    /// Bytes that may be on their way or unexpected from one rank to another (SCASH_MP_WINDOW): at
    /// least twice `eager` and `push`, and the same at all ranks.
    pub window: usize,
    /// Bytes that `scomm_alloc` can give, the same at all ranks (SCASH_MP_REGISTERED). They cost address
    /// space only until they are used.
    pub registered: usize,
    /// How messages travel that are longer than `eager` (SCASH_MP_LARGE).
    pub large: MaybeUninit<scomm_large_t>,
    /// 1: ranks of a host measure in `scomm_init`, in a fraction of a millisecond, whether long messages
    /// there are better read by their receiver than pushed; `scomm_thresholds` tells what was found. 0, or a
    /// `push` that the program has set to something else than `scomm_options` has said: what is here stands.
    pub calibrate: usize,
    /// Bytes of active messages that handlers have sent to a rank, and that may wait here until it has
    /// handled others (SCASH_MP_HELD). Past that `scomm_call` fails in handlers.
    pub held: usize,
    /// For later versions: zeros.
    pub reserved: [usize; 5],
}

/// What the elements of a reduction are.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are the types of these names")]
pub enum scomm_type_t {
    SCOMM_TYPE_I8 = 0,
    SCOMM_TYPE_U8 = 1,
    SCOMM_TYPE_I16 = 2,
    SCOMM_TYPE_U16 = 3,
    SCOMM_TYPE_I32 = 4,
    SCOMM_TYPE_U32 = 5,
    SCOMM_TYPE_I64 = 6,
    SCOMM_TYPE_U64 = 7,
    SCOMM_TYPE_F32 = 8,
    SCOMM_TYPE_F64 = 9,
}

/// What becomes of two elements in a reduction.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum scomm_op_t {
    /// Their sum; that of whole numbers wraps around.
    SCOMM_OP_SUM = 0,
    /// Their product, likewise.
    SCOMM_OP_PRODUCT = 1,
    /// The lesser one; of a number and a NaN, the number.
    SCOMM_OP_MIN = 2,
    /// The greater one, likewise.
    SCOMM_OP_MAX = 3,
    /// The bits that both have. Of whole numbers only, as the next two.
    SCOMM_OP_AND = 4,
    /// The bits that either has.
    SCOMM_OP_OR = 5,
    /// The bits that one of them has.
    SCOMM_OP_XOR = 6,
}

/// The number of an error.
pub(super) fn code(error: &Error) -> c_int {
    let result = match error {
        Error::Invalid(_) => scomm_result_t::SCOMM_ERROR_INVALID,
        Error::Down { .. } | Error::OutOfReach { .. } => scomm_result_t::SCOMM_ERROR_DOWN,
        Error::TooLong { .. } => scomm_result_t::SCOMM_ERROR_TOO_LONG,
        Error::Protocol { .. } => scomm_result_t::SCOMM_ERROR_PROTOCOL,
        Error::Full { .. } => scomm_result_t::SCOMM_ERROR_FULL,
        _ => scomm_result_t::SCOMM_ERROR_SYSTEM,
    };
    result as c_int
}
