//! Settings: read from the environment once, checked, and never looked at raw again.

use crate::error::{Error, Result};
use crate::fault::PAGE;
use scash_join::job::{self, Network};
use scash_proto::node::Eviction;
use scash_proto::part::PAGES_A_PAGE;
use scash_proto::{Protocol, Transfer};
use std::ffi::OsString;
use std::time::Duration;

/// Where the region lies in every rank, unless the program has shared variables: far from what the kernel and
/// the loader place by themselves.
const REGION_BASE: usize = 0x1000_0000_0000;
/// Bytes of address space that are set aside for shared memory, if `SCASH_REGION` says nothing else. Costs
/// nothing until it is used.
const DEFAULT_REGION: u64 = 64 << 30;
/// Most bytes of the heap, and what it has at most if `SCASH_HEAP` says nothing.
const MOST_HEAP: u64 = 4 << 40;
const DEFAULT_HEAP: u64 = 1 << 40;
/// Fewest pages that cached memory can be limited to: an instruction must find all that it touches, and other
/// threads theirs.
const LEAST_CACHE: u32 = 64;
/// Most pages of a coherence block of allocations that do not say it.
const MOST_BLOCK: u32 = 1024;
/// How long a wait is thought to be normal, if `SCASH_STALL` says nothing else.
const STALL: Duration = Duration::from_secs(60);
/// Most bytes that page numbers of 32 bits, and the address space above [`REGION_BASE`], allow.
const MOST_REGION: u64 = 8 << 40;

/// Whether data races are looked for (`SCASH_RACES`), and what happens when there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RaceSetting {
    Off,
    /// It is told.
    Report,
    /// It is told, and the job ends.
    Abort,
}

/// What the environment asks for, checked.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// Where the region lies in every rank.
    pub(crate) base: usize,
    /// Pages of the whole region.
    pub(crate) pages: u32,
    /// Pages of it for allocations of all ranks, from the first one on.
    pub(crate) region: u32,
    /// Pages of the heap, behind these. Its words lie behind it.
    pub(crate) heap: u32,
    pub(crate) fault: Option<String>,
    pub(crate) transfer: Transfer,
    pub(crate) predict: bool,
    /// How long a thread waits before it is told who waits for whom.
    pub(crate) stall: Option<Duration>,
    /// Whether pages move to the only rank that writes them.
    pub(crate) migrate: bool,
    /// How copies of allocations are kept that do not ask for anything else than the default.
    pub(crate) copies: Protocol,
    /// Pages of a coherence block of allocations that ask for single pages.
    pub(crate) block: u32,
    /// Whether acquires renew copies that are used again and again.
    pub(crate) renew: bool,
    /// Whether homes are asked to name pages of which copies were renewed in vain.
    pub(crate) exact: bool,
    /// Whether locks are asked for before a thread that takes them in their order wants them.
    pub(crate) ahead: bool,
    pub(crate) fetch_most: u32,
    /// Most cached pages; 0: no limit.
    pub(crate) cache: u32,
    /// Which go first.
    pub(crate) eviction: Eviction,
    pub(crate) network: Network,
    pub(crate) stats: bool,
    /// Whether writes to long runs of home pages may be noticed without faults, if the engine can.
    pub(crate) watch: bool,
    pub(crate) races: RaceSetting,
    /// Whether ranks of one host are to share frames, if they can.
    pub(crate) share: bool,
}

