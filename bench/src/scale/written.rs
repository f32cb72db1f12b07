//! Which bytes of a page a rank has written.

#[cfg(test)]
use scash_proto::PAGE_SIZE;
use scash_proto::diff::PageBytes;
use std::ops::Range;

/// Bytes of a page that were written in an interval: ascending runs, none of which touches the next. A byte
/// that was written is taken to have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WrittenBytes {
    runs: Vec<Range<usize>>,
}

impl WrittenBytes {
    /// Adds bytes of the page. Programs mostly go forward, so these are mostly the last.
    pub(super) fn add(&mut self, bytes: Range<usize>) {
        let first = self.runs.partition_point(|run| run.end < bytes.start);
        let end = self.runs.partition_point(|run| run.start <= bytes.end);
        let touched = &self.runs[first..end];
        let start = touched.first().map_or(bytes.start, |run| run.start.min(bytes.start));
        let stop = touched.last().map_or(bytes.end, |run| run.end.max(bytes.end));
        self.runs.splice(first..end, std::iter::once(start..stop));
    }

    /// Writes ones there.
    pub(super) fn show(&self, page: &mut PageBytes) {
        self.runs.iter().for_each(|run| page[run.clone()].fill(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the first byte to the one behind the last.
    fn written(runs: &[(usize, usize)]) -> WrittenBytes {
        let mut written = WrittenBytes::default();
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
    fn what_was_written_is_seen_and_nothing_else() {
        let mut page = [0; PAGE_SIZE];
        written(&[(8, 16), (32, 64)]).show(&mut page);
        let ones: Vec<usize> = (0..PAGE_SIZE).filter(|&at| page[at] == 1).collect();
        assert_eq!(ones, (8..16).chain(32..64).collect::<Vec<_>>());
    }
}
