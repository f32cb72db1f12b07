//! How the ranks of a job get connected.
//!
//! Each rank listens on the one address that was chosen, and gives that address to all others through the
//! start-up exchange. It then connects to every lower rank (`calling`), while a second thread accepts the
//! higher ones, in whatever order they come (`reception` says what strangers can do there). When all are
//! there, the listener is closed: a job that runs has no port.

use super::calling::connect_all;
use super::handshake::Job;
use super::links::Links;
use super::reception::Reception;
use super::refusal::Refusal;
use super::wire::VERSION;
use super::{TcpOptions, interface};
use crate::{Error, Exchange, Result};
use nix::sys::socket;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Which ranks an endpoint connects with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerSet {
    /// All others.
    All,
    /// Those of other hosts.
    OtherHosts,
}

/// What helps ranks of which some encrypt.
const ALIKE: &str = ": give all ranks the same SCASH_ENCRYPT, or none and `scash run --encrypt`";

/// Connects this rank with those that it is to reach: one entry a rank, none for itself and the others.
pub(super) fn join(
    exchange: &mut dyn Exchange,
    options: &TcpOptions,
    reach: PeerSet,
) -> Result<Vec<Option<Links>>> {
    let (me, size) = (exchange.rank(), exchange.size());
    let listener = listen(options)?;
    let address =
        listener.local_addr().map_err(|source| io_error("asking for the listener's address", source))?;
    let job = Job {
        size,
        abi: options.abi,
        secret: exchange.secret().clone(),
        encrypted: options.encrypt,
        congestion: options.congestion.clone(),
        comes_back: options.comes_back,
    };
    let addresses = read_cards(&job, &exchange.all_gather(&card(&job, address), &[])?)?;
    let here = exchange.host(me);
    let is_peer = |rank| rank != me && (reach == PeerSet::All || exchange.host(rank) != here);
    let peers: Vec<_> =
        (0..).zip(addresses).map(|(rank, address)| is_peer(rank).then_some(address)).collect();
    meet(&job, me, &peers, listener, Instant::now() + options.timeout)
}

/// Listens on the chosen address and nowhere else.
fn listen(options: &TcpOptions) -> Result<TcpListener> {
    let unreadable = |why: String| {
        Error::Invalid(format!(
            "cannot listen on `{}`: {why}; give an address of this host, its interface or network (eth0, 10.0.0.0/24), or a name that means one",
            options.bind
        ))
    };
    let address = SocketAddr::new(interface::address_of(&options.bind).map_err(unreadable)?, options.port);
    if address.ip().is_unspecified() {
        return Err(unreadable(
            "that means every network there is, and peers could not connect to it".into(),
        ));
    }
    let listener = TcpListener::bind(address).map_err(|source| match source.kind() {
        ErrorKind::AddrInUse => io_error(
            &format!("port {} of {} is in use: choose another, or 0 for any", options.port, address.ip()),
            source,
        ),
        ErrorKind::AddrNotAvailable => unreadable("this host does not have that address".into()),
        _ => io_error(&format!("listening on {address}"), source),
    })?;
    // Before anybody knows where it is: the connections that come inherit it.
    options.congestion.set(&listener)?;
    // As many in its queue as the system permits: who finds it full calls again only after a second.
    let longer = socket::listen(&listener, socket::Backlog::MAXALLOWABLE);
    longer.map_err(|errno| io_error("preparing the listener", errno.into()))?;
    Ok(listener)
}

/// What a rank tells all others about itself: `version 2 | ABI 4 | encrypted 1 | address as text`.
fn card(job: &Job, address: SocketAddr) -> Vec<u8> {
    let (version, abi) = (VERSION.to_le_bytes(), job.abi.to_le_bytes());
    [&version[..], &abi, &[job.encrypted.into()], address.to_string().as_bytes()].concat()
}

