//! Rank program: small programs whose results tell whether locks, atomic operations, reductions and memory
//! barriers do what they must.
//!
//! Each is named by the first argument, is run for many rounds, and exits with words about the first wrong
//! value.

#![expect(clippy::print_stdout, reason = "a rank's answer to its test")]

mod atomics;
mod barriers;
mod groups;
mod locks;
mod reductions;
mod rwlocks;
mod signals;

use scash::{Dsm, Result};
use std::process::ExitCode;

type Litmus = fn(&mut Dsm, usize) -> Result<()>;

const ALL: [(&str, Litmus); 33] = [
    ("counter", locks::counter),
    ("greed", locks::greed),
    ("alternation", locks::alternation),
    ("tries", locks::tries),
    ("tries in vain", locks::tries_in_vain),
    ("many counters", locks::many_counters),
    ("message passing", locks::message_passing),
    ("store buffering", locks::store_buffering),
    ("independent reads", locks::independent_reads),
    ("false sharing", locks::false_sharing),
    ("one page", locks::one_page),
    ("first touch", locks::first_touch),
    ("pages that travel", locks::pages_that_travel),
    ("threads", locks::threads),
    ("readers and writers", rwlocks::readers_and_writers),
    ("readers together", rwlocks::readers_together),
    ("threads that read and write", rwlocks::threads),
    ("buffer with conditions", signals::buffer_with_conditions),
    ("buffer with semaphores", signals::buffer_with_semaphores),
    ("pipeline with flags", signals::pipeline_with_flags),
    ("one flag for all", signals::one_flag_for_all),
    ("turns", signals::turns),
    ("pairs that meet", groups::pairs),
    ("an event again and again", groups::event),
    ("lost signals", signals::lost_signals),
    ("barriers and locks", barriers::and_locks),
    ("tickets", atomics::tickets),
    ("histograms", atomics::histograms),
    ("maximum", atomics::maximum),
    ("words beside locks", atomics::beside_locks),
    ("values", reductions::values),
    ("bits", reductions::bits),
    ("messages", reductions::messages),
];

/// Threads of a rank, where a program has several.
const THREADS: usize = 3;

/// Has some threads do this, each with its number.
fn on_threads(work: impl Fn(usize) -> Result<()> + Copy + Send) -> Result<()> {
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..THREADS).map(|t| scope.spawn(move || work(t))).collect();
        all.into_iter().try_for_each(|t| t.join().expect("no thread panics"))
    })
}

fn run(name: &str, rounds: usize) -> Result<()> {
    let (_, litmus) = ALL.iter().find(|(n, _)| *n == name).expect("a litmus program that exists");
    let mut dsm = Dsm::init()?;
    litmus(&mut dsm, rounds)?;
    println!("rank {} saw nothing wrong", dsm.rank());
    dsm.finalize()
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().expect("the name of a litmus program");
    let rounds = arguments.next().and_then(|n| n.parse().ok()).expect("a number of rounds");
    match run(&name, rounds) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("litmus: {error}");
            ExitCode::FAILURE
        }
    }
}
