//! A rank's place among the ranks that take part, which form a ring.

/// A rank's view: its number, and the number of ranks.
#[derive(Clone, Copy)]
pub(super) struct RingPosition {
    pub(super) me: u32,
    pub(super) n: u32,
}

impl RingPosition {
    /// The rank that far ahead on the ring.
    pub(super) fn ahead(self, distance: u32) -> u32 {
        // Both are smaller than n, a rank's number has 32 bits.
        u32::try_from((u64::from(self.me) + u64::from(distance)) % u64::from(self.n)).unwrap_or(0)
    }

    /// The rank that far behind on the ring; `distance` is at most n.
    pub(super) fn behind(self, distance: u32) -> u32 {
        self.ahead(self.n - distance)
    }

    /// Rounds until doubling distances have reached all.
    pub(super) fn doublings(self) -> u32 {
        u32::BITS - (self.n - 1).leading_zeros()
    }
}
