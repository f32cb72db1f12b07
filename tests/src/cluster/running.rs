//! Commands of the user's for a job that runs.

use super::built::built;
use super::{Ended, run};
use std::process::Command;
use std::time::{Duration, Instant};

/// Runs such a command to its end.
pub fn scash(words: &[&str]) -> Ended {
    let mut command = Command::new(built("scash"));
    command.args(words);
    run(command)
}

/// Waits until `scash status` says these words of a job.
pub fn wait_for_status(job: i32, words: &str) {
    wait_for_status_meanwhile(job, words, || {});
}

/// The same, and does something each time that it does not.
pub fn wait_for_status_meanwhile(job: i32, words: &str, mut meanwhile: impl FnMut()) {
    let started = Instant::now();
    loop {
        let ended = scash(&["status", &job.to_string()]);
        if ended.out.contains(words) {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{words}: {ended}");
        meanwhile();
        std::thread::sleep(Duration::from_millis(20));
    }
}
