//! Whole-system tests, and what they are made of.

pub mod cluster;
pub mod patterns;
pub mod snapshot;
pub mod soak;
