//! Which ranks have come to this host, before they know of each other: each leaves a sign that goes away with
//! its process.
//!
//! The sign is a socket whose name in the abstract namespace is made of the job's name and the rank's number.
//! It is only counted, so that a job that does not begin can say who is missing: a stranger who takes such a
//! name makes that message wrong, and nothing else.

use crate::boot::claim::TAKEN;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, getsockopt, listen, socket, sockopt,
};
use nix::unistd::geteuid;
use scash_comm::{Error, Result};
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
    // Its last column has the names of sockets, `@` before those of the abstract namespace. To claim a name,
    // to see whether it is free, would be a sign to others who look.
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let prefix = format!("@{}", name(job));
    let rank = |line: &str| line.split_ascii_whitespace().last()?.strip_prefix(&prefix)?.parse().ok();
    let mut ranks: Vec<u32> = sockets.lines().filter_map(rank).filter(|rank| *rank < size).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// Leaves a sign that only one process of this user can have at a time, which is told so if it is another
/// one. A system that has no such signs tells nobody.
pub(super) fn be_alone(what: &str) -> Result<Option<OwnedFd>> {
    let Some(sign) = claim(what, 0) else {
        return if is_ours(what).unwrap_or(false) { Err(Error::Invalid(TAKEN.to_owned())) } else { Ok(None) };
    };
    // Whoever comes second asks whose it is.
    let _ = listen(&sign, Backlog::MAXCONN);
    Ok(Some(sign))
}

/// Whether this user has left that sign.
fn is_ours(what: &str) -> nix::Result<bool> {
    let name = UnixAddr::new_abstract(format!("{}0", name(what)).as_bytes())?;
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
    connect(socket.as_raw_fd(), &name)?;
    Ok(getsockopt(&socket, sockopt::PeerCredentials)?.uid() == geteuid().as_raw())
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
    fn a_second_sign_of_a_process_is_refused_while_the_first_lasts() {
        let name = format!("a second {}", std::process::id());
        let first = be_alone(&name).unwrap();
        assert!(first.is_some());
        assert!(be_alone(&name).unwrap_err().to_string().contains("another process has joined"));
        drop(first);
        assert!(be_alone(&name).unwrap().is_some());
    }

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
