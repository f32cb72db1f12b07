//! What a kernel took, as text and as JSON.

use std::io::{self, Write};

use serde::Serialize;

use super::{Kernel, Outcome};
use crate::npb::Class;

/// What was run, and on what.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// The program's name.
    pub program: &'static str,
    /// What messages travel over.
    pub mode: &'static str,
    /// Threads of each rank.
    pub threads: u32,
    /// Number of ranks.
    pub ranks: u32,
    /// What is computed.
    pub kernel: Kernel,
    /// Its size.
    pub class: Class,
}

/// One line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    setting: &'a Setting,
    repetition: usize,
    seconds: f64,
    verification: &'static str,
    figures: Figures,
}

/// What has a unit.
#[derive(Serialize)]
struct Figures {
    rate_mops: f64,
}

fn verification(verified: bool) -> &'static str {
    if verified { "successful" } else { "FAILED" }
}

/// A line for people.
///
/// # Errors
/// If `out` takes no more.
pub fn write_text(out: &mut impl Write, setting: &Setting, outcome: &Outcome) -> io::Result<()> {
    let Setting { mode, ranks, kernel, class, .. } = setting;
    let (ms, mops) = (outcome.seconds * 1e3, outcome.mops());
    let ranks = if *ranks == 1 { "1 rank".to_owned() } else { format!("{ranks} ranks") };
    write!(out, "{}, class {class:?}, {mode}, {ranks}: {ms:.3} ms, {mops:.1} Mop/s", kernel.name())?;
    writeln!(out, ", verification {}", verification(outcome.verified))
}

/// A line of JSON.
///
/// # Errors
/// If `out` takes no more.
pub fn write_json(
    out: &mut impl Write,
    setting: &Setting,
    repetition: usize,
    outcome: &Outcome,
) -> io::Result<()> {
    let Outcome { seconds, verified, .. } = *outcome;
    let figures = Figures { rate_mops: outcome.mops() };
    let line = Line { setting, repetition, seconds, verification: verification(verified), figures };
    serde_json::to_writer(&mut *out, &line)?;
    writeln!(out)
}
