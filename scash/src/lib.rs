//! A software distributed shared memory for Linux: one program, started on several ranks, shares memory as if they were one.
//!
//! ```no_run
//! fn main() -> scash::Result<()> {
//!     let mut dsm = scash::Dsm::init()?; // started by `scash run -n 4 ./program`
//!     let mut field = dsm.partition::<f64>(1 << 20)?; // each rank owns a part
//!     for step in 0..100 {
//!         let parts = field.parts(&dsm);
//!         let left = parts.before.last().copied().unwrap_or(1.0);
//!         parts.mine.fill(left + f64::from(step));
//!         field.publish(&mut dsm)?; // the memory barrier
//!     }
//!     dsm.finalize()
//! }
//! ```
//!
//! # The life of a page
//! [`fault`] (an access needs work) → `serve` → the protocol, [`scash_proto::Node`] → `core` (its orders are carried out) → `scash_comm` (put, get,
//! messages) → home, diff merge, directory (the protocol again, at the home) → `runtime` (the memory barrier).
//!
//! # Children
//! A child that a rank forks is no rank: functions that return a [`Result`] fail there, and touching shared memory ends it by SIGSEGV, with a line on stderr that says why. It may compute on copies
//! that were made before, exit, or exec another program; the rank and the job do not notice.
//!
//! # Descriptors
//! A program closes only descriptors that it has opened, or others before [`Dsm::init`]. Those of the library have high numbers (from 4096 on, or from half of what `ulimit -n` permits); where they
//! are gone, calls fail, and no job ends well.
//!
//! # Signal handlers
//! They call nothing of this crate. They may touch shared memory, but not while their thread is in a function of this crate: where the two would wait for each other, the rank says so on stderr and exits
//! with status 70. (One that cannot complete an access to shared memory for another reason, say because the home of the page is gone, exits with status 74.)
//!
//! # Layers
//! [`Dsm`], [`SharedSlice`] and [`Partition`] are the typed interface; [`runtime`] is the untyped one that it and the C API stand on.

mod atomics;
mod claims;
mod config;
mod core;
mod destroy;
mod dsm;
mod error;
pub mod fault;
mod frames;
mod house;
mod live;
mod lost;
mod machine;
mod marks;
mod mutex;
mod owned;
mod page_words;
mod partition;
mod races;
mod reduce;
pub mod runtime;
mod rwlock;
mod say;
mod serve;
mod shared;
mod signals;
mod stats;
mod tell;
mod twins;
mod within;

pub use atomics::AtomicWord;
pub use bytemuck;
pub use destroy::SyncObject;
pub use dsm::Dsm;
pub use error::{Error, Result};
pub use mutex::{DsmMutex, Held, Lock, MutexGuard};
pub use partition::{Partition, Parts};
pub use reduce::Reducible;
pub use rwlock::{DsmRwLock, ReadGuard, WriteGuard};
pub use scash_comm::{Atomic, Rmw};
pub use scash_proto::wire::reduce::{Combine, Number};
pub use scash_proto::{AllocOptions, Placement, Protocol};
pub use shared::{Plain, SharedSlice};
pub use signals::{Condvar, Flag, Semaphore};
pub use stats::{BarrierTime, Stats};
