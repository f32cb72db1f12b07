//! What this rank waits for on the board.

use crate::{Coming, Mark};
use std::sync::atomic::{AtomicU64, Ordering};

/// Nothing is expected.
const NEVER: u64 = u64::MAX;

/// A count for each mark; and as what this rank has come to a call, if it waits for all to agree.
#[repr(align(128))]
pub(super) struct ExpectedMarks {
    counts: [AtomicU64; 2],
    coming: AtomicU64,
}

impl Default for ExpectedMarks {
    fn default() -> Self {
        Self { counts: [const { AtomicU64::new(NEVER) }; 2], coming: AtomicU64::new(0) }
    }
}

impl ExpectedMarks {
    pub(super) fn set(&self, mark: Mark, count: Option<u64>) {
        self.counts[mark as usize].store(count.unwrap_or(NEVER), Ordering::Relaxed);
    }

    /// Whether a mark has `reached` the count that is expected of it.
    #[inline]
    pub(super) fn is_met(&self, reached: impl Fn(Mark) -> u64) -> bool {
        Mark::ALL.into_iter().any(|mark| {
            let count = self.counts[mark as usize].load(Ordering::Relaxed);
            count != NEVER && reached(mark) >= count
        })
    }

    pub(super) fn set_coming(&self, coming: Option<Coming>) {
        self.coming.store(coming.map_or(0, Coming::word), Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn coming(&self) -> Option<Coming> {
        Coming::of_word(self.coming.load(Ordering::Relaxed))
    }
}
