//! A program whose ranks take checkpoints, in place of one that shares memory: it counts steps, prints each,
//! and saves the count at each. Its ranks die where the test says.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of this module")]

use super::common::{Ended, LIMIT};
use scash_comm::Exchange;
use scash_comm::say::say;
use scash_ft::store::{A_RESTART, AN_EPOCH, Key, PAGE, RankStore, vars};
use scash_ft::{Base, Epoch, Incarnation};
use scash_join::boot::{Identity, Member};
use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, RawFd};
use std::process::exit;
use std::time::Duration;

/// Steps of the program. Each third one ends a line, so that checkpoints fall into lines.
pub const STEPS: u64 = 7;
/// Which ranks die, where, and how.
pub const DEATHS: &str = "SCASH_TEST_DEATHS";
/// How many milliseconds a step takes.
pub const PACE: &str = "SCASH_TEST_PACE";
/// The first part of the names of files that ranks make.
pub const FILE: &str = "SCASH_TEST_FILE";

/// Where a rank may die in each step; and before and after all of them.
pub const POINTS: [&str; 5] = ["printed", "staged", "marked", "met", "committed"];

/// A rank's way through the program.
struct Walker {
    rank: u32,
    base: Base,
    /// `INCARNATION RANK POINT STEP HOW`, where `*` is any; how: a signal's number, `exit` or `hang`;
    /// `say` if it only says something.
    deaths: Vec<[String; 5]>,
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What has a descriptor of this number, which stays open.
fn descriptor(number: u64) -> ManuallyDrop<File> {
    // SAFETY: the launcher has given it to this process, and nobody here closes it.
    ManuallyDrop::new(unsafe { File::from_raw_fd(RawFd::try_from(number).unwrap()) })
}

/// Plays the part of this rank.
pub fn walk() {
    let deaths = std::env::var(DEATHS).unwrap_or_default();
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let walker = Walker {
        rank: u32::try_from(number("SCASH_RANK").unwrap()).unwrap(),
        base: Base {
            incarnation: Incarnation(number(vars::INCARNATION).unwrap()),
            epoch: Epoch(number(vars::EPOCH).unwrap()),
        },
        deaths: deaths.split(';').filter_map(|text| words(text).try_into().ok()).collect(),
    };
    if walker.run().is_err() {
        // Who loses another rank waits until it is killed.
        std::thread::sleep(LIMIT);
    }
    exit(0);
}

/// The lines that the launcher has printed.
pub fn said(ended: &Ended) -> Vec<&str> {
    ended.stderr.lines().filter_map(|line| line.strip_prefix("scash: ")).collect()
}

/// What a rank has printed, of what ranks have printed in whole lines.
pub fn words_of<'a>(text: &'a str, rank: u32) -> Vec<&'a str> {
    let begin = format!("{rank}:");
    let of_line = |line: &'a str| line.split_whitespace().filter(|word| word.contains(':'));
    let lines = text.lines().filter(|line| !line.starts_with("scash: "));
    let own = lines.filter(|line| of_line(line).any(|word| word.starts_with(&begin)));
    own.flat_map(of_line).collect()
}

/// Checks that so many ranks have printed each step once, in order, and nothing else.
pub fn are_complete(ended: &Ended, ranks: u32, what: &str) {
    for rank in 0..ranks {
        let expected: Vec<String> = (1..=STEPS).map(|step| format!("{rank}:{step}")).collect();
        assert_eq!(words_of(&ended.stdout, rank), expected, "{what}: {ended:?}");
        assert_eq!(words_of(&ended.stderr, rank), expected, "{what}: {ended:?}");
    }
    assert_eq!(ended.status, 0, "{what}: {}", ended.stderr);
}

