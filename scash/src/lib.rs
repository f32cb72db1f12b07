//! A software distributed shared memory for Linux: one program, started on several ranks, shares memory as if
//! they were one.
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
//! # Frames
//! Ranks of a job of one host share frames, unless `SCASH_SHARE=off`: what one writes others may see at once,
//! so a program that races may be right by chance (`SCASH_RACES=report` finds it); accesses to what is
//! allocated do not fault; and protocol and blocks of allocations change nothing. Otherwise each rank has
//! frames of its own, and a page lives as follows.
//!
//! # The life of a page
//! [`fault`] (an access needs work) → `runtime/serve` → the protocol, [`scash_proto::Node`] → `runtime/core`
//! (its orders are carried out, on `runtime/machine`) → `scash_comm` (put, get, messages) → home, diff merge,
//! directory (the protocol again, at the home) → `runtime/meeting` (the memory barrier).
//!
//! # Children
//! A child that a rank forks is no rank: functions that return a [`Result`] fail there, and touching shared
//! memory ends it by SIGSEGV, with a line on stderr that says why. It may compute on copies that were made
//! before, exit, or exec another program; the rank and the job do not notice.
//!
//! # Descriptors
//! A program closes only descriptors that it has opened, or others before [`Dsm::init`]. Those of the library
//! have high numbers (from 4096 on, or from half of what `ulimit -n` permits); where they are gone, calls
//! fail, and no job ends well.
//!
//! # Signal handlers
//! They call nothing of this crate. They may touch shared memory, but not while their thread is in a function
//! of this crate: where the two would wait for each other, the rank says so on stderr and exits with
//! status 70. (One that cannot complete an access to shared memory for another reason, say because the home
//! of the page is gone, exits with status 74.)
//!
//! # Layers
//! [`Dsm`], [`Worker`], [`SharedSlice`], [`SharedBox`], and the arrays whose parts have owners
//! ([`Partition`], [`Matrix`], [`Split`]) are the typed interface (`api/`); [`runtime`] is the untyped one
//! that it and the C API stand on.

mod api;
mod config;
mod error;
pub mod fault;
pub mod runtime;

pub use api::atomics::AtomicWord;
pub use api::boxes::{SharedBox, SharedHandle};
pub use api::destroy::SyncObject;
pub use api::division::Division;
pub use api::dsm::Dsm;
pub use api::group::{Event, Group};
pub use api::matrix::{Matrix, MatrixParts, Present, Rows};
pub use api::messages::{Exchange, Messages};
pub use api::mutex::{DsmMutex, HeldLock, Lock, MutexGuard};
pub use api::partition::{Partition, Parts};
pub use api::reduce::Reducible;
pub use api::rwlock::{DsmRwLock, ReadGuard, WriteGuard};
pub use api::session::Session;
pub use api::shared::{Plain, SharedSlice};
pub use api::signals::{Condvar, Flag, Semaphore};
pub use api::split::{Split, Turn, Unowned, View};
pub use api::worker::Worker;
pub use bytemuck;
pub use error::{Error, Result};
pub use runtime::FrameSharing;
pub use runtime::checkpoint::{CheckpointStats, RestartTime};
pub use runtime::stats::{BarrierTime, Stats};
pub use scash_comm::{Atomic, Rmw};
pub use scash_mp::{Received, Status};
pub use scash_proto::wire::reduce::{Combine, NumberKind};
pub use scash_proto::{AllocOptions, Placement, Protocol};
