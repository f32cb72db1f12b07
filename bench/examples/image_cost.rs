//! How long it takes to save a process, and to have it back:
//!
//!     cargo run --release -p scash-bench --example image_cost -- MEGABYTES
//!
//! The process fills so much memory with what looks random, and saves itself: first all of it, then several
//! times after a hundredth of its pages was written. Then it is killed, started again, and compares what it
//! has with what it had.

#![allow(clippy::print_stdout, reason = "it is a program")]

use scash_ft::image::{self, Own, STORE_AT, Took, Tracking};
use scash_ft::store::{PAGE, RankStore, Store, vars};
use scash_ft::{Base, Epoch, Incarnation};
use std::error::Error;
use std::mem::{forget, replace};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Times that a hundredth of the pages is written.
const ROUNDS: usize = 21;
/// Status of a process that asks to be started again.
const AGAIN: i32 = 3;
const STARTED: &str = "STARTED";

fn main() -> Result<()> {
    let megabytes = std::env::args().nth(1).map_or(Ok(100), |text| text.parse::<usize>())?;
    if std::env::var_os(vars::STORE).is_some() { rank(megabytes << 20) } else { keeper(megabytes) }
}

/// Keeps the store, and starts the process, twice.
fn keeper(megabytes: usize) -> Result<()> {
    let store = Store::create(0, 1)?;
    for incarnation in 0..2 {
        let newest = store.marks().iter().flatten().map(|mark| mark.epoch).max().unwrap_or_default();
        store.set_base(Base { incarnation: Incarnation(incarnation), epoch: newest });
        let file = store.file().as_raw_fd();
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(megabytes.to_string()).env(vars::STORE, file.to_string());
        command.env(vars::EPOCH, newest.to_string()).env(vars::INCARNATION, incarnation.to_string());
        command.env(STARTED, since_1970().as_nanos().to_string());
        // SAFETY: the child makes two system calls.
        unsafe { command.pre_exec(move || at_fixed_addresses(file)) };
        let status = command.status()?;
        if status.code() != Some(AGAIN) {
            return if status.success() { Ok(()) } else { Err(format!("{status}").into()) };
        }
    }
    Err("it did not come back".into())
}

/// Without randomisation, and with the store.
fn at_fixed_addresses(file: RawFd) -> std::io::Result<()> {
    // SAFETY: the call takes a number.
    unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) };
    // SAFETY: the call takes numbers.
    unsafe { libc::fcntl(file, libc::F_SETFD, 0) };
    Ok(())
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A page's first word, in a round.
fn word(page: usize, round: usize) -> u64 {
    ((page + 1) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) ^ round as u64
}

fn rank(bytes: usize) -> Result<()> {
    let mut memory = vec![0u64; bytes / 8];
    let mut state = 1u64;
    for word in &mut memory {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *word = state;
    }
    let own = Own { descriptors: &|number| number > 2, shared: "/memfd:scash" };
    let mut store = open(&|name| std::env::var(name).ok())?;
    let mut tracking = Tracking::new(|fd| fd);
    let (words, pages) = (PAGE / 8, bytes / PAGE);
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        for page in (round % 100..pages).step_by(100) {
            memory[page * words] = word(page, round);
        }
        let begun = Instant::now();
        let prepared = image::prepare(&own)?;
        let mut staged = store.stage();
        // SAFETY: the process has one thread; what it had of the kernel's is made anew below.
        if unsafe { image::capture(prepared, &own, &tracking, &mut staged, &mut |_| true) }? == Took::CameBack
        {
            let started = image::environment(STARTED).and_then(|text| text.to_str()?.parse().ok());
            forget(staged);
            let took = since_1970() - Duration::from_nanos(started.unwrap_or(0));
            forget(replace(&mut tracking, Tracking::new(|fd| fd)));
            forget(replace(&mut store, open(&|name| image::environment(name)?.into_string().ok())?));
            return finish(&memory, &mut times, took);
        }
        let written = staged.written()?;
        store.wrote(written)?;
        store.mark([0; 2], 0)?;
        store.commit();
        tracking.settle(true);
        times.push(begun.elapsed());
    }
    exit(AGAIN)
}

/// Says what was measured, and whether all is there.
fn finish(memory: &[u64], times: &mut Vec<Duration>, back: Duration) -> Result<()> {
    let last = times.len();
    let all = (0..memory.len() / (PAGE / 8)).skip(last % 100).step_by(100);
    if let Some(page) = all.into_iter().find(|page| memory[page * (PAGE / 8)] != word(*page, last)) {
        return Err(format!("page {page} is not as it was").into());
    }
    let first = times.remove(0);
    times.sort_unstable();
    println!(
        "{} MB: first image {first:.2?}, one with 1 % changed {:.2?} (median of {}), back in {back:.2?} from the start of the process",
        memory.len() / (128 << 10),
        times[times.len() / 2],
        times.len()
    );
    Ok(())
}

fn open(var: &dyn Fn(&str) -> Option<String>) -> Result<RankStore> {
    let number = |name: &str| Ok::<u64, Box<dyn Error>>(var(name).ok_or(name.to_owned())?.parse()?);
    let base =
        Base { incarnation: Incarnation(number(vars::INCARNATION)?), epoch: Epoch(number(vars::EPOCH)?) };
    // SAFETY: the keeper has opened it.
    let file = unsafe { BorrowedFd::borrow_raw(RawFd::try_from(number(vars::STORE)?)?) };
    // SAFETY: the addresses are those of stores; the one before, if any, is not used any more.
    Ok(unsafe {
        RankStore::map(file.try_clone_to_owned()?, std::ptr::with_exposed_provenance_mut(STORE_AT), base)
    }?)
}