impl Config {
    /// Reads the settings that `var` looks up.
    pub(crate) fn read(var: impl Fn(&str) -> Option<OsString>) -> Result<Config> {
        let network = Network::read(&var).map_err(|e| wrong(&e))?;
        let var = |name: &str| job::setting(name, var(name)).map_err(|e| wrong(&e));
        let region = match var("SCASH_REGION")? {
            Some(text) => size("SCASH_REGION", &text)?,
            None => DEFAULT_REGION,
        };
        if region < PAGE as u64 || region > MOST_REGION {
            return Err(Error::Setting(format!(
                "SCASH_REGION={region}: the region can have {PAGE} bytes to 8 TiB"
            )));
        }
        let heap = match var("SCASH_HEAP")? {
            Some(text) => size("SCASH_HEAP", &text)?,
            None => region.min(DEFAULT_HEAP),
        };
        if heap > MOST_HEAP {
            return Err(Error::Setting(format!("SCASH_HEAP={heap}: the heap can have 0 bytes to 4 TiB")));
        }
        let [region, heap] =
            [region, heap].map(|bytes| u32::try_from(bytes.div_ceil(PAGE as u64)).unwrap_or(u32::MAX));
        let transfers = [("zero-copy", Transfer::ZeroCopy), ("message", Transfer::Message)];
        let evictions = [("fifo", Eviction::Fifo), ("sieve", Eviction::Sieve)];
        let protocols = [
            ("adaptive", Protocol::Adaptive),
            ("update", Protocol::Update),
            ("invalidate", Protocol::Invalidate),
        ];
        let races =
            [("off", RaceSetting::Off), ("report", RaceSetting::Report), ("abort", RaceSetting::Abort)];
        let cache = match var("SCASH_CACHE")? {
            Some(text) => cache_pages(&text)?,
            None => 0,
        };
        let fetch_most = number("SCASH_PREFETCH", var("SCASH_PREFETCH")?, 32)?.clamp(1, 1024);
        let pages_of_block = number("SCASH_BLOCK", var("SCASH_BLOCK")?, 1)?;
        let block = u32::try_from(pages_of_block).ok().filter(|block| (1..=MOST_BLOCK).contains(block));
        let block = block.ok_or_else(|| {
            Error::Setting(format!("SCASH_BLOCK={pages_of_block}: a block can have 1 to {MOST_BLOCK} pages"))
        })?;
        Ok(Config {
            base: REGION_BASE,
            pages: region + heap + heap.div_ceil(PAGES_A_PAGE),
            region,
            heap,
            fault: var("SCASH_FAULT")?,
            transfer: choice("SCASH_TRANSFER", var("SCASH_TRANSFER")?, &transfers)?,
            predict: switch("SCASH_PREDICT", var("SCASH_PREDICT")?, true)?,
            stall: seconds("SCASH_STALL", var("SCASH_STALL")?, STALL)?,
            migrate: switch("SCASH_MIGRATE", var("SCASH_MIGRATE")?, true)?,
            renew: switch("SCASH_RENEW", var("SCASH_RENEW")?, true)?,
            exact: switch("SCASH_EXACT", var("SCASH_EXACT")?, false)?,
            ahead: switch("SCASH_AHEAD", var("SCASH_AHEAD")?, true)?,
            watch: switch("SCASH_WATCH", var("SCASH_WATCH")?, true)?,
            stats: switch("SCASH_STATS", var("SCASH_STATS")?, false)?,
            copies: choice("SCASH_COPIES", var("SCASH_COPIES")?, &protocols)?,
            block,
            cache,
            eviction: choice("SCASH_EVICTION", var("SCASH_EVICTION")?, &evictions)?,
            share: switch("SCASH_SHARE", var("SCASH_SHARE")?, true)?,
            races: choice("SCASH_RACES", var("SCASH_RACES")?, &races)?,
            fetch_most: u32::try_from(fetch_most).unwrap_or(1),
            network,
        })
    }
}

/// What `comm` says of a setting.
fn wrong(error: &scash_comm::Error) -> Error {
    Error::Setting(error.to_string())
}

/// One of these, of which there are several, by its name; the first of them if there is no such setting. As
/// for switches, `0` is `off`.
fn choice<T: Copy>(name: &str, text: Option<String>, choices: &[(&str, T)]) -> Result<T> {
    let Some(text) = text else { return Ok(choices[0].1) };
    let means = |choice: &str| choice == text || choice == "off" && text == "0";
    let chosen = choices.iter().find(|(choice, _)| means(choice));
    chosen.map(|&(_, value)| value).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|&(choice, _)| choice).collect();
        let (others, last) = names.split_at(names.len() - 1);
        Error::Setting(format!("{name}={text}: there are {} and {}", others.join(", "), last.concat()))
    })
}

fn number(name: &str, text: Option<String>, default: u64) -> Result<u64> {
    let Some(text) = text else { return Ok(default) };
    text.trim().parse().map_err(|_| Error::Setting(format!("{name}={text}: a number is expected")))
}

