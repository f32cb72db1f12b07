//! Programs of others, which may never end: how long they are waited for.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at whether a program has ended.
const TICK: Duration = Duration::from_millis(20);
/// How much longer a launcher has to end its ranks itself, and then to obey.
const GRACE: Duration = Duration::from_secs(5);

/// How long the programs of others are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub(super) struct Limit {
    /// With --compare: seconds after which a run of an MPI library is taken never to end
    #[arg(long = "limit", value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

impl Default for Limit {
    fn default() -> Self {
        Self { seconds: 120 }
    }
}

impl fmt::Display for Limit {
    /// As a table says it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no end in {} s", self.seconds)
    }
}

/// Why a program has printed nothing that counts.
#[derive(Debug)]
pub(super) enum RunFailure {
    /// It had not ended after so long.
    NoEnd(String),
    Other(String),
}

impl fmt::Display for RunFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (RunFailure::NoEnd(why) | RunFailure::Other(why)) = self;
        f.write_str(why)
    }
}

impl Limit {
    /// Runs a launcher of MPI ranks to its end.
    ///
    /// # Errors
    /// It could not be started, or did not end.
    pub(super) fn output(
        self,
        mut launcher: Command,
        job: &dyn std::fmt::Display,
    ) -> Result<Output, RunFailure> {
        let limit = Duration::from_secs(self.seconds.into());
        // Both launchers that there are end a job after so many seconds, if they still can.
        launcher.env("MPIEXEC_TIMEOUT", self.seconds.to_string());
        let start = Instant::now();
        match output(launcher, limit + GRACE) {
            Ok(Some(output)) if output.status.success() || start.elapsed() < limit => Ok(output),
            Ok(_) => Err(RunFailure::NoEnd(format!("{job}: {self}"))),
            Err(error) => Err(RunFailure::Other(format!("cannot start {job}: {error}"))),
        }
    }
}

/// Runs a command to its end, and returns what it has printed; or ends it, if it takes longer than that, and
/// all of its process group.
fn output(mut command: Command, limit: Duration) -> io::Result<Option<Output>> {
    let deadline = Instant::now() + limit;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let (stdout, stderr) = (read(child.stdout.take()), read(child.stderr.take()));
    let ended = wait(&mut child, deadline)?;
    if ended.is_none() {
        end(&mut child)?;
    }
    // What is left of its ranks may hold the pipes, and is not waited for.
    let rest = Duration::from_secs(1);
    let printed = |pipe: Receiver<Vec<u8>>| pipe.recv_timeout(rest).unwrap_or_default();
    let (stdout, stderr) = (printed(stdout), printed(stderr));
    Ok(ended.map(|status| Output { status, stdout, stderr }))
}

/// Reads a pipe to its end, beside what else is done.
fn read(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What could be read counts; and if nobody waits for it any more, nobody misses it.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        let _ = sender.send(bytes);
    });
    receiver
}

/// Waits for the end of a process; `None`: it has not come by then.
fn wait(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(TICK);
    }
}

/// Has a process end, and all of its group: first it is asked to, so that a launcher can end its ranks.
fn end(child: &mut Child) -> io::Result<()> {
    let group = i32::try_from(child.id()).map(Pid::from_raw).map_err(io::Error::other)?;
    // The process was not waited for, so the number is still its own. If the signal finds nobody, it is
    // ending.
    let _ = killpg(group, Signal::SIGTERM);
    if wait(child, Instant::now() + GRACE)?.is_none() {
        let _ = killpg(group, Signal::SIGKILL);
        child.wait()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Option<Output> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        output(command, limit).unwrap()
    }

    #[test]
    fn what_a_program_prints_and_how_it_ends_is_told() {
        let done = shell("echo out; echo err >&2; exit 3", Duration::from_secs(60)).unwrap();
        assert_eq!(
            (done.status.code(), &done.stdout[..], &done.stderr[..]),
            (Some(3), &b"out\n"[..], &b"err\n"[..])
        );
        let much = shell("head -c 1000000 /dev/zero", Duration::from_secs(60)).unwrap();
        assert_eq!(much.stdout.len(), 1_000_000);
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        assert!(shell("echo begun; exec sleep 1000", Duration::from_millis(50)).is_none());
        // One that would not obey is not asked again; what it has started goes with it.
        assert!(shell("trap '' TERM; sleep 1000 & wait; wait", Duration::from_millis(50)).is_none());
    }

    #[test]
    fn a_table_says_after_which_time_there_was_no_end() {
        assert_eq!(Limit::default().to_string(), "no end in 120 s");
    }
}
