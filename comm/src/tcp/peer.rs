//! One peer: its three connections and the state of each, under one lock each.
//!
//! Locks are taken in the order `requester`, `incoming`, and `outgoing` on its own; whoever serves holds the
//! service's `server` before the last two, and never takes `requester`; what streams are watched for is
//! locked after all of them. None is held while a caller's function runs or while waiting for a peer, but
//! `requester`, which is there to have one request under way at a time.

use super::incoming::Incoming;
use super::links::Links;
use super::outgoing::Outgoing;
use super::pace::Pace;
use super::requester::Requester;
use super::serving::Serving;
use super::sys;
use super::wire::MAX_RANGES;
use super::{Shared, lock, log};
use crate::descriptors::out_of_the_way;
use crate::remote::{BAD_BUFFER, LossReason, Operation};
use crate::{Error, GetRange, Result};
use nix::sys::socket::{Shutdown, SockaddrStorage, getpeername, getsockname, setsockopt, shutdown, sockopt};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::Instant;

/// Seconds of silence after which an idle connection is probed, and between probes.
const PROBE_AFTER: u32 = 5;
const PROBE_EVERY: u32 = 1;
/// Probes without an answer after which the peer is lost.
const PROBES: u32 = 5;
/// Milliseconds for which bytes on a service connection may stay unacknowledged. (Not on a stream: a peer
/// that computes for minutes and leaves its stream unread is alive. The system counts time in which a peer
/// has no room, too: one that is stopped for so long in the middle of a reply that is longer than its window
/// is given up. Without the limit a cut in the middle of a reply would not be noticed.)
const UNACKNOWLEDGED: u32 = 10_000;

/// No position in a stream.
const NEVER: u64 = u64::MAX;

/// A peer.
pub(super) struct Peer {
    pub(super) rank: u32,
    /// Which ranks the connections join, and their addresses, for people.
    link: String,
    stream: OwnedFd,
    asks: OwnedFd,
    serves: OwnedFd,
    pub(super) outgoing: Mutex<Outgoing>,
    pub(super) incoming: Mutex<Incoming>,
    requester: Mutex<Requester>,
    /// Whether the batch is not empty. Written under the lock of `outgoing` only, so that whoever reads
    /// `false` knows that the flush that emptied the batch is over.
    pub(super) has_batch: AtomicBool,
    /// Whether the socket has not taken everything. Written under the lock of `outgoing` only.
    pub(super) has_backlog: AtomicBool,
    /// The position in this rank's stream behind the last put that was flushed.
    puts_flushed: AtomicU64,
    /// Threads that ask it, or are about to,
    asking: AtomicU32,
    /// and a count that grows whenever bytes of a reply come, or the socket takes some of the backlog.
    moved: Arc<AtomicU64>,
    /// Where its stream ended when it last roused this rank, and slept; [`NEVER`]: it never did.
    slept_at: AtomicU64,
    /// Why it is gone.
    fate: OnceLock<LossReason>,
    /// Whether something of it was taken outside of `poll`, which is to look for it.
    pub(super) has_mail: AtomicBool,
    /// Whether `poll` has delivered that it is gone. Written by the polling thread only.
    pub(super) told: AtomicBool,
}

impl Peer {
    /// A peer to which the connections have just been made, and what it is served by.
    pub(super) fn new(me: u32, rank: u32, links: Links) -> Result<(Self, Serving)> {
        let (stream, stream_out, stream_in) = links.stream.split();
        let (asks, asks_out, asks_in) = links.asks.split();
        let (serves, serves_out, serves_in) = links.serves.split();
        for (socket, is_service) in [(&stream, false), (&asks, true), (&serves, true)] {
            watch_over(socket, is_service).map_err(|source| Error::Io {
                what: format!("setting up the connection to rank {rank}"),
                source: source.into(),
            })?;
        }
        let [stream, asks, serves] = [stream, asks, serves].map(out_of_the_way);
        let requester = Requester::new(asks_out, asks_in);
        let peer = Self {
            rank,
            link: describe(&stream, me, rank),
            stream,
            asks,
            serves,
            outgoing: Mutex::new(Outgoing::new(stream_out)),
            incoming: Mutex::new(Incoming::new(stream_in)),
            asking: AtomicU32::new(0),
            moved: Arc::clone(requester.moved()),
            requester: Mutex::new(requester),
            has_batch: AtomicBool::new(false),
            has_backlog: AtomicBool::new(false),
            puts_flushed: AtomicU64::new(0),
            slept_at: AtomicU64::new(NEVER),
            fate: OnceLock::new(),
            has_mail: AtomicBool::new(false),
            told: AtomicBool::new(false),
        };
        Ok((peer, Serving::new(serves_out, serves_in)))
    }

