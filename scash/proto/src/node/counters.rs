//! What a node counts.

/// What a node has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Read faults that needed work.
    pub read_faults: u64,
    /// Write faults that needed work.
    pub write_faults: u64,
    /// Pages that this rank was the first to touch: one write fault may open several.
    pub first_touches: u64,
    /// Pages fetched from their homes.
    pub fetched: u64,
    /// Faults that a wider fetch or map made unnecessary.
    pub prefetched: u64,
    /// Writes that took no fault because the page was predicted to be written, or opened along with another
    /// one.
    pub predicted: u64,
    /// Writes that were noticed without a fault, because the page was watched.
    pub noticed: u64,
    /// Home pages that stayed writable over a barrier because nobody subscribed to them, added up over
    /// barriers.
    pub avoided: u64,
    /// Twins made.
    pub twins: u64,
    /// Pages whose changes went to their home.
    pub diffs: u64,
    /// Pages brought to sharers, counted once a sharer.
    pub updates: u64,
    /// Home pages that went to the only rank that writes them.
    pub migrated: u64,
    /// Copies that became subscriptions: from then on their homes tell this rank of changes.
    pub subscribed: u64,
    /// Cached pages given up, at barriers, when locks came, and to be read from their homes.
    pub invalidated: u64,
    /// Cached pages given up because there was a limit.
    pub evicted: u64,
    /// Of these, those that were written.
    pub evicted_written: u64,
    /// Most cached pages that were held at once, where there is a limit.
    pub most_cached: u64,
    /// Copies brought up to date when locks came, instead of being given up.
    pub renewed: u64,
    /// Of these, those whose bytes came with the lock.
    pub brought: u64,
    /// Home pages that this rank tracked for leases of other ranks, counted once an epoch.
    pub tracked: u64,
    /// Leases that locks do not end any more, unless their homes have written the pages.
    pub spared: u64,
    /// Locks asked for.
    pub locks: u64,
    /// Of these, those that were only tried, and were not free.
    pub refused_locks: u64,
    /// Those that were here.
    pub cached_locks: u64,
    /// Locks asked for before a thread wanted them.
    pub asked_ahead: u64,
    /// Of these, those that a thread then took.
    pub taken_ahead: u64,
    /// Locks handed on to other ranks.
    pub handed_locks: u64,
    /// Times that a thread asked for a reader–writer lock, a semaphore, a condition's signal or a flag.
    pub requests: u64,
    /// Times that a thread let others go on with these.
    pub signals: u64,
    /// Memory barriers passed.
    pub barriers: u64,
    /// Of these, those with a second meeting.
    pub second_meetings: u64,
    /// Of these, those with a third one: a first touch was disputed, a home moved, or pages were broadcast.
    pub third_meetings: u64,
}
