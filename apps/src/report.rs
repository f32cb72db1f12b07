//! What a run took, as text and as JSON.

use std::io::{self, Write};

use serde::Serialize;

/// What one worker saw of one repetition.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// What the computation took.
    pub seconds: f64,
    /// Whether what the worker owns equals the sequential result, if that was asked for.
    pub equal: Option<bool>,
}

/// All repetitions of a run.
#[derive(Clone, Debug)]
pub struct Report {
    program: &'static str,
    mode: &'static str,
    ranks: usize,
    threads: usize,
    repetitions: Vec<Repetition>,
}

#[derive(Clone, Copy, Debug)]
struct Repetition {
    seconds: f64,
    check: Option<Check>,
}

/// Whether a result has the same bits as the sequential one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Check {
    Equal,
    Different,
}

/// The three parts of the memory barrier, in seconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Barrier {
    sync: f64,
    diff: f64,
    update: f64,
}

/// One line of JSON. `P` adds the program's parameters.
#[derive(Serialize)]
struct Line<'a, P> {
    program: &'static str,
    mode: &'static str,
    ranks: usize,
    threads: usize,
    provider: Option<&'static str>,
    engine: Option<&'static str>,
    #[serde(flatten)]
    parameters: &'a P,
    repetition: usize,
    seconds: f64,
    check: Option<Check>,
    barrier: Barrier,
    faults: u64,
    messages: u64,
    bytes: u64,
}

impl Report {
    /// The report of a process that ran without the DSM, from the timings of each of its workers.
    pub fn of_one_process(program: &'static str, mode: &'static str, workers: &[Vec<Timing>]) -> Self {
        let repetitions = (0..workers[0].len()).map(|r| {
            let equal = workers.iter().map(|timings| timings[r].equal).collect::<Option<Vec<bool>>>();
            let check = equal
                .map(|equal| if equal.iter().all(|&equal| equal) { Check::Equal } else { Check::Different });
            let seconds = workers.iter().map(|timings| timings[r].seconds).fold(0.0, f64::max);
            Repetition { seconds, check }
        });
        Self { program, mode, ranks: 1, threads: workers.len(), repetitions: repetitions.collect() }
    }

    /// Whether a result was checked and is not the sequential one.
    pub fn differs(&self) -> bool {
        self.repetitions.iter().any(|repetition| repetition.check == Some(Check::Different))
    }

    /// One line per repetition, for people.
    ///
    /// # Errors
    /// If `out` takes no more.
    pub fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        for repetition in &self.repetitions {
            let Self { program, mode, .. } = self;
            let workers = match self.threads {
                1 => "1 thread".to_owned(),
                threads => format!("{threads} threads"),
            };
            write!(out, "{program}, {mode}, {workers}: {:.3} ms", repetition.seconds * 1e3)?;
            match repetition.check {
                None => writeln!(out)?,
                Some(Check::Equal) => writeln!(out, ", equal to the sequential result")?,
                Some(Check::Different) => writeln!(out, ", DIFFERENT from the sequential result")?,
            }
        }
        Ok(())
    }

    /// One JSON object per repetition and line, with the program's `parameters`.
    ///
    /// # Errors
    /// If `out` takes no more.
    pub fn write_json(&self, out: &mut impl Write, parameters: &impl Serialize) -> io::Result<()> {
        for (number, repetition) in self.repetitions.iter().enumerate() {
            let line = Line {
                program: self.program,
                mode: self.mode,
                ranks: self.ranks,
                threads: self.threads,
                provider: None,
                engine: None,
                parameters,
                repetition: number,
                seconds: repetition.seconds,
                check: repetition.check,
                barrier: Barrier::default(),
                faults: 0,
                messages: 0,
                bytes: 0,
            };
            serde_json::to_writer(&mut *out, &line)?;
            writeln!(out)?;
        }
        Ok(())
    }
}
