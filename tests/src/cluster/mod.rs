//! Jobs of real processes: the command `scash` starts real programs, and a test looks at how they end.
//!
//! A test takes each [`Kind`] of job that works on this machine, makes a [`Job`] of it, and has it run a program: one of the applications
//! ([`built`]) or one of this package's own rank programs (`src/bin`). What has [`Ended`] is compared with what a user may expect.
//!
//! # What every run is checked for
//! * It ends: whatever takes longer than [`LIMIT`] is killed, with all its processes, and the test fails.
//! * It leaves nothing: no process of the job, and no file of scash in `/dev/shm`.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test that cannot go on fails")]

pub mod built;
mod ended;
mod job;

pub use ended::Ended;
pub use job::{Job, Kind, LIMIT, kinds, run};
