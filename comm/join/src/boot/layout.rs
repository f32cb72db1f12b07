//! Which host each rank runs on. As a job begins, ranks are numbered along hosts, so those of a host follow
//! one another; ranks that come back elsewhere keep their numbers.

use super::frame::{Reader, Rubbish, rubbish};
use std::ops::Range;

/// Most hosts of a job. With their number, a rank's Start message stays one packet.
pub const MOST_HOSTS: usize = 4096;

/// The host of each rank of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    hosts: u32,
    /// Ascending, and not empty. No two that follow one another are of one host.
    runs: Vec<HostRun>,
}

/// Ranks of one host that follow one another, from where the run before ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HostRun {
    /// The first rank behind it.
    end: u32,
    host: u32,
}

impl Layout {
    /// All ranks on one host.
    ///
    /// # Panics
    /// If there are none.
    pub fn one_host(size: u32) -> Layout {
        assert!(size > 0, "a job has ranks");
        Layout { hosts: 1, runs: vec![HostRun { end: size, host: 0 }] }
    }

    /// So many ranks on each host in turn; `None` if a host has none, or there are no hosts or too many
    /// ([`MOST_HOSTS`]) or too many ranks.
    pub fn new(ranks: &[u32]) -> Option<Layout> {
        Layout::with_spares(ranks, 0)
    }

    /// As [`new`](Self::new), with so many hosts behind them that have no ranks yet.
    pub fn with_spares(ranks: &[u32], spares: u32) -> Option<Layout> {
        let hosts = u32::try_from(ranks.len()).ok()?.checked_add(spares)?;
        Layout::of_runs(hosts, (0..).zip(ranks).map(|(host, count)| (host, *count)))
    }

    /// So many ranks on that host, and then so many on that one; `None` as for [`new`](Self::new), but that
    /// hosts may have no ranks, and several runs.
    fn of_runs(hosts: u32, counts: impl Iterator<Item = (u32, u32)>) -> Option<Layout> {
        let (mut end, mut runs) = (0_u32, Vec::<HostRun>::new());
        if !(1..=MOST_HOSTS).contains(&usize::try_from(hosts).ok()?) {
            return None;
        }
        for (host, count) in counts {
            end = end.checked_add(count).filter(|_| count > 0 && host < hosts)?;
            match runs.last_mut() {
                Some(last) if last.host == host => last.end = end,
                _ => runs.push(HostRun { end, host }),
            }
        }
        (!runs.is_empty()).then_some(Layout { hosts, runs })
    }

