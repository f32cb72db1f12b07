//! Rank program without a word of `unsafe`: threads of a rank, arrays with owners, messages; with results
//! that only the right memory gives.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a rank's answer to its test")]

mod arrays;
mod crews;
mod messages;

use scash::{Dsm, Result};

type Check = fn(&mut Dsm) -> Result<()>;

/// Not a multiple of anything: parts begin within pages, and have different lengths.
const LEN: usize = 5 * 512 + 43;

/// What is written into element `i` in an interval.
fn value(interval: usize, i: usize) -> u64 {
    (interval * 100_000 + i) as u64
}

/// What a call panics with.
fn panics<T: std::fmt::Debug>(call: impl FnOnce() -> T) -> String {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
    std::panic::set_hook(hook);
    said.expect_err("it cannot be done").downcast_ref::<String>().cloned().expect("a text")
}

fn main() -> Result<()> {
    let mut dsm = Dsm::init()?;
    let checks: [(&str, Check); 12] = [
        ("workers", crews::own_parts_and_meet_at_barriers),
        ("locks", crews::share_locks_and_words),
        ("reductions", crews::add_up_in_one_order),
        ("failures", crews::end_when_one_fails),
        ("panics", crews::end_when_one_panics),
        ("matrices", arrays::matrices_show_what_was_published),
        ("turns", arrays::owners_change_at_turns),
        ("runs", arrays::any_ranges_have_owners),
        ("named ranges", arrays::ranges_are_named_by_each),
        ("handles", arrays::handles_that_missed_a_turn_lead_nowhere),
        ("messages", messages::travel_beside_shared_memory),
        ("messages of threads", messages::are_sent_by_workers),
    ];
    for (name, check) in checks {
        check(&mut dsm).inspect_err(|_| eprintln!("rank {}: in the check of {name}:", dsm.rank()))?;
    }
    println!("rank {} passed {} checks", dsm.rank(), checks.len());
    dsm.finalize()
}
