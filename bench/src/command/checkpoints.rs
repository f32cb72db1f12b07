//! `scash bench checkpoints`: what it costs that ranks come back, and how long it takes until they do.

use super::criu::Criu;
use super::hosts::Hosts;
use super::runner::{Job, On};
use super::table::{Table, number, spread};
use super::turns::{Line, Variant, in_turns};
use super::{Session, stalls};
use scash_bench::figures::median;
use scash_bench::record::Record;
use std::path::PathBuf;
use std::time::Instant;

const ON: On = On::Sharing(2);
/// So far apart that only those are taken that a program asks for.
const NEVER: [&str; 4] = ["--replicas", "1", "--checkpoint", "every=1000000000"];

/// What ranks cost that come back, and how long it takes until they do
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Run each program for about so long without checkpoints
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,

    /// Measure only these
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = ["cost", "hosts", "images", "restarts"])]
    only: Vec<String>,

    /// CRIU, measured beside images of ours (as root)
    #[arg(long, value_name = "PROGRAM")]
    criu: Option<PathBuf>,
}

impl Options {
    /// What is measured where nothing was said.
    pub(super) fn standard() -> Options {
        Options { seconds: 60, only: Vec::new(), criu: None }
    }

    fn has(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

/// Measures all that was asked for; whether everything could be measured.
pub(super) fn run(session: &Session, options: &Options) -> bool {
    let seconds = if session.how.quick { 0.2 } else { f64::from(options.seconds) };
    let mut complete = true;
    if options.has("cost") {
        complete &= PROGRAMS.iter().all(|program| cost(session, program, seconds, &HERE));
    }
    if options.has("hosts") {
        complete &= match Hosts::new(stalls::HOSTS) {
            Ok(hosts) => on_hosts(session, seconds, &hosts),
            Err(why) => session.measured::<()>(Err(format!("on hosts: {why}"))).is_some(),
        };
    }
    if options.has("images") {
        complete &= match options.criu.as_deref().map(Criu::new).transpose() {
            Ok(criu) => images(session, criu.as_ref()),
            Err(why) => session.measured::<()>(Err(why)).is_some(),
        };
    }
    if options.has("restarts") {
        complete &= restarts(session);
    }
    complete
}

/// A program, and arguments with which a repetition takes about a second, or little.
struct Program {
    name: &'static str,
    arguments: &'static [&'static str],
    quick: &'static [&'static str],
}

const PROGRAMS: [Program; 2] = [
    Program {
        name: "laplace",
        arguments: &["--size", "1022", "--iterations", "3000"],
        quick: &["--size", "126", "--iterations", "100"],
    },
    Program {
        name: "lu",
        arguments: &["--size", "4096", "--block", "64"],
        quick: &["--size", "256", "--block", "32"],
    },
];

/// When checkpoints are taken, and in which part of the time the program runs where they are frequent.
const OFTEN: [(&str, f64); 4] = [("auto", 1.0), ("every=100", 1.0), ("every=10", 0.5), ("every=1", 0.1)];

/// Where a program runs, and how often checkpoints are taken.
struct Setting<'a> {
    on: On,
    hosts: Option<&'a Hosts>,
    often: &'a [(&'static str, f64)],
}

const HERE: Setting<'static> = Setting { on: ON, hosts: None, often: &OFTEN };

/// What ranks cost that come back on other hosts, and how long it takes until they do.
fn on_hosts(session: &Session, seconds: f64, hosts: &Hosts) -> bool {
    let setting = Setting { on: On::Hosts(2, stalls::HOSTS), hosts: Some(hosts), often: &OFTEN[..1] };
    let complete = stalls::run(session, hosts);
    PROGRAMS.iter().fold(complete, |complete, program| cost(session, program, seconds, &setting) && complete)
}

/// What checkpoints cost a program in which nobody dies.
fn cost(session: &Session, program: &Program, seconds: f64, setting: &Setting<'_>) -> bool {
    let on = setting.on;
    let arguments = if session.how.quick { program.quick } else { program.arguments };
    let job = |repeat: u32, often: Option<&str>| {
        let repeat = ["--repeat".to_owned(), repeat.to_string()];
        let job = Job::new(program.name, on, arguments.iter().copied().map(str::to_owned).chain(repeat));
        let job = setting.hosts.iter().fold(job, |job, hosts| hosts.reached_by(job));
        match often {
            Some(often) => job.with_options(["--replicas", "1", "--checkpoint", often]),
            None => job,
        }
    };
    let Some(once) = session.measure(&job(3, None)) else { return false };
    let once = median(&once.iter().map(|record| Some(record.seconds)).collect::<Vec<_>>()).unwrap_or(1.0);
    let mut complete = true;
    let title = format!("{} {} ({on}), {seconds} s", program.name, arguments.join(" "));
    let mut table = Table::new(COSTS);
    for (often, part) in setting.often.iter().copied() {
        let repeat = scash_bench::figures::count(seconds * part / once).clamp(1, 1_000_000);
        let repeat = u32::try_from(repeat).unwrap_or(u32::MAX);
        let variants = [None, Some(often)]
            .map(|often| Variant { name: often.unwrap_or("none").to_owned(), settings: Vec::new() });
        let lines = in_turns(session, &variants, |variant| {
            let often = (variant.name != "none").then_some(variant.name.as_str());
            let start = Instant::now();
            let records = session.measure(&job(repeat, often))?;
            Some(whole(records, start.elapsed().as_secs_f64()))
        });
        complete &= lines.iter().all(Option::is_some);
        table.line(cost_line(often, &lines));
    }
    session.show(&format!("What checkpoints cost: {title}\n{table}"));
    complete
}

