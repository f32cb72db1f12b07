//! What a job leaves to look at.

use std::fmt;

/// A job, or a program, that has ended.
#[derive(Debug)]
pub struct Ended {
    /// What was run, for people.
    pub what: String,
    /// Its exit status, or 128 + the signal that killed it.
    pub status: i32,
    /// What it wrote to stdout.
    pub out: String,
    /// What it wrote to stderr.
    pub err: String,
}

impl Ended {
    /// Checks that it ended well, and silently.
    pub fn succeeded(&self) {
        assert_eq!((self.status, self.err.as_str()), (0, ""), "{self}");
    }

    /// Checks that it ended with this status, and said all these words on stderr.
    pub fn failed(&self, status: i32, words: &[&str]) {
        assert_eq!(self.status, status, "{self}");
        self.said(words);
    }

    /// Checks that it failed, and said all these words on stderr.
    pub fn refused(&self, words: &[&str]) {
        assert!((1..128).contains(&self.status), "neither an error nor a crash: {self}");
        self.said(words);
    }

    /// Checks that stderr holds all these words.
    pub fn said(&self, words: &[&str]) {
        let missing: Vec<_> = words.iter().filter(|word| !self.err.contains(**word)).collect();
        assert!(missing.is_empty(), "no {missing:?} in: {self}");
    }

    /// Pages of the newest checkpoint of the rank that has most, as `SCASH_STATS` says.
    pub fn pages_kept(&self) -> u64 {
        let words: Vec<&str> = self.err.split_whitespace().collect();
        let kept = words.windows(2).filter(|pair| pair[1] == "kept");
        let kept = kept.map(|pair| pair[0].parse::<u64>().unwrap_or_else(|error| panic!("{error}: {self}")));
        kept.max().filter(|kept| *kept > 0).unwrap_or_else(|| panic!("no rank has a checkpoint: {self}"))
    }

    /// Checks that an application that was run with `--check --json` reported one right result of that many
    /// ranks, and returns the report.
    pub fn is_equal(&self, ranks: u32) -> serde_json::Value {
        self.succeeded();
        let report = self.is_right();
        assert_eq!(report["ranks"], ranks, "{self}");
        report
    }

    /// Checks that an application that was run with `--check --json` reported one result, bitwise that of the
    /// sequential program, and returns the report. The launcher may have said something on stderr.
    pub fn is_right(&self) -> serde_json::Value {
        assert_eq!(self.status, 0, "{self}");
        let report: serde_json::Value =
            serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self}"));
        assert_eq!(report["check"], "equal", "{self}");
        report
    }

    /// Checks that ranks have gone on from checkpoints, and never from the beginning.
    pub fn went_on(&self) {
        let is_so = self.err.contains("go on from barrier ") && !self.err.contains("from the beginning");
        assert!(is_so, "{self}");
    }

    /// The lines that it wrote to stdout, in alphabetical order: which rank was first does not matter.
    pub fn sorted(&self) -> Vec<&str> {
        let mut lines: Vec<_> = self.out.lines().collect();
        lines.sort_unstable();
        lines
    }

    /// Checks that each of `ranks` ranks has written one line to stdout, and returns them.
    pub fn lines(&self, ranks: u32) -> Vec<&str> {
        let lines: Vec<_> = self.out.lines().collect();
        assert_eq!(lines.len(), ranks as usize, "{self}");
        lines
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: status {}\nstdout:\n{}\nstderr:\n{}", self.what, self.status, self.out, self.err)
    }
}
