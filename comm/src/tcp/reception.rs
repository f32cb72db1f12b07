//! Where the higher ranks, and whoever else finds the port, are received.
//!
//! One thread, no blocking read: each newcomer is a small state that is fed with the bytes that have come. A
//! newcomer has [`TIME_LIMIT`] for its whole handshake, and at most [`Reception::capacity`] are heard at
//! once; the oldest makes room.

use super::handshake::{ANSWER, Acceptor, HELLO, Job};
use super::join::{Links, io_error};
use super::log;
use super::sys;
use crate::{Error, Result};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time for a handshake from the newcomer's first byte to its last.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// How often the thread looks whether it is still needed.
const LOOK_UP: Duration = Duration::from_millis(20);

/// The connections of one pair, as they come in: by [`super::handshake::Class`].
type Arrived = [Option<TcpStream>; 3];

/// The listener, and what it has brought.
pub(super) struct Reception<'a> {
    job: &'a Job,
    me: u32,
    listener: TcpListener,
    newcomers: Vec<Newcomer>,
    /// Of the ranks above this one.
    arrived: Vec<Arrived>,
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
    Known(Acceptor, TcpStream),
    /// It is not one of us.
    Stranger(SocketAddr, String),
}

impl<'a> Reception<'a> {
    /// Receives the ranks above `me` at `listener`.
    pub(super) fn new(job: &'a Job, me: u32, listener: TcpListener) -> Self {
        let above = (job.size - me - 1) as usize;
        let arrived = std::iter::repeat_with(Arrived::default).take(above).collect();
        Self { job, me, listener, newcomers: Vec::new(), arrived }
    }

    /// Newcomers that are heard at once: all that are expected, and as many strangers as cannot do harm.
    fn capacity(&self) -> usize {
        3 * self.arrived.len() + 64
    }

    /// Returns when all expected ranks are connected, in rank order. `Err(None)`: given up, for a reason that
    /// somebody else has.
    pub(super) fn receive_all(
        mut self,
        deadline: Instant,
        given_up: &AtomicBool,
    ) -> std::result::Result<Vec<Links>, Option<Error>> {
        self.listener
            .set_nonblocking(true)
            .map_err(|source| Some(io_error("preparing the listener", source)))?;
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
            refuse(newcomer.address, "all ranks are connected");
        }
        Ok(self.arrived.into_iter().map(links).collect())
    }

    /// The ranks that are not connected yet.
    fn missing(&self) -> impl Iterator<Item = u32> {
        let above = self.me + 1..self.job.size;
        above
            .zip(&self.arrived)
            .filter(|(_, arrived)| arrived.iter().any(Option::is_none))
            .map(|(rank, _)| rank)
    }

    fn too_late(&self) -> Error {
        let rank = self.missing().next().unwrap_or(self.me);
        let others = self.missing().count().saturating_sub(1);
        let others = if others > 0 { format!(", nor did {others} others") } else { String::new() };
        Error::Down { rank, why: format!("it did not connect in time{others}; its stderr may say why") }
    }

    fn wait(&self) {
        let sockets = self.newcomers.iter().map(|newcomer| newcomer.stream.as_fd());
        let mut awaited: Vec<_> = std::iter::once(self.listener.as_fd())
            .chain(sockets)
            .map(|socket| sys::awaited(socket, libc::POLLIN))
            .collect();
        sys::wait(&mut awaited, LOOK_UP);
    }

    /// Takes in whoever has connected.
    fn accept(&mut self) -> Result<()> {
        loop {
            let (stream, address) = match self.listener.accept() {
                Ok(newcomer) => newcomer,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) =>
                {
                    continue;
                }
                Err(source) => {
                    return Err(io_error("accepting connections of other ranks (see `ulimit -n`)", source));
                }
            };
            if let Err(error) = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)) {
                refuse(address, &error.to_string());
                continue;
            }
            if self.newcomers.len() == self.capacity() {
                refuse(self.newcomers.remove(0).address, "too many wait to be heard");
            }
            let deadline = Instant::now() + TIME_LIMIT;
            let bytes = [0; HELLO];
            self.newcomers.push(Newcomer { stream, address, deadline, bytes, filled: 0, acceptor: None });
        }
    }

    /// Reads what the newcomers have said.
    fn hear(&mut self) {
        for newcomer in std::mem::take(&mut self.newcomers) {
            match newcomer.hear(self.job, self.me) {
                Outcome::Pending(newcomer) => self.newcomers.push(newcomer),
                Outcome::Known(acceptor, stream) => self.seat(&acceptor, stream),
                Outcome::Stranger(address, why) => refuse(address, &why),
            }
        }
    }

    /// Gives a connection its place.
    fn seat(&mut self, acceptor: &Acceptor, stream: TcpStream) {
        // `Acceptor::challenge` has checked that the rank is above this one and inside the job.
        let place = &mut self.arrived[(acceptor.from - self.me - 1) as usize][acceptor.class as usize];
        if place.is_none() {
            *place = Some(stream);
        } else if let Ok(address) = stream.peer_addr() {
            refuse(address, &format!("rank {} has that connection already", acceptor.from));
        }
    }
}

impl Newcomer {
    /// Reads what has come, and answers it.
    fn hear(mut self, job: &Job, me: u32) -> Outcome {
        let address = self.address;
        match self.step(job, me) {
            Ok(true) => match self.acceptor {
                Some(acceptor) => Outcome::Known(acceptor, self.stream),
                None => Outcome::Stranger(address, "it was welcomed before its hello".into()),
            },
            Ok(false) if Instant::now() < self.deadline => Outcome::Pending(self),
            Ok(false) => Outcome::Stranger(address, "it did not complete the handshake in time".into()),
            Err(why) => Outcome::Stranger(address, why),
        }
    }

    /// Advances as far as the bytes allow. `true`: the handshake is complete.
    fn step(&mut self, job: &Job, me: u32) -> std::result::Result<bool, String> {
        if self.acceptor.is_none() {
            if !self.fill(HELLO)? {
                return Ok(false);
            }
            let (acceptor, challenge) = Acceptor::challenge(job, me, self.bytes)?;
            self.say(&challenge)?;
            (self.acceptor, self.filled) = (Some(acceptor), 0);
        }
        let whole = self.fill(ANSWER)?;
        let (Some(acceptor), true) = (&self.acceptor, whole) else { return Ok(false) };
        let answer = self.bytes.first_chunk::<ANSWER>().ok_or("an answer is shorter than a hello")?;
        let welcome = acceptor.accept(job, answer)?;
        self.say(&welcome)?;
        Ok(true)
    }

    /// Reads until `wanted` bytes are there; `false` if they are not yet.
    fn fill(&mut self, wanted: usize) -> std::result::Result<bool, String> {
        while self.filled < wanted {
            match self.stream.read(&mut self.bytes[self.filled..wanted]) {
                Ok(0) => return Err("it hung up during the handshake".into()),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(true)
    }

    /// Sends a few bytes: an empty socket takes them at once.
    fn say(&mut self, bytes: &[u8]) -> std::result::Result<(), String> {
        self.stream.write_all(bytes).map_err(|error| error.to_string())
    }
}

/// One line about a connection that is not of this job.
fn refuse(address: SocketAddr, why: &str) {
    log(format_args!("refused a connection from {address}: {why}"));
}

/// The three connections of a pair, all of which have arrived.
fn links(arrived: Arrived) -> Links {
    let [stream, connector_asks, acceptor_asks] =
        arrived.map(|stream| stream.expect("nobody is missing").into());
    Links { stream, asks: acceptor_asks, serves: connector_asks }
}
