//! `scash run`: starts the ranks of a job, stays with them, and leaves nothing behind. Here is what it does
//! on this machine; [`hosts`] has the rest.
//!
//! Two processes share the work, so that either survives the other:
//!
//! ```text
//!  shell ── front ── launcher ──┬── rank 0 ── whatever it starts
//!             │         ▲       ├── rank 1
//!             └─orders──┘       └── …
//! ```
//!
//! - The **front** ([`front`]) is the process that the shell started. It takes signals and the terminal's
//!   Ctrl-C and Ctrl-Z, passes them on as orders through a pipe, and returns the job's exit status.
//! - The **launcher** ([`job`]) starts the ranks ([`spawn`]), serves their boot lines ([`scash_join::boot`]),
//!   and decides what an exit, an order or a deadline means ([`supervisor`], a value without IO).
//!
//! # How nothing is left behind
//! - A rank is killed by the kernel when the launcher dies (`PR_SET_PDEATHSIG`).
//! - The launcher notices the front's death by the end of the orders' pipe, and kills the ranks.
//! - Both adopt orphans (`PR_SET_CHILD_SUBREAPER`), and kill what is left of the ranks' own children when the
//!   ranks are gone ([`sweep`]). So only the simultaneous death of front *and* launcher can leave a process,
//!   and only a rank's child.
//! - Ranks share memory by memfds, which have no names.
//!
//! # When ranks die
//! The job ends. With `--replicas` all ranks are started again, as [`recovery`] says, and go on from their
//! newest checkpoint.
//!
//! # Signals
//! All processes of a job stay in the front's process group: a terminal works as with any program, for rank
//! 0's stdin too. What the *terminal* sends (Ctrl-C, Ctrl-Z) reaches the ranks by itself, and the front only
//! tells the launcher that it happened; what others send to the front is forwarded to every rank. The
//! launcher itself blocks all these signals.

mod control;
mod cores;
mod exits;
mod front;
mod hosts;
mod job;
mod leftovers;
mod limits;
mod oom;
mod output;
mod plan;
mod processes;
mod program;
mod rank;
mod recovery;
mod replicas;
mod signals;
mod slurm;
mod spawn;
mod supervisor;
mod sweep;

pub(crate) use control::{ask, jobs};
pub(crate) use exits::pidfd_works;
pub(crate) use hosts::{AgentArgs, agent, orphans};
pub(crate) use limits::ranks_for;
pub(crate) use output::say;
pub(crate) use plan::{AUTO, Args, PROVIDERS, VARIABLES};
pub(crate) use rank::{RankArgs, rank};

/// Exit statuses of the command itself, chosen as `env` and `timeout` do.
mod status {
    /// The time given by `--timeout` is over.
    pub(super) const TIMEOUT: u8 = 124;
    /// The launcher itself failed.
    pub(super) const LAUNCHER: u8 = 125;
    /// The program cannot be executed.
    pub(super) const NOT_EXECUTABLE: u8 = 126;
    /// The program does not exist.
    pub(super) const NOT_FOUND: u8 = 127;
    /// The arguments make no sense (clap's own status for that).
    pub(super) const USAGE: u8 = 2;
}

/// Why the command ends before any rank has started.
#[derive(Debug)]
struct Refusal {
    why: String,
    status: u8,
}

impl Refusal {
    fn new(status: u8, why: impl Into<String>) -> Refusal {
        Refusal { why: why.into(), status }
    }
}

/// Go on with a job that was ended, or has lost its launcher.
///
/// A job on several hosts with --replicas outlives its launcher and the host of that for a while (--linger):
/// JOB is what `scash status` calls it on a host of the job that is left. It may be gone on with from any
/// machine that reaches these hosts; what its ranks print appears here.
///
/// A job that was started with --checkpoint-dir goes on from the files in DIR, however it was ended. If its
/// ranks were started by another launcher (scash rank), so is this: `srun -n 4 scash resume DIR`.
///
/// All ranks go on from their newest checkpoint, as the job was started: with its options, its environment
/// and in its working directory.
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    /// The job, or the directory of --checkpoint-dir
    #[arg(value_name = "JOB|DIR", value_hint = clap::ValueHint::DirPath)]
    what: std::path::PathBuf,

    /// Hosts of the job that are left, a,b: the others are called later [default: all are called, and agents
    /// are looked for on this machine]
    #[arg(long, value_name = "HOSTS", value_delimiter = ',')]
    host: Vec<String>,

    /// The command that runs another on a host [default: that of the job; to find it, ssh]
    #[arg(long, value_name = "CMD", env = plan::RSH)]
    rsh: Option<String>,

    /// Where scash lies on the hosts [default: where it lay; to find the job, where it lies here]
    #[arg(long, value_name = "PATH")]
    agent: Option<std::path::PathBuf>,
}

/// Becomes the command that goes on with a job; returns the exit status if it cannot.
pub(crate) fn resume(args: ResumeArgs) -> u8 {
    let ResumeArgs { what, host: hosts, rsh, agent } = args;
    let job = what.to_str().filter(|text| text.parse::<hosts::JobName>().is_ok() && !what.is_dir());
    let Some(job) = job else { return recovery::start_again(&what) };
    let search = hosts::Search { hosts, rsh, agent };
    match hosts::resume(job, search) {
        Err(why) => {
            crate::say(&format!("resume {job}: {why}"));
            status::USAGE
        }
    }
}

/// What becomes of a job whose launcher is killed, for people; to be called in the front.
fn end_with_launcher(plan: &plan::Plan) -> String {
    let mut end = "the ranks have ended with it".to_owned();
    let linger = plan.replicas.as_ref().and_then(|replicas| replicas.linger);
    if let (Some(hosts), Some(linger)) = (&plan.hosts, linger)
        && hosts.names.len() > 1
    {
        let former = hosts.former.as_ref().map(|former| former.job.to_string());
        let (job, time) = (former.unwrap_or_else(|| std::process::id().to_string()), linger.as_secs());
        end += &format!("; for {time} s, `scash resume {job}` goes on with what other hosts keep");
    }
    end
}

/// Runs a job; returns the exit status.
pub(crate) fn run(args: Args) -> u8 {
    let done = plan::check(args).and_then(|plan| {
        let end = Some(end_with_launcher(&plan));
        if let Some(hosts) = &plan.hosts {
            limits::make_room(hosts.layout.hosts(), "hosts")?;
            return front::run(end, |orders| hosts::run(&plan, hosts, orders));
        }
        limits::make_room(plan.ranks, "ranks")?;
        front::run(end, |orders| job::run(&plan, orders))
    });
    done.unwrap_or_else(|refusal| {
        crate::say(&refusal.why);
        refusal.status
    })
}
