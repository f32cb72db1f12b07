//! `scash bench cache`: what a limit on cached pages costs, with each way to choose those that go.
//!
//! How many pages of other homes a program holds at once, its *working set*, is measured first, with a limit
//! that is never reached. The limits are parts of it.

use super::Session;
use super::runner::On;
use super::table::{Table, number, spread};
use super::turns::{Counted, Line, Program, Variant, measure};

const PROGRAMS: [Program; 5] = [
    Program {
        parameters: &["--size", "2048", "--block", "64"],
        quick: &["--size", "256", "--block", "32"],
        ..Program::named("lu")
    },
    Program { parameters: &["--size", "1024"], quick: &["--size", "512"], ..Program::named("matmul") },
    Program { parameters: &["--size", "1048576"], quick: &["--size", "65536"], ..Program::named("fft") },
    Program {
        parameters: &["--size", "262144", "--turns", "4", "--period", "2"],
        quick: &["--size", "81920", "--turns", "2", "--period", "1"],
        ..Program::named("relay")
    },
    // With a limit, a repetition may take a hundred times as long.
    Program {
        parameters: &["--size", "300000"],
        quick: &["--size", "40000"],
        repeat: 1,
        ..Program::named("radix")
    },
];

const RANKS: u32 = 2;
/// The limits: one part of the working set in so many.
const PARTS: [u64; 3] = [2, 4, 10];
const POLICIES: [&str; 2] = ["fifo", "sieve"];
/// Never reached: all of the region.
const REGION: &str = "1G";
/// The least limit that there is, in pages.
const LEAST: u64 = 64;

/// Which limits a program is run with
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Ranks communicate over this provider
    #[arg(long, value_name = "NAME", value_parser = ["shm", "tcp"], default_value = "shm")]
    provider: String,
}

impl Options {
    /// What is measured where nothing was said.
    pub(super) fn standard() -> Options {
        Options { provider: "shm".to_owned() }
    }

    fn on(&self) -> On {
        On::Ranks(RANKS, if self.provider == "tcp" { "tcp" } else { "shm" })
    }
}

/// Measures all programs with all limits; whether everything could be measured.
pub(super) fn run(session: &Session, options: &Options) -> bool {
    let quick = session.how.quick;
    let mut complete = true;
    for program in PROGRAMS {
        let Some(pages) = working_set(session, program, options.on()) else {
            complete = false;
            continue;
        };
        let variants = variants(pages);
        let lines = measure(session, program, options.on(), &variants, Counted::Later);
        let title = format!(
            "{} ({}; working set: {pages} pages of the other a rank)",
            program.title(quick),
            options.on()
        );
        session.show(&format!("{title}\n{}", table(&variants, &lines)));
        complete &= lines.iter().all(Option::is_some);
    }
    complete
}

/// Most pages of other homes that a rank of the program holds at once: a mean over the ranks.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of pages")]
fn working_set(session: &Session, program: Program, on: On) -> Option<u64> {
    let unreached = Variant {
        name: String::new(),
        settings: vec![("SCASH_REGION", REGION.into()), ("SCASH_CACHE", REGION.into())],
    };
    // Of the first repetition: later ones begin with what it left.
    let records = session.measure(&unreached.of(program.job(on, session.how.quick)))?;
    Some((records.first()?.figures.get("cached_pages")? / f64::from(RANKS)).ceil() as u64)
}

/// No limit, and every limit with every policy beside each other. Parts that are less than may be are one
/// limit.
fn variants(pages: u64) -> Vec<Variant> {
    let variant = |part: u64, limit: u64, policy: &str| Variant {
        name: format!("1/{part} ({limit} pages), {policy}"),
        settings: vec![("SCASH_CACHE", format!("{}K", 4 * limit)), ("SCASH_EVICTION", policy.to_owned())],
    };
    let mut limits = PARTS.map(|part| (part, (pages / part).max(LEAST))).to_vec();
    limits.dedup_by_key(|(_, limit)| *limit);
    let limited =
        limits.into_iter().flat_map(|(part, limit)| POLICIES.map(|policy| variant(part, limit, policy)));
    [Variant { name: "no limit".to_owned(), ..Variant::default() }].into_iter().chain(limited).collect()
}

fn table(variants: &[Variant], lines: &[Option<Line>]) -> Table {
    let names =
        ["", "ms", "× no limit", "faults", "fetched", "evicted, read", "evicted, written", "diffs", "KiB"];
    let mut table = Table::new(names);
    for (variant, line) in variants.iter().zip(lines) {
        let Some(line) = line else {
            table.line([variant.name.clone(), "failed".to_owned()]);
            continue;
        };
        let count = |name: &str| line.figure(name).unwrap_or(0.0);
        let shown = |count: f64| format!("{count:.0}");
        table.line([
            variant.name.clone(),
            number(Some(line.record.seconds * 1e3)),
            spread(line.times.filter(|_| !variant.settings.is_empty())),
            line.record.faults.to_string(),
            shown(count("fetched_pages")),
            shown(count("evicted_pages") - count("written_evicted_pages")),
            shown(count("written_evicted_pages")),
            shown(count("diff_pages")),
            (line.record.bytes >> 10).to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_parts_of_the_working_set_and_no_less_than_may_be() {
        let variants = variants(1000);
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(names[..3], ["no limit", "1/2 (500 pages), fifo", "1/2 (500 pages), sieve"]);
        assert!(variants[0].settings.is_empty());
        assert_eq!(
            variants[1].settings,
            [("SCASH_CACHE", "2000K".to_owned()), ("SCASH_EVICTION", "fifo".to_owned())]
        );
        assert_eq!((super::variants(100).len(), super::variants(100)[1].settings[0].1.as_str()), (3, "256K"));
    }

    #[test]
    fn evicted_pages_are_shown_by_their_class_and_what_failed_as_failed() {
        let mut record = crate::turns::tests::record(0.5, 9, 7.0);
        record.figures.extend([("evicted_pages".to_owned(), 6.0), ("written_evicted_pages".to_owned(), 2.0)]);
        let line = Line { way: "no limit".to_owned(), settings: Vec::new(), record, rounds: 1, times: None };
        let text = table(&variants(1000)[..2], &[Some(line), None]).to_string();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["no", "limit", "500", "-", "9", "7", "4", "2", "0", "4"]);
        assert_eq!(rows[2], ["1/2", "(500", "pages),", "fifo", "failed"]);
    }
}
