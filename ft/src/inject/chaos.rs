//! Random failures.

use super::{InjectedAction, Injection, Point, When};
use crate::random::SplitMix64;
use std::time::Duration;

/// What may go wrong, and once in how many times at the most. Ranks pass some points much more often than
/// others: they fetch pages all the time, and recover seldom. (They fill frames seldom, too, but then maybe
/// page by page.)
const POINTS: [(Point, u32); 24] = [
    (Point::BarrierEnter, 100),
    (Point::BarrierFlush, 100),
    (Point::BarrierMeet, 100),
    (Point::BarrierDone, 100),
    (Point::CheckpointDue, 10),
    (Point::CheckpointStop, 10),
    (Point::CheckpointCopy, 10),
    (Point::CheckpointFence, 10),
    (Point::CheckpointMark, 10),
    (Point::CheckpointMeet, 10),
    (Point::CheckpointDone, 10),
    (Point::LockAsked, 1000),
    (Point::LockGot, 1000),
    (Point::LockReleased, 1000),
    (Point::Fetch, 10_000),
    (Point::ImageRestored, 5),
    (Point::ImageThread, 300),
    (Point::ImageDescribed, 10),
    (Point::ImagePage, 20_000),
    (Point::ImageShared, 5_000),
    (Point::RecoveryJoined, 5),
    (Point::RecoveryFilled, 5_000),
    (Point::RecoveryCopied, 5),
    (Point::RecoveryResumed, 5),
];

/// From three to six injections at random points, drawn from a seed: always the same for a seed and a number
/// of ranks. Most kill; some stop or delay for up to 50 ms.
pub fn chaos(seed: u64, ranks: u32) -> Vec<Injection> {
    let mut random = SplitMix64::of(seed, &[u64::from(ranks)]);
    let number = 3 + random.below(4);
    (0..number).map(|_| draw(&mut random, ranks)).collect()
}

fn draw(random: &mut SplitMix64, ranks: u32) -> Injection {
    let below = |random: &mut SplitMix64, bound: usize| {
        usize::try_from(random.below(u64::try_from(bound).unwrap_or(1))).unwrap_or(0)
    };
    let (point, seldom) = POINTS[below(random, POINTS.len())];
    let time = Duration::from_millis(1 + random.below(50));
    let act = match random.below(6) {
        0 => InjectedAction::Stop(time),
        1 => InjectedAction::Delay(time),
        _ => InjectedAction::Kill,
    };
    let all = random.below(4) == 0;
    let rank = u32::try_from(random.below(u64::from(ranks.max(1)))).unwrap_or(0);
    // Between a tenth of what is likely at the most and that, and with few digits: the user reads it.
    let tenths = u32::try_from(1 + random.below(10)).unwrap_or(1);
    let probability = f64::from(tenths) / f64::from(10 * seldom);
    let when = When::Randomly { probability, seed: random.below(1_000_000) };
    Injection { act, rank: (!all).then_some(rank), point, when, incarnation: None }
}
