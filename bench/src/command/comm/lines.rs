//! Lines of tables: figures of records, and ratios of figures, each the median of the rounds.

use crate::Session;
use crate::runner::Rounds;
use scash_bench::figures::{Spread, median, speed};
use scash_bench::record::Record;
use std::collections::BTreeMap;

/// What a job measures: the words of `scash-comm-bench`'s command line, on so many ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BenchCommand {
    pub(super) ranks: u32,
    pub(super) words: &'static str,
    /// Lengths of messages, of works that have such.
    pub(super) lengths: &'static [u64],
}

/// A figure of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pick {
    pub(super) work: BenchCommand,
    /// Which of the work's records: the one with this parameter. `None`: there is one.
    pub(super) of: Option<(&'static str, u64)>,
    pub(super) figure: &'static str,
}

impl BenchCommand {
    /// A work without lengths.
    pub(super) const fn new(ranks: u32, words: &'static str) -> BenchCommand {
        BenchCommand { ranks, words, lengths: &[] }
    }

    /// All its words, and those that make less of it if little is to be done.
    pub(super) fn words(self, quick: bool) -> String {
        let mut words = self.words.to_owned();
        if !self.lengths.is_empty() {
            let lengths: Vec<String> = self.lengths.iter().map(u64::to_string).collect();
            words += &format!(" --lengths {}", lengths.join(","));
        }
        let has_rounds = !["memory", "hello"].contains(&self.words);
        if quick && has_rounds {
            words += " --rounds 1";
        }
        words
    }

    /// The only record's figure.
    pub(super) const fn pick(self, figure: &'static str) -> Pick {
        Pick { work: self, of: None, figure }
    }

    /// A figure of the record of a length of messages.
    pub(super) const fn at(self, length: u64, figure: &'static str) -> Pick {
        Pick { work: self, of: Some(("length", length)), figure }
    }
}

impl Pick {
    /// Its value in the records of one round.
    pub(super) fn value(&self, records: &[Record]) -> Option<f64> {
        let is_it = |record: &&Record| match self.of {
            None => true,
            Some((name, value)) => {
                record.parameters.get(name).and_then(serde_json::Value::as_u64) == Some(value)
            }
        };
        records.iter().find(is_it)?.figures.get(self.figure).copied()
    }
}

/// What works have found in each round, in one place.
#[derive(Debug, Default)]
pub(super) struct Results(BTreeMap<BenchCommand, Rounds>);

impl Results {
    /// Adds a round of a work, and prints its records if JSON was asked for.
    pub(super) fn add(&mut self, session: &Session, work: BenchCommand, records: Option<Vec<Record>>) {
        let records = records.filter(|records| {
            // Under a launcher of another library, each process may find itself alone.
            let of_all = records.iter().all(|record| record.ranks == work.ranks as usize);
            if !of_all {
                crate::say(&format!("{}: its processes have not become {} ranks", work.words, work.ranks));
            }
            of_all
        });
        records.iter().flatten().for_each(|record| session.object(record));
        self.0.entry(work).or_default().push(records);
    }

    /// The rounds of a figure. None at all where it is not measured.
    pub(super) fn rounds(&self, pick: &Pick) -> Vec<Option<f64>> {
        let rounds = self.0.get(&pick.work).into_iter().flatten();
        rounds.map(|records| pick.value(records.as_deref()?)).collect()
    }

    /// The median of its rounds.
    pub(super) fn median(&self, pick: &Pick) -> Option<f64> {
        median(&self.rounds(pick))
    }

    /// How many times the second figure the first one is, round by round.
    pub(super) fn ratio(&self, of: &Pick, to: &Pick) -> Option<Spread> {
        speed(&self.rounds(of), &self.rounds(to))
    }

    /// Whether every round of every work has something.
    pub(super) fn is_complete(&self) -> bool {
        self.0.values().flatten().all(Option::is_some)
    }
}
