//! `scash info`: what this machine offers to scash, what it lacks, why, and what to do about it.
//!
//! Everything that can be tried is tried ([`scash::fault::Probe`] builds the engines), so that what is said
//! here is what a job would find. The findings are gathered as values ([`report`]) and printed as text
//! ([`mod@print`]) or as one JSON object.

mod print;
mod report;
mod system;

use std::io::Write;

/// Say what this machine offers: fault engines, providers, kernel features and limits, and why one is
/// missing.
///
/// The exit status is 0 if jobs can run on this machine, else 1.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Prints the report; returns the exit status.
pub(crate) fn run(args: &Args) -> u8 {
    let report = report::gather();
    let text = if args.json {
        serde_json::to_string(&report).map(|json| json + "\n").unwrap_or_else(|error| format!("{error}\n"))
    } else {
        print::text(&report)
    };
    // A reader that closes the pipe has read enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    u8::from(!report.usable())
}
