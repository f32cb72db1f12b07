//! `scash-bench`, which `scash bench` starts: measures scash on this machine, and makes tables of it.
//!
//! Every figure comes from a program of its own, which is started ([`runner`]) as any user would start it,
//! and prints records ([`scash_bench::record`]): `laplace` and `lu` ([`apps`]), more of `apps` ([`cache`],
//! [`adaptive`]), `scash-micro` ([`paper`], [`micro`], [`checkpoints`]), `scash-comm-bench` ([`comm`]), and
//! `nas` ([`nas`]). What is to be compared is measured in turns, round after round, so that a machine that
//! drifts or is disturbed does that to all of it ([`scash_bench::figures`]). What [`scale`] shows is not
//! measured but simulated.

mod adaptive;
mod apps;
mod cache;
mod checkpoints;
mod comm;
mod criu;
mod hosts;
mod limited;
mod micro;
mod nas;
mod paper;
mod runner;
mod scale;
mod stalls;
mod table;
mod turns;

use clap::{Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

/// Measure scash on this machine: programs against one thread and two, the tables of the SCASH paper, single
/// operations. And, by simulation, what the protocol makes of machines of thousands of ranks.
///
/// Ranks have frames of their own (SCASH_SHARE=off), but where a column says "shared frames".
///
/// Needs the programs of the workspace beside this command (`cargo build --release --workspace`). The exit
/// status is 1 if something could not be measured, or a result was wrong.
#[derive(Debug, Parser)]
#[command(name = "scash bench", version, propagate_version = true, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    what: Command,

    #[command(flatten)]
    how: How,
}

/// What all benchmarks can be told.
#[derive(Clone, Copy, Debug, clap::Args)]
struct How {
    /// Measure everything so many times, in turns [default: 7 for programs, 3 for single operations]
    #[arg(long, value_name = "R", global = true, value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,

    /// Print JSON objects, one a line, instead of tables
    #[arg(long, global = true)]
    json: bool,

    /// Do little: a look at whether everything runs, whose figures mean little
    #[arg(long, global = true)]
    quick: bool,
}

impl How {
    /// The rounds asked for.
    fn rounds(self, default: u32) -> u32 {
        self.runs.unwrap_or(if self.quick { 1 } else { default })
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    Apps(apps::Options),
    /// Page update by message and by zero copy (Table 3 of the SCASH paper)
    Table3,
    Figure2(paper::Figure2),
    /// Single operations, with frames shared and not: barrier, reads, rewrites, faults, diffs, memory
    Micro,
    Scale(scale::Options),
    /// A limit on cached pages: programs with parts of what they would cache, and each way to choose what
    /// goes
    Cache(cache::Options),
    /// What is worth what: programs with all that the protocol learns while they run, and with each thing
    /// switched off
    Adaptive(adaptive::Options),
    Checkpoints(checkpoints::Options),
    Comm(comm::Options),
    Nas(nas::Options),
    /// All of these, one after the other
    All,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let runner = match runner::Runner::beside_this_program() {
        Ok(runner) => runner,
        Err(why) => {
            say(&why);
            return ExitCode::FAILURE;
        }
    };
    if run(&args, &Session { runner, how: args.how }) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Says something to the user: one line on stderr, in one write.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(format!("scash bench: {text}\n").as_bytes());
}

/// Measures and prints. Returns whether everything could be measured.
fn run(args: &Args, session: &Session) -> bool {
    match &args.what {
        Command::Apps(options) => apps::run(session, options),
        Command::Table3 => paper::table3(session),
        Command::Figure2(options) => paper::figure2(session, options),
        Command::Micro => micro::run(session),
        Command::Scale(options) => scale::run(session, options),
        Command::Cache(options) => cache::run(session, options),
        Command::Adaptive(options) => adaptive::run(session, options),
        Command::Checkpoints(options) => checkpoints::run(session, options),
        Command::Comm(options) => comm::run(session, options),
        Command::Nas(options) => nas::run(session, options),
        Command::All => [
            apps::run(session, &apps::Options::default()),
            paper::table3(session),
            paper::figure2(session, &paper::Figure2::default()),
            micro::run(session),
            scale::run(session, &scale::Options::standard()),
            cache::run(session, &cache::Options::standard()),
            adaptive::run(session, &adaptive::Options::standard()),
            checkpoints::run(session, &checkpoints::Options::standard()),
            comm::run(session, &comm::Options::default()),
            nas::run(session, &nas::Options::standard()),
        ]
        .iter()
        .all(|complete| *complete),
    }
}

/// How programs are started, and how to measure. Benchmarks return whether everything could be measured.
struct Session {
    runner: runner::Runner,
    how: How,
}

impl Session {
    /// Runs a job; if that fails, says why.
    fn measure(&self, job: &runner::Job) -> Option<Vec<scash_bench::record::Record>> {
        self.measured(self.runner.run(job))
    }

    /// What came of something; if it failed, says why.
    fn measured<T>(&self, outcome: Result<T, String>) -> Option<T> {
        outcome.map_err(|why| crate::say(&why)).ok()
    }

    /// Prints a table, unless JSON was asked for.
    fn show(&self, text: &str) {
        if !self.how.json {
            print(&format!("{text}\n"));
        }
    }

    /// Prints an object, if JSON was asked for.
    fn object(&self, object: &impl serde::Serialize) {
        if self.how.json {
            match serde_json::to_string(object) {
                Ok(json) => print(&json),
                Err(error) => crate::say(&format!("cannot write JSON: {error}")),
            }
        }
    }
}

/// One write, so that a reader sees whole lines as they are made. A reader that closes the pipe has read
/// enough.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(format!("{text}\n").as_bytes());
}
