//! What the providers that reach other hosts share: registered memory by number, how a peer came to be gone,
//! the bytes of an atomic operation, and counters.

mod counters;
mod garbage;
mod loss_reason;
mod operation;
mod segments;

pub use counters::Counters;
pub use garbage::{Garbage, garbage, u16_at, u32_at, u64_at};
pub use loss_reason::{BAD_BUFFER, LossReason, is_no_way};
pub use operation::{OPERATION, Operation};
pub use segments::Segments;
