//! The socket of a host: where the ranks of a host get their lines from its lead.
//!
//! A socket in the abstract namespace of Unix sockets, which is gone with the lead. Its name is random, but
//! every user of the host can read it; so whoever comes must be of the same user (`SO_PEERCRED`), and show
//! the token that the ranks have from the launcher's words.
//!
//! ```text
//! rank → lead    token 16 | rank 4
//! lead → rank    an address of this host that other hosts reach, as text; none if there is but one host
//! ```
//! What follows is the boot line.

use super::hex::{hex, unhex};
use super::pmi::wait;
use super::{io, say};
use crate::boot::roster::people;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr, accept4, bind, connect, getsockopt,
    listen, recv, send, socket, sockopt,
};
use nix::unistd::{Pid, geteuid};
use scash_comm::descriptors::pidfd;
use scash_comm::{Error, Result};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

const NAME: usize = 16;
const TOKEN: usize = 16;
/// Bytes of what a rank says.
const KNOCK: usize = TOKEN + 4;
/// How long who has come may take to say it.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// The socket of a host: its lead's own, or where it is.
#[derive(Debug)]
pub(super) struct LocalSocket {
    name: [u8; NAME],
    token: [u8; TOKEN],
    /// At the lead.
    listener: Option<OwnedFd>,
}

/// A rank that has come in.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) rank: u32,
    pub(super) line: OwnedFd,
    /// Its process.
    pub(super) process: OwnedFd,
}

impl LocalSocket {
    /// Opens one.
    pub(super) fn open() -> Result<LocalSocket> {
        let (mut name, mut token) = ([0; NAME], [0; TOKEN]);
        for random in [&mut name, &mut token] {
            getrandom::fill(random).map_err(|error| Error::Io {
                what: "asking the system for random numbers".to_owned(),
                source: std::io::Error::other(error.to_string()),
            })?;
        }
        let socket = unix_socket()?;
        bind(socket.as_raw_fd(), &address(&name)?).map_err(io("naming a socket"))?;
        listen(&socket, Backlog::MAXALLOWABLE).map_err(io("listening for the ranks of this host"))?;
        Ok(LocalSocket { name, token, listener: Some(socket) })
    }

    /// Where it is, for the ranks of this host.
    pub(super) fn describe(&self) -> String {
        format!("{},{}", hex(&self.name), hex(&self.token))
    }

    /// The socket that a lead has described.
    pub(super) fn read(text: &str) -> Result<LocalSocket> {
        let socket = text.split_once(',').and_then(|(name, token)| Some((unhex(name)?, unhex(token)?)));
        let (name, token) = socket.ok_or_else(|| {
            Error::Invalid("the rank that serves this host does not say where it is".to_owned())
        })?;
        Ok(LocalSocket { name, token, listener: None })
    }

