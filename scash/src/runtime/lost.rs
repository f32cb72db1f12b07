//! A rank that is gone: what its peers are told.

use crate::error::Error;
use crate::runtime::context::RankContext;
use scash_join::boot::RankState;
use std::time::{Duration, Instant};

/// How long a rank that misses another one waits for the launcher to know of a rank that died.
const NOTICE: Duration = Duration::from_secs(1);
/// How long it then waits for one that was killed. A rank that ended by itself may have ended in the wake of
/// that one, and the news of a rank of this host arrive before those of another host.
const CAUSE: Duration = Duration::from_millis(100);

/// The error of a call that needs a rank which the endpoint has lost.
pub(crate) fn error(context: &RankContext, rank: u32) -> Error {
    let why =
        context.endpoint.cut(rank).unwrap_or_else(|| "it ended; its end is reported by scash run".to_owned());
    Error::Lost { rank, why }
}

/// The error that the program is told: it names the rank that was killed, where the launcher knows one,
/// rather than one that ended in its wake and was missed first.
pub(crate) fn named(context: &RankContext, error: Error) -> Error {
    match (&error, killed(context)) {
        (Error::Lost { rank, .. }, Some(killed)) if !was_killed(context, *rank) => {
            self::error(context, killed)
        }
        _ => error,
    }
}

/// Waits until the launcher knows of a rank that died, if that is why this one cannot go on. The launcher
/// names the rank that ended first: that should not be this one, which ends in the other's wake.
pub(crate) fn let_the_dead_be_noticed(context: &RankContext) {
    let started = Instant::now();
    let mut known = None;
    while killed(context).is_none() && started.elapsed() < NOTICE {
        if (0..context.page.size()).any(|rank| context.page.died(rank))
            && known.get_or_insert_with(Instant::now).elapsed() >= CAUSE
        {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A rank of which the launcher knows that it was killed, or is gone with its host.
fn killed(context: &RankContext) -> Option<u32> {
    (0..context.page.size()).find(|&rank| was_killed(context, rank))
}

fn was_killed(context: &RankContext, rank: u32) -> bool {
    matches!(context.page.state(rank), RankState::Killed(_) | RankState::Gone)
}
