//! A mutex that its usual owner takes and leaves by plain stores.
//!
//! The intuition: nearly always one thread of a rank communicates, and the helper looks in now and then. A
//! mutex has both pay for the possibility that the other is there, by atomic read-modify-writes, each of
//! which waits until all stores before it have reached the cache; on the way of a short message lie four.
//! Here the one that comes often says with a plain store that it is in, and the one that comes seldom has the
//! kernel interrupt it (`membarrier`), so that its store is seen, or it sees that it has lost its privilege:
//! a *biased lock* (Dice, Huang and Yang, "Asymmetric Dekker synchronization", 2001; Kawachiya and others,
//! "Lock reservation", 2002).
//!
//! | module | what it is |
//! |---|---|
//! | `lock` | the lock |
//! | `sync` | what it takes from the system; the models in `tests/biased_models.rs` put loom's in its stead |

mod lock;
mod sync;

pub use lock::{Biased, Guard};

#[cfg(test)]
mod tests;