/// A time; none if the setting is 0 or `off`.
fn seconds(name: &str, text: Option<String>, default: Duration) -> Result<Option<Duration>> {
    let Some(text) = text else { return Ok(Some(default)) };
    if text.trim() == "off" {
        return Ok(None);
    }
    let time = text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = time
        .ok_or_else(|| Error::Setting(format!("{name}={text}: a number of seconds is expected, or off")))?;
    Ok(Some(time).filter(|time| !time.is_zero()))
}

/// Pages of the limit of cached memory.
fn cache_pages(text: &str) -> Result<u32> {
    let bytes = size("SCASH_CACHE", text)?;
    let pages = u32::try_from(bytes / PAGE as u64).unwrap_or(u32::MAX);
    if pages < LEAST_CACHE {
        let least = (LEAST_CACHE as usize * PAGE) >> 10;
        return Err(Error::Setting(format!(
            "SCASH_CACHE={text}: a rank needs {least}K for the pages that it works on; unset it for no limit"
        )));
    }
    Ok(pages)
}

fn switch(name: &str, text: Option<String>, default: bool) -> Result<bool> {
    match text.as_deref() {
        None => Ok(default),
        Some("1" | "on") => Ok(true),
        Some("0" | "off") => Ok(false),
        Some(other) => Err(Error::Setting(format!("{name}={other}: on or off is expected"))),
    }
}

fn size(name: &str, text: &str) -> Result<u64> {
    job::size(name, text).map_err(|e| wrong(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Config> {
        Config::read(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into()))
    }

    #[test]
    fn long_waits_are_told_unless_that_is_turned_off() {
        let stall = |pairs| read(pairs).unwrap().stall;
        assert_eq!(stall(&[]), Some(Duration::from_secs(60)));
        assert_eq!(stall(&[("SCASH_STALL", "0.5")]), Some(Duration::from_millis(500)));
        assert_eq!((stall(&[("SCASH_STALL", "0")]), stall(&[("SCASH_STALL", "off")])), (None, None));
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(read(&[("SCASH_REGION", "64M")]).unwrap().region, 16_384);
        assert_eq!(read(&[("SCASH_REGION", "2 GiB")]).unwrap().region, 524_288);
        assert_eq!(read(&[("SCASH_REGION", "4097")]).unwrap().region, 2);
        assert_eq!(read(&[]).unwrap().region, 16 << 20);
    }

    #[test]
    fn the_heap_is_as_large_as_the_region_unless_it_is_said() {
        let pages = |pairs| {
            let Config { region, heap, pages, .. } = read(pairs).unwrap();
            (region, heap, pages)
        };
        assert_eq!(pages(&[("SCASH_REGION", "1M")]), (256, 256, 516));
        assert_eq!(pages(&[("SCASH_REGION", "1M"), ("SCASH_HEAP", "4097")]), (256, 2, 259));
        assert_eq!(pages(&[("SCASH_REGION", "1M"), ("SCASH_HEAP", "0")]), (256, 0, 256));
        let most = pages(&[("SCASH_REGION", "8T"), ("SCASH_HEAP", "4T")]);
        assert_eq!(most, (1 << 31, 1 << 30, (1 << 31) + (1 << 30) + (1 << 24)));
    }

    #[test]
    fn a_setting_that_makes_no_sense_is_named_with_what_would() {
        for (name, value, hint) in [
            ("SCASH_REGION", "much", "512M"),
            ("SCASH_REGION", "0", "4096"),
            ("SCASH_REGION", "99999999999T", "512M"),
            ("SCASH_HEAP", "5T", "4 TiB"),
            ("SCASH_TRANSFER", "pigeon", "zero-copy"),
            ("SCASH_PREDICT", "maybe", "on or off"),
            ("SCASH_RACES", "on", "off, report and abort"),
            ("SCASH_BLOCK", "0", "1 to 1024 pages"),
            ("SCASH_PORT", "x", "number"),
        ] {
            let text = read(&[(name, value)]).unwrap_err().to_string();
            assert!(text.contains(name) && text.contains(hint), "{text}");
        }
    }
}
