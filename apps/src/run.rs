//! How a program is run, as its options say: its `main`.

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;

use crate::crew::{Sequential, run_crew};
use crate::memory::Heap;
use crate::options::{Mode, Options};
use crate::program::Program;
use crate::repetitions::{Reference, work};
use crate::report::{Report, Setting, Timing};
use crate::{Result, dsm};

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

/// Runs the program as the options say. All ranks of a job but one have nothing to report.
fn run<P: Program>(program: &P, options: &Options) -> Result<Option<Report>> {
    let (mode, threads) = match options.mode() {
        Mode::Dsm => return dsm::run(program, options),
        Mode::Sequential => ("sequential", 1),
        Mode::Threads(count) => ("threads", count.get()),
    };
    let reference = if options.check { Some(Reference::compute(program)?) } else { None };
    let mut arrays = program.allocate(threads, &mut Heap)?;
    let timings = run_crew(&Sequential, threads, options.pin, |worker| {
        work(program, worker, &arrays, options.repeat.get(), reference.as_ref())
    })?;
    let setting = Setting { program: P::NAME, mode, threads, provider: None, engine: None };
    let verified = program.verify(&mut arrays);
    program.finish(&mut arrays)?;
    Ok(Some(Report::new(setting, &[Timing::merge(&timings)], verified)))
}
