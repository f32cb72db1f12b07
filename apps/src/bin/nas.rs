//! A kernel of the NAS Parallel Benchmarks on message passing; see [`scash_apps::nas`].

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::Parser;
use scash_apps::nas::Kernel;
use scash_apps::nas::report::{Setting, write_json, write_text};
use scash_apps::npb::Class;
use scash_apps::{Error, Result};
use scash_messages::{MessageLibrary, Messages, Spoiled, join};
use scash_mp::Options;

/// Kernels of the NAS Parallel Benchmarks on message passing.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// What to compute
    #[arg(long, value_name = "K", ignore_case = true)]
    kernel: Kernel,

    /// The size of the problem
    #[arg(long, value_name = "C", ignore_case = true, default_value = "S")]
    class: Class,

    /// Compute this many times
    #[arg(long, value_name = "R", default_value = "1")]
    repeat: NonZeroUsize,

    /// What messages travel over: `scash`, or `mpi:` and the path of a shim that was compiled for an MPI
    /// library
    #[arg(long, value_name = "M", default_value = "scash")]
    messages: MessageLibrary,

    /// Make some bits of messages wrong: the result must not be verified then
    #[arg(long, hide = true)]
    spoil: bool,

    /// Print one JSON object per repetition
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs all repetitions; whether all were verified.
fn run(arguments: &Arguments) -> Result<bool> {
    let joined = join(&arguments.messages, Options::default()).map_err(Error::JoinMessages)?;
    let messages = joined.messages();
    let verified =
        if arguments.spoil { repeat(arguments, &Spoiled(messages)) } else { repeat(arguments, messages) }?;
    joined.finalize()?;
    Ok(verified)
}

fn repeat(arguments: &Arguments, messages: &dyn Messages) -> Result<bool> {
    let Arguments { kernel, class, .. } = *arguments;
    let mode = match arguments.messages {
        MessageLibrary::Scash => "scash",
        MessageLibrary::Mpi(_) => "mpi",
    };
    let setting = Setting { program: "nas", mode, threads: 1, ranks: messages.size(), kernel, class };
    let mut verified = true;
    for repetition in 0..arguments.repeat.get() {
        let outcome = kernel.run(class, messages)?;
        verified &= outcome.verified;
        if messages.rank() == 0 {
            let mut out = io::stdout().lock();
            if arguments.json {
                write_json(&mut out, &setting, repetition, &outcome)?;
            } else {
                write_text(&mut out, &setting, &outcome)?;
            }
            out.flush()?;
        }
    }
    Ok(verified)
}
