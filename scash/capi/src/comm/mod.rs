//! Message passing: what `include/scash_comm.h` declares.
//!
//! | module | what it is |
//! |---|---|
//! | `job`, `answers` | joining and leaving; the communicator, for all functions; what they write where the program says |
//! | `types`, `conversions` | options, statuses, enums; what they mean to [`scash_mp`] |
//! | `functions` | `scomm_init` and what tells of the job |
//! | `messages` | sends, receives, probes |
//! | `waiting`, `array` | tests, waits, and receives that are taken back |
//! | `memory` | what the library hands out and takes back |
//! | `one_sided`, `atomics` | windows: put and get, and fences; atomic operations on their words |
//! | `active` | active messages |
//! | `collective`, `named` | collective operations |
//!
//! **Invariant:** a request is a number, never an address: whatever a program gives as one is looked up, and
//! is an error if it names nothing.

mod active;
mod answers;
mod array;
mod atomics;
mod collective;
mod conversions;
mod functions;
mod job;
mod memory;
mod messages;
mod named;
mod one_sided;
mod types;
mod waiting;

pub use active::*;
pub use atomics::*;
pub use collective::*;
pub use functions::*;
pub(crate) use job::is_open;
pub use memory::*;
pub use messages::*;
pub use one_sided::*;
pub use types::*;
pub use waiting::*;
