//! Dissemination: who sends a token to whom, so that all ranks learn of all.
//!
//! In base b, the ranks' distances (from one rank up to another, modulo their number) are numbers of some
//! digits, one for each round. In round k a rank sends to those j·bᵏ above it, for each digit j from 1 to b −
//! 1: it knows of those less than bᵏ below it, and they learn of less than bᵏ⁺¹. With b = 2 (Hensgen, Finkel
//! and Manber 1988) each rank sends ⌈log₂ n⌉ tokens, one after another. With b = n there is one round, in
//! which each sends to each.
//!
//! A **step** is one token of one round: steps are numbered through, and the distance of a step is larger
//! than that of the one before.

use crate::Rank;

/// The largest base: a rank sends and awaits less than this many tokens in a round.
const LARGEST: u32 = 16;

/// A job's dissemination.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dissemination {
    size: u32,
    base: u32,
}

impl Dissemination {
    /// Of so many ranks, in this base, or the nearest to it that there is.
    pub(super) fn new(size: u32, base: u32) -> Self {
        Self { size, base: base.clamp(2, LARGEST) }
    }

    /// How far the token of a step goes, if there is such a step.
    pub(super) fn distance(self, step: u32) -> Option<u32> {
        let (round, digit) = (step / (self.base - 1), step % (self.base - 1) + 1);
        let distance = self.base.checked_pow(round)?.checked_mul(digit)?;
        (distance < self.size).then_some(distance)
    }

    /// How many steps there are.
    pub(super) fn steps(self) -> usize {
        (0..).take_while(|&step| self.distance(step).is_some()).count()
    }

    /// The steps of the round that begins with this one: none, if a round is under way there.
    pub(super) fn round(self, step: u32) -> std::ops::Range<u32> {
        if step.is_multiple_of(self.base - 1) { step..step + self.base - 1 } else { step..step }
    }

    /// Whether what is meant for the one rank goes with the token of a step that the other sends, if it has
    /// not gone with an earlier one.
    pub(super) fn leads(self, step: u32, from: Rank, to: Rank) -> bool {
        let (round, digit) = (step / (self.base - 1), step % (self.base - 1) + 1);
        let distance = (to.0 + self.size - from.0) % self.size;
        self.base.checked_pow(round).is_some_and(|unit| distance / unit % self.base == digit)
    }

    /// Whether a rank with the token of a step is to learn of another: it cannot know of it, and will hear it
    /// from nobody else.
    pub(super) fn tells(self, distance: u32, of: Rank, me: Rank) -> bool {
        (me.0 + self.size - of.0) % self.size + distance < self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn all() -> impl Iterator<Item = Dissemination> {
        (1..if cfg!(miri) { 9 } else { 70 })
            .flat_map(|size| [2, 3, 4, 7, 16].map(|base| Dissemination::new(size, base)))
    }

    #[test]
    fn everyone_learns_of_everyone_once() {
        for topology in all() {
            let mut known: Vec<BTreeSet<u32>> = (0..topology.size).map(|r| BTreeSet::from([r])).collect();
            let mut first = 0;
            while topology.distance(first).is_some() {
                let before = known.clone();
                for step in topology.round(first) {
                    let Some(distance) = topology.distance(step) else { break };
                    for me in 0..topology.size {
                        let to = (me + distance) % topology.size;
                        for &of in &before[me as usize] {
                            let told = topology.tells(distance, Rank(of), Rank(me));
                            assert!(
                                !told || known[to as usize].insert(of),
                                "{topology:?}: {to} hears of {of} twice"
                            );
                        }
                    }
                }
                first = topology.round(first).end;
            }
            assert!(known.iter().all(|of| of.len() == topology.size as usize), "{topology:?}");
        }
    }

    #[test]
    fn what_is_meant_for_a_rank_gets_there_along_the_steps() {
        for topology in all() {
            for to in (0..topology.size).map(Rank) {
                let distances = (0..).map_while(|step| Some((step, topology.distance(step)?)));
                let at = distances.fold(Rank(0), |at, (step, distance)| {
                    if topology.leads(step, at, to) { Rank((at.0 + distance) % topology.size) } else { at }
                });
                assert_eq!(at, to, "{topology:?}");
            }
        }
    }

    #[test]
    fn base_two_takes_the_logarithm_and_the_number_of_ranks_one_round() {
        let steps = |size, base| Dissemination::new(size, base).steps();
        assert_eq!([1, 2, 3, 8, 9, 1000].map(|size| steps(size, 2)), [0, 1, 2, 3, 4, 10]);
        assert_eq!([1, 2, 3, 8, 16].map(|size| steps(size, size)), [0, 1, 2, 7, 15]);
        assert_eq!(Dissemination::new(8, 8).round(0), 0..7);
    }
}
