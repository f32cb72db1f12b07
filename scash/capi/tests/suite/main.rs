//! C programs (`tests/c`) against `scash.h`, `scash_comm.h`, `libscash.so` and `libscash.a`, as ranks of real
//! jobs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod comm;
mod compat;
mod errors;
mod examples;
mod header;
mod install;
mod library;
mod programs;
mod restarts;
mod shared;
mod spawn;
mod support;
