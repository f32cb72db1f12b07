//! How a rank calls the lower ranks: many at once, so that a job's joining takes some round trips and not
//! some for each rank.
//!
//! One thread, no blocking call: each connection that is made is a small state that advances with the bytes
//! that have come. At most [`MOST_AT_ONCE`] are under way. The highest of the lower ranks are called first,
//! so that not all ranks call rank 0 at the same time.
//!
//! A call can fail for good, which ends the joining: nobody listens there, or who does is no rank of this
//! job, or refuses this one by a last word (`handshake`). Or it is cut off without a word, as ranks do in a
//! crowd of strangers: then it is made again, after a pause.

use super::congestion::Congestion;
use super::handshake::{
    CHALLENGE, ConnectionClass, Connector, Job, OPENING, WELCOME, check_opening, refused_by,
};
use super::links::Links;
use super::noise::{Keys, NoiseExchange, OFFER};
use super::refusal::Refusal;
use super::sealed::NewConnection;
use super::sys;
use crate::remote::is_no_way;
use crate::{Error, descriptors};
use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Connections that are made at the same time: those to some 85 ranks.
const MOST_AT_ONCE: usize = 256;
/// Pauses between calls of a rank that hangs up, the first and the longest.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);
/// How often the thread looks whether it is still needed.
const LOOK_UP: Duration = Duration::from_millis(20);
/// Bytes of a challenge with its opening.
const OPENED: usize = OPENING + CHALLENGE;

const _: () = assert!(WELCOME + OFFER <= OPENED);

/// Connects to these lower ranks. `Err(None)`: given up, for a reason that somebody else has.
pub(super) fn connect_all(
    job: &Job,
    me: u32,
    lower: &[(u32, SocketAddr)],
    deadline: Instant,
    given_up: &AtomicBool,
) -> Result<Vec<(u32, Links)>, Option<Error>> {
    let mut calls = ConnectionAttempts::new(job, me, lower);
    while !calls.waiting.is_empty() || !calls.under_way.is_empty() {
        if given_up.load(Ordering::Relaxed) {
            return Err(None);
        }
        if Instant::now() > deadline {
            return Err(calls.too_late());
        }
        calls.start().map_err(Some)?;
        calls.wait();
        calls.advance().map_err(Some)?;
    }
    Ok(calls.links(lower))
}

/// All connections that are to be made.
struct ConnectionAttempts<'a> {
    job: &'a Job,
    me: u32,
    /// Not begun, or to be made again. The next one is the last.
    waiting: Vec<PendingCall>,
    under_way: Vec<(PendingCall, ConnectionAttempt<'a>)>,
    made: Vec<(u32, ConnectionClass, NewConnection)>,
}

/// One connection that is to be made.
#[derive(Clone, Copy)]
struct PendingCall {
    rank: u32,
    address: SocketAddr,
    class: ConnectionClass,
    /// If it has been cut off before: when it is to be called again, and how long to wait after the next
    /// time.
    again: Option<(Instant, Duration)>,
    /// There was no way to it, as the system said.
    no_way: Option<Errno>,
}

impl PendingCall {
    fn is_due(&self, now: Instant) -> bool {
        self.again.is_none_or(|(when, _)| when <= now)
    }

    /// The same, to be called again.
    fn later(self) -> Self {
        let pause = self.again.map_or(SHORTEST_PAUSE, |(_, pause)| pause);
        Self { again: Some((Instant::now() + pause, LONGEST_PAUSE.min(2 * pause))), ..self }
    }

    fn error(&self, why: &str) -> Error {
        Error::Down { rank: self.rank, why: self.without(why) }
    }

    fn out_of_reach(&self) -> Error {
        let why = self.no_way.map_or("it did not answer in time", Errno::desc);
        Error::OutOfReach { rank: self.rank, why: self.without(why) }
    }

    fn without(&self, why: &str) -> String {
        format!("no connection to it at {}: {why}", self.address)
    }
}

impl<'a> ConnectionAttempts<'a> {
    /// To these ranks, all classes each.
    fn new(job: &'a Job, me: u32, lower: &[(u32, SocketAddr)]) -> Self {
        let wanted = |&(rank, address): &(u32, SocketAddr)| {
            ConnectionClass::ALL.map(|class| PendingCall { rank, address, class, again: None, no_way: None })
        };
        let waiting = lower.iter().flat_map(wanted).collect();
        Self { job, me, waiting, under_way: Vec::new(), made: Vec::new() }
    }

