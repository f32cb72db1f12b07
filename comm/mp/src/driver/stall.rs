//! What a thread waits for, and the line on stderr that says so when it has waited for long
//! ([`Options::stall`](crate::Options::stall)).

use crate::engine::{Engine, message};
use crate::requests::RequestNumber;
use std::time::{Duration, Instant};

/// What a thread waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// The end of an operation.
    Operation(RequestNumber),
    /// The end of one of so many.
    OneOf(usize),
    /// A message of this source and tag, which is not received.
    Message(Option<u32>, Option<u64>),
    /// Active messages to a rank to leave.
    Calls(u32),
    /// The end of all gets.
    Gets,
    /// Messages that were sent and forgotten to leave.
    Forgotten,
    /// The answer to a send that is taken back.
    Withdrawal,
}

impl Goal {
    fn describe(self, engine: &mut Engine) -> String {
        match self {
            Goal::Operation(number) => engine.describe(number),
            Goal::OneOf(1) => "an operation".to_owned(),
            Goal::OneOf(count) => format!("one of {count} operations"),
            Goal::Message(source, tag) => message(source, tag),
            Goal::Calls(to) => format!("rank {to} to handle active messages"),
            Goal::Gets => "gets from a window that is closed".to_owned(),
            Goal::Forgotten => "messages that were sent and forgotten".to_owned(),
            Goal::Withdrawal => "the receiver of a send that is taken back".to_owned(),
        }
    }
}

/// How long a thread has waited.
#[derive(Debug, Default)]
pub(super) struct StallTimer {
    since: Option<Instant>,
    has_told: bool,
}

impl StallTimer {
    /// The thread waits on: says so, once, if that has taken longer than what is thought to be normal; zero:
    /// anything is.
    pub(super) fn look(&mut self, normal: Duration, rank: u32, goal: Goal, engine: &mut Engine) {
        if self.has_told || normal.is_zero() {
            return;
        }
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        if waited >= normal {
            self.has_told = true;
            let goal = goal.describe(engine);
            let seconds = waited.as_secs_f64();
            let line = format!("scash: rank {rank} has waited for {seconds:.1} s (SCASH_STALL) for {goal}\n");
            scash_comm::say::say(&line);
        }
    }
}
