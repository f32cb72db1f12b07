//! A long line: `late MILLISECONDS COMMAND…` runs a command, and passes its standard output on so much later.
//! Ends as the command does.

#![allow(clippy::unwrap_used, reason = "a test's program")]

use nix::sys::signal::{Signal, raise};
use std::io::{Read, Write, stdout};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let delay = arguments.next().unwrap().to_str().unwrap().parse().map(Duration::from_millis).unwrap();
    let mut command = Command::new(arguments.next().unwrap());
    // It has this process's input, and ends when this process does.
    command.args(arguments).stdout(Stdio::piped());
    // SAFETY: the call takes a number.
    unsafe { command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?)) };
    let mut child = command.spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = output.read(&mut buffer) {
            if sender.send((Instant::now() + delay, buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    });
    for (due, bytes) in receiver {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        // Who does not read any more needs no more.
        if stdout().write_all(&bytes).and_then(|()| stdout().flush()).is_err() {
            break;
        }
    }
    let status = child.wait().unwrap();
    if let Some(signal) = status.signal() {
        raise(Signal::try_from(signal).unwrap()).unwrap();
    }
    std::process::exit(status.code().unwrap());
}
