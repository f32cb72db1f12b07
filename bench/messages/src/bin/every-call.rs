//! Makes every call of `Messages` on the ranks of a job, and compares what comes of it with what must:
//! `every-call [scash|mpi:SHIM]`.

#![allow(clippy::print_stdout, reason = "a program that says how it went")]

use scash_messages::{MessageLibrary, every_call, join};
use scash_mp::Options;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let over: MessageLibrary = std::env::args().nth(1).unwrap_or_else(|| "scash".to_owned()).parse()?;
    let joined = join(&over, Options::default()).map_err(|error| error.to_string())?;
    let messages = joined.messages();
    let (rank, size) = (messages.rank(), messages.size());
    every_call::check(messages).map_err(|error| format!("rank {rank}: {error}"))?;
    joined.finalize().map_err(|error| error.to_string())?;
    if rank == 0 {
        println!("{size} ranks: every call is right");
    }
    Ok(())
}
