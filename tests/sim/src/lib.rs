//! A seeded simulator of a whole job.
//!
//! Many [`Node`](scash_proto::Node)s run in one thread. Their orders are carried out by the same
//! [`Interpreter`](scash_proto::interpreter::Interpreter) as in the runtime, on frames that are vectors, and
//! a network that delays and reorders as much as the rules of `scash-comm` allow. Application threads, the
//! carrying out of orders and the arrival of each message are steps of a seeded scheduler, so the same seed
//! is the same run, down to the single access.
//!
//! Every byte that a simulated program reads is compared with one flat memory, the **oracle**. The first
//! wrong byte ends the run with the seed, the place and what the protocol believed about the page; so does a
//! rank that cannot go on.
//!
//! Reading order: [`program`] (what ranks do), [`random`] (programs from a seed), [`litmus`] (programs with a
//! name), [`World`] (the run), [`deaths`] (ranks that are killed and come back), [`network`] (hosts that lose
//! each other).
//!
//! # What the driver promises the node
//! The runtime promises the same, and the simulator is as slow, as early and as torn as these promises
//! permit:
//! 1. Orders are carried out in their order. The orders of a fault are carried out before another thread of
//!    the rank faults, but for a `Get`, during which everything else goes on. In the middle of any other
//!    order, threads that take no fault go on, and puts land (`Setup::tears`).
//! 2. A get reads the home's frame piece by piece, at any time between its start and its end, while the home
//!    goes on.
//! 3. Bytes of the home that are newer than what a get has read do not land before it has stored what it read
//!    (guarantee 2 of `scash-comm`). In half of the random jobs this promise is broken, for the protocol does
//!    not rely on it any more.
//! 4. A rank's own puts to a home have landed when it reads a page from there, and all its puts when it says
//!    that an interval is closed.
//! 5. A diff or update that arrives is merged in the frame and in the twin, if there is one. A put lands in
//!    the frame alone.

pub mod deaths;
mod frame;
mod liar;
pub mod litmus;
mod net;
pub mod network;
pub mod program;
pub mod random;
pub mod report;
pub mod rng;
mod world;

pub use world::{Failure, Setup, World};