    /// Puts and messages, both ways.
    pub(super) fn stream(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// This rank's requests, and their replies.
    pub(super) fn asks(&self) -> BorrowedFd<'_> {
        self.asks.as_fd()
    }

    /// The peer's requests, and their replies.
    pub(super) fn serves(&self) -> BorrowedFd<'_> {
        self.serves.as_fd()
    }

    /// An error if the peer is gone.
    pub(super) fn check(&self) -> Result<()> {
        match self.fate.get() {
            None => Ok(()),
            Some(fate) => Err(fate.error(self.rank)),
        }
    }

    /// Marks the peer as gone. Its connections are shut down, which wakes whoever waits on them; what has
    /// arrived can still be read.
    pub(super) fn lose(&self, fate: LossReason) {
        let fate = self.with_names(fate);
        let worth_telling = match &fate {
            LossReason::Broke(why) => Some(why.as_str()),
            LossReason::BadBuffer => Some(BAD_BUFFER),
            LossReason::Left | LossReason::Lost(_) | LossReason::Cut(_) => None,
        };
        if let (Some(why), None) = (worth_telling, self.fate.get()) {
            log(format_args!("dropped the connections to rank {}: {why}", self.rank));
        }
        // A peer that has left closes its connections itself; until then the last of its messages are on the
        // way.
        let left = fate == LossReason::Left;
        if self.fate.set(fate).is_ok() && !left {
            for socket in [&self.stream, &self.asks, &self.serves] {
                // It fails where the peer was faster, and that is as good.
                let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
            }
        }
    }

    /// Marks the peer as gone for a reason that one operation has met, and returns the error for its caller:
    /// the first reason that anybody met.
    pub(super) fn lost(&self, fate: LossReason) -> Error {
        let error = fate.error(self.rank);
        self.lose(fate);
        self.check().err().unwrap_or(error)
    }

    /// How the way to it was cut, if that is why it is gone.
    pub(super) fn cut(&self) -> Option<&str> {
        self.fate.get().and_then(|fate| if let LossReason::Cut(why) = fate { Some(&**why) } else { None })
    }

    /// A fate that says between whom the link was, if that was cut.
    fn with_names(&self, fate: LossReason) -> LossReason {
        match fate {
            LossReason::Cut(why) => LossReason::Cut(why.replace("the connection to it", &self.link)),
            fate => fate,
        }
    }

    /// Says that `poll` should look at what there is of this peer.
    pub(super) fn post(&self, shared: &Shared) {
        self.has_mail.store(true, Ordering::Release);
        shared.wakeups.post();
    }

    /// Hands over backlog and batch.
    pub(super) fn flush(&self) -> Flushed {
        let mut outgoing = lock(&self.outgoing);
        if self.fate.get().is_some() {
            outgoing.abandon();
        } else if let Err(error) = outgoing.flush(self.stream()) {
            outgoing.abandon();
            self.lose(error.into());
        }
        self.puts_flushed.store(outgoing.puts_end(), Ordering::Release);
        self.has_batch.store(false, Ordering::Release);
        Flushed {
            backlog: self.note_backlog(&outgoing),
            position: outgoing.position(),
            puts: outgoing.puts_end(),
        }
    }

    /// Reads ranges of the peer's memory, as they are after what this rank has put and flushed.
    ///
    /// # Safety
    /// The destinations are writable, and nobody relies on their contents during the call.
    pub(super) unsafe fn get(
        &self,
        shared: &Shared,
        pace: Pace,
        segment: u16,
        ranges: &[GetRange],
    ) -> std::result::Result<(), LossReason> {
        let mut requester = self.ask();
        let position = self.puts_flushed.load(Ordering::Acquire);
        for ranges in ranges.chunks(MAX_RANGES) {
            let attempt = |requester: &mut Requester| {
                self.hold(shared);
                // SAFETY: passed on to the caller.
                let got = unsafe { requester.get(self.asks(), pace, segment, ranges, position) };
                self.release(shared);
                got
            };
            if attempt(&mut requester)? {
                continue;
            }
            // The hold is off while this waits: the peer may be waiting for this rank to take its stream.
            requester.fence(self.asks(), pace, position)?;
            if !attempt(&mut requester)? {
                return Err(takes_back());
            }
        }
        Ok(())
    }

    /// Has the peer execute an operation, after it has taken what this rank has put and flushed. The stream
    /// is not held: the reply stores nothing where a put could land.
    pub(super) fn atomic(
        &self,
        pace: Pace,
        segment: u16,
        operation: Operation,
    ) -> std::result::Result<u64, LossReason> {
        let mut requester = self.ask();
        let position = self.puts_flushed.load(Ordering::Acquire);
        if let Some(before) = requester.atomic(self.asks(), pace, segment, operation, position)? {
            return Ok(before);
        }
        requester.fence(self.asks(), pace, position)?;
        requester.atomic(self.asks(), pace, segment, operation, position)?.ok_or_else(takes_back)
    }

    /// Returns when the peer has taken this rank's stream up to `position`.
    pub(super) fn fence(&self, pace: Pace, position: u64) -> std::result::Result<(), LossReason> {
        self.ask().fence(self.asks(), pace, position)
    }

    /// Has the peer look at this rank's stream, unless somebody asks it for something now: then that wakes
    /// it.
    pub(super) fn rouse(&self) {
        let position = lock(&self.outgoing).position();
        let requester = match self.requester.try_lock() {
            Ok(requester) => requester,
            Err(TryLockError::Poisoned(requester)) => requester.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if let Err(fate) = { requester }.rouse(self.asks(), position) {
            self.lose(fate);
        }
    }

    /// The peer has roused this rank.
    pub(super) fn has_roused(&self, position: u64) {
        self.slept_at.store(position, Ordering::Relaxed);
    }

    /// Whether it has roused this rank and sent nothing since.
    pub(super) fn is_asleep(&self) -> bool {
        let position = self.slept_at.load(Ordering::Relaxed);
        position != NEVER && lock(&self.incoming).received() <= position
    }

    /// The asking end, for one thread at a time.
    fn ask(&self) -> Asking<'_> {
        self.asking.fetch_add(1, Ordering::Relaxed);
        Asking { count: &self.asking, requester: lock(&self.requester) }
    }

    /// Whether somebody waits for an answer, or a backlog for room: if so, a number that changes when
    /// something moves.
    pub(super) fn awaits(&self) -> Option<u64> {
        let is_awaited = self.asking.load(Ordering::Relaxed) > 0 || self.has_backlog.load(Ordering::Relaxed);
        is_awaited.then(|| self.moved.load(Ordering::Relaxed))
    }

    /// Keeps everybody from taking the peer's stream.
    fn hold(&self, shared: &Shared) {
        let mut incoming = lock(&self.incoming);
        if incoming.was_denied() && incoming.may_pull() {
            let pulled = incoming.pull_all(self.stream(), &shared.segments);
            if incoming.has_messages() || incoming.has_ended() {
                self.post(shared);
            }
            if incoming.fence_reached() {
                shared.service.ring();
            }
            if let Err(fate) = pulled {
                self.lose(fate);
            }
        }
        incoming.hold();
    }

    /// Ends a hold.
    fn release(&self, shared: &Shared) {
        if lock(&self.incoming).release() {
            shared.service.ring();
        }
    }

    /// Appends the goodbye, and asks the peer's service thread to take the stream, should the peer's
    /// application leave it lying.
    pub(super) fn say_goodbye(&self) {
        lock(&self.outgoing).goodbye();
        let Flushed { backlog, position, .. } = self.flush();
        if backlog > 0 {
            // If the peer is gone, so is the need.
            let _ = lock(&self.requester).ask_fence(self.asks(), position);
        }
    }

    /// Waits until nothing is left to be written, or until `deadline`.
    pub(super) fn see_off(&self, deadline: Instant) {
        while self.drain(&mut lock(&self.outgoing)) > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                log(format_args!("rank {} did not take the last data for it", self.rank));
                return;
            }
            sys::wait(&mut [sys::awaited(self.stream(), libc::POLLOUT)], left);
        }
    }

    /// Ends the connections in good order. Nobody uses them any more.
    pub(super) fn close(&self, shared: &Shared) {
        if self.fate.get().is_some() {
            return;
        }
        lock(&self.requester).say_goodbye(self.asks());
        shared.service.say_goodbye(self);
        for socket in [self.asks(), self.serves(), self.stream()] {
            let _ = shutdown(socket.as_raw_fd(), Shutdown::Write);
            sys::discard(socket);
        }
    }

    /// As [`Endpoint::abandon`](crate::Endpoint::abandon): but for its sockets, nothing is left of it.
    pub(super) fn abandon(self) {
        let Self { stream, asks, serves, .. } = self;
        std::mem::forget([stream, asks, serves]);
    }

    /// Hands over the backlog. Returns the length of what is left.
    pub(super) fn drain(&self, outgoing: &mut Outgoing) -> usize {
        let before = outgoing.backlog();
        if let Err(error) = outgoing.drain(self.stream()) {
            outgoing.abandon();
            self.lose(error.into());
        }
        if outgoing.backlog() < before {
            self.moved.fetch_add(1, Ordering::Relaxed);
        }
        self.note_backlog(outgoing)
    }

    fn note_backlog(&self, outgoing: &Outgoing) -> usize {
        let backlog = outgoing.backlog();
        self.has_backlog.store(backlog > 0, Ordering::Relaxed);
        backlog
    }
}

