//! Views: who is alive, by agreement.

use scash_proto::Rank;
use std::fmt;

/// Number of a view; each change of membership makes the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewNumber(pub u64);

/// The set of living ranks, numbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    number: ViewNumber,
    /// Ranks of the job at its start.
    size: u32,
    /// In ascending order, never empty.
    living: Vec<Rank>,
}

/// A rank that is not in the view, or the last one that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotLiving(pub Rank);

impl fmt::Display for NotLiving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot leave the view: it is not in it, or alone in it", self.0)
    }
}

impl std::error::Error for NotLiving {}

impl View {
    /// The view that a job of `size` ranks begins with: all of them.
    ///
    /// # Panics
    /// If the job has no rank.
    pub fn first(size: u32) -> View {
        assert!(size > 0, "a job has at least one rank");
        View { number: ViewNumber(0), size, living: (0..size).map(Rank).collect() }
    }

    /// The view's number.
    pub fn number(&self) -> ViewNumber {
        self.number
    }

    /// The living ranks in ascending order.
    pub fn living(&self) -> &[Rank] {
        &self.living
    }

    /// Whether a rank lives.
    pub fn contains(&self, rank: Rank) -> bool {
        self.living.binary_search(&rank).is_ok()
    }

    /// The lowest living rank: it leads recovery.
    pub fn leader(&self) -> Rank {
        self.living[0]
    }

    /// Whether more than half of the ranks that the job began with live here: a part of the job that was cut
    /// off from the rest may go on only if so.
    pub fn has_majority(&self) -> bool {
        2 * self.living.len() > self.size as usize
    }

    /// The next view, without `rank`.
    pub fn without(&self, rank: Rank) -> Result<View, NotLiving> {
        let mut living = self.living.clone();
        match living.binary_search(&rank) {
            Ok(at) if living.len() > 1 => living.remove(at),
            _ => return Err(NotLiving(rank)),
        };
        Ok(View { number: ViewNumber(self.number.0 + 1), size: self.size, living })
    }

    /// The next view, with `rank` back in it. A rank that lives, or that the job never had, cannot come back.
    pub fn with(&self, rank: Rank) -> Option<View> {
        let at = self.living.binary_search(&rank).err().filter(|_| rank.0 < self.size)?;
        let mut living = self.living.clone();
        living.insert(at, rank);
        Some(View { number: ViewNumber(self.number.0 + 1), size: self.size, living })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_living_rank_leads() {
        let view = View::first(4).without(Rank(0)).unwrap();
        assert_eq!((view.leader(), view.number()), (Rank(1), ViewNumber(1)));
        assert_eq!(view.with(Rank(0)).unwrap().leader(), Rank(0));
    }

    #[test]
    fn half_of_the_ranks_are_no_majority() {
        let mut view = View::first(4);
        view = view.without(Rank(3)).unwrap();
        assert!(view.has_majority());
        view = view.without(Rank(1)).unwrap();
        assert!(!view.has_majority());
    }

    #[test]
    fn nobody_leaves_twice_and_somebody_always_stays() {
        let view = View::first(2).without(Rank(1)).unwrap();
        assert_eq!(view.without(Rank(1)), Err(NotLiving(Rank(1))));
        assert_eq!(view.without(Rank(0)), Err(NotLiving(Rank(0))));
        assert_eq!(view.with(Rank(0)), None);
        assert_eq!(view.with(Rank(2)), None);
    }
}
