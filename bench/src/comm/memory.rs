//! Memory that joining a job, and talking to all its ranks, takes of a rank.

use crate::record::Figures;
use crate::{Error, Result};
use scash_messages::Messages;
use std::fs::read_to_string;

/// What the kernel says of a process's memory, all mappings together.
const ROLLUP: &str = "/proc/self/smaps_rollup";

/// Memory of a process in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resident {
    /// All that is there.
    all: u64,
    /// With what processes share divided among them.
    share: u64,
}

impl Resident {
    /// Of this process, now.
    pub(crate) fn now() -> Result<Self> {
        Self::parse(&read_to_string(ROLLUP).map_err(|error| Error::Proc(ROLLUP, error))?)
    }

    fn parse(text: &str) -> Result<Self> {
        let of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let kibibytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
            kibibytes.map(|kibibytes| kibibytes << 10).ok_or(Error::NoMemory(ROLLUP))
        };
        Ok(Self { all: of("Rss:")?, share: of("Pss:")? })
    }

    /// What has been added since, after messages to and from everybody, at the rank that has most of it.
    pub(crate) fn growth(self, messages: &dyn Messages) -> Result<Figures> {
        let size = messages.size() as usize;
        // Short ones, and such that are brought in pieces or read.
        for len in [8, 1 << 10, 64 << 10] {
            let (mine, mut theirs) = (vec![1u8; len * size], vec![0u8; len * size]);
            (0..10).try_for_each(|_| messages.all_to_all(&mine, &mut theirs))?;
        }
        let now = Self::now()?;
        let grown = [now.all.saturating_sub(self.all), now.share.saturating_sub(self.share)];
        let [all, share] = messages.combined(scash_mp::Op::Max, grown)?;
        Ok(Figures::default().figure("resident_bytes", all as f64).figure("share_bytes", share as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_kibibytes_are_read() {
        let text = "55d0a0e00000-7ffc rw-p 00000000 00:00 0  [rollup]\nRss:  100 kB\nPss:  60 kB\nPss_Dirty: 50 kB\n";
        assert_eq!(Resident::parse(text).unwrap(), Resident { all: 100 << 10, share: 60 << 10 });
        assert!(Resident::parse("Rss: 1 kB\n").is_err());
    }
}
