//! How the ranks of a job get connected.
//!
//! Each rank listens on the one address that was chosen, and gives that address to all others through the
//! start-up exchange. It then connects to every lower rank, while a second thread accepts the higher ones, in
//! whatever order they come. The accepting thread never waits for a single connection: strangers who say
//! nothing, little or rubbish cost a slot until their time is up, and a line on stderr. When all are there,
//! the listener is closed.

use super::TcpOptions;
use super::handshake::{ANSWER, CHALLENGE, Class, Connector, Job, SHORTEST_SECRET, WELCOME};
use super::reception::Reception;
use super::wire::VERSION;
use crate::{Error, Exchange, Result};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The connections to one peer.
pub(super) struct Links {
    /// Puts and messages, both ways.
    pub(super) stream: OwnedFd,
    /// This rank asks.
    pub(super) asks: OwnedFd,
    /// This rank serves.
    pub(super) serves: OwnedFd,
}

/// Connects this rank with all others: one entry a rank, none for this one.
pub(super) fn join(exchange: &mut dyn Exchange, options: &TcpOptions) -> Result<Vec<Option<Links>>> {
    let (me, size) = (exchange.rank(), exchange.size());
    if let Some(secret) = &options.secret
        && secret.len() < SHORTEST_SECRET
    {
        return Err(Error::Invalid(format!(
            "the job's secret has {} bytes: give at least {SHORTEST_SECRET}",
            secret.len()
        )));
    }
    let listener = listen(options)?;
    let address =
        listener.local_addr().map_err(|source| io_error("asking for the listener's address", source))?;
    let card = Card::of_this_rank(me, options, address)?;
    let cards = exchange.all_gather(&card.encode(), &[])?;
    let cards: Vec<&[u8]> = cards.iter().map(|(blob, _)| &blob[..]).collect();
    let (addresses, secret) = read_cards(&cards, size, options)?;
    let deadline = Instant::now() + options.patience;
    meet(&Job { size, secret }, me, &addresses, listener, deadline)
}

/// Listens on the chosen address and nowhere else.
fn listen(options: &TcpOptions) -> Result<TcpListener> {
    let unreadable = |why: String| {
        Error::Invalid(format!(
            "cannot listen on `{}`: {why}; give an address of this host, or a name that means one",
            options.bind
        ))
    };
    let address = (options.bind.as_str(), options.port)
        .to_socket_addrs()
        .map_err(|error| unreadable(error.to_string()))?
        .next()
        .ok_or_else(|| unreadable("the name has no address".into()))?;
    if address.ip().is_unspecified() {
        return Err(unreadable(
            "that means every network there is, and peers could not connect to it".into(),
        ));
    }
    TcpListener::bind(address).map_err(|source| match source.kind() {
        std::io::ErrorKind::AddrInUse => io_error(
            &format!("port {} of {} is in use: choose another, or 0 for any", options.port, address.ip()),
            source,
        ),
        std::io::ErrorKind::AddrNotAvailable => unreadable("this host does not have that address".into()),
        _ => io_error(&format!("listening on {address}"), source),
    })
}

/// What a rank tells all others about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Card {
    /// The secret that rank 0 made, or nothing where it was given.
    secret: Vec<u8>,
    /// Whether the rank was given a secret.
    given: bool,
    /// Where the rank listens.
    address: String,
}

impl Card {
    fn of_this_rank(me: u32, options: &TcpOptions, address: SocketAddr) -> Result<Self> {
        let given = options.secret.is_some();
        let mut secret = Vec::new();
        if me == 0 && !given {
            secret = vec![0; 32];
            getrandom::fill(&mut secret)
                .map_err(|error| Error::Invalid(format!("the system gives no random numbers: {error}")))?;
        }
        Ok(Self { secret, given, address: address.to_string() })
    }

