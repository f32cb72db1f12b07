//! A slow line: `late MILLISECONDS` passes its standard input on, all of it so much later.

#![allow(clippy::unwrap_used, reason = "a test's program")]

use std::io::{Read, Write, stdin, stdout};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

fn main() {
    let delay = Duration::from_millis(std::env::args().nth(1).unwrap().parse().unwrap());
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = stdin().read(&mut buffer) {
            if sender.send((Instant::now() + delay, buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    });
    for (due, bytes) in receiver {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        // Who does not read any more needs no more.
        if stdout().write_all(&bytes).and_then(|()| stdout().flush()).is_err() {
            return;
        }
    }
}
