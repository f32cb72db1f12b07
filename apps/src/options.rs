//! The options that all programs have, and a program's `main`.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::Result;
use crate::program::{Program, run};

/// How to run a program, and what to print.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Run on one thread, without the DSM
    #[arg(long, conflicts_with = "threads")]
    pub sequential: bool,

    /// Run on this many threads of one process, without the DSM
    #[arg(long, value_name = "T")]
    pub threads: Option<NonZeroUsize>,

    /// Keep each of the threads on a processor of its own
    #[arg(long, requires = "threads", conflicts_with = "sequential")]
    pub pin: bool,

    /// Initialise and compute this many times
    #[arg(long, value_name = "R", default_value = "1")]
    pub repeat: NonZeroUsize,

    /// Compare the whole result with the sequential one, bit for bit
    #[arg(long)]
    pub check: bool,

    /// Print one JSON object per repetition
    #[arg(long)]
    pub json: bool,
}

/// On what a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One thread.
    Sequential,
    /// Threads of one process.
    Threads(NonZeroUsize),
    /// Ranks of a DSM.
    Dsm,
}

impl Options {
    /// The mode that the options ask for.
    pub fn mode(&self) -> Mode {
        match self.threads {
            _ if self.sequential => Mode::Sequential,
            Some(count) => Mode::Threads(count),
            None => Mode::Dsm,
        }
    }
}

/// Runs a program and reports: with success if nothing went wrong and no result differs from the sequential
/// one.
pub fn main(program: Result<impl Program + Serialize>, options: &Options) -> ExitCode {
    let outcome = program.and_then(|program| {
        let Some(report) = run(&program, options)? else { return Ok(false) };
        let mut out = io::stdout().lock();
        if options.json {
            report.write_json(&mut out, &program)?
        } else {
            report.write_text(&mut out)?
        }
        out.flush()?;
        Ok(report.differs())
    });
    match outcome {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