/// Where the rank listens that gave this card, if it works with one of this job as this rank knows it.
fn read_card(job: &Job, card: &[u8]) -> std::result::Result<SocketAddr, String> {
    let (version, rest) = card
        .split_first_chunk()
        .ok_or("it gave something else than its address; do all ranks use the provider tcp?")?;
    let version = u16::from_le_bytes(*version);
    if version != VERSION {
        return Err(Refusal::Version(version).to_string());
    }
    let (theirs, address) = rest.split_first_chunk().ok_or("it gave a shortened card")?;
    let theirs = u32::from_le_bytes(*theirs);
    if theirs != job.abi {
        return Err(Refusal::Abi { theirs, ours: job.abi }.to_string());
    }
    let (encrypted, address) = address.split_first().ok_or("it gave a shortened card")?;
    match (*encrypted != 0, job.encrypted) {
        (true, false) => return Err(format!("it encrypts its traffic, and this rank does not{ALIKE}")),
        (false, true) => return Err(format!("it does not encrypt its traffic, and this rank does{ALIKE}")),
        _ => {}
    }
    read_address(&String::from_utf8_lossy(address))
}

/// Where all ranks listen.
fn read_cards(job: &Job, cards: &[(Vec<u8>, Vec<OwnedFd>)]) -> Result<Vec<SocketAddr>> {
    if cards.len() != job.size as usize {
        let why = format!("the start-up exchange gave {} of {} ranks", cards.len(), job.size);
        return Err(Error::Invalid(why));
    }
    let read = |(rank, (card, _)): (u32, &(Vec<u8>, _))| {
        read_card(job, card).map_err(|why| Error::Protocol { rank, why })
    };
    (0..).zip(cards).map(read).collect()
}

/// Reads the text in which a rank says where it listens.
fn read_address(text: &str) -> std::result::Result<SocketAddr, String> {
    let readable =
        text.parse::<SocketAddr>().ok().filter(|address| address.port() != 0 && !is_nowhere(address.ip()));
    readable.ok_or_else(|| {
        let text: String = text.chars().take(80).collect();
        format!(
            "it says that it listens on {text:?}, which is not an address and port that one can connect to"
        )
    })
}

fn is_nowhere(ip: IpAddr) -> bool {
    ip.is_unspecified() || ip.is_multicast()
}

/// Connects to the lower ones of the ranks that have an address here, among which this one is not, and
/// accepts the higher ones, at the same time.
fn meet(
    job: &Job,
    me: u32,
    peers: &[Option<SocketAddr>],
    listener: TcpListener,
    deadline: Instant,
) -> Result<Vec<Option<Links>>> {
    let ranks = (0u32..).zip(peers).filter_map(|(rank, address)| Some((rank, (*address)?)));
    let (lower, higher): (Vec<_>, Vec<_>) = ranks.partition(|(rank, _)| *rank < me);
    let given_up = AtomicBool::new(false);
    let (connected, accepted) = std::thread::scope(|scope| -> Result<_> {
        let reception = Reception::new(job, me, higher.iter().map(|(rank, _)| *rank), listener);
        let accepting = std::thread::Builder::new().spawn_scoped(scope, || {
            let accepted = reception.receive_all(deadline, &given_up);
            given_up.fetch_or(accepted.is_err(), Ordering::Relaxed);
            accepted
        });
        let accepting = accepting.map_err(|source| {
            io_error("starting a thread that accepts other ranks (see `ulimit -u`)", source)
        })?;
        let connected = connect_all(job, me, &lower, deadline, &given_up);
        given_up.fetch_or(connected.is_err(), Ordering::Relaxed);
        Ok((connected, accepting.join()))
    })?;
    let accepted = accepted.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    // If both failed, one of them failed first and the other gave up for that reason.
    let (connected, accepted) = match (connected, accepted) {
        (Ok(connected), Ok(accepted)) => (connected, accepted),
        (Err(Some(error)), _) | (_, Err(Some(error))) => return Err(error),
        (Err(None), _) | (_, Err(None)) => unreachable!("nobody gives up but for an error"),
    };
    let mut links: Vec<_> = peers.iter().map(|_| None).collect();
    for (rank, link) in connected.into_iter().chain(accepted) {
        links[rank as usize] = Some(link);
    }
    Ok(links)
}

fn io_error(what: &str, source: std::io::Error) -> Error {
    Error::Io { what: what.into(), source }
}

#[cfg(test)]
mod tests;
