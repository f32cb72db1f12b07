//! C programs against `scash.h`, `libscash.so` and `libscash.a`, as ranks of real jobs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod header;
mod support;
