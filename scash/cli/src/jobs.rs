//! `scash status`, `scash migrate`, `scash drain`, `scash rejoin`: commands for a job that runs.

use crate::run::{ask, jobs, orphans};
use std::io::Write;

/// Say how jobs are: hosts, ranks, checkpoints and their copies.
///
/// Without JOB, all jobs of yours on this machine. A job is called by the process number of its scash run.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// The process number of scash run
    job: Option<u32>,
}

/// Move a rank of a job to another of its hosts.
///
/// It moves when the next checkpoint has been taken: all ranks are started again from that, and the rank on
/// that host. The job must have been started with --replicas.
#[derive(Debug, clap::Args)]
pub(crate) struct MigrateArgs {
    /// The process number of scash run
    job: u32,
    /// Which rank
    rank: u32,
    /// Where it is to go, as the host was named to scash run
    host: String,
}

/// Move all ranks of a host to others, so that it can be switched off.
///
/// They move when the next checkpoint has been taken. The job must have been started with --replicas.
#[derive(Debug, clap::Args)]
pub(crate) struct DrainArgs {
    /// The process number of scash run
    job: u32,
    /// Which host, as it was named to scash run
    host: String,
}

/// Call a lost host of a job, to take it in again.
///
/// It need not have anything of the job but the program. Its ranks move back to it when the next checkpoint
/// has been taken. (scash run calls lost hosts by itself, less and less often.) Ranks may come again to a
/// host that is there, and where one could not go on.
#[derive(Debug, clap::Args)]
pub(crate) struct RejoinArgs {
    /// The process number of scash run
    job: u32,
    /// Which host, as it was named to scash run
    host: String,
}

/// Says how jobs are; returns the exit status.
pub(crate) fn status(args: &StatusArgs) -> u8 {
    let all = match args.job {
        Some(job) => Ok(vec![job]),
        None => jobs().map_err(|error| format!("looking for jobs: {error}")),
    };
    let all = match all {
        Ok(all) => all,
        Err(why) => return refused(&why),
    };
    let orphans = if args.job.is_none() { orphans() } else { Vec::new() };
    orphans.iter().for_each(|orphan| print(&format!("{orphan}\n")));
    if all.is_empty() && orphans.is_empty() {
        print("there is no job of yours on this machine\n");
    }
    let mut status = 0;
    for job in all {
        match ask(job, &["status"]) {
            Ok(text) => print(&format!("job {job}: {text}")),
            // It has ended since it was found.
            Err(why) if args.job.is_some() => status = refused(&why),
            Err(_) => {}
        }
    }
    status
}

/// Moves a rank; returns the exit status.
pub(crate) fn migrate(args: &MigrateArgs) -> u8 {
    tell(args.job, &["migrate", &args.rank.to_string(), &args.host])
}

/// Moves ranks away from a host; returns the exit status.
pub(crate) fn drain(args: &DrainArgs) -> u8 {
    tell(args.job, &["drain", &args.host])
}

/// Has a lost host called; returns the exit status.
pub(crate) fn rejoin(args: &RejoinArgs) -> u8 {
    tell(args.job, &["rejoin", &args.host])
}

fn tell(job: u32, words: &[&str]) -> u8 {
    match ask(job, words) {
        Ok(text) => {
            print(&format!("{text}\n"));
            0
        }
        Err(why) => refused(&why),
    }
}

fn refused(why: &str) -> u8 {
    crate::say(why);
    1
}

fn print(text: &str) {
    // A reader that closes the pipe has read enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
