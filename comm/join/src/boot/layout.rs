//! Which host each rank runs on. Ranks are numbered along hosts, so those of a host follow one another.

use super::frame::{Reader, Rubbish, rubbish};
use std::ops::Range;

/// Most hosts of a job. With their number, a rank's Start message stays one packet.
pub const MOST_HOSTS: usize = 4096;

/// The ranks of each host of a job. Every host has at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The first rank that is not on host `h` any more: ascending, and not empty.
    ends: Vec<u32>,
}

impl Layout {
    /// All ranks on one host.
    ///
    /// # Panics
    /// If there are none.
    pub fn one_host(size: u32) -> Layout {
        assert!(size > 0, "a job has ranks");
        Layout { ends: vec![size] }
    }

    /// So many ranks on each host in turn; `None` if a host has none, or there are no hosts or too many
    /// ([`MOST_HOSTS`]) or too many ranks.
    pub fn new(ranks: &[u32]) -> Option<Layout> {
        let mut end = 0_u32;
        let mut ends = Vec::with_capacity(ranks.len());
        for &count in ranks.iter().take(MOST_HOSTS + 1) {
            end = end.checked_add(count).filter(|_| count > 0)?;
            ends.push(end);
        }
        (1..=MOST_HOSTS).contains(&ends.len()).then_some(Layout { ends })
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        u32::try_from(self.ends.len()).expect("bounded by MOST_HOSTS")
    }

    /// The host of a rank.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn host_of(&self, rank: u32) -> u32 {
        assert!(rank < self.size(), "rank {rank} of a job of {}", self.size());
        u32::try_from(self.ends.partition_point(|&end| end <= rank)).expect("bounded by MOST_HOSTS")
    }

    /// The ranks of a host.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn ranks_of(&self, host: u32) -> Range<u32> {
        let host = host as usize;
        let first = if host == 0 { 0 } else { self.ends[host - 1] };
        first..self.ends[host]
    }

    /// As it stands in messages: the number of hosts, then for each the end of its ranks.
    pub fn encode(&self) -> Vec<u8> {
        let numbers = std::iter::once(self.hosts()).chain(self.ends.iter().copied());
        numbers.flat_map(u32::to_le_bytes).collect()
    }

    /// Takes one off the front of a message, for a job of `size` ranks.
    pub(super) fn read(reader: &mut Reader<'_>, size: u32) -> Result<Layout, Rubbish> {
        let hosts = reader.u32()? as usize;
        if hosts > MOST_HOSTS {
            return rubbish(format!("a job of {hosts} hosts"));
        }
        let mut last = 0;
        let mut counts = Vec::with_capacity(hosts);
        for _ in 0..hosts {
            let end = reader.u32()?;
            counts.push(end.saturating_sub(last));
            last = end;
        }
        match Layout::new(&counts) {
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
        assert_eq!([0, 1, 2].map(|host| layout.ranks_of(host)), [0..2, 2..3, 3..6]);
    }

    #[test]
    fn a_host_without_ranks_is_no_host_of_the_job() {
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
                prop_assert!((0..size).all(|rank| layout.ranks_of(layout.host_of(rank)).contains(&rank)));
            }
        }
    }
}
