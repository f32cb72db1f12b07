//! Fault tolerance: the words that membership and commitment are spoken in.
//!
//! So far these are types only. What they are for: a memory barrier *commits* an [`Epoch`]; the ranks that
//! are alive form a numbered [`View`]; every message carries a [`Stamp`] of both, and a rank that has
//! *sealed* a view takes nothing of an older one, so a rank that was given up for dead, but lives, can do no
//! harm.

#![forbid(unsafe_code)]

mod stamp;
mod view;

pub use stamp::{Epoch, Seal, Stamp, Verdict};
pub use view::{NotLiving, View, ViewNumber};
