//! Which ranks have come to this host, before they know of each other: each leaves a sign that goes away with its process.
//!
//! The sign is a socket whose name in the abstract namespace is made of the job's name and the rank's number. It is only counted, so that a job that does not begin can
//! say who is missing: a stranger who takes such a name makes that message wrong, and nothing else.

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, bind, socket};
use nix::unistd::geteuid;
use sha2::{Digest, Sha256};
use std::os::fd::{AsRawFd, OwnedFd};

/// A rank's sign, as long as this lives.
#[derive(Debug)]
pub(super) struct Sign {
    _socket: Option<OwnedFd>,
}

impl Sign {
    /// Leaves the sign of a rank of that job.
    pub(super) fn leave(job: &str, rank: u32) -> Sign {
        Sign { _socket: claim(job, rank) }
    }
}

/// The ranks of that job, which has `size`, whose signs are on this host.
pub(super) fn here(job: &str, size: u32) -> Vec<u32> {
    // Its last column has the names of sockets, `@` before those of the abstract namespace. To claim a name, to see whether it is free, would be a sign to others who look.
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let prefix = format!("@{}", name(job));
    let rank = |line: &str| line.split_ascii_whitespace().last()?.strip_prefix(&prefix)?.parse().ok();
    let mut ranks: Vec<u32> = sockets.lines().filter_map(rank).filter(|rank| *rank < size).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// What the names of a job's signs begin with.
fn name(job: &str) -> String {
    let digest = Sha256::digest(format!("{} {job}", geteuid()));
    let job: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("scash-{job}-")
}

/// A socket of that name, if nobody has one.
fn claim(job: &str, rank: u32) -> Option<OwnedFd> {
    let name = UnixAddr::new_abstract(format!("{}{rank}", name(job)).as_bytes()).ok()?;
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).ok()?;
    bind(socket.as_raw_fd(), &name).ok()?;
    Some(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_a_job_are_seen_while_they_last() {
        let job = format!("test {}", std::process::id());
        let (first, third) = (Sign::leave(&job, 0), Sign::leave(&job, 2));
        let other = Sign::leave("another job", 1);
        assert_eq!(here(&job, 4), [0, 2]);
        drop((first, other));
        assert_eq!(here(&job, 4), [2]);
        drop(third);
        assert!(here(&job, 4).is_empty());
    }
}
