//! Whose frames a rank's pages have: its own, or those that all ranks share.
//!
//! Where all ranks run on one host and can map each other's memory, one file can be the region of all. The
//! lowest rank's is: it passes the descriptor on while the ranks meet, and the others map it in place of
//! their own. All ranks come to the same answer, since each says what stands against sharing at it, and all
//! hear all. An engine is needed only to close what is not allocated, and closes it by mappings: the pages of
//! an allocation lie side by side and are opened at once, and the system gives them frames without asking.

use crate::config::{Config, RaceSetting};
use crate::error::{Error, Result};
use crate::fault::{Kind, Region};
use crate::runtime::context::RankContext;
use crate::runtime::start::join;
use scash_comm::{Caps, Endpoint, Exchange};
use scash_proto::{Pages, Rank, Sharing};
use std::ffi::OsString;
use std::os::fd::BorrowedFd;

/// Pages of the largest allocation that gets all its frames at once. A larger one may be used in part.
const POPULATED: u32 = 1 << 14;

/// What stands against shared frames at a rank: the reason's place in this list is what ranks tell each
/// other.
const OBSTACLES: [&str; 4] = [
    "SCASH_RACES looks for data races, which show where each rank has frames of its own",
    "SCASH_FAULT asks for a fault engine, and accesses to shared frames do not fault",
    "the job runs on several hosts",
    "ranks cannot map each other's memory over this provider",
];

/// Whose frames a rank's pages have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frames {
    /// Its own, as nobody asked for others (`SCASH_SHARE`).
    #[default]
    Own,
    /// Those that all ranks of the job share.
    Shared,
    /// Its own, although others were asked for: why.
    NotShared(&'static str),
}

impl Frames {
    pub(super) fn sharing(self) -> Sharing {
        match self {
            Frames::Shared => Sharing::Frames,
            Frames::Own | Frames::NotShared(_) => Sharing::Off,
        }
    }

    /// The engine, where `chosen` is what a rank with frames of its own has.
    pub(super) fn engine(self, chosen: Kind) -> Kind {
        match self {
            Frames::Shared => Kind::Mprotect,
            Frames::Own | Frames::NotShared(_) => chosen,
        }
    }
}

/// Whether ranks would share frames with the settings that `var` looks up, in a job of one host over shared
/// memory; if not, why.
///
/// # Errors
/// A setting makes no sense.
pub fn frames_asked_for(var: impl Fn(&str) -> Option<OsString>) -> Result<Frames> {
    let config = Config::read(var)?;
    Ok(match (config.share, obstacle_of_settings(&config)) {
        (false, _) => Frames::Own,
        (true, None) => Frames::Shared,
        (true, Some(number)) => Frames::NotShared(OBSTACLES[usize::from(number)]),
    })
}

fn obstacle_of_settings(config: &Config) -> Option<u8> {
    match config {
        Config { races: RaceSetting::Report | RaceSetting::Abort, .. } => Some(0),
        Config { fault: Some(_), .. } => Some(1),
        _ => None,
    }
}

fn obstacle(exchange: &dyn Exchange, endpoint: &dyn Endpoint, config: &Config) -> Option<u8> {
    let host = exchange.host(exchange.rank());
    obstacle_of_settings(config)
        .or_else(|| (0..exchange.size()).any(|rank| exchange.host(rank) != host).then_some(2))
        .or_else(|| (!endpoint.caps().contains(Caps::DIRECT)).then_some(3))
}

/// Decides with all other ranks whose frames the region shows, and maps those. Collective, if frames are to
/// be shared.
pub(super) fn settle(
    exchange: &mut dyn Exchange,
    endpoint: &dyn Endpoint,
    config: &Config,
    region: &mut Region,
) -> Result<Frames> {
    if !config.share {
        return Ok(Frames::Own);
    }
    let mine = obstacle(exchange, endpoint, config);
    let rank = exchange.rank();
    let gives = if rank == 0 && mine.is_none() { vec![region.fd()] } else { Vec::new() };
    let all = tell_all(exchange, mine, region.pages(), &gives)?;
    if let Some(number) = all.obstacle {
        return Ok(Frames::NotShared(number));
    }
    if rank > 0 {
        let file =
            all.file.ok_or_else(|| Error::Join("rank 0 passed no file for shared frames".to_owned()))?;
        region.adopt(file)?;
    }
    Ok(Frames::Shared)
}

/// What all ranks have said.
struct Said {
    /// What stands against sharing at the lowest rank at which something does.
    obstacle: Option<&'static str>,
    /// The file of rank 0.
    file: Option<std::os::fd::OwnedFd>,
}

/// What a rank says in place of the number of an obstacle.
const NONE: u8 = u8::MAX;

fn tell_all(
    exchange: &mut dyn Exchange,
    mine: Option<u8>,
    pages: u32,
    gives: &[BorrowedFd<'_>],
) -> Result<Said> {
    let mut blob = vec![mine.unwrap_or(NONE)];
    blob.extend(pages.to_le_bytes());
    let mut said = Said { obstacle: None, file: None };
    for (rank, (theirs, fds)) in exchange.all_gather(&blob, gives).map_err(join)?.into_iter().enumerate() {
        let number = theirs.first().copied().filter(|&number| number != NONE);
        let why =
            number.map(|number| OBSTACLES.get(usize::from(number)).copied().unwrap_or("a rank refuses"));
        said.obstacle = said.obstacle.or(why);
        if theirs.get(1..) != Some(&pages.to_le_bytes()[..]) {
            return Err(Error::Setting(format!(
                "SCASH_REGION is not the same at rank {} and rank {rank}, and frames are to be shared: set it for the whole job",
                exchange.rank()
            )));
        }
        said.file = said.file.or(fds.into_iter().next());
    }
    Ok(said)
}

/// Gives frames to the pages of a new allocation, if it is small. All ranks do so at once: each begins at
/// another part, lest they wait for each other's pages.
pub(super) fn populate(context: &RankContext, rank: Rank, pages: Pages) -> Result<()> {
    if pages.count > POPULATED {
        return Ok(());
    }
    let part = u64::from(pages.count) * u64::from(rank.0) / u64::from(context.endpoint.size());
    let middle = pages.first + u32::try_from(part).unwrap_or(0);
    context.region.populate(&(middle..pages.end()))?;
    Ok(context.region.populate(&(pages.first..middle))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_with(pairs: &[(&str, &str)]) -> Frames {
        frames_asked_for(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into())).unwrap()
    }

    #[test]
    fn frames_are_shared_only_if_that_is_asked_for_and_nothing_that_needs_faults() {
        assert_eq!(asked_with(&[]), Frames::Own);
        assert_eq!(asked_with(&[("SCASH_SHARE", "on")]), Frames::Shared);
        for (name, value) in [("SCASH_RACES", "report"), ("SCASH_FAULT", "uffd")] {
            let Frames::NotShared(why) = asked_with(&[("SCASH_SHARE", "on"), (name, value)]) else {
                panic!("{name} and shared frames");
            };
            assert!(why.contains(name), "{why}");
        }
    }
}
