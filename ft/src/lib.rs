//! Fault tolerance: how ranks may die and the program goes on.
//!
//! A rank number never dies. When a rank is lost, the coordinator (the launcher) kills all ranks and starts
//! them again as a new [`Incarnation`] of the job; each comes back from its image of a committed checkpoint,
//! whose number is an [`Epoch`].

#![deny(unsafe_op_in_unsafe_fn)]

pub mod commit;
pub mod image;
pub mod inject;
pub mod interval;
mod moment;
mod numbers;
pub mod pagemap;
mod random;
pub mod recovery;
pub mod slots;
pub mod store;
pub mod time;

pub use moment::Moment;
pub use numbers::{Base, Epoch, Incarnation, Mark};
