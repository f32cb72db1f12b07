//! Message passing: tagged sends and receives between ranks, and one-sided operations on [`Window`]s, on any
//! [`Endpoint`](scash_comm::Endpoint).
//!
//! Three systems in one (Takahashi and others 1999; Matsuda and others 2004; Aoki and others 2006):
//! - After **MPICH-PM/CLUMP**: one numbering of ranks, and a protocol for each size. *Eager*: a short message
//!   travels at once, and is copied where it is received. *Rendezvous*: a long one is offered; its receiver
//!   asks for it, and it comes piece by piece, over TCP straight from the one's memory to the other's. *Get*:
//!   a long one of the same host is offered with its address, and its receiver reads the sender's memory, in
//!   one copy: directly where it is registered ([`Communicator::allocate`]), by the kernel elsewhere.
//! - After **MPI/O2G**: the queues of expected receives and unexpected messages are matched when something
//!   arrives, whether or not the application has called: a background thread takes over when no application
//!   thread makes progress ([`Communicator`]). What arrives is always taken out of the transport, so no
//!   pattern of sends deadlocks.
//! - After **MMP**: *active zero copy*. A message of middling size is pushed, without a trip to ask; if no
//!   receive awaits it, memory of its size is made for it, and [`Communicator::receive_owned`] hands over
//!   that very memory.
//!
//! **Memory for unexpected messages is bounded.** Each rank may push [`Options::window`] bytes to another
//! beyond what that one has received. Past that, even short messages are only offered, so a sender whose
//! receiver does not keep up waits (or, with a non-blocking send, keeps its bytes), and no message is held
//! back that somebody waits for.
//!
//! **Every operation ends.** If a rank that it needs is gone, it fails with an
//! [`Error::Down`](scash_comm::Error::Down) that names that rank; of collective operations, all ranks' that
//! are not over. Operations between others are not concerned; receives from any rank fail once for each rank
//! that goes, since it may have been this one that they waited for. A process that ends is missed at once;
//! one that is stopped or cut off after [`Options::silence`]. What a rank has said before it went can still
//! be received.
//!
//! **Matching.** A message has a source and a tag; receives may leave both open. Of several messages that
//! fit, the one that came first is received; of several receives, the one that was posted first gets it;
//! messages between two ranks keep their order. The time that this takes does not grow with the lengths of
//! the queues.
//!
//! | module | what it is |
//! |---|---|
//! | `lists`, `matching` | the two queues |
//! | `requests`, `span` | operations under way, and the application's memory that they use |
//! | `wire` | what engines say to each other |
//! | `engine` | the protocols, as a value |
//! | `world`, `communicator` | joining a job; what applications call |
//! | `options`, `waiting` | thresholds, and the environment variables that set them; tests and waits |
//! | `calibration` | whether ranks of a host push long messages or read them, measured when they meet |
//! | `driver`, `progress` | drives an engine on an endpoint; who does so when |
//! | `cores` | where the helper runs |
//! | `reading`, `registered` | reading another process's memory, by the kernel or, where it is registered, directly |
//! | `collective`, `blocking` | collective operations, as schedules of rounds that the engine plays; and as calls that return when they are over |
//! | `barrier` | who meets whom at a barrier, in shared memory and by messages |
//! | `window`, `one_sided`, `blocks` | memory of all ranks that all can put to and get from; put, get, fence, atomic operations; blocks at a distance from each other |
//! | `active` | active messages, and who runs their handlers |
//! | `saver` | checkpoints: messages are drained, and go on in a process that comes back |
//! | `scope` | non-blocking operations on borrowed memory |
//!
//! # What it asks of buffers
//! They are used under locks, and by the kernel: memory whose access raises a fault that the program serves
//! itself (a DSM's protected view) must not be given.

mod active;
mod barrier;
mod blocking;
mod blocks;
mod calibration;
mod collective;
mod communicator;
mod cores;
mod driver;
mod engine;
mod lists;
mod matching;
mod one_sided;
mod options;
mod progress;
mod reading;
mod registered;
mod requests;
mod saver;
mod scope;
mod span;
mod waiting;
mod window;
mod wire;
mod world;

pub use active::Caller;
pub use calibration::Thresholds;
pub use collective::{Collective, Element, Op, Reducible, Reduction};
pub use communicator::{Communicator, Received, Request};
pub use engine::Hindrance;
pub use one_sided::Strided;
pub use options::{Large, Options};
pub use registered::Buffer;
pub use saver::{Paused, Saver, Saving};
pub use scope::{Operation, Scope};
pub use waiting::Completed;
pub use window::Window;
pub use world::World;

/// Any rank, as the source of a receive.
pub const ANY_SOURCE: Option<u32> = None;
/// Any tag, for a receive.
pub const ANY_TAG: Option<u64> = None;

/// What is known of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The rank that sent it; of a send, the one that it went to.
    pub source: u32,
    /// Its tag.
    pub tag: u64,
    /// Its length in bytes.
    pub len: usize,
}
