//! Objects that one rank of a random program makes, and one destroys.
//!
//! They are made and destroyed in the middle of intervals, while other objects are in use. Others use one
//! from the next interval on, and none is used in the interval in which it is destroyed.

use super::RandomProgram;
use super::sync::{KINDS, Objects};
use crate::program::FIRST_NAME;
use crate::program::Op;
use crate::rng::Rng;

/// With chances of its own, so that programs are the same but for this.
pub(super) struct Own {
    rng: Rng,
    /// How many, in a hundred, of the intervals have the making, and the end, of each of a few objects.
    often: u32,
    /// Those that are there, by kind.
    pub(super) there: [Vec<u32>; KINDS],
    /// Those that are made in this interval, with their kinds.
    coming: Vec<(usize, u32)>,
    /// Those that are destroyed in it.
    going: Vec<u32>,
    /// How many were made.
    made: u32,
}

/// Objects that are made, and destroyed, in an interval at most.
const AT_ONCE: u32 = 3;

impl Own {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::part(seed, 16);
        let often = rng.pick(&[0, 0, 10, 40, 90]);
        Own { rng, often, there: Default::default(), coming: Vec::new(), going: Vec::new(), made: 0 }
    }
}

impl Objects {
    /// An interval begins: what is made in it, and what is destroyed.
    pub(super) fn begin(&mut self) {
        let own = &mut self.own;
        own.going.clear();
        for (kind, name) in std::mem::take(&mut own.coming) {
            own.there[kind].push(name);
        }
        // Not before all ranks have made some.
        if self.given == 0 {
            return;
        }
        for _ in 0..AT_ONCE {
            let kind = own.rng.below(6) as usize;
            if own.rng.chance(own.often) {
                own.coming.push((kind, FIRST_NAME + own.made));
                own.made += 1;
            }
            let count = u32::try_from(own.there[kind].len()).unwrap_or(0);
            if count > 0 && own.rng.chance(own.often) {
                let at = own.rng.below(count) as usize;
                own.going.push(own.there[kind].swap_remove(at));
            }
        }
    }
}

impl RandomProgram {
    /// Somebody makes, and destroys, what is made and destroyed in the interval.
    pub(super) fn make_and_end_own(&mut self, work: &mut [Vec<Vec<Op>>]) {
        let kinds = &self.objects.kinds;
        let made = self.objects.own.coming.iter().map(|&(kind, name)| Op::MakeOwn(name, kinds[kind].0));
        let ended = self.objects.own.going.iter().map(|&name| Op::Unmake(name));
        let ops: Vec<Op> = made.chain(ended).collect();
        let rng = &mut self.objects.own.rng;
        for op in ops {
            let thread = &mut work[rng.below(self.size) as usize][rng.below(self.threads) as usize];
            let place = rng.pick(&certain(thread));
            thread.insert(place, op);
        }
    }
}

/// Where an operation can come that must not be left out, as what a lock is tried for may be.
fn certain(thread: &[Op]) -> Vec<usize> {
    let mut tried = None;
    let mut places = vec![0];
    for (at, op) in thread.iter().enumerate() {
        match op {
            Op::TryLock(lock) => tried = Some(lock),
            Op::Unlock(lock) if tried == Some(lock) => tried = None,
            _ => {}
        }
        places.extend(tried.is_none().then_some(at + 1));
    }
    places
}
