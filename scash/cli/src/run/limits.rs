//! Room for the job's file descriptors.

use super::{Refusal, status};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Descriptors that the launcher holds besides those of ranks.
const OWN: u64 = 32;
/// Descriptors a rank that the launcher holds at most: its line, its pidfd, its output, its store and, while
/// ranks start, what each gives to the others.
const PER_RANK: u64 = 10;

/// Raises the soft limit of open files to what so many ranks (or hosts, as `noun` says) need here. Ranks
/// inherit it: they hold descriptors of each other too.
pub(super) fn make_room(count: u32, noun: &str) -> Result<(), Refusal> {
    let needed = OWN + PER_RANK * u64::from(count);
    let refuse = |why: String| Refusal::new(status::LAUNCHER, why);
    let limits = getrlimit(Resource::RLIMIT_NOFILE);
    let (soft, hard) = limits.map_err(|error| refuse(format!("reading the limit of open files: {error}")))?;
    if soft >= needed {
        return Ok(());
    }
    if hard < needed {
        return Err(refuse(format!(
            "{count} {noun} need {needed} open files, and the limit is {hard}: raise it (`ulimit -Hn`, or \"nofile\" in \
             /etc/security/limits.conf), or use fewer {noun}"
        )));
    }
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard)
        .map_err(|error| refuse(format!("raising the limit of open files to {needed}: {error}")))
}

/// Most ranks that a limit of `open_files` has room for.
pub(crate) fn ranks_for(open_files: u64) -> u64 {
    open_files.saturating_sub(OWN) / PER_RANK
}
