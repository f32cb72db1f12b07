//! Which bytes of a page a rank has written, and how long their diff is.

use scash_proto::PAGE_SIZE;
use scash_proto::diff::{PageBytes, encode};
use std::ops::Range;

/// Bytes of a page that were written in an interval: ascending runs, none of which touches the next. A byte that was written is taken to have
/// changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    runs: Vec<Range<usize>>,
}

impl Written {
    /// Adds bytes of the page. Programs mostly go forward, so these are mostly the last.
    pub(super) fn add(&mut self, bytes: Range<usize>) {
        let first = self.runs.partition_point(|run| run.end < bytes.start);
        let end = self.runs.partition_point(|run| run.start <= bytes.end);
        let touched = &self.runs[first..end];
        let start = touched.first().map_or(bytes.start, |run| run.start.min(bytes.start));
        let stop = touched.last().map_or(bytes.end, |run| run.end.max(bytes.end));
        self.runs.splice(first..end, std::iter::once(start..stop));
    }

    /// How many bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.len() as u64).sum()
    }

    /// In how many runs.
    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Bytes of the diff, as the protocol encodes it.
    pub(super) fn diff(&self) -> u64 {
        let (old, mut new): (PageBytes, PageBytes) = ([0; PAGE_SIZE], [0; PAGE_SIZE]);
        self.runs.iter().for_each(|run| new[run.clone()].fill(1));
        let mut diff = Vec::new();
        encode(&old, &new, &mut diff) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the first byte to the one behind the last.
    fn written(runs: &[(usize, usize)]) -> Written {
        let mut written = Written::default();
        runs.iter().for_each(|&(start, end)| written.add(start..end));
        written
    }

    fn runs(added: &[(usize, usize)]) -> Vec<(usize, usize)> {
        written(added).runs.into_iter().map(|run| (run.start, run.end)).collect()
    }

    #[test]
    fn runs_that_touch_or_overlap_are_one() {
        assert_eq!(runs(&[(0, 8), (8, 16)]), [(0, 16)]);
        assert_eq!(runs(&[(0, 8), (100, 108), (4, 102)]), [(0, 108)]);
        assert_eq!(runs(&[(200, 208), (0, 8), (0, 8)]), [(0, 8), (200, 208)]);
        assert_eq!(runs(&[(8, 16), (24, 32), (16, 24)]), [(8, 32)]);
    }

    #[test]
    fn a_diff_is_as_long_as_the_protocol_makes_it() {
        assert_eq!(written(&[]).diff(), 0);
        // A count, and three bytes a run.
        assert_eq!(written(&[(8, 16), (32, 64)]).diff(), 1 + 3 * 2 + 8 + 32);
        assert_eq!(written(&[(0, 4096)]).diff(), 1 + 3 + 4096);
    }
}
