//! The memory that a rank needs besides shared memory itself, with so much of that in use.
//!
//! Counted are all mappings of the process but those of the ranks' regions: program and libraries, heap,
//! stacks, the page table of the protocol, twins, queues. The kernel's tables for all mappings are a figure
//! of their own.

use std::fs::read_to_string;

use scash::Dsm;
use scash_bench::size;

use crate::outcome::{Outcome, Stopwatch, Unit};
use crate::{Error, Result, barrier};

/// Memory of each rank besides the shared memory in use
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Shared memory in use: each rank touches its part
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "64M")]
    in_use: usize,
}

/// Measures on all ranks, which all tell.
pub(crate) fn measure(dsm: &mut Dsm, options: &Options) -> Result<Option<Outcome>> {
    let watch = Stopwatch::start(dsm);
    barrier::occupy(dsm, options.in_use)?;
    let spent = watch.stop(dsm);
    let own = Resident::parse(&proc("/proc/self/smaps")?);
    let tables = kibibytes(&proc("/proc/self/status")?, "VmPTE:");
    // Nobody leaves before all have looked.
    dsm.barrier()?;
    let bytes = |kibibytes: u64| (kibibytes << 10) as f64;
    let outcome = Outcome::new(spent).parameter("rank", dsm.rank()).parameter("in_use", options.in_use);
    let outcome = outcome
        .figure("own", bytes(own.resident), Unit::Bytes)
        .figure("own_share", bytes(own.share), Unit::Bytes)
        .figure("page_tables", bytes(tables), Unit::Bytes)
        .figure("region", bytes(own.region), Unit::Bytes);
    Ok(Some(outcome))
}

fn proc(path: &'static str) -> Result<String> {
    read_to_string(path).map_err(|error| Error::Proc(path, error))
}

/// Kibibytes of a process's memory that are there.
#[derive(Debug, Default, PartialEq, Eq)]
struct Resident {
    /// Outside the regions.
    resident: u64,
    /// Outside the regions, with what processes share divided among them.
    share: u64,
    /// In all views of all regions: a page that is in several counts several times.
    region: u64,
}

impl Resident {
    /// Adds up what the kernel says of each mapping.
    fn parse(smaps: &str) -> Self {
        let (mut sum, mut in_region) = (Self::default(), false);
        for line in smaps.lines() {
            let mut words = line.split_whitespace();
            match (words.next(), words.next().and_then(|number| number.parse::<u64>().ok())) {
                (Some("Rss:"), Some(size)) if in_region => sum.region += size,
                (Some("Rss:"), Some(size)) => sum.resident += size,
                (Some("Pss:"), Some(size)) if !in_region => sum.share += size,
                // A mapping's first line begins with its addresses.
                (Some(word), _) if !word.ends_with(':') => in_region = line.contains("/memfd:scash-region"),
                _ => {}
            }
        }
        sum
    }
}

/// The number in the line that begins with `name`; 0 if there is none.
fn kibibytes(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_regions_are_not_the_runtimes_own() {
        let smaps = "\
10000000000-10400000000 rw-s 00000000 00:01 1030  /memfd:scash-region (deleted)
Size:           16777216 kB
Rss:                4096 kB
Pss:                2048 kB
55d0a0e00000-55d0a0e21000 rw-p 00000000 00:00 0  [heap]
Rss:                 100 kB
Pss:                  60 kB
Pss_Dirty:            50 kB
VmFlags: rd wr mr mw me ac sd
7f0000000000-7f0000001000 rw-s 00000000 00:01 1031  /memfd:scash-inbox (deleted)
Rss:                   4 kB
Pss:                   2 kB
";
        assert_eq!(Resident::parse(smaps), Resident { resident: 104, share: 62, region: 4096 });
        assert_eq!(kibibytes("VmRSS:\t  9 kB\nVmPTE:\t     44 kB\n", "VmPTE:"), 44);
        assert_eq!(kibibytes("VmRSS:\t  9 kB\n", "VmPTE:"), 0);
    }
}