const COSTS: [&str; 13] = [
    "checkpoint",
    "s",
    "× none",
    "checkpoints",
    "pages copied",
    "stop ms",
    "image ms",
    "of it scan",
    "shared ms",
    "copy, of both",
    "fence ms",
    "meeting ms",
    "limit: × none",
];

/// One record for all repetitions of a run that took so long, with the sums of their figures.
fn whole(records: Vec<Record>, seconds: f64) -> Record {
    let mut records = records.into_iter();
    let mut sum = records.next().expect("a job prints a record, or there is an error");
    for record in records {
        for (name, value) in &mut sum.figures {
            *value += record.figures.get(name).copied().unwrap_or(0.0);
        }
    }
    Record { seconds, ..sum }
}

/// Figures are sums over both ranks, and times means.
fn cost_line(often: &str, lines: &[Option<Line>]) -> Vec<String> {
    let [Some(none), Some(line)] = lines else { return vec![often.to_owned(), "failed".to_owned()] };
    let figure = |name: &str| line.figure(name).unwrap_or(0.0);
    let ms = |name: &str| number(Some(figure(name) / 2.0 / 1e3));
    let pages = figure("checkpoint_copied_pages");
    let limit = 1.0 + pages / 2.0 * copy_seconds() / none.record.seconds;
    vec![
        often.to_owned(),
        number(Some(line.record.seconds)),
        spread(line.times),
        format!("{:.0}", figure("committed_checkpoints") / 2.0),
        format!("{pages:.0}"),
        ms("checkpoint_stop_us"),
        ms("checkpoint_image_us"),
        ms("checkpoint_scan_us"),
        ms("checkpoint_shared_us"),
        ms("checkpoint_copy_us"),
        ms("checkpoint_fence_us"),
        ms("checkpoint_meeting_us"),
        format!("{limit:.3}"),
    ]
}

/// What it takes to copy a page from memory to memory, in a large copy: whoever keeps what was written must
/// copy it once.
fn copy_seconds() -> f64 {
    const PAGES: usize = 1 << 14;
    let (from, mut to) = (vec![1u8; PAGES * 4096], vec![0u8; PAGES * 4096]);
    let once = |to: &mut Vec<u8>| {
        let start = Instant::now();
        std::hint::black_box(&mut *to).copy_from_slice(std::hint::black_box(&from));
        start.elapsed().as_secs_f64() / PAGES as f64
    };
    let samples = (0..5).map(|_| Some(once(&mut to))).collect::<Vec<_>>();
    median(&samples).unwrap_or(0.0)
}

/// Sizes of private memory, and what others took to dump and to restore a process of as much, in ms: CRIU 4.2
/// and DMTCP 5.0, on a machine like the one of `docs/performance.md`.
const SIZES: [(&str, &str, &str); 3] =
    [("10M", "38/51", "431/206"), ("100M", "103/106", "407/199"), ("1000M", "564/603", "1692/590")];

