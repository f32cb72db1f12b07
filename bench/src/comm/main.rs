//! `scash-comm-bench`: measures one thing that message passing does, on the ranks of a job.
//!
//! `scash run -n N [--provider P] scash-comm-bench WHAT` prints one line a figure's length; `scash bench
//! comm` makes tables of many. What is measured is said where each is: [`transfer`], [`get`], [`together`],
//! [`unposted`], [`matching`], [`overlap`], [`memory`], [`sockets`]. The same program runs under the
//! launchers of MPI libraries (`--over mpi:SHIM`).
//!
//! **All ranks do the same calls**, as many as the options say. Rank 0 takes the time and tells it.
//!
//! The thread that measures is pinned to a processor, each rank's to its own, if there are as many. What
//! makes progress in the background has begun before, and may use any.

mod exchange;
mod get;
mod matching;
mod memory;
mod overlap;
mod protocol;
mod record;
mod sockets;
mod together;
mod transfer;
mod unposted;

use clap::{Parser, Subcommand};
use memory::Resident;
use protocol::Protocol;
use record::{BenchResult, Figures};
use scash_bench::cores;
use scash_messages::{Joined, MessageLibrary, Messages, join};
use scash_mp::Thresholds;
use sockets::Sockets;
use std::ops::DerefMut;
use std::process::ExitCode;
use std::time::Instant;
use transfer::{Pair, Ranks};

/// Measure one thing that message passing does, on the ranks of a job: `scash run -n 2 scash-comm-bench
/// transfer`.
#[derive(Parser)]
#[command(name = "scash-comm-bench", version, args_override_self = true)]
struct Arguments {
    #[command(subcommand)]
    what: Command,

    /// What carries the messages: `scash`, or `mpi:` and the path of a compiled shim
    #[arg(long, global = true, default_value = "scash")]
    over: MessageLibrary,

    /// By which protocol scash sends them
    #[arg(long, global = true, value_enum, default_value_t)]
    protocol: Protocol,

    /// Print JSON objects, one a line
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    Transfer(transfer::Options),
    /// The same on a bare TCP connection between the two ranks
    Sockets(transfer::Options),
    Get(get::Options),
    Barrier(together::Barrier),
    AllToAll(together::AllToAll),
    Random(unposted::Options),
    Matching(matching::Options),
    Overlap(overlap::Options),
    /// Memory that joining, and messages to all, take of a rank
    Memory,
    /// Nothing: rank 0 says that it has joined, and where protocols change in messages to the last rank
    Hello,
}

/// Why there is nothing to print.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{0}")]
    Comm(#[from] scash_comm::Error),
    #[error("this is measured between two ranks, and there are {0}: start it with `scash run -n 2`")]
    NotTwo(u32),
    #[error("a message has come with other bytes than were sent")]
    WrongData,
    #[error("one-sided gets are measured over scash only")]
    NotOneSided,
    #[error("there are no samples: ask for more rounds")]
    NoSamples,
    #[error("a bare connection: {0}")]
    Bare(std::io::Error),
    #[error("cannot read {0}: {1}")]
    Proc(&'static str, std::io::Error),
    #[error("{0} does not say how much memory this process has")]
    NoMemory(&'static str),
    #[error("cannot print the figures: {0}")]
    Output(#[from] std::io::Error),
}

type Result<T> = std::result::Result<T, Error>;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let before = Resident::now()?;
    let joined = join(&arguments.over, arguments.protocol.options()?)?;
    let session = Session { joined, registered: arguments.protocol.is_registered(), json: arguments.json };
    cores::take(session.messages().rank() as usize, session.messages().size() as usize);
    session.measure(&arguments.what, before)?;
    Ok(session.joined.finalize()?)
}

/// A rank that has joined, and how it measures.
struct Session {
    joined: Joined,
    /// Whether what is sent lies in registered memory.
    registered: bool,
    json: bool,
}

impl Session {
    fn messages(&self) -> &dyn Messages {
        self.joined.messages()
    }

    fn measure(&self, what: &Command, before: Resident) -> Result<()> {
        let messages = self.messages();
        match what {
            Command::Transfer(options) => self.transfer("transfer", &mut Ranks::of(messages)?, options),
            Command::Sockets(options) => self.transfer("sockets", &mut Sockets::connect(messages)?, options),
            Command::Get(options) => options.lengths.iter().try_for_each(|&len| {
                self.tell("get", &[("length", len)], || options.measure(&self.joined, len))
            }),
            Command::Barrier(options) => self.tell("barrier", &[], || options.measure(messages)),
            Command::AllToAll(options) => options.lengths.iter().try_for_each(|&len| {
                self.tell("all-to-all", &[("length", len)], || options.measure(messages, len))
            }),
            Command::Random(options) => self.tell("random", &[], || options.measure(&self.joined)),
            Command::Matching(options) => options.posted.iter().try_for_each(|&posted| {
                self.tell("matching", &[("posted", posted.into())], || options.measure(messages, posted))
            }),
            Command::Overlap(options) => self.tell("overlap", &[("length", options.len)], || {
                options.measure(messages, &mut self.memory(options.len)?)
            }),
            Command::Memory => self.tell("memory", &[], || before.growth(messages)),
            Command::Hello => self.tell("hello", &[], || self.thresholds()),
        }
    }

    fn transfer(&self, mode: &str, pair: &mut impl Pair, options: &transfer::Options) -> Result<()> {
        options.lengths.iter().try_for_each(|&len| {
            let mut mine = self.memory(len)?;
            self.tell(mode, &[("length", len)], || transfer::measure(pair, &mut mine, options.rounds))
        })
    }

    /// Where scash's protocols change, to the rank that is farthest from this one.
    fn thresholds(&self) -> Result<Figures> {
        let figures = Figures::default();
        let Joined::Scash(world) = &self.joined else { return Ok(figures) };
        let Thresholds { eager, push } = world.thresholds(world.size() - 1)?;
        Ok(figures.figure("eager_bytes", eager as f64).figure("push_bytes", push as f64))
    }

    /// Memory to send from.
    fn memory(&self, len: usize) -> Result<Box<dyn DerefMut<Target = [u8]>>> {
        Ok(match &self.joined {
            Joined::Scash(world) if self.registered => Box::new(world.allocate(len)?),
            _ => Box::new(vec![0; len]),
        })
    }

    /// Measures, and prints what was found at rank 0.
    fn tell(
        &self,
        mode: &str,
        parameters: &[(&str, usize)],
        work: impl FnOnce() -> Result<Figures>,
    ) -> Result<()> {
        let start = Instant::now();
        let figures = work()?;
        if self.messages().rank() > 0 {
            return Ok(());
        }
        let (ranks, seconds) = (self.messages().size(), start.elapsed().as_secs_f64());
        BenchResult { mode, ranks, seconds, parameters, figures }.print(self.json)
    }
}