impl Walker {
    fn run(&self) -> scash_comm::Result<()> {
        self.at("started", 0);
        let mut store = self.store();
        let mut done = self.restored(&store);
        assert_eq!(done, self.base.epoch.0);
        let mut member = Member::from_env()?;
        member.hello(&Identity::of_this_program("1.0.0", 1).unwrap())?;
        self.at("joined", 0);
        if done > 0 {
            member.all_gather(b"", &[])?;
            self.tell(A_RESTART);
        }
        while done < STEPS {
            done += 1;
            std::thread::sleep(Duration::from_millis(number(PACE).unwrap_or(0)));
            self.print(done);
            self.at("printed", done);
            member.all_gather(b"", &[])?;
            let mut page = [0; PAGE];
            page[..8].copy_from_slice(&done.to_le_bytes());
            let mut staged = store.stage();
            // SAFETY: it is a page.
            unsafe { staged.page(Key::private(0x5000), page.as_ptr()) }.unwrap();
            self.at("staged", done);
            let written = staged.written().unwrap();
            store.wrote(written).unwrap();
            let outputs = [1, 2].map(|stream| descriptor(stream).metadata().unwrap().len());
            store.mark(outputs, done).unwrap();
            self.at("marked", done);
            member.all_gather(b"", &[])?;
            self.at("met", done);
            store.commit();
            self.tell(AN_EPOCH);
            self.at("committed", done);
        }
        member.finalized()?;
        self.at("finalized", 0);
        Ok(())
    }

    /// Tells the launcher, if this is rank 0.
    fn tell(&self, what: u64) {
        if self.rank == 0 {
            descriptor(number(vars::COMMITTED).unwrap()).write_all(&what.to_ne_bytes()).unwrap();
        }
    }

    fn store(&self) -> RankStore {
        // SAFETY: the launcher has given it to this process, and nobody closes it.
        let file = unsafe { BorrowedFd::borrow_raw(RawFd::try_from(number(vars::STORE).unwrap()).unwrap()) };
        let len = RankStore::len_of(file.as_fd()).unwrap();
        let (none, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: it is new address space.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, none, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        // SAFETY: the address space is this store's for ever.
        unsafe { RankStore::map(file.try_clone_to_owned().unwrap(), at.cast(), self.base) }.unwrap()
    }

    fn restored(&self, store: &RankStore) -> u64 {
        if self.base.epoch == Epoch(0) {
            return 0;
        }
        let pages = store.saved().unwrap();
        let bytes = pages.bytes(pages.entries[0]);
        // SAFETY: a slot is a page.
        let bytes: [u8; 8] = std::array::from_fn(|i| unsafe { bytes.wrapping_add(i).read() });
        u64::from_le_bytes(bytes)
    }

    fn print(&self, step: u64) {
        let end = if step.is_multiple_of(3) { "\n" } else { "" };
        let (out, err) = (format!("{}:{step} {end}", self.rank), format!("error {}:{step}\n", self.rank));
        descriptor(1).write_all(out.as_bytes()).unwrap();
        descriptor(2).write_all(err.as_bytes()).unwrap();
    }

    /// Does what it is to do here: dies, as a rule.
    fn at(&self, point: &str, step: u64) {
        let here = [self.base.incarnation.to_string(), self.rank.to_string(), point.into(), step.to_string()];
        let is_here =
            |death: &&[String; 5]| death.iter().zip(&here).all(|(word, is)| word == "*" || word == is);
        for death in self.deaths.iter().filter(is_here) {
            self.meet(&death[4], step);
        }
    }

    fn meet(&self, fate: &str, step: u64) {
        match fate {
            "say" => say(format!("scash: rank {} says so at step {step}\n", self.rank)),
            "exit" => exit(3),
            "hang" => {
                let file = std::env::var(FILE).unwrap();
                std::fs::write(format!("{file}.{}", self.rank), "").unwrap();
                std::thread::sleep(LIMIT);
            }
            signal => {
                let signal = signal.parse().unwrap();
                // SAFETY: no handler is installed. (That of the Rust library waits for another fault.)
                unsafe { libc::signal(signal, libc::SIG_DFL) };
                // SAFETY: the call takes a number.
                unsafe { libc::raise(signal) };
                std::thread::sleep(LIMIT);
            }
        }
    }
}
