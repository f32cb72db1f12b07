//! `scash bench adaptive`: what each thing is worth that the protocol learns while a program runs.
//!
//! Each can be switched off by a setting. Programs run with all of them, and with each one off, in turns: if
//! none is named, two whose pattern of sharing stays, two in which who writes what changes now and then, and
//! one with locks. All repetitions of a run count, also the first ones: what is learnt in them has its price
//! there, and its worth later, or the other way round.

use super::Session;
use super::runner::On;
use super::table::{Table, number, spread};
use super::turns::{Counted, Line, Program, Variant, measure};

/// How many of [`PROGRAMS`] are measured where none is named.
const STANDARD: usize = 5;

const PROGRAMS: [Program; 19] = [
    Program { quick: &["--size", "254", "--iterations", "10"], ..Program::named("laplace") },
    Program {
        parameters: &["--size", "1024", "--block", "32"],
        quick: &["--size", "256", "--block", "32"],
        ..Program::named("lu")
    },
    Program { quick: &["--size", "20000"], ..Program::named("shifting") },
    Program { quick: &["--size", "10000"], ..Program::named("relay") },
    Program {
        parameters: &["--size", "200", "--steps", "5"],
        quick: &["--size", "40", "--steps", "2"],
        ..Program::named("water")
    },
    Program { quick: &["--size", "254", "--iterations", "10"], ..Program::named("sor") },
    Program { quick: &["--size", "33"], ..Program::named("ocean") },
    Program { quick: &["--size", "64"], ..Program::named("matmul") },
    Program { quick: &["--size", "4096"], ..Program::named("fft") },
    Program { parameters: &["--size", "300000"], quick: &["--size", "3000"], ..Program::named("radix") },
    Program { quick: &["--size", "1000"], ..Program::named("kmeans") },
    Program { parameters: &["--cities", "13"], quick: &["--cities", "8"], ..Program::named("tsp") },
    Program {
        parameters: &["--bodies", "1000", "--steps", "5"],
        quick: &["--bodies", "100", "--steps", "2"],
        ..Program::named("nbody")
    },
    Program {
        parameters: &["--particles", "4000", "--steps", "4"],
        quick: &["--particles", "300", "--steps", "2"],
        ..Program::named("fmm")
    },
    Program { quick: &["--size", "50"], ..Program::named("raytrace") },
    Program { quick: &["--size", "24"], ..Program::named("volume") },
    Program { parameters: &["--size", "96"], quick: &["--size", "20"], ..Program::named("cholesky") },
    Program { parameters: &["--class", "s"], quick: &["--class", "s"], ..Program::named("ep") },
    Program { parameters: &["--class", "w"], quick: &["--class", "s"], ..Program::named("is") },
];

/// Pages of a block where pages are kept in blocks.
const BLOCK: &str = "16";

/// What the protocol learns: its name, the setting without it, and what counts its successes.
struct Feature {
    name: &'static str,
    off: (&'static str, &'static str),
    figure: &'static str,
}

const FEATURES: [Feature; 8] = [
    Feature { name: "fetching ahead", off: ("SCASH_PREFETCH", "1"), figure: "prefetched_pages" },
    Feature { name: "predicting writes", off: ("SCASH_PREDICT", "off"), figure: "predicted_writes" },
    Feature { name: "updating copies", off: ("SCASH_COPIES", "invalidate"), figure: "updated_pages" },
    Feature { name: "leasing copies", off: ("SCASH_COPIES", "update"), figure: "invalidated_pages" },
    Feature { name: "moving homes", off: ("SCASH_MIGRATE", "off"), figure: "migrated_pages" },
    Feature { name: "watching runs", off: ("SCASH_WATCH", "off"), figure: "noticed_writes" },
    Feature { name: "renewing copies", off: ("SCASH_RENEW", "off"), figure: "renewed_pages" },
    Feature { name: "locks ahead", off: ("SCASH_AHEAD", "off"), figure: "ahead_taken_locks" },
];

/// Which programs, on how many ranks, connected by what
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Programs of `apps` [default: laplace lu shifting relay water]
    #[arg(value_name = "PROGRAM", value_parser = PROGRAMS.map(|program| program.name))]
    programs: Vec<String>,

    /// Ranks communicate over this provider
    #[arg(long, value_name = "NAME", value_parser = ["shm", "tcp"], default_value = "shm")]
    provider: String,

    /// How many ranks
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..))]
    ranks: u32,
}

