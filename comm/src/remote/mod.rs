//! What the providers that reach other hosts share: registered memory by number, how a peer came to be gone, the bytes of an
//! atomic operation, and counters.

mod counters;
mod fate;
mod garbage;
mod operation;
mod segments;

pub(crate) use counters::Counters;
pub(crate) use fate::{BAD_BUFFER, Fate};
pub(crate) use garbage::{Garbage, garbage, u16_at, u32_at, u64_at};
pub(crate) use operation::{OPERATION, Operation};
pub(crate) use segments::Segments;
