//! A software distributed shared memory for Linux.

pub mod fault;