impl Options {
    /// What is measured where nothing was said.
    pub(super) fn standard() -> Options {
        Options { programs: Vec::new(), provider: "shm".to_owned(), ranks: 2 }
    }

    fn programs(&self) -> impl Iterator<Item = Program> {
        let is_wanted = |at, name: &str| match &self.programs[..] {
            [] => at < STANDARD,
            named => named.iter().any(|named| named == name),
        };
        (PROGRAMS.into_iter().enumerate())
            .filter(move |(at, program)| is_wanted(*at, program.name))
            .map(|(_, program)| program)
    }

    fn on(&self) -> On {
        On::Ranks(self.ranks, if self.provider == "tcp" { "tcp" } else { "shm" })
    }
}

/// Measures all programs with and without everything; whether everything could be measured.
pub(super) fn run(session: &Session, options: &Options) -> bool {
    let variants = variants();
    let mut complete = true;
    for program in options.programs() {
        let lines = measure(session, program, options.on(), &variants, Counted::All);
        let title = format!("{} ({})", program.title(session.how.quick), options.on());
        session.show(&format!("{title}\n{}", table(&lines)));
        complete &= lines.iter().all(Option::is_some);
    }
    complete
}

/// With everything, with everything but one, and in blocks, which programs must ask for.
fn variants() -> Vec<Variant> {
    let without = |feature: &Feature| Variant {
        name: format!("without {}", feature.name),
        settings: vec![(feature.off.0, feature.off.1.to_owned())],
    };
    [Variant { name: "with everything".to_owned(), ..Variant::default() }]
        .into_iter()
        .chain(FEATURES.iter().map(without))
        .chain([Variant {
            name: format!("in blocks of {BLOCK} pages"),
            settings: vec![("SCASH_BLOCK", BLOCK.to_owned())],
        }])
        .collect()
}

/// The last column says how often what is missing in a line was of use in the first one.
fn table(lines: &[Option<Line>]) -> Table {
    let mut table = Table::new(["", "ms", "× with", "faults", "fetched", "messages", "KiB", "of use"]);
    let used = |feature: Option<&Feature>| -> String {
        let with = lines.first().and_then(Option::as_ref);
        let count = feature.and_then(|feature| with?.figure(feature.figure));
        count.map_or_else(String::new, |count| format!("{count:.0}"))
    };
    let features = [None].into_iter().chain(FEATURES.iter().map(Some)).chain([None]);
    for (at, ((variant, line), feature)) in variants().into_iter().zip(lines).zip(features).enumerate() {
        let Some(line) = line else {
            table.line([variant.name, "failed".to_owned()]);
            continue;
        };
        table.line([
            variant.name,
            number(Some(line.record.seconds * 1e3)),
            spread(line.times.filter(|_| at > 0)),
            line.record.faults.to_string(),
            format!("{:.0}", line.figure("fetched_pages").unwrap_or(0.0)),
            line.record.messages.to_string(),
            (line.record.bytes >> 10).to_string(),
            used(feature),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turns::tests::record;

    #[test]
    fn programs_are_those_that_are_named_or_the_first_ones() {
        let names = |named: &[&str]| -> Vec<&str> {
            let programs = named.iter().map(|name| (*name).to_owned()).collect();
            Options { programs, ..Options::standard() }.programs().map(|program| program.name).collect()
        };
        assert_eq!(names(&[]), ["laplace", "lu", "shifting", "relay", "water"]);
        assert_eq!(names(&["is", "laplace"]), ["laplace", "is"]);
    }

    #[test]
    fn each_feature_is_off_once_and_shows_what_it_was_of_use() {
        let lines: Vec<Option<Line>> = (variants().into_iter().zip(1u8..))
            .map(|(variant, number)| {
                let mut record = record(f64::from(number), 5, 6.0);
                record.figures.insert("updated_pages".to_owned(), 40.0 + f64::from(number));
                Some(Line { way: variant.name, settings: Vec::new(), record, rounds: 1, times: None })
            })
            .collect();
        let text = table(&lines).to_string();
        assert_eq!(text.lines().count(), 3 + FEATURES.len(), "{text}");
        let row = text.lines().find(|line| line.starts_with("without updating copies")).unwrap();
        assert!(row.ends_with(" 41"), "what it was of use where it was on: {text}");
    }
}
