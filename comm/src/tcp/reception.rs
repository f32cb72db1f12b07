//! Where the higher ranks, and whoever else finds the port, are received.
//!
//! One thread, no blocking read: each newcomer is a small state that is fed with the bytes that have come, of
//! which it holds [`HELLO`] at most. A newcomer has [`TIME_LIMIT`] for its whole handshake.
//!
//! What a stranger can do, who can connect as often as it likes: say nothing, little, rubbish, or what it has
//! recorded.
//! - It costs a descriptor until its time is up, or until the port is crowded ([`Reception::capacity`], or no
//!   descriptor is left): then the oldest makes room that has not shown by its hello that it knows the
//!   secret.
//! - All newcomers are heard after at most [`ROUND`] new ones, so that no flood keeps a rank from being
//!   heard. If a rank is turned away in a crowd before its hello has come, it calls again (`join`).
//! - It costs one line on stderr for each kind of [`Refusal`], however many come.

use super::handshake::{ANSWER, Acceptor, HELLO, Job, check_opening, last_word, opening};
use super::links::Links;
use super::noise::{Keys, OFFER};
use super::refusal::Refusal;
use super::sealed::NewConnection;
use super::{log, sys};
use crate::{Error, Result, descriptors};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::mem::{Discriminant, discriminant};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time for a handshake from the newcomer's first byte to its last.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Newcomers that are taken in before all are heard.
const ROUND: usize = 32;
const _: () = assert!(ANSWER + OFFER <= HELLO);
/// How often the thread looks whether it is still needed.
const LOOK_UP: Duration = Duration::from_millis(20);

/// The connections of one pair, as they come in: by [`super::handshake::ConnectionClass`].
type Arrived = [Option<NewConnection>; 3];

/// The listener, and what it has brought.
pub(super) struct Reception<'a> {
    job: &'a Job,
    me: u32,
    listener: TcpListener,
    newcomers: Vec<Newcomer>,
    /// By rank: of those above this one that are to connect.
    arrived: BTreeMap<u32, Arrived>,
    refusals: Refusals,
}

/// What strangers have been told off for.
#[derive(Default)]
struct Refusals(Vec<Discriminant<Refusal>>);

impl Refusals {
    /// Whether nobody was refused for such a reason before.
    fn is_new(&mut self, why: &Refusal) -> bool {
        let kind = discriminant(why);
        let is_new = !self.0.contains(&kind);
        if is_new {
            self.0.push(kind);
        }
        is_new
    }

    /// One line about the first of each kind: a flood of strangers is not to be a flood of lines.
    fn tell(&mut self, address: SocketAddr, why: &Refusal) {
        if self.is_new(why) {
            log(format_args!("refused a connection from {address}: {why} (told once, however many come)"));
        }
    }
}

/// A connection of which nothing is known yet.
struct Newcomer {
    stream: TcpStream,
    address: SocketAddr,
    deadline: Instant,
    bytes: [u8; HELLO],
    filled: usize,
    /// Once it has said hello.
    acceptor: Option<Acceptor>,
}

/// What became of a newcomer.
enum Outcome {
    /// It has to say more.
    Pending(Newcomer),
    /// It has shown who it is.
    Known(Acceptor, NewConnection),
    /// It is not one of us.
    Stranger(SocketAddr, Refusal),
}

impl<'a> Reception<'a> {
    /// Receives these ranks, which are above `me`, at `listener`.
    pub(super) fn new(
        job: &'a Job,
        me: u32,
        expected: impl Iterator<Item = u32>,
        listener: TcpListener,
    ) -> Self {
        let arrived = expected.map(|rank| (rank, Arrived::default())).collect();
        Self { job, me, listener, newcomers: Vec::new(), arrived, refusals: Refusals::default() }
    }

    /// Newcomers that are heard at once: all that are still expected, and two rounds of strangers.
    fn capacity(&self) -> usize {
        let expected = self.arrived.values().flatten().filter(|connection| connection.is_none()).count();
        expected + 2 * ROUND
    }

    /// Returns when all expected ranks are connected. `Err(None)`: given up, for a reason that somebody else
    /// has.
    pub(super) fn receive_all(
        mut self,
        deadline: Instant,
        given_up: &AtomicBool,
    ) -> std::result::Result<Vec<(u32, Links)>, Option<Error>> {
        let prepared = self.listener.set_nonblocking(true);
        prepared.map_err(|source| Some(Error::Io { what: "preparing the listener".into(), source }))?;
        while self.missing().next().is_some() {
            if given_up.load(Ordering::Relaxed) {
                return Err(None);
            }
            if Instant::now() > deadline {
                return Err(Some(self.too_late()));
            }
            self.wait();
            self.accept().map_err(Some)?;
            self.hear();
        }
        for newcomer in &self.newcomers {
            self.refusals.tell(newcomer.address, &Refusal::NotNeeded);
        }
        Ok(self.arrived.into_iter().map(|(rank, arrived)| (rank, links(arrived))).collect())
    }

