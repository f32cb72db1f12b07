//! Jobs of real processes: the command `scash` starts real programs, and a test looks at how they end.
//!
//! A test takes each [`Kind`] of job that works on this machine, makes a [`Job`] of it, and has it run a
//! program: one of the applications ([`built`]) or one of this package's own rank programs (`src/bin`). What
//! has [`Ended`] is compared with what a user may expect.
//!
//! # What every run is checked for
//! * It ends: whatever takes longer than [`LIMIT`] is killed, with all its processes, and the test fails.
//! * It leaves nothing: no process of the job, and no file of scash in `/dev/shm`.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test that cannot go on fails")]

pub mod built;
pub mod calls;
mod damage;
mod ended;
mod far;
mod hosts;
mod interrupt;
mod job;
mod job_directory;
mod living;
mod lost_launcher;
mod running;
pub mod slurm;

use std::path::Path;

pub use damage::damage;
pub use ended::Ended;
pub use far::FarShell;
pub use hosts::{Hosts, HostsJob, run_until_injected};
pub use interrupt::{heed_interrupts, is_interrupted};
pub use job::children;
pub use job::{
    Job, Kind, LIMIT, MARK, Observed, all_kinds, kinds, new_mark, observe, observe_losable, run, run_beside,
};
pub use job_directory::JobDirectory;
pub use living::{
    came_back, computes, computes_the_same, hung_up, kill_ranks, launcher, newest_epoch, open_store,
    processes_of_rank, rank_of, replicas, signal_rank, wait_for, wait_for_death,
};
pub use lost_launcher::{Orphan, kill_launcher, wait_for_status_on, wait_until_all_are_gone};
pub use running::{scash, wait_for_status, wait_for_status_meanwhile};

/// Runs a program of `litmus` in every kind of job, on each of these numbers of ranks.
pub fn litmus(litmus: &str, name: &str, rounds: &str, sizes: &[u32]) {
    for kind in all_kinds() {
        for &ranks in sizes {
            let ended = kind.job(ranks).env("SCASH_REGION", "16M").run(Path::new(litmus), &[name, rounds]);
            ended.succeeded();
            assert!(ended.lines(ranks).iter().all(|line| line.ends_with("saw nothing wrong")), "{ended}");
        }
    }
}