/// Images of processes with random contents.
fn images(session: &Session, criu: Option<&Criu>) -> bool {
    let mut table = Table::new(IMAGES);
    let mut complete = true;
    for (size, known, dmtcp) in SIZES {
        let quick: &[&str] = if session.how.quick { &["--rounds", "2"] } else { &[] };
        let (mut ours, mut theirs) = (ImageRounds::default(), Vec::new());
        for _ in 0..session.how.rounds(3) {
            complete &= ours.measure(session, size, quick);
            if let Some(criu) = criu {
                let micro = session.runner.program("scash-micro");
                let times = session.measured(micro.and_then(|micro| criu.dump_and_restore(&micro, size)));
                complete &= times.is_some();
                theirs.push(times);
            }
        }
        let of =
            |which: usize| median(&theirs.iter().map(|times| Some((*times)?[which])).collect::<Vec<_>>());
        let beside = format!("{}/{}", number(of(0)), number(of(1)));
        table.line([
            size.to_owned(),
            number(ours.image(&["first_us"])),
            number(ours.image(&["later_us"])),
            number(ours.image(&["stop_us"])),
            number(ours.image(&["image_us"])),
            number(ours.restart(&["start_us", "image_us", "join_us", "shared_us", "resume_us"])),
            number(ours.restart(&["restart_us"])),
            if criu.is_some() { beside } else { known.to_owned() },
            dmtcp.to_owned(),
        ]);
    }
    let others = match criu {
        Some(criu) => format!(
            "CRIU {} in turns with ours, by way of /dev/shm. Not measured now: what DMTCP took",
            criu.version()
        ),
        None => "Not measured now: what CRIU and DMTCP took".to_owned(),
    };
    session.show(&format!(
        "Images of one rank with private memory of random contents, ms. {others} to dump and to restore as much, on \
         another day, on a machine of this kind\n{table}"
    ));
    complete
}

/// Rounds of `scash-micro image` and `scash-micro restart`.
#[derive(Default)]
struct ImageRounds {
    images: Vec<Option<Vec<Record>>>,
    restarts: Vec<Option<Vec<Record>>>,
}

impl ImageRounds {
    /// One more round; whether it could be measured.
    fn measure(&mut self, session: &Session, size: &str, quick: &[&str]) -> bool {
        let private = ["--private", size];
        let measure = |what: &[&str]| {
            let arguments = [what, &private, quick].concat();
            let round =
                session.measure(&Job::new("scash-micro", On::Sharing(1), arguments).with_options(NEVER));
            round.iter().flatten().for_each(|record| session.object(record));
            round
        };
        self.images.push(measure(&["image"]));
        self.restarts.push(measure(&["restart", "--shared", "0"]));
        [&self.images, &self.restarts].iter().all(|rounds| rounds.last().is_some_and(Option::is_some))
    }

    /// The median of a sum of figures of images, in ms.
    fn image(&self, names: &[&str]) -> Option<f64> {
        sum_of(&self.images, names)
    }

    /// The same of restarts.
    fn restart(&self, names: &[&str]) -> Option<f64> {
        sum_of(&self.restarts, names)
    }
}

fn sum_of(rounds: &[Option<Vec<Record>>], names: &[&str]) -> Option<f64> {
    let sum = |records: &Vec<Record>| -> Option<f64> {
        names.iter().map(|name| records.first()?.figures.get(*name).copied()).sum()
    };
    let sums = rounds.iter().map(|records| sum(records.as_ref()?)).collect::<Vec<_>>();
    median(&sums).map(|us| us / 1e3)
}

const IMAGES: [&str; 9] =
    ["", "first", "1 % changed", "of it stop", "image", "restore", "from the kill on", "CRIU", "DMTCP 5.0"];

/// Shared and private memory with which restarts are measured.
const MEMORIES: [(&str, &str); 3] = [("1M", "1M"), ("256M", "100M"), ("512M", "100M")];
const PARTS: [&str; 6] = ["end", "start", "image", "join", "shared", "resume"];

/// From a death until all ranks compute again.
fn restarts(session: &Session) -> bool {
    let names = ["shared by both, private of each of 2 ranks", "", "all"];
    let mut table = Table::new(names.iter().chain(&PARTS).copied().chain(["pages grown"]));
    let mut complete = true;
    for (shared, private) in MEMORIES {
        for on in [On::Sharing(2), On::Ranks(2, "shm"), On::Ranks(2, "tcp")] {
            let quick: &[&str] = if session.how.quick { &["--rounds", "2"] } else { &[] };
            let arguments = ["restart", "--shared", shared, "--private", private];
            let job = Job::new("scash-micro", on, arguments.iter().chain(quick)).with_options(NEVER);
            let rounds = (0..session.how.rounds(3)).map(|_| session.measure(&job)).collect::<Vec<_>>();
            rounds.iter().flatten().flatten().for_each(|record| session.object(record));
            let figure = |name: &str| {
                let of = |records: &Vec<Record>| records.first()?.figures.get(name).copied();
                median(&rounds.iter().map(|records| of(records.as_ref()?)).collect::<Vec<_>>())
            };
            let ms = |name: &str| number(figure(&format!("{name}_us")).map(|us| us / 1e3));
            complete &= rounds.iter().all(Option::is_some);
            let first = [format!("{shared}, {private}"), on.to_string(), ms("restart")];
            let grown = figure("grown_pages").map_or_else(|| "-".to_owned(), |pages| format!("{pages:.0}"));
            table.line(first.into_iter().chain(PARTS.map(ms)).chain([grown]));
        }
    }
    session.show(&format!("From the death of a rank until all compute again, ms\n{table}"));
    complete
}