    /// The ranks that are not connected yet.
    fn missing(&self) -> impl Iterator<Item = u32> {
        let missing = self.arrived.iter().filter(|(_, arrived)| arrived.iter().any(Option::is_none));
        missing.map(|(rank, _)| *rank)
    }

    fn too_late(&self) -> Error {
        let rank = self.missing().next().unwrap_or(self.me);
        let others = self.missing().count().saturating_sub(1);
        let others = if others > 0 { format!(", nor did {others} others") } else { String::new() };
        Error::OutOfReach { rank, why: format!("it did not connect in time{others}; its stderr may say why") }
    }

    fn wait(&self) {
        let sockets = self.newcomers.iter().map(|newcomer| newcomer.stream.as_fd());
        let mut awaited: Vec<_> = std::iter::once(self.listener.as_fd())
            .chain(sockets)
            .map(|socket| sys::awaited(socket, libc::POLLIN))
            .collect();
        sys::wait(&mut awaited, LOOK_UP);
    }

    /// Takes in who has connected, up to a round.
    fn accept(&mut self) -> Result<()> {
        // Nobody is turned away in the round in which he comes, before he is heard.
        let mut heard = self.newcomers.len();
        for _ in 0..ROUND {
            let (stream, address) = match self.listener.accept() {
                Ok(newcomer) => newcomer,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if is_of_the_newcomer(&error) => continue,
                // Descriptors that strangers hold can be had back.
                Err(error) if descriptors::are_used_up(&error) && !self.newcomers.is_empty() => {
                    if !self.turn_one_away(heard) {
                        return Ok(());
                    }
                    heard -= 1;
                    continue;
                }
                Err(source) => {
                    let what = "accepting connections of other ranks (see `ulimit -n`)".into();
                    return Err(Error::Io { what, source });
                }
            };
            if let Err(error) = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)) {
                self.refusals.tell(address, &Refusal::System(error.to_string()));
                continue;
            }
            if self.newcomers.len() >= self.capacity() && self.turn_one_away(heard) {
                heard -= 1;
            }
            let deadline = Instant::now() + TIME_LIMIT;
            let bytes = [0; HELLO];
            self.newcomers.push(Newcomer { stream, address, deadline, bytes, filled: 0, acceptor: None });
        }
        Ok(())
    }

    /// Makes room: of the first newcomers, those that were `heard`, the oldest goes that has not said a good
    /// hello, or else the oldest. `false` if there is none.
    fn turn_one_away(&mut self, heard: usize) -> bool {
        if heard == 0 {
            return false;
        }
        let silent = self.newcomers[..heard].iter().position(|newcomer| newcomer.acceptor.is_none());
        let newcomer = self.newcomers.remove(silent.unwrap_or(0));
        self.refusals.tell(newcomer.address, &Refusal::Crowd);
        true
    }

    /// Reads what the newcomers have said.
    fn hear(&mut self) {
        for newcomer in std::mem::take(&mut self.newcomers) {
            match newcomer.hear(self.job, self.me, &self.arrived) {
                Outcome::Pending(newcomer) => self.newcomers.push(newcomer),
                Outcome::Known(acceptor, connection) => self.seat(&acceptor, connection),
                Outcome::Stranger(address, why) => self.refusals.tell(address, &why),
            }
        }
    }

    /// Gives a connection its place.
    fn seat(&mut self, acceptor: &Acceptor, connection: NewConnection) {
        // It was expected when it had said hello (`check_place`); another one can have taken its place since.
        let Some(arrived) = self.arrived.get_mut(&acceptor.from) else { return };
        let place = &mut arrived[acceptor.class as usize];
        if place.is_none() {
            *place = Some(connection);
        } else if let Ok(address) = TcpStream::from(connection.socket).peer_addr() {
            self.refusals.tell(address, &Refusal::Again(acceptor.from));
        }
    }
}

