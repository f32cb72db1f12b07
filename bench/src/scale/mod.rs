//! Scaling on paper: the real protocol ([`scash_proto::Node`]) on simulated machines of thousands of ranks.
//!
//! A [`Machine`] says what things take, a [`Trace`] what a program does, and a [`World`] runs the one on the
//! other. What comes out are times, and counts of messages, bytes and memory, in [`Totals`].

pub mod growth;
mod machine;
pub mod plot;
pub mod presets;
mod queue;
mod time;
pub mod trace;
mod world;
mod written;

pub use machine::{Arithmetic, Compute, Machine, Network, PageCosts};
pub use time::Time;
pub use trace::Trace;
pub use world::{Totals, Traffic, World};