    /// Begins as many calls as are due and permitted.
    fn start(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        while self.under_way.len() < MOST_AT_ONCE {
            let Some(next) = self.waiting.iter().rposition(|wanted| wanted.is_due(now)) else { break };
            let wanted = self.waiting.remove(next);
            match ConnectionAttempt::begin(self.job, self.me, &wanted) {
                Ok(call) => self.under_way.push((wanted, call)),
                Err(miss) => self.take_miss(wanted, miss)?,
            }
        }
        Ok(())
    }

    /// Waits until a call can go on.
    fn wait(&self) {
        let mut awaited: Vec<_> = self.under_way.iter().map(|(_, call)| call.awaited()).collect();
        let next = self.waiting.iter().filter_map(|wanted| wanted.again).map(|(when, _)| when).min();
        let pause = next.map(|when| when.saturating_duration_since(Instant::now()));
        // Those that only wait for their turn are not waited for.
        sys::wait(&mut awaited, pause.filter(|pause| !pause.is_zero()).unwrap_or(LOOK_UP).min(LOOK_UP));
    }

    /// Goes on with all calls.
    fn advance(&mut self) -> Result<(), Error> {
        for (wanted, mut call) in std::mem::take(&mut self.under_way) {
            match call.step() {
                Ok(true) => self.made.push((wanted.rank, wanted.class, call.connection())),
                Ok(false) => self.under_way.push((wanted, call)),
                Err(miss) => self.take_miss(wanted, miss)?,
            }
        }
        Ok(())
    }

    fn take_miss(&mut self, wanted: PendingCall, miss: Miss) -> Result<(), Error> {
        match miss {
            Miss::HungUp => self.waiting.push(PendingCall { no_way: None, ..wanted.later() }),
            Miss::NoWay(errno) if self.job.comes_back => {
                self.waiting.push(PendingCall { no_way: Some(errno), ..wanted.later() });
            }
            Miss::NoWay(errno) => return Err(wanted.error(errno.desc())),
            Miss::Failed(why) => return Err(wanted.error(&why)),
        }
        Ok(())
    }

    /// What to say when the time is up: of one that hangs up, if there is any, since that is the stranger
    /// thing.
    fn too_late(&self) -> Option<Error> {
        // Those that still wait for their turn may be as well as any.
        let wanted = || self.under_way.iter().map(|(wanted, _)| wanted).chain(&self.waiting);
        // And one that has hung up before, and answers no more, may have another reason for that.
        let answers = self.under_way.iter().filter(|(_, call)| call.stage != CallStage::Dialling);
        let mut called = answers.map(|(wanted, _)| wanted).chain(&self.waiting);
        let hangs_up =
            called.find(|wanted| wanted.again.is_some() && wanted.no_way.is_none()).map(|wanted| {
                wanted.error("it closes each connection during the handshake; its stderr says why")
            });
        hangs_up.or_else(|| wanted().next().map(PendingCall::out_of_reach))
    }

    /// What has been made, when that is all.
    fn links(mut self, lower: &[(u32, SocketAddr)]) -> Vec<(u32, Links)> {
        self.made.sort_by_key(|(rank, class, _)| (*rank, *class as u16));
        let mut made = self.made.into_iter().map(|(_, _, connection)| connection);
        let mut next = || made.next().expect("each class of each rank was connected");
        let mut ranks: Vec<u32> = lower.iter().map(|(rank, _)| *rank).collect();
        ranks.sort_unstable();
        ranks.into_iter().map(|rank| (rank, Links { stream: next(), asks: next(), serves: next() })).collect()
    }
}

/// Why a call has failed.
#[derive(Debug, PartialEq, Eq)]
enum Miss {
    /// It was cut off. A rank does that to some callers when strangers crowd its port: the next call may do
    /// better.
    HungUp,
    /// There is no way to it, by all that the system knows.
    NoWay(Errno),
    /// As the text says, and for good.
    Failed(String),
}

impl From<Refusal> for Miss {
    fn from(refusal: Refusal) -> Self {
        Miss::Failed(refusal.to_string())
    }
}

impl From<std::io::Error> for Miss {
    fn from(error: std::io::Error) -> Self {
        if let Some(errno) = error.raw_os_error().map(Errno::from_raw).filter(is_no_way) {
            return Miss::NoWay(errno);
        }
        match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => Miss::HungUp,
            // Those that crowd this rank's own port hold descriptors, for a while.
            _ if descriptors::are_used_up(&error) => Miss::HungUp,
            ErrorKind::ConnectionRefused => {
                Miss::Failed(format!("it does not listen there ({error}); its stderr may say why"))
            }
            _ => Miss::Failed(error.to_string()),
        }
    }
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallStage {
    /// The connection is being made.
    Dialling,
    /// The hello is said.
    Greeted,
    /// The challenge is answered.
    Answered,
}