impl Newcomer {
    /// Reads what has come, and answers it.
    fn hear(mut self, job: &Job, me: u32, arrived: &BTreeMap<u32, Arrived>) -> Outcome {
        let address = self.address;
        match self.step(job, me, arrived) {
            Ok(Some((acceptor, keys))) => {
                Outcome::Known(acceptor, NewConnection { socket: self.stream.into(), keys })
            }
            Ok(None) if Instant::now() < self.deadline => Outcome::Pending(self),
            Ok(None) => Outcome::Stranger(address, Refusal::Late),
            Err(why) => {
                if let Some(word) = last_word(&why) {
                    // If it does not listen, it does not need to know.
                    let _ = self.say(&word);
                }
                Outcome::Stranger(address, why)
            }
        }
    }

    /// Advances as far as the bytes allow. Returns who it is once the handshake is complete, and the keys if
    /// traffic is to be encrypted.
    fn step(
        &mut self,
        job: &Job,
        me: u32,
        arrived: &BTreeMap<u32, Arrived>,
    ) -> std::result::Result<Option<(Acceptor, Option<Keys>)>, Refusal> {
        if self.acceptor.is_none() {
            let whole = self.fill(HELLO);
            self.check_opening()?;
            if !whole? {
                return Ok(None);
            }
            let (acceptor, challenge) = Acceptor::challenge(job, me, self.bytes)?;
            check_place(&acceptor, arrived)?;
            self.say(&challenge)?;
            (self.acceptor, self.filled) = (Some(acceptor), 0);
        }
        if !self.fill(ANSWER + if job.encrypted { OFFER } else { 0 })? {
            return Ok(None);
        }
        let (answer, offer) = self.bytes.split_first_chunk().expect("an answer is shorter than a hello");
        let Some(acceptor) = self.acceptor.take() else { return Ok(None) };
        let mut welcome = acceptor.accept(job, answer)?.to_vec();
        let mut keys = None;
        if job.encrypted {
            let offer = offer.first_chunk().expect("an offer fits behind the answer");
            let (made, reply) = acceptor.before_keys(job).reply(offer)?;
            welcome.extend(reply);
            keys = Some(made);
        }
        self.say(&welcome)?;
        Ok(Some((acceptor, keys)))
    }

    /// Checks how the newcomer began. One of another version is told ours, if it still
    /// listens, and can say so to its user.
    fn check_opening(&mut self) -> std::result::Result<(), Refusal> {
        let checked = check_opening(&self.bytes[..self.filled]);
        if let Err(Refusal::Version(_)) = checked {
            let _ = self.say(&opening());
        }
        checked
    }

    /// Reads until `wanted` bytes are there; `false` if they are not yet.
    fn fill(&mut self, wanted: usize) -> std::result::Result<bool, Refusal> {
        while self.filled < wanted {
            match self.stream.read(&mut self.bytes[self.filled..wanted]) {
                Ok(0) => return Err(Refusal::HungUp),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(cut_off(&error)),
            }
        }
        Ok(true)
    }

    /// Sends a few bytes: an empty socket takes them at once.
    fn say(&mut self, bytes: &[u8]) -> std::result::Result<(), Refusal> {
        self.stream.write_all(bytes).map_err(|error| cut_off(&error))
    }
}

/// Whether a rank is to connect, and has not done so.
fn check_place(newcomer: &Acceptor, arrived: &BTreeMap<u32, Arrived>) -> std::result::Result<(), Refusal> {
    match arrived.get(&newcomer.from).map(|arrived| &arrived[newcomer.class as usize]) {
        Some(None) => Ok(()),
        Some(Some(_)) => Err(Refusal::Again(newcomer.from)),
        None => Err(Refusal::Unexpected(newcomer.from)),
    }
}

/// Whether `accept` tells of an error that the connection it would have returned has had already, which
/// the next one need not have (accept(2), "error handling").
fn is_of_the_newcomer(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EINTR
                | libc::ECONNABORTED
                | libc::ENETDOWN
                | libc::EPROTO
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EHOSTUNREACH
                | libc::EOPNOTSUPP
                | libc::ENETUNREACH
        )
    )
}

/// What an error of a newcomer's connection means.
fn cut_off(error: &io::Error) -> Refusal {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Refusal::HungUp,
        _ => Refusal::System(error.to_string()),
    }
}

/// The three connections of a pair, all of which have arrived.
fn links(arrived: Arrived) -> Links {
    let [stream, connector_asks, acceptor_asks] =
        arrived.map(|connection| connection.expect("nobody is missing"));
    Links { stream, asks: acceptor_asks, serves: connector_asks }
}

#[cfg(test)]
mod tests;
