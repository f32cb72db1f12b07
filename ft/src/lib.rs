//! Fault tolerance: how ranks may die and the program goes on.
//!
//! A rank number never dies. When a rank is lost, the coordinator (the launcher) kills all ranks and starts
//! them again as a new [`Incarnation`] of the job; each comes back from its image of a committed checkpoint,
//! whose number is an [`Epoch`].

#![deny(unsafe_op_in_unsafe_fn)]

mod numbers;
pub mod store;

pub use numbers::{Epoch, Incarnation};
