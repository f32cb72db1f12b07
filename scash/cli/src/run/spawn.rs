//! Starts the process of a rank.

use super::exits::pidfd;
use super::plan::Plan;
use super::{Refusal, signals, status};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpid, getppid};
use scash_comm::boot::Host;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A rank's process.
#[derive(Debug)]
pub(super) struct Rank {
    pub(super) pid: Pid,
    /// Readable when the process has ended.
    pub(super) pidfd: OwnedFd,
    /// The read ends of its stdout and stderr, where output is labelled.
    pub(super) output: Option<(OwnedFd, OwnedFd)>,
}

/// Starts rank number `rank`.
pub(super) fn spawn(plan: &Plan, host: &mut Host, rank: u32) -> Result<Rank, Refusal> {
    let refuse = |why: String| Refusal::new(status::LAUNCHER, format!("starting rank {rank}: {why}"));
    let invitation = host.invite(rank).map_err(|error| refuse(error.to_string()))?;
    let mut command = Command::new(&plan.program.path);
    command.arg0(&plan.program.name).args(&plan.arguments);
    command.envs(plan.env.iter().map(|(name, value)| (name, value)));
    command.envs(invitation.env);
    if rank > 0 {
        command.stdin(Stdio::null());
    }
    if plan.label {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let launcher = getpid();
    let line = invitation.line;
    // SAFETY: `prepare` makes system calls only, as the child of a process with several threads must.
    unsafe { command.pre_exec(move || prepare(launcher, &line)) };
    let child = command.spawn().map_err(|error| not_started(plan, &error))?;
    let pid = Pid::from_raw(i32::try_from(child.id()).map_err(|error| refuse(error.to_string()))?);
    let pidfd =
        pidfd(pid).map_err(|error| refuse(format!("pidfd_open (Linux 5.3 or newer is needed): {error}")))?;
    Ok(Rank { pid, pidfd, output: output_of(child) })
}

/// What the child does between fork and exec.
fn prepare(launcher: Pid, line: &OwnedFd) -> io::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != launcher {
        // The launcher died before it was asked for, and no signal will come.
        return Err(io::ErrorKind::Interrupted.into());
    }
    signals::unblock()?;
    fcntl(line.as_fd(), FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}

/// The pipes of a child whose exit is awaited through its pidfd.
fn output_of(mut child: Child) -> Option<(OwnedFd, OwnedFd)> {
    Some((child.stdout.take()?.into(), child.stderr.take()?.into()))
}

fn not_started(plan: &Plan, error: &io::Error) -> Refusal {
    let program = plan.program.path.display();
    match error.raw_os_error() {
        Some(libc::ENOEXEC) => Refusal::new(
            status::NOT_EXECUTABLE,
            format!(
                "{program}: not a program for this machine (a script needs a first line such as #!/bin/sh)"
            ),
        ),
        Some(libc::ENOENT) => Refusal::new(
            status::NOT_EXECUTABLE,
            format!("{program}: its interpreter or dynamic linker does not exist"),
        ),
        Some(libc::EAGAIN | libc::ENOMEM) => Refusal::new(
            status::LAUNCHER,
            format!(
                "{program}: no room for {} processes: {error} (see `ulimit -u`), start fewer ranks",
                plan.ranks
            ),
        ),
        _ => Refusal::new(status::NOT_EXECUTABLE, format!("{program}: {error}")),
    }
}