/// How far a flush has come. What another thread appends meanwhile is not in it: nobody may wait for that,
/// who could be what its thread waits for before it flushes.
pub(super) struct Flushed {
    /// Bytes that the socket has not taken.
    pub(super) backlog: usize,
    /// Where this rank's stream ends,
    pub(super) position: u64,
    /// and the last put in it.
    pub(super) puts: u64,
}

/// The asking end of a peer, which a thread has, and is counted for.
struct Asking<'a> {
    count: &'a AtomicU32,
    requester: MutexGuard<'a, Requester>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Deref for Asking<'_> {
    type Target = Requester;

    fn deref(&self) -> &Requester {
        &self.requester
    }
}

impl DerefMut for Asking<'_> {
    fn deref_mut(&mut self) -> &mut Requester {
        &mut self.requester
    }
}

/// A peer is behind a position up to which it has confirmed a fence.
fn takes_back() -> LossReason {
    LossReason::Broke("it takes back what it has confirmed".into())
}

/// What people call a connection.
fn describe(stream: &OwnedFd, me: u32, rank: u32) -> String {
    let ip = |address: nix::Result<SockaddrStorage>| -> String {
        let address = address.ok();
        let v4 = address.as_ref().and_then(|address| Some(address.as_sockaddr_in()?.ip().to_string()));
        let v6 = || address.as_ref().and_then(|address| Some(address.as_sockaddr_in6()?.ip().to_string()));
        v4.or_else(v6).map_or_else(String::new, |ip| format!(" ({ip})"))
    };
    let (here, there) = (ip(getsockname(stream.as_raw_fd())), ip(getpeername(stream.as_raw_fd())));
    format!("the connection between rank {me}{here} and rank {rank}{there}")
}

/// Makes the kernel notice a host that is silent: by probes where nothing is under way, and by a limit for
/// the acknowledgement of what is on a service connection.
fn watch_over(socket: &OwnedFd, is_service: bool) -> nix::Result<()> {
    setsockopt(socket, sockopt::KeepAlive, &true)?;
    setsockopt(socket, sockopt::TcpKeepIdle, &PROBE_AFTER)?;
    setsockopt(socket, sockopt::TcpKeepInterval, &PROBE_EVERY)?;
    setsockopt(socket, sockopt::TcpKeepCount, &PROBES)?;
    if is_service {
        setsockopt(socket, sockopt::TcpUserTimeout, &UNACKNOWLEDGED)?;
    }
    Ok(())
}
