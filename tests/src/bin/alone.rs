//! Joins a job, uses shared memory, and ends in the way that its argument names, without leaving the job.

use scash::Dsm;
use std::process::{ExitCode, abort};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::from(3),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> scash::Result<()> {
    let mut dsm = Dsm::init()?;
    let mut numbers = dsm.partition::<u64>(100_000)?;
    numbers.parts(&dsm).mine.fill(dsm.size() as u64);
    numbers.publish(&mut dsm)?;
    assert_eq!(numbers.all(&dsm).iter().sum::<u64>(), 100_000, "one rank");
    if std::env::args().nth(1).as_deref() == Some("aborts") {
        abort();
    }
    std::process::exit(3);
}