    /// `version 2 | given 1 | length of secret 1 | secret | address as text`
    fn encode(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        bytes.push(u8::from(self.given));
        bytes.push(u8::try_from(self.secret.len()).expect("32 bytes or none"));
        bytes.extend(&self.secret);
        bytes.extend(self.address.as_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> std::result::Result<Self, String> {
        let [v0, v1, given @ (0 | 1), length, rest @ ..] = bytes else {
            return Err("something else than its address; do all ranks use the provider tcp?".into());
        };
        let version = u16::from_le_bytes([*v0, *v1]);
        if version != VERSION {
            return Err(format!(
                "version {version} of the tcp protocol, where this rank speaks version {VERSION}; \
                 use the same build for all ranks"
            ));
        }
        let (secret, address) = rest.split_at_checked(usize::from(*length)).ok_or("a shortened card")?;
        let address = String::from_utf8_lossy(address).into_owned();
        Ok(Self { secret: secret.to_vec(), given: *given == 1, address })
    }
}

/// The addresses and the secret that all ranks' cards agree on.
fn read_cards(cards: &[&[u8]], size: u32, options: &TcpOptions) -> Result<(Vec<SocketAddr>, Vec<u8>)> {
    if cards.len() != size as usize {
        return Err(Error::Invalid(format!("the start-up exchange gave {} of {size} ranks", cards.len())));
    }
    let (mut addresses, mut secret) = (Vec::new(), options.secret.clone());
    for (rank, bytes) in (0u32..).zip(cards) {
        let card =
            Card::decode(bytes).map_err(|why| Error::Protocol { rank, why: format!("it gave {why}") })?;
        if card.given != options.secret.is_some() {
            let (with, without) = if card.given { ("it", "this rank") } else { ("this rank", "it") };
            let why = format!(
                "{with} was given the job's secret and {without} was not: give it to all ranks or to none"
            );
            return Err(Error::Protocol { rank, why });
        }
        if rank == 0 && !card.given {
            secret = Some(card.secret.clone());
        }
        addresses.push(read_address(&card.address).map_err(|why| Error::Protocol { rank, why })?);
    }
    let secret = secret.unwrap_or_default();
    if secret.len() < SHORTEST_SECRET {
        return Err(Error::Protocol { rank: 0, why: "it made no secret for the job".into() });
    }
    Ok((addresses, secret))
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

/// Connects to the lower ranks and accepts the higher ones, at the same time.
fn meet(
    job: &Job,
    me: u32,
    addresses: &[SocketAddr],
    listener: TcpListener,
    deadline: Instant,
) -> Result<Vec<Option<Links>>> {
    let given_up = AtomicBool::new(false);
    let (connected, accepted) = std::thread::scope(|scope| {
        let reception = Reception::new(job, me, listener);
        let accepting = scope.spawn(|| {
            let accepted = reception.receive_all(deadline, &given_up);
            given_up.fetch_or(accepted.is_err(), Ordering::Relaxed);
            accepted
        });
        let connected = connect_all(job, me, addresses, deadline, &given_up);
        given_up.fetch_or(connected.is_err(), Ordering::Relaxed);
        (connected, accepting.join())
    });
    let accepted = accepted.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    // If both failed, one of them failed first and the other gave up for that reason.
    let (connected, accepted) = match (connected, accepted) {
        (Ok(connected), Ok(accepted)) => (connected, accepted),
        (Err(Some(error)), _) | (_, Err(Some(error))) => return Err(error),
        (Err(None), _) | (_, Err(None)) => unreachable!("nobody gives up but for an error"),
    };
    let mut links: Vec<_> = connected.into_iter().map(Some).collect();
    links.push(None);
    links.extend(accepted.into_iter().map(Some));
    Ok(links)
}

/// Connects to every lower rank. `Err(None)`: given up, for a reason that somebody else has.
fn connect_all(
    job: &Job,
    me: u32,
    addresses: &[SocketAddr],
    deadline: Instant,
    given_up: &AtomicBool,
) -> std::result::Result<Vec<Links>, Option<Error>> {
    let mut links = Vec::new();
    for (rank, address) in (0..me).zip(addresses) {
        let connect = |class| {
            if given_up.load(Ordering::Relaxed) {
                return Err(None);
            }
            connect(job, me, rank, class, *address, deadline).map_err(|why| {
                Some(Error::Down { rank, why: format!("no connection to it at {address}: {why}") })
            })
        };
        links.push(Links {
            stream: connect(Class::Stream)?,
            asks: connect(Class::ConnectorAsks)?,
            serves: connect(Class::AcceptorAsks)?,
        });
    }
    Ok(links)
}

/// Makes one connection to a lower rank.
fn connect(
    job: &Job,
    me: u32,
    rank: u32,
    class: Class,
    address: SocketAddr,
    deadline: Instant,
) -> std::result::Result<OwnedFd, String> {
    let mut stream =
        TcpStream::connect_timeout(&address, left(deadline)?).map_err(|error| error.to_string())?;
    let connector = Connector::new(job, class, me, rank)?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    stream.write_all(&connector.hello).map_err(|error| error.to_string())?;
    let challenge: [u8; CHALLENGE] = read_by(&mut stream, deadline)?;
    let answer: [u8; ANSWER] = connector.answer(&challenge)?;
    stream.write_all(&answer).map_err(|error| error.to_string())?;
    let welcome: [u8; WELCOME] = read_by(&mut stream, deadline)?;
    Connector::welcome(&welcome)?;
    Ok(stream.into())
}

/// Reads as many bytes as the answer has, before the deadline.
fn read_by<const N: usize>(
    stream: &mut TcpStream,
    deadline: Instant,
) -> std::result::Result<[u8; N], String> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        stream.set_read_timeout(Some(left(deadline)?)).map_err(|error| error.to_string())?;
        match stream.read(&mut bytes[filled..]) {
            Ok(0) => return Err("it closed the connection during the handshake; its stderr says why".into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Err(TOO_LATE.into()),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(bytes)
}

const TOO_LATE: &str = "it did not answer in time";

/// The time until `deadline`, or an error when it has passed.
fn left(deadline: Instant) -> std::result::Result<Duration, String> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(TOO_LATE.into()),
        left => Ok(left),
    }
}

pub(super) fn io_error(what: &str, source: std::io::Error) -> Error {
    Error::Io { what: what.into(), source }
}

#[cfg(test)]
mod tests;
