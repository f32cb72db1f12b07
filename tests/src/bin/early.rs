//! A rank that is killed while others join: `early DIR`. In the first incarnation rank 1 kills rank 0 when it
//! is about to connect to that one, and stops the launcher for a second, which so learns of it later than
//! rank 1 does. `DIR/told` is there if the library has told rank 1's program. Reports as an application does
//! with `--check --json`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test's program")]

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid, getppid};
use scash::Dsm;
use std::fs::{File, read_to_string, write};
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// A file of this job.
fn file(name: &str) -> PathBuf {
    PathBuf::from(std::env::args_os().nth(1).unwrap()).join(name)
}

/// Kills rank 0, whose launcher learns of it in a second.
fn kill_rank_0() {
    let (launcher, victim) = (getppid(), read_to_string(file("rank-0")).unwrap());
    kill(launcher, Signal::SIGSTOP).unwrap();
    let later = format!("(sleep 1; kill -CONT {launcher}) &");
    Command::new("sh").args(["-c", &later]).status().unwrap();
    kill(Pid::from_raw(victim.parse().unwrap()), Signal::SIGKILL).unwrap();
    // It has no sockets any more when nobody but its parent knows it.
    let has_ended = || read_to_string(format!("/proc/{victim}/stat")).unwrap().contains(") Z ");
    while !has_ended() {
        sleep(Duration::from_millis(1));
    }
}

/// The C library's, by which ranks connect.
///
/// # Safety
/// As of `connect`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(
    socket: libc::c_int,
    address: *const libc::sockaddr,
    len: libc::socklen_t,
) -> libc::c_int {
    // SAFETY: the caller's promise.
    let family = i32::from(unsafe { (*address).sa_family });
    let is_rank_1 = std::env::var("SCASH_RANK").is_ok_and(|rank| rank == "1");
    if family == libc::AF_INET && is_rank_1 && File::create_new(file("killed")).is_ok() {
        kill_rank_0();
    }
    // SAFETY: likewise.
    let result = unsafe { libc::syscall(libc::SYS_connect, socket, address, len) };
    libc::c_int::try_from(result).unwrap()
}

fn main() {
    if std::env::var("SCASH_RANK").is_ok_and(|rank| rank == "0") {
        write(file("rank-0"), getpid().to_string()).unwrap();
    }
    let mut dsm = Dsm::init().unwrap_or_else(|error| {
        write(file("told"), error.to_string()).unwrap();
        std::process::exit(2)
    });
    dsm.barrier().unwrap();
    if dsm.rank() == 0 {
        println!(r#"{{"check":"equal"}}"#);
    }
    dsm.finalize().unwrap();
}
