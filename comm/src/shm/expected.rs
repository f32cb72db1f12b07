//! The counts on the board that this rank waits for.

use crate::Mark;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nothing is expected.
const NEVER: u64 = u64::MAX;

/// What this rank waits for on the board: a count for each mark.
#[repr(align(128))]
pub(super) struct ExpectedMarks([AtomicU64; 2]);

impl Default for ExpectedMarks {
    fn default() -> Self {
        Self([const { AtomicU64::new(NEVER) }; 2])
    }
}

impl ExpectedMarks {
    pub(super) fn set(&self, mark: Mark, count: Option<u64>) {
        self.0[mark as usize].store(count.unwrap_or(NEVER), Ordering::Relaxed);
    }

    /// Whether a mark has `reached` the count that is expected of it.
    #[inline]
    pub(super) fn is_met(&self, reached: impl Fn(Mark) -> u64) -> bool {
        Mark::ALL.into_iter().any(|mark| {
            let count = self.0[mark as usize].load(Ordering::Relaxed);
            count != NEVER && reached(mark) >= count
        })
    }
}
