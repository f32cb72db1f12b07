//! Starts the process of a rank.

use super::plan::Task;
use super::recovery::{self, RankSetup};
use super::{Refusal, cores, signals, status};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sched::CpuSet;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpid, getppid};
use scash_comm::descriptors::pidfd;
use scash_join::boot::Invitation;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// A rank's process.
#[derive(Debug)]
pub(super) struct Rank {
    pub(super) pid: Pid,
    /// Readable when the process has ended.
    pub(super) pidfd: OwnedFd,
}

/// What becomes of a rank's standard streams.
#[derive(Debug)]
pub(super) struct Streams {
    /// Whether it reads what this process reads.
    pub(super) stdin: bool,
    /// Where it prints, and what else is its own.
    pub(super) setup: RankSetup,
}

/// Starts rank number `rank`, bound to the processors of `place` if there is one.
pub(super) fn spawn(
    task: &Task,
    streams: Streams,
    invitation: scash_comm::Result<Invitation>,
    rank: u32,
    place: Option<CpuSet>,
) -> Result<Rank, Refusal> {
    let refuse = |why: String| Refusal::new(status::LAUNCHER, format!("starting rank {rank}: {why}"));
    let invitation = invitation.map_err(|error| refuse(error.to_string()))?;
    let mut command = Command::new(&task.program.path);
    command.arg0(&task.program.name).args(&task.arguments);
    command.envs(task.env.iter().map(|(name, value)| (name, value)));
    command.envs(invitation.env);
    // Those of a job to which this process itself belongs mean nothing here.
    for variable in recovery::VARIABLES {
        command.env_remove(variable);
    }
    command.envs(streams.setup.env);
    if place.is_some() {
        command.env(cores::BOUND, "on");
    }
    if !streams.stdin {
        command.stdin(Stdio::null());
    }
    if let Some(stdout) = streams.setup.output.stdout {
        command.stdout(stdout);
    }
    if let Some(stderr) = streams.setup.output.stderr {
        command.stderr(stderr);
    }
    let launcher = getpid();
    let (line, inherited) = (invitation.line, streams.setup.inherited);
    // SAFETY: `prepare` makes system calls only, as the child of a process with several threads must.
    unsafe { command.pre_exec(move || prepare(launcher, &line, &inherited, place.as_ref())) };
    let child = command.spawn().map_err(|error| not_started(task, &error))?;
    let pid = Pid::from_raw(i32::try_from(child.id()).map_err(|error| refuse(error.to_string()))?);
    let pidfd =
        pidfd(pid).map_err(|error| refuse(format!("pidfd_open (Linux 5.3 or newer is needed): {error}")))?;
    Ok(Rank { pid, pidfd })
}

/// What the child does between fork and exec.
fn prepare(launcher: Pid, line: &OwnedFd, inherited: &[RawFd], place: Option<&CpuSet>) -> io::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != launcher {
        // The launcher died before it was asked for, and no signal will come.
        return Err(io::ErrorKind::Interrupted.into());
    }
    signals::unblock()?;
    place.map_or(Ok(()), cores::bind)?;
    fcntl(line.as_fd(), FcntlArg::F_SETFD(FdFlag::empty()))?;
    for &fd in inherited {
        // SAFETY: whoever has put it there keeps it open in the launcher, and this process is a copy of it.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))?;
    }
    Ok(())
}

fn not_started(task: &Task, error: &io::Error) -> Refusal {
    let program = task.program.path.display();
    match error.raw_os_error() {
        Some(libc::ENOEXEC) => Refusal::new(
            status::NOT_EXECUTABLE,
            format!(
                "{program}: not a program for this machine (a script needs a first line such as #!/bin/sh)"
            ),
        ),
        Some(libc::ENOENT) if !task.program.path.exists() => {
            Refusal::new(status::NOT_EXECUTABLE, format!("{program}: it is not there any more"))
        }
        Some(libc::ENOENT) => Refusal::new(
            status::NOT_EXECUTABLE,
            format!("{program}: its interpreter or dynamic linker does not exist"),
        ),
        Some(libc::EAGAIN | libc::ENOMEM) => Refusal::new(
            status::LAUNCHER,
            format!("{program}: no room for another process: {error} (see `ulimit -u`), start fewer ranks"),
        ),
        _ => Refusal::new(status::NOT_EXECUTABLE, format!("{program}: {error}")),
    }
}
