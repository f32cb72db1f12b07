//! `scash rank`: what another launcher starts in place of a program whose ranks are to have checkpoints in
//! files. Each process keeps one rank as its child, and is to it what `scash run` is to all of its ranks.
//!
//! ```text
//!  srun -n 2 ──┬── scash rank (0) ── rank 0      the keepers: PMI or PMIx, lines, output, stores
//!              │       ▲ ▲ lines
//!              └── scash rank (1) ── rank 1      the ranks: nothing of the launcher's is in their images
//! ```
//!
//! - Keepers meet and agree ([`agree`](super::recovery::agree)), and then each starts its rank ([`keep`]).
//! - A rank is killed by the kernel when its keeper dies. When rank 0's keeper dies, which serves the others,
//!   these kill their ranks. Nobody starts a rank again: a job that has lost one is ended by its launcher,
//!   and the user starts it anew (`srun -n 2 scash resume DIR`).
//! - Rank 0's keeper ends last. It removes the files if all ranks have ended well.

mod keep;

use super::plan::Task;
use super::recovery::{self, KeeperOptions, Refused};
use super::replicas::Schedule;
use super::{Refusal, output, program, status};
use clap::ValueHint;
use scash_join::boot::Gathering;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How long a keeper stays that ends with an error. On a busy host MPICH's mpiexec 4.0.2 forgets, one time in
/// eight, what processes have written to stderr that end together.
const LAST_WORDS: Duration = Duration::from_millis(50);

/// Run a rank that another launcher starts (srun, mpiexec, mpirun), with checkpoints in files.
///
/// Put it before the program: `srun -n 4 scash rank --checkpoint-dir DIR ./program`. If the job is ended, by
/// whatever, `srun -n 4 scash resume DIR` goes on from the newest checkpoint. All ranks must be on one host,
/// and settings are the SCASH_* variables. What ranks print appears once it is part of a checkpoint; they see
/// files instead of a terminal, and read /dev/null, or at rank 0 a file. A job that ends well leaves no file
/// in DIR. The exit status is that of the rank (128 + N if signal N killed it), 125 if scash itself fails.
#[derive(Debug, clap::Args)]
pub(crate) struct RankArgs {
    /// Where checkpoints are kept, each on its disk before it counts
    #[arg(long, value_name = "DIR", group = "survival", required = true, value_hint = ValueHint::DirPath)]
    checkpoint_dir: PathBuf,

    /// Go on with the job of a directory (scash resume says so)
    #[arg(long, value_name = "DIR", hide = true)]
    resume: Option<PathBuf>,

    #[command(flatten)]
    schedule: Schedule,

    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// Keeps a rank to its end; returns the exit status.
pub(crate) fn rank(args: RankArgs) -> u8 {
    let status = run(args).unwrap_or_else(|refused| match refused {
        Refused::Here(refusal) => {
            crate::say(&refusal.why);
            refusal.status
        }
        Refused::Elsewhere => status::LAUNCHER,
    });
    output::finish_saying();
    if status != 0 {
        std::thread::sleep(LAST_WORDS);
    }
    status
}

fn run(args: RankArgs) -> Result<u8, Refused> {
    let mut command = args.command.into_iter();
    let Some(name) = command.next() else {
        return Err(Refusal::new(
            status::USAGE,
            "which program? use `scash rank --checkpoint-dir DIR PROGRAM`",
        )
        .into());
    };
    let task = Task { program: program::find(&name)?, arguments: command.collect(), env: Vec::new() };
    recovery::fix_addresses()?;
    let var = |name: &str| std::env::var_os(name);
    let gathering =
        Gathering::find(&var).map_err(|error| Refusal::new(status::LAUNCHER, error.to_string()))?;
    let resumes = args.resume.is_some();
    let directory = args.resume.unwrap_or(args.checkpoint_dir);
    let Some(gathering) = gathering else { return Err(without_launcher(resumes, &directory).into()) };
    let launcher = launcher(&gathering);
    let options = KeeperOptions { directory, resumes, launcher, env: args.schedule.env(gathering.size())? };
    keep::keep(recovery::agree(gathering, options)?, &task).map_err(Refused::Here)
}

/// What to say where no launcher has started this process.
fn without_launcher(resumes: bool, directory: &std::path::Path) -> Refusal {
    let how =
        if resumes { recovery::how_a_job_goes_on(directory) } else { "srun -n N scash rank …".to_owned() };
    let instead =
        if resumes { "" } else { "; without one, use `scash run -n N --checkpoint-dir DIR PROGRAM`" };
    let why = format!(
        "the ranks of this job are started by srun, mpiexec or mpirun, and none of them has started this process: `{how}`{instead}"
    );
    Refusal::new(status::USAGE, why)
}

/// The command of the launcher that has started this process.
fn launcher(gathering: &Gathering) -> &'static str {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let is_slurms = number("SLURM_PROCID") == Some(gathering.rank())
        && number("SLURM_STEP_NUM_TASKS") == Some(gathering.size());
    match std::env::var_os("PMI_FD") {
        _ if is_slurms => "srun",
        Some(_) => "mpiexec",
        None => "mpirun",
    }
}
