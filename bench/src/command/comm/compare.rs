//! The same program over scash and over the MPI libraries that are installed, in turns.
//!
//! Each round runs every work over every contender, one after the other. What scash is worth is told round by
//! round against the best of the others in that round.

use super::lines::{BenchCommand, Pick, Results};
use super::place::{Transport, Transports};
use crate::Session;
use crate::limited::{Limit, RunFailure};
use crate::table::{Table, number, spread};
use scash_bench::figures::{Spread, speed};
use scash_bench::record::Record;
use scash_messages::binding::{self, Binding};
use scash_messages::rival::{Network, Rival};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use tempfile::TempDir;

/// What is compared.
struct ComparedFigure {
    about: &'static str,
    ours: Pick,
    /// The same for MPI, which has no protocols to be chosen.
    theirs: Pick,
    better: Better,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Better {
    Less,
    More,
}

const PAIR: BenchCommand =
    BenchCommand { ranks: 2, words: "transfer", lengths: &[8, 4 << 10, 64 << 10, 1 << 20, 4 << 20] };
const REGISTERED: BenchCommand = BenchCommand { words: "transfer --protocol registered", ..PAIR };
// With more ranks than processors, libraries that spin take milliseconds for each operation.
const ALL_TO_ALL: BenchCommand =
    BenchCommand { ranks: 4, words: "all-to-all --rounds 5", lengths: &[8, 4 << 10, 64 << 10] };
const MATCHING: BenchCommand = BenchCommand::new(2, "matching --rounds 3");

const fn less(about: &'static str, pick: Pick) -> ComparedFigure {
    ComparedFigure { about, ours: pick, theirs: pick, better: Better::Less }
}

const fn more(about: &'static str, pick: Pick) -> ComparedFigure {
    ComparedFigure { about, ours: pick, theirs: pick, better: Better::More }
}

const fn registered(about: &'static str, length: u64, figure: &'static str) -> ComparedFigure {
    ComparedFigure { ours: REGISTERED.at(length, figure), ..more(about, PAIR.at(length, figure)) }
}

const fn barrier(ranks: u32) -> Pick {
    let words = if ranks > 2 { "barrier --rounds 5 --length 10" } else { "barrier" };
    BenchCommand::new(ranks, words).pick("barrier_us")
}

const LINES: [ComparedFigure; 20] = [
    less("8 bytes one way, µs", PAIR.at(8, "latency_us")),
    less("4 KiB one way, µs", PAIR.at(4 << 10, "latency_us")),
    less("64 KiB one way, µs", PAIR.at(64 << 10, "latency_us")),
    less("1 MiB one way, µs", PAIR.at(1 << 20, "latency_us")),
    more("4 KiB, MB/s", PAIR.at(4 << 10, "rate_mb_s")),
    more("64 KiB, MB/s", PAIR.at(64 << 10, "rate_mb_s")),
    more("1 MiB, MB/s", PAIR.at(1 << 20, "rate_mb_s")),
    more("4 MiB, MB/s", PAIR.at(4 << 20, "rate_mb_s")),
    registered("1 MiB from registered memory, MB/s", 1 << 20, "rate_mb_s"),
    registered("4 MiB from registered memory, MB/s", 4 << 20, "rate_mb_s"),
    more("1 MiB both ways, MB/s", PAIR.at(1 << 20, "both_ways_mb_s")),
    less("barrier, 2 ranks, µs", barrier(2)),
    less("barrier, 4 ranks, µs", barrier(4)),
    less("barrier, 8 ranks, µs", barrier(8)),
    less("all-to-all, 4 ranks, 8 bytes, µs", ALL_TO_ALL.at(8, "all_to_all_us")),
    less("all-to-all, 4 ranks, 4 KiB, µs", ALL_TO_ALL.at(4 << 10, "all_to_all_us")),
    less("all-to-all, 4 ranks, 64 KiB, µs", ALL_TO_ALL.at(64 << 10, "all_to_all_us")),
    more("random sizes, not posted, messages/s", BenchCommand::new(2, "random").pick("messages_s")),
    less(
        "4 MiB beside a computation of the receiver, ×",
        BenchCommand::new(2, "overlap").pick("receiver_times"),
    ),
    less(
        "behind 10,000 posted receives, µs",
        Pick { work: MATCHING, of: Some(("posted", 10_000)), figure: "latency_us" },
    ),
];

/// An MPI library, and the shim that was compiled for it.
struct Contender {
    rival: Rival,
    shim: PathBuf,
}

/// What a contender has found in one place.
#[derive(Default)]
struct Theirs {
    results: Results,
    /// Works that did not end in some round.
    endless: BTreeSet<BenchCommand>,
}

/// What a line says, as JSON.
#[derive(Serialize)]
struct JsonLine<'a> {
    compared: &'a str,
    place: &'a str,
    scash: Option<f64>,
    others: Vec<(&'a str, Option<f64>)>,
    /// What the others' ranks were bound to.
    others_bound_to: &'static str,
    /// Which of them did not end in some round.
    no_end: Vec<&'a str>,
    /// How many times as good as the best of the others.
    better: Option<Spread>,
}

/// Compares in all places; whether everything could be measured.
pub(super) fn run(session: &Session, places: &Transports, limit: Limit) -> bool {
    let directory = match tempfile::tempdir() {
        Ok(directory) => directory,
        Err(error) => {
            crate::say(&format!("cannot make a directory for the MPI shims: {error}"));
            return false;
        }
    };
    let (contenders, compiled) = contenders(session, &directory);
    let networks = [(Transport::Shm, Network::Shm), (Transport::Tcp, Network::Tcp)];
    let compared = |(place, network): (Transport, Network)| {
        let comparison = Comparison { session, places, place, network, limit };
        !places.all().contains(&place) || comparison.run(&contenders)
    };
    networks.into_iter().map(compared).fold(compiled, |all, complete| all && complete)
}

/// Those that are here; and whether a shim could be compiled for each.
fn contenders(session: &Session, directory: &TempDir) -> (Vec<Contender>, bool) {
    let (mut found, mut compiled) = (Vec::new(), true);
    for rival in Rival::ALL {
        if let Some(missing) = rival.missing() {
            session.show(&format!("Not compared: {missing}\n"));
            continue;
        }
        match rival.shim(directory.path()) {
            Ok(shim) => found.push(Contender { rival, shim }),
            Err(why) => {
                crate::say(&why);
                compiled = false;
            }
        }
    }
    (found, compiled)
}

/// A comparison in one place.
struct Comparison<'a> {
    session: &'a Session,
    places: &'a Transports,
    place: Transport,
    network: Network,
    limit: Limit,
}

