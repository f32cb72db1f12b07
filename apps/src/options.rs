//! The options that all programs have.

use std::num::NonZeroUsize;

use clap::Args;

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