    /// The same with each rank on the host that is said for it; `None` if there is no such host.
    pub fn moved(&self, host_of: impl Fn(u32) -> u32) -> Option<Layout> {
        Layout::of_runs(self.hosts, (0..self.size()).map(|rank| (host_of(rank), 1)))
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.runs.last().map_or(0, |run| run.end)
    }

    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// The host of a rank.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn host_of(&self, rank: u32) -> u32 {
        assert!(rank < self.size(), "rank {rank} of a job of {}", self.size());
        self.runs[self.runs.partition_point(|run| run.end <= rank)].host
    }

    /// Whether there is such a rank, on that host.
    pub fn is_on(&self, rank: u32, host: u32) -> bool {
        rank < self.size() && self.host_of(rank) == host
    }

    /// The ranks of a host, ascending.
    pub fn ranks_of(&self, host: u32) -> impl Iterator<Item = u32> + '_ {
        self.ranges().filter(move |(of, _)| *of == host).flat_map(|(_, ranks)| ranks)
    }

    /// The lowest rank of a host, if it has any.
    pub fn first_of(&self, host: u32) -> Option<u32> {
        self.ranks_of(host).next()
    }

    fn ranges(&self) -> impl Iterator<Item = (u32, Range<u32>)> + '_ {
        let starts = std::iter::once(0).chain(self.runs.iter().map(|run| run.end));
        starts.zip(&self.runs).map(|(start, run)| (run.host, start..run.end))
    }

    /// As it stands in messages: the number of hosts, that of runs, and of each host and number of ranks.
    pub fn encode(&self) -> Vec<u8> {
        let count = u32::try_from(self.runs.len()).expect("there are no more runs than ranks");
        let runs = self.ranges().flat_map(|(host, ranks)| [host, ranks.end - ranks.start]);
        [self.hosts, count].into_iter().chain(runs).flat_map(u32::to_le_bytes).collect()
    }

    /// Takes one off the front of a message, for a job of `size` ranks.
    pub(super) fn read(reader: &mut Reader<'_>, size: u32) -> Result<Layout, Rubbish> {
        let (hosts, count) = (reader.u32()?, reader.u32()?);
        let mut runs = Vec::new();
        for _ in 0..count {
            runs.push((reader.u32()?, reader.u32()?));
        }
        match Layout::of_runs(hosts, runs.into_iter()) {
            Some(layout) if layout.size() == size => Ok(layout),
            _ => rubbish(format!("hosts whose ranks are not the {size} of the job")),
        }
    }

    /// The inverse of [`encode`](Self::encode), for a job of `size` ranks. The text says what is wrong.
    pub fn decode(bytes: &[u8], size: u32) -> Result<Layout, String> {
        let mut reader = Reader::new(bytes);
        let layout = Layout::read(&mut reader, size).map_err(|rubbish| rubbish.0)?;
        reader.end().map_err(|rubbish| rubbish.0)?;
        Ok(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranks_are_numbered_along_hosts() {
        let layout = Layout::new(&[2, 1, 3]).unwrap();
        assert_eq!((layout.size(), layout.hosts()), (6, 3));
        assert_eq!([0, 1, 2, 3, 4, 5].map(|rank| layout.host_of(rank)), [0, 0, 1, 2, 2, 2]);
        assert_eq!([0, 1, 2].map(|host| ranks(&layout, host)), [vec![0, 1], vec![2], vec![3, 4, 5]]);
    }

    fn ranks(layout: &Layout, host: u32) -> Vec<u32> {
        layout.ranks_of(host).collect()
    }

    #[test]
    fn ranks_that_move_keep_their_numbers() {
        let layout = Layout::new(&[2, 1, 3]).unwrap();
        let moved = layout.moved(|rank| if rank == 2 { 0 } else { layout.host_of(rank) }).unwrap();
        assert_eq!([0, 1, 2].map(|host| ranks(&moved, host)), [vec![0, 1, 2], vec![], vec![3, 4, 5]]);
        let moved = layout.moved(|rank| rank % 2).unwrap();
        assert_eq!([0, 1, 2].map(|host| ranks(&moved, host)), [vec![0, 2, 4], vec![1, 3, 5], vec![]]);
        assert_eq!((moved.hosts(), moved.is_on(4, 0), moved.is_on(6, 0)), (3, true, false));
        assert_eq!(Layout::decode(&moved.encode(), 6), Ok(moved));
        assert_eq!(layout.moved(|_| 3), None);
    }

    #[test]
    fn a_host_without_ranks_is_one_that_is_spare() {
        let layout = Layout::with_spares(&[2, 1], 2).unwrap();
        assert_eq!((layout.hosts(), layout.size(), layout.first_of(3)), (4, 3, None));
        assert_eq!(Layout::decode(&layout.encode(), 3), Ok(layout));
        assert_eq!(Layout::with_spares(&[1], u32::MAX), None);
        for counts in [&[][..], &[1, 0], &[u32::MAX, 1], &[1; MOST_HOSTS + 1]] {
            assert_eq!(Layout::new(counts), None);
        }
    }

    proptest! {
        #[test]
        fn a_layout_survives_the_wire(counts in prop::collection::vec(1_u32..9, 1..9)) {
            let layout = Layout::new(&counts).unwrap();
            prop_assert_eq!(Layout::decode(&layout.encode(), layout.size()), Ok(layout));
        }

        #[test]
        fn any_bytes_are_a_layout_of_the_job_or_refused(bytes in prop::collection::vec(0_u8..4, 0..40), size in 1_u32..9) {
            if let Ok(layout) = Layout::decode(&bytes, size) {
                prop_assert_eq!(layout.size(), size);
                prop_assert!((0..size).all(|rank| layout.ranks_of(layout.host_of(rank)).any(|other| other == rank)));
            }
        }
    }
}