impl Comparison<'_> {
    /// Measures and shows; whether everything could be measured.
    fn run(&self, all: &[Contender]) -> bool {
        let Comparison { session, places, place, .. } = *self;
        let mut ours = Results::default();
        let mut theirs: Vec<Theirs> = all.iter().map(|_| Theirs::default()).collect();
        let (own, others) = (works(|line| line.ours), works(|line| line.theirs));
        for _ in 0..session.how.rounds(5) {
            for work in &own {
                let job = places.job(place, work.ranks, &work.words(session.how.quick));
                ours.add(session, *work, session.measure(&job));
                let is_theirs = others.contains(work);
                for (contender, theirs) in all.iter().zip(&mut theirs).filter(|_| is_theirs) {
                    theirs.results.add(session, *work, self.measure(contender, *work, &mut theirs.endless));
                }
            }
        }
        self.show(all, &ours, &theirs);
        ours.is_complete() && theirs.iter().all(|theirs| theirs.results.is_complete())
    }

    /// Runs the program under a library's launcher.
    fn measure(
        &self,
        Contender { rival, shim }: &Contender,
        work: BenchCommand,
        endless: &mut BTreeSet<BenchCommand>,
    ) -> Option<Vec<Record>> {
        let over = format!("{} --over mpi:{}", work.words(self.session.how.quick), shim.display());
        let job = self.places.job(self.place, work.ranks, &over);
        let mut launcher = rival.launch(work.ranks, self.network);
        Binding::of(work.ranks).apply(*rival, &mut launcher);
        let done = self.session.runner.run_under(launcher, &job, self.limit);
        if let Err(RunFailure::NoEnd(_)) = done {
            endless.insert(work);
        }
        self.session.measured(done.map_err(|why| format!("{}: {why}", rival.name())))
    }

    fn show(&self, all: &[Contender], ours: &Results, theirs: &[Theirs]) {
        let names = all.iter().map(|contender| contender.rival.name());
        let mut table = Table::new(["", "scash"].into_iter().chain(names).chain(["scash is better"]));
        for line in &LINES {
            let told = line.tell(self.place, all, ours, theirs);
            self.session.object(&told);
            let others = told.others.iter().map(|(name, median)| match median {
                None if told.no_end.contains(name) => self.limit.to_string(),
                median => number(*median),
            });
            let first = [line.about.to_owned(), number(told.scash)];
            table.line(first.into_iter().chain(others).chain([spread(told.better)]));
        }
        self.session.show(&format!(
            "scash and MPI over {}, in turns (2 ranks unless said): medians, and how many times as good as the best other, with how far the rounds reach\n\
             Ranks of MPI are bound to a core each in jobs of up to {} (--bind-to core), and not bound in larger ones; those of scash are not bound\n{table}",
            self.place.name(),
            binding::cores()
        ));
    }
}

