//! What is counted of a rank's calls for objects that are words in the memory of its host.

use scash_proto::node::Counters;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// What is counted of this rank's calls. A lock that is asked for is counted once, when it is known whether
/// it is free: no sum of these ever becomes smaller.
#[derive(Default)]
pub(super) struct Counts {
    /// Locks that were free.
    pub(super) free: AtomicU64,
    /// Locks that were not, and not waited for.
    pub(super) refused: AtomicU64,
    /// Locks that were not, and waited for.
    pub(super) waited: AtomicU64,
    pub(super) handed: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) signals: AtomicU64,
}

impl Counts {
    fn all(&self) -> [&AtomicU64; 6] {
        let Counts { free, refused, waited, handed, requests, signals } = self;
        [free, refused, waited, handed, requests, signals]
    }

    /// Begins with what those of the process had that is gone.
    pub(super) fn go_on_as(&self, old: &Counts) {
        for (new, old) in self.all().into_iter().zip(old.all()) {
            new.store(old.load(Relaxed), Relaxed);
        }
    }

    /// Adds them to what the node has counted.
    pub(super) fn add_to(&self, counters: &mut Counters) {
        let [free, refused, waited, handed, requests, signals] =
            self.all().map(|counter| counter.load(Relaxed));
        counters.locks += free + refused + waited;
        counters.refused_locks += refused;
        counters.cached_locks += free;
        counters.handed_locks += handed;
        counters.requests += requests;
        counters.signals += signals;
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
