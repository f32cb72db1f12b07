//! Whose frames a rank's pages have: its own, or those that all ranks share.
//!
//! Where all ranks run on one host and can map each other's memory, one file can be the region of all. The
//! lowest rank's is: it passes the descriptor on while the ranks meet, and the others map it in place of
//! their own. All ranks come to the same answer, since each says what stands against sharing at it, and all
//! hear all. An engine is needed only to close what is not allocated, and closes it by mappings: the pages of
//! an allocation lie side by side and are opened at once, and the system gives them frames without asking.

use crate::config::{Config, RaceSetting};
use crate::error::{Error, Result, join};
use crate::fault::Region;
use crate::runtime::frame_sharing::FrameSharing;
use crate::runtime::host_objects::{self, HostObjects};
use crate::runtime::node_objects::NodeObjects;
use crate::runtime::objects::Objects;
use scash_comm::{Caps, Endpoint, Exchange};
use scash_join::boot::Member;
use std::ffi::OsString;
use std::os::fd::{BorrowedFd, OwnedFd};

/// What stands against shared frames at a rank: the reason's place in this list is what ranks tell each
/// other.
const OBSTACLES: [&str; 5] = [
    "SCASH_RACES looks for data races, which show where each rank has frames of its own",
    "SCASH_FAULT asks for a fault engine, and accesses to shared frames do not fault",
    "the job runs on several hosts",
    "ranks cannot map each other's memory over this provider",
    "there is no room for 5 GiB more of address space, in which locks and the like lie (see `ulimit -v` and `ulimit -f`)",
];

/// The last of these.
const NO_ROOM: u8 = 4;

/// Objects of synchronisation that a job can have.
pub(super) fn most_objects(frames: FrameSharing) -> u32 {
    match frames {
        FrameSharing::Shared => host_objects::MOST,
        FrameSharing::Own | FrameSharing::NotShared(_) => u32::MAX,
    }
}

/// Whether ranks would share frames with the settings that `var` looks up, in a job of one host over shared
/// memory; if not, why.
///
/// # Errors
/// A setting makes no sense.
pub fn frames_asked_for(var: impl Fn(&str) -> Option<OsString>) -> Result<FrameSharing> {
    let config = Config::read(var)?;
    Ok(match (config.share, obstacle_of_settings(&config)) {
        (false, _) => FrameSharing::Own,
        (true, None) => FrameSharing::Shared,
        (true, Some(number)) => FrameSharing::NotShared(OBSTACLES[usize::from(number)]),
    })
}

fn obstacle_of_settings(config: &Config) -> Option<u8> {
    match config {
        Config { races: RaceSetting::Report | RaceSetting::Abort, .. } => Some(0),
        Config { fault: Some(_), .. } => Some(1),
        _ => None,
    }
}

fn obstacle(member: &Member, endpoint: &dyn Endpoint, config: &Config) -> Option<u8> {
    obstacle_of_settings(config)
        // Be they all on one of them: they may come back on others, with an image that shares frames.
        .or_else(|| member.has_several_hosts().then_some(2))
        .or_else(|| (!endpoint.caps().contains(Caps::DIRECT)).then_some(3))
}

/// Decides with all other ranks whose frames the region shows, and maps those. Collective, if frames are to
/// be shared. Returns what carries out calls on objects of synchronisation, too.
pub(super) fn settle(
    member: &mut Member,
    endpoint: &dyn Endpoint,
    config: &Config,
    region: &mut Region,
    comes_back: bool,
) -> Result<(FrameSharing, Box<dyn Objects>)> {
    if !config.share {
        return Ok((FrameSharing::Own, Box::new(NodeObjects)));
    }
    let (rank, size) = (member.rank(), member.size());
    let objects = match obstacle(member, endpoint, config) {
        Some(number) => Err(number),
        None => HostObjects::new(rank, size, endpoint.cores_are_scarce(), comes_back).map_err(|_| NO_ROOM),
    };
    let gives = match &objects {
        Ok(objects) if rank == 0 => vec![region.fd(), objects.fd()],
        _ => Vec::new(),
    };
    let said = tell_all(member, objects.as_ref().err().copied(), &gives)?;
    drop(gives);
    let (Ok(mut objects), None) = (objects, said.obstacle) else {
        return Ok((
            FrameSharing::NotShared(said.obstacle.unwrap_or("a rank refuses")),
            Box::new(NodeObjects),
        ));
    };
    if rank > 0 {
        let [frames, words] = said
            .files
            .try_into()
            .map_err(|_| Error::Join("rank 0 passed no files for shared frames".to_owned()))?;
        region.adopt(frames)?;
        objects.adopt(words)?;
    }
    Ok((FrameSharing::Shared, Box::new(objects)))
}

/// What all ranks have said.
#[derive(Default)]
struct Announcements {
    /// What stands against sharing at the lowest rank at which something does.
    obstacle: Option<&'static str>,
    /// The files of rank 0: frames, and objects of synchronisation.
    files: Vec<OwnedFd>,
}

/// What a rank says in place of the number of an obstacle.
const NONE: u8 = u8::MAX;

fn tell_all(
    exchange: &mut dyn Exchange,
    mine: Option<u8>,
    gives: &[BorrowedFd<'_>],
) -> Result<Announcements> {
    let blob = [mine.unwrap_or(NONE)];
    let mut said = Announcements::default();
    for (rank, (theirs, fds)) in exchange.all_gather(&blob, gives).map_err(join)?.into_iter().enumerate() {
        let &[number] = &theirs[..] else {
            return Err(Error::Join(format!("rank {rank} says of shared frames what no rank says")));
        };
        let why = OBSTACLES.get(usize::from(number)).copied().unwrap_or("a rank refuses");
        said.obstacle = said.obstacle.or((number != NONE).then_some(why));
        if rank == 0 {
            said.files = fds;
        }
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_with(pairs: &[(&str, &str)]) -> FrameSharing {
        frames_asked_for(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into())).unwrap()
    }

    #[test]
    fn frames_are_shared_unless_the_user_wants_none_or_something_that_needs_faults() {
        assert_eq!(asked_with(&[("SCASH_SHARE", "off")]), FrameSharing::Own);
        assert_eq!([asked_with(&[]), asked_with(&[("SCASH_SHARE", "on")])], [FrameSharing::Shared; 2]);
        for (name, value) in [("SCASH_RACES", "report"), ("SCASH_FAULT", "uffd")] {
            let FrameSharing::NotShared(why) = asked_with(&[("SCASH_SHARE", "on"), (name, value)]) else {
                panic!("{name} and shared frames");
            };
            assert!(why.contains(name), "{why}");
        }
    }
}
