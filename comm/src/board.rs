//! Where ranks that share memory meet without messages.

/// A word of a rank on a [`Board`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Up to which meeting the rank has come. Their numbers rise.
    Arrived,
    /// Up to which the rank says they are over. Only the first rank's counts.
    Released,
}

impl Mark {
    /// Both.
    pub const ALL: [Mark; 2] = [Mark::Arrived, Mark::Released];
}

/// Words of ranks that share memory: each rank writes its own, and all of them read them, without any message
/// (after MMP, whose network hardware counts who has come to a barrier; Aoki and others 2006). Words count up
/// from 0.
pub trait Board {
    /// The ranks that have words here, in rising order, this one among them. It stays the same.
    fn ranks(&self) -> Vec<u32>;

    /// Writes this rank's word, and gives what is [`reached`](Self::reached) then. What this thread has
    /// written before is seen by who sees the word. Of ranks that post at the same time, the result of one at
    /// least includes what all of them post.
    fn post(&self, mark: Mark, count: u64) -> u64;

    /// What all have posted at least, of [`Mark::Arrived`]; what the first rank has, of [`Mark::Released`].
    fn reached(&self, mark: Mark) -> u64;

    /// Wakes those of that rank's threads that sleep at its endpoint, after something was posted; the rank by
    /// its place in [`ranks`](Self::ranks).
    fn wake(&self, place: usize);

    /// From now on, it is news for [`idle`](crate::Endpoint::idle) if [`reached`](Self::reached) gives so
    /// much, or nothing is.
    fn expect(&self, mark: Mark, count: Option<u64>);

    /// A thread has seen what was expected: others of this rank may be asleep who wait for what follows from
    /// that.
    fn noticed(&self);
}