    /// At the lead: lets these ranks in, and tells them `address`.
    pub(super) fn receive(
        self,
        mut expected: Vec<u32>,
        address: Option<IpAddr>,
        deadline: Instant,
    ) -> Result<Vec<Arrival>> {
        let mut arrivals = Vec::new();
        let Some(listener) = &self.listener else { return Ok(arrivals) };
        while !expected.is_empty() {
            if !wait(listener.as_fd(), deadline)? {
                let missing: Vec<usize> = expected.iter().map(|rank| *rank as usize).collect();
                return Err(Error::Invalid(format!(
                    "{} did not come to the others of this host in time",
                    people(&missing)
                )));
            }
            let fd = accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC);
            let fd = match fd {
                Err(Errno::EINTR | Errno::ECONNABORTED) => continue,
                fd => fd.map_err(io("taking in the ranks of this host (see `ulimit -n`)"))?,
            };
            // SAFETY: the kernel made this descriptor for us just now.
            let line = unsafe { OwnedFd::from_raw_fd(fd) };
            match self.hear(line, &expected) {
                Ok(arrival) => {
                    let text = address.map_or_else(String::new, |address| address.to_string());
                    // If it is gone already, its process shows it.
                    let _ = send(
                        arrival.line.as_raw_fd(),
                        format!("{text}\n").as_bytes(),
                        MsgFlags::MSG_NOSIGNAL,
                    );
                    expected.retain(|rank| *rank != arrival.rank);
                    arrivals.push(arrival);
                }
                Err(why) => say(format_args!("refused somebody at the socket of this host's ranks: {why}")),
            }
        }
        Ok(arrivals)
    }

    /// Hears who has come.
    fn hear(&self, line: OwnedFd, expected: &[u32]) -> std::result::Result<Arrival, String> {
        let process = peer(&line)?;
        match wait(line.as_fd(), Instant::now() + TIME_LIMIT) {
            Ok(true) => {}
            _ => return Err("it says nothing".to_owned()),
        }
        let mut knock = [0; KNOCK + 1];
        let length =
            recv(line.as_raw_fd(), &mut knock, MsgFlags::MSG_DONTWAIT).map_err(|errno| errno.to_string())?;
        let (token, rank) = knock.split_at(TOKEN);
        let rank = u32::from_le_bytes([rank[0], rank[1], rank[2], rank[3]]);
        if length != KNOCK || token != self.token {
            return Err("it does not know this job's token".to_owned());
        }
        if !expected.contains(&rank) {
            return Err(format!("it says it is rank {rank}, which is not expected here"));
        }
        Ok(Arrival { rank, line, process })
    }
}

/// At other ranks: connects to the socket. Returns the line, this host's address, and the lead's process.
pub(super) fn enter(
    host: &LocalSocket,
    rank: u32,
    lead: u32,
    deadline: Instant,
) -> Result<(OwnedFd, Option<IpAddr>, OwnedFd)> {
    let failed =
        |why: String| Error::Down { rank: lead, why: format!("it serves the ranks of this host, and {why}") };
    let line = unix_socket()?;
    connect(line.as_raw_fd(), &address(&host.name)?)
        .map_err(|errno| failed(format!("cannot be reached: {errno}")))?;
    let process = peer(&line).map_err(failed)?;
    let knock = [&host.token[..], &rank.to_le_bytes()].concat();
    send(line.as_raw_fd(), &knock, MsgFlags::MSG_NOSIGNAL).map_err(|errno| failed(errno.to_string()))?;
    let mut answer = [0; 64]; // longer than any address
    let length = match wait(line.as_fd(), deadline)? {
        true => recv(line.as_raw_fd(), &mut answer, MsgFlags::empty())
            .map_err(|errno| failed(errno.to_string()))?,
        false => return Err(failed("does not answer".to_owned())),
    };
    if length == 0 {
        return Err(failed("has given up; its stderr may say why".to_owned()));
    }
    let text = String::from_utf8_lossy(&answer[..length]);
    // The first packet of the line is there when the lead begins to serve.
    if !wait(line.as_fd(), deadline)? {
        return Err(failed("does not begin".to_owned()));
    }
    Ok((line, text.trim().parse().ok(), process))
}

/// The process at the other end, which must be this user's.
fn peer(line: &OwnedFd) -> std::result::Result<OwnedFd, String> {
    let peer = getsockopt(line, sockopt::PeerCredentials).map_err(|errno| errno.to_string())?;
    if peer.uid() != geteuid().as_raw() {
        return Err(format!("it is a process of user {}", peer.uid()));
    }
    pidfd(Pid::from_raw(peer.pid()))
        .map_err(|errno| format!("pidfd_open (Linux 5.3 or newer is needed): {errno}"))
}

fn unix_socket() -> Result<OwnedFd> {
    socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)
        .map_err(io("making a socket (raise `ulimit -n`)"))
}

fn address(name: &[u8; NAME]) -> Result<UnixAddr> {
    UnixAddr::new_abstract(format!("scash-socket-{}", hex(name)).as_bytes()).map_err(io("naming a socket"))
}