/// A connection under way.
struct ConnectionAttempt<'a> {
    stream: TcpStream,
    connector: Connector<'a>,
    stage: CallStage,
    bytes: [u8; OPENED],
    filled: usize,
    /// Once the challenge is answered, if the traffic is to be encrypted.
    exchange: Option<NoiseExchange>,
    /// What came of it.
    keys: Option<Keys>,
}

impl<'a> ConnectionAttempt<'a> {
    fn begin(job: &'a Job, me: u32, wanted: &PendingCall) -> Result<Self, Miss> {
        let connector = Connector::new(job, wanted.class, me, wanted.rank)?;
        let stream = dial(wanted.address, &job.congestion)?;
        let (stage, bytes) = (CallStage::Dialling, [0; OPENED]);
        Ok(Self { stream, connector, stage, bytes, filled: 0, exchange: None, keys: None })
    }

    /// What it waits for.
    fn awaited(&self) -> sys::Awaited {
        let events = if self.stage == CallStage::Dialling { libc::POLLOUT } else { libc::POLLIN };
        sys::awaited(self.stream.as_fd(), events)
    }

    /// Goes on as far as the bytes allow; `true` when the connection is made.
    fn step(&mut self) -> Result<bool, Miss> {
        if self.stage == CallStage::Dialling {
            if !self.is_connected()? {
                return Ok(false);
            }
            self.stream.set_nodelay(true)?;
            // An empty socket takes it at once.
            self.stream.write_all(&self.connector.hello)?;
            self.stage = CallStage::Greeted;
        }
        if self.stage == CallStage::Greeted {
            if !self.hear_challenge()? {
                return Ok(false);
            }
            self.answer()?;
        }
        if !self.fill(WELCOME + self.exchange.as_ref().map_or(0, |_| OFFER))? {
            return Ok(false);
        }
        let (welcome, reply) = self.bytes.split_first_chunk().expect("a welcome is shorter than a challenge");
        Connector::welcome(welcome)?;
        if let Some(exchange) = self.exchange.take() {
            let reply = reply.first_chunk().expect("a reply fits behind the welcome");
            self.keys = Some(exchange.finish(reply)?);
        }
        Ok(true)
    }

    /// Answers the challenge, and offers to make keys if the traffic is to be encrypted.
    fn answer(&mut self) -> Result<(), Miss> {
        let challenge = self.bytes.last_chunk().expect("a challenge is behind its opening");
        let mut answer = self.connector.answer(challenge)?.to_vec();
        if self.connector.encrypts() {
            let (exchange, offer) = self.connector.before_keys(challenge).offer()?;
            answer.extend(offer);
            self.exchange = Some(exchange);
        }
        self.stream.write_all(&answer)?;
        (self.stage, self.filled) = (CallStage::Answered, 0);
        Ok(())
    }

    /// What was made.
    fn connection(self) -> NewConnection {
        NewConnection { socket: self.stream.into(), keys: self.keys }
    }

    fn is_connected(&self) -> Result<bool, Miss> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error.into());
        }
        match self.stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the challenge; `false` if it is not there yet. One who hangs up in its place may have given the
    /// reason.
    fn hear_challenge(&mut self) -> Result<bool, Miss> {
        let whole = self.fill(OPENED);
        check_opening(&self.bytes[..self.filled])?;
        if let (Err(Miss::HungUp), Some(why)) = (&whole, refused_by(&self.bytes[..self.filled])) {
            return Err(why.into());
        }
        whole
    }

    /// Reads until `wanted` bytes are there; `false` if they are not yet.
    fn fill(&mut self, wanted: usize) -> Result<bool, Miss> {
        while self.filled < wanted {
            match self.stream.read(&mut self.bytes[self.filled..wanted]) {
                Ok(0) => return Err(Miss::HungUp),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}

/// Begins to connect to that address.
fn dial(address: SocketAddr, congestion: &Congestion) -> std::io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket::socket(family, SockType::Stream, flags, None)?;
    congestion.set(&socket).map_err(std::io::Error::other)?;
    match socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(address)) {
        // An interrupted one goes on, too.
        Ok(()) | Err(nix::Error::EINPROGRESS | nix::Error::EINTR) => Ok(socket.into()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