/// Each once, in the order of the lines.
fn works(pick: impl Fn(&ComparedFigure) -> Pick) -> Vec<BenchCommand> {
    let mut works: Vec<BenchCommand> = Vec::new();
    for work in LINES.iter().map(|line| pick(line).work) {
        if !works.contains(&work) {
            works.push(work);
        }
    }
    works
}

impl ComparedFigure {
    fn tell<'a>(
        &'a self,
        place: Transport,
        all: &'a [Contender],
        ours: &Results,
        theirs: &[Theirs],
    ) -> JsonLine<'a> {
        let rounds: Vec<_> = theirs.iter().map(|theirs| theirs.results.rounds(&self.theirs)).collect();
        let named = || all.iter().map(|contender| contender.rival.name()).zip(theirs);
        let is_endless = |theirs: &Theirs| theirs.endless.contains(&self.theirs.work);
        JsonLine {
            compared: self.about,
            place: place.name(),
            scash: ours.median(&self.ours),
            others: named().map(|(name, theirs)| (name, theirs.results.median(&self.theirs))).collect(),
            others_bound_to: Binding::of(self.theirs.work.ranks).name(),
            no_end: named().filter(|(_, theirs)| is_endless(theirs)).map(|(name, _)| name).collect(),
            better: better(self.better, &ours.rounds(&self.ours), &rounds),
        }
    }
}

/// How many times as good as the best of the others, round by round.
fn better(which: Better, ours: &[Option<f64>], theirs: &[Vec<Option<f64>>]) -> Option<Spread> {
    let of_round =
        |round: usize| theirs.iter().filter_map(move |rounds| rounds.get(round).copied().flatten());
    let best: Vec<Option<f64>> = (0..ours.len())
        .map(|round| match which {
            Better::Less => of_round(round).reduce(f64::min),
            Better::More => of_round(round).reduce(f64::max),
        })
        .collect();
    match which {
        Better::Less => speed(&best, ours),
        Better::More => speed(ours, &best),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scash_is_compared_with_the_best_of_the_others_in_each_round() {
        let ours = [Some(2.0), Some(4.0), None];
        let theirs = [vec![Some(3.0), Some(2.0), Some(1.0)], vec![Some(1.0), None, Some(1.0)]];
        let less = better(Better::Less, &ours, &theirs).unwrap();
        assert_eq!((less.min, less.max), (0.5, 0.5));
        let more = better(Better::More, &ours, &theirs).unwrap();
        assert_eq!((more.min, more.max), (2.0 / 3.0, 2.0));
        assert!(better(Better::Less, &ours, &[]).is_none());
    }

    #[test]
    fn a_work_without_end_is_told_beside_those_that_ended() {
        let contender = |rival| Contender { rival, shim: PathBuf::new() };
        let all = Rival::ALL.map(contender);
        let (ended, mut endless) = (Theirs::default(), Theirs::default());
        endless.endless.insert(PAIR);
        let told = LINES[0].tell(Transport::Tcp, &all, &Results::default(), &[ended, endless]);
        assert_eq!((told.no_end, told.others.len()), (vec![Rival::ALL[1].name()], 2));
        let told = LINES[11].tell(Transport::Tcp, &all, &Results::default(), &[]);
        assert!(told.no_end.is_empty());
    }

    #[test]
    fn works_are_run_once_a_round() {
        let own = works(|line| line.ours);
        assert!((1..own.len()).all(|at| !own[..at].contains(&own[at])), "{own:?}");
    }
}
