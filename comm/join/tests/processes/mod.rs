//! Ranks in processes of their own: this test's program, started again for each.

#![allow(dead_code, reason = "each test uses a part of it")]

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use scash_join::boot::{Host, Invitation, Settings};
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a test may last.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A process that does not outlive its test.
pub(crate) struct Rank(pub(crate) Child);

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        // What libfabric's `shm` leaves of a process that was killed. There is no launcher here, which would
        // remove it.
        for entry in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&format!("{}:", self.0.id())) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// This program as the command of a rank that plays the test named `test`; `before` are words that the
/// command begins with.
pub(crate) fn command(before: &[String], test: &str) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut command = match before.split_first() {
        None => Command::new(program),
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    command.args(["--exact", test, "--nocapture"]);
    command
}

/// Starts a rank that is invited by this command.
pub(crate) fn start(invitation: Invitation, mut command: Command) -> Rank {
    let line = std::os::fd::AsRawFd::as_raw_fd(&invitation.line);
    command.envs(invitation.env);
    let keep = move || {
        // SAFETY: the descriptor is open in the parent until the child has started.
        let line = unsafe { BorrowedFd::borrow_raw(line) };
        fcntl(line, FcntlArg::F_SETFD(FdFlag::empty()))?;
        Ok(())
    };
    // SAFETY: between fork and exec there is one system call.
    unsafe { command.pre_exec(keep) };
    Rank(command.spawn().unwrap())
}

/// How two ranks end that play `test` of this program over a provider.
pub(crate) fn play(test: &str, provider: &str) -> [ExitStatus; 2] {
    let mut host = Host::new(2, Settings { threads: 1, provider: provider.to_owned() }).unwrap();
    let mut ranks = [0, 1].map(|rank| start(host.invite(rank).unwrap(), command(&[], test)));
    let deadline = Instant::now() + LIMIT;
    loop {
        host.turn();
        let ends = [0, 1].map(|rank: usize| ranks[rank].0.try_wait().unwrap());
        if let [Some(first), Some(second)] = ends {
            return [first, second];
        }
        assert!(Instant::now() < deadline, "the ranks did not come to an end: {ends:?}");
        sleep(Duration::from_millis(1));
    }
}
