//! Service, mostly by a background thread: it serves peers' gets, atomic operations and fences, and writes
//! backlogs, whatever the application does.
//!
//! It sleeps in epoll on the service connections. Streams are watched only while there is a reason: for room,
//! while a backlog waits; for data, while a fence does. So the stream traffic of a rank that polls never
//! wakes it.
//!
//! The thread never waits for anything but epoll, in particular not for a get of this rank: two ranks whose
//! service threads waited for each other's gets would wait for ever. A fence that cannot be answered yet is
//! set aside, and whoever removes the obstacle (new data, the polling thread that took them, the end of a
//! get) wakes the thread.
//!
//! **Who waits, serves.** To wake a thread takes several times as long as to answer. So an application thread
//! that spins because it has nothing to do serves, too: [`Service::stand_in`]. Requests wake the service
//! thread all the same, mostly for nothing: who spins may just have lost its core, and then the service
//! thread is the faster. But where threads have cores, one that has served several requests in a row sends
//! the service thread to *nap*: it sleeps apart from the requests, looks once in a while whether they are
//! served, and is called when that thread leaves.

use super::incoming::{Incoming, Pulled};
use super::peer::Peer;
use super::serving::{RequestState, Serving};
use super::{Shared, lock, sys};
use crate::remote::LossReason;
use crate::{Stillness, give_way};
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, TryLockError};
use std::thread::{self, Thread};
use std::time::Duration;

/// Events taken per system call.
const BURST: usize = 16;
/// What the bell's events are marked with,
const BELL: u64 = u64::MAX;
/// and those that call the service thread itself.
const CALL: u64 = u64::MAX - 1;
/// Requests after which who stands in sends the service thread to nap,
const MANY: u32 = 4;
/// and the longest time between two of its looks then.
const NAP: Duration = Duration::from_millis(1);

/// What others need to reach the service thread, and what they need to do its work.
pub(super) struct Service {
    epoll: Epoll,
    bell: EventFd,
    stop: AtomicBool,
    /// By rank: what the peer's stream is watched for.
    streams: Box<[Mutex<EpollFlags>]>,
    /// Locked by whoever serves.
    server: Mutex<Server>,
    /// Whether the last who stood in for the thread found something to do.
    is_needed: AtomicBool,
    nap: ServiceSleep,
    /// The service thread works under this lock only. Who wants it to hold still takes the lock.
    gate: Mutex<()>,
    /// Whether the thread has come to its work; before that it is being set up.
    is_there: AtomicBool,
}

/// When the service thread naps. A thread that counts `busy` down reads `is_taken` then, and one that sets
/// that reads `busy` then: with both in one order (SeqCst), the thread does not begin a nap, or is called.
struct ServiceSleep {
    /// Threads that stand in, and have served many requests in a row.
    busy: AtomicU32,
    /// Gets the thread out of its sleep: only itself reads it.
    call: EventFd,
    is_taken: AtomicBool,
    thread: OnceLock<Thread>,
}

/// What one who stands in for the service thread is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// There is something to serve.
    Serve,
    /// Some rank may ask for something: a look at its connection takes its request, too, if there is one.
    Try,
    /// There is nothing to do.
    Look,
    /// What the thread itself waits for may have come.
    Leave,
}

/// The two kinds of sockets that are watched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Socket {
    Serves,
    Stream,
}

fn mark(rank: u32, socket: Socket) -> u64 {
    u64::from(rank) * 2 + u64::from(socket == Socket::Stream)
}

impl Service {
    /// A service for these, by rank, without its thread.
    pub(super) fn new(clients: Vec<Option<Serving>>) -> nix::Result<Self> {
        let epoll = sys::epoll()?;
        let bell = sys::bell()?;
        epoll.add(&bell, EpollEvent::new(EpollFlags::EPOLLIN, BELL))?;
        let streams =
            std::iter::repeat_with(|| Mutex::new(EpollFlags::empty())).take(clients.len()).collect();
        let (stop, server) = (AtomicBool::new(false), Mutex::new(Server { clients, fences: Vec::new() }));
        let nap = ServiceSleep {
            busy: AtomicU32::new(0),
            call: sys::bell()?,
            is_taken: AtomicBool::new(false),
            thread: OnceLock::new(),
        };
        epoll.add(&nap.call, EpollEvent::new(EpollFlags::EPOLLIN, CALL))?;
        Ok(Self {
            epoll,
            bell,
            stop,
            streams,
            server,
            is_needed: AtomicBool::new(false),
            nap,
            gate: Mutex::new(()),
            is_there: AtomicBool::new(false),
        })
    }

    /// The service thread: serves until it is told to stop.
    pub(super) fn run(&self, shared: &Shared) {
        let mut events = [EpollEvent::empty(); BURST];
        self.is_there.store(true, Ordering::Release);
        while !self.stop.load(Ordering::Acquire) {
            let limit = if self.nap.take() { EpollTimeout::ZERO } else { EpollTimeout::NONE };
            // An interrupted wait has no events.
            let count = self.epoll.wait(&mut events, limit).unwrap_or(0);
            let _working = lock(&self.gate);
            if events[..count].iter().any(|event| event.data() == CALL) {
                let _ = self.nap.call.read();
            }
            match self.server.try_lock() {
                // Somebody else may have done all this meanwhile: then there is nothing to be found.
                Ok(mut server) => server.take(shared, &events[..count]),
                Err(TryLockError::Poisoned(server)) => server.into_inner().take(shared, &events[..count]),
                // The thread that stands in does it now, unless it has lost its core: it shall have this one.
                // A sleep would cost it a system call to end.
                Err(TryLockError::WouldBlock) => sys::yield_core(),
            }
        }
    }

    /// Serves in the service thread's place, as long as `look` says so, which is told whether there was
    /// something to serve just now. That thread naps meanwhile if it may.
    pub(super) fn stand_in(
        &self,
        shared: &Shared,
        may_nap: bool,
        mut look: impl FnMut(BorrowedFd<'_>, bool) -> Duty,
    ) {
        let (mut events, mut served, mut does_all) = ([EpollEvent::empty(); BURST], 0u32, false);
        let mut has_served = false;
        loop {
            let duty = look(self.epoll.0.as_fd(), std::mem::take(&mut has_served));
            match duty {
                Duty::Leave => break,
                Duty::Look => continue,
                Duty::Serve | Duty::Try => {}
            }
            // Only now: who holds the server and loses its core keeps everybody from serving.
            let mut server = match self.server.try_lock() {
                Ok(server) => server,
                Err(TryLockError::Poisoned(server)) => server.into_inner(),
                Err(TryLockError::WouldBlock) => continue,
            };
            has_served = if duty == Duty::Try {
                server.try_each(shared)
            } else {
                let count = self.epoll.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
                server.take(shared, &events[..count]);
                count > 0
            };
            drop(server);
            served = served.saturating_add(has_served.into());
            if may_nap && served >= MANY && !std::mem::replace(&mut does_all, true) {
                self.nap.begin();
            }
        }
        if does_all {
            self.nap.end();
        }
        self.is_needed.store(served > 0, Ordering::Relaxed);
    }

    /// Whether there was something to do when somebody last stood in: then it pays to do so again rather than
    /// to sleep.
    pub(super) fn is_needed(&self) -> bool {
        self.is_needed.load(Ordering::Relaxed)
    }

    /// Waits until the thread is out of all work, and keeps it there.
    pub(super) fn hold_still(&self) -> Stillness<'_> {
        let mut turn = 0;
        while !self.is_there.load(Ordering::Acquire) {
            give_way(turn);
            turn += 1;
        }
        Stillness::of(lock(&self.gate))
    }

    /// As [`Endpoint::abandon`](crate::Endpoint::abandon): its thread has not come along.
    pub(super) fn abandon(self) {
        let Self { epoll, bell, nap, .. } = self;
        std::mem::forget((epoll, bell, nap));
    }

    /// Makes the thread look at its fences again.
    pub(super) fn ring(&self) {
        // It can only fail when the count is at its maximum, and then the bell is rung.
        let _ = self.bell.write(1);
    }

    /// Makes the thread end.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.ring();
    }

    /// Has the thread write the peer's backlog as soon as there is room. Called under the lock of `outgoing`
    /// or after it: then a second call is harmless.
    pub(super) fn watch_for_room(&self, peer: &Peer) {
        self.watch(peer, EpollFlags::EPOLLOUT, true);
    }

    /// Starts or ends watching a stream for `what`.
    fn watch(&self, peer: &Peer, what: EpollFlags, on: bool) {
        let mut watched = lock(&self.streams[peer.rank as usize]);
        let (before, mut after) = (*watched, *watched);
        after.set(what, on);
        if before == after {
            return;
        }
        let mut event = EpollEvent::new(after, mark(peer.rank, Socket::Stream));
        let done = match (before.is_empty(), after.is_empty()) {
            (true, _) => self.epoll.add(peer.stream(), event),
            (_, true) => self.epoll.delete(peer.stream()),
            _ => self.epoll.modify(peer.stream(), &mut event),
        };
        match done {
            Ok(()) => *watched = after,
            // Only want of kernel memory can do this; without the watch the peer's data would be stuck.
            Err(error) => peer.lose(std::io::Error::from(error).into()),
        }
    }

    /// Watches the peer's requests.
    pub(super) fn listen(&self, peer: &Peer) -> nix::Result<()> {
        self.epoll.add(peer.serves(), EpollEvent::new(EpollFlags::EPOLLIN, mark(peer.rank, Socket::Serves)))
    }

    /// Tells a peer that this rank serves it no more.
    pub(super) fn say_goodbye(&self, peer: &Peer) {
        if let Some(client) = &mut lock(&self.server).clients[peer.rank as usize] {
            client.say_goodbye(peer.serves());
        }
    }

    /// Watches for requests, or for room for a reply.
    fn turn_to(&self, peer: &Peer, what: EpollFlags) -> nix::Result<()> {
        self.epoll.modify(peer.serves(), &mut EpollEvent::new(what, mark(peer.rank, Socket::Serves)))
    }

    fn hang_up(&self, socket: BorrowedFd<'_>) {
        // It fails where the socket was not watched.
        let _ = self.epoll.delete(socket);
    }
}

impl ServiceSleep {
    /// Somebody begins to serve all requests.
    fn begin(&self) {
        self.busy.fetch_add(1, Ordering::SeqCst);
        // It can only fail when the count is at its maximum, and then the thread is called.
        let _ = self.call.write(1);
    }

    /// Somebody ends it.
    fn end(&self) {
        self.busy.fetch_sub(1, Ordering::SeqCst);
        if self.is_taken.load(Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// The service thread naps, if somebody serves all requests; whether that was so. Then it is to look for
    /// requests in any case.
    fn take(&self) -> bool {
        if self.busy.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.thread.get_or_init(thread::current);
        self.is_taken.store(true, Ordering::SeqCst);
        if self.busy.load(Ordering::SeqCst) > 0 {
            thread::park_timeout(NAP);
        }
        self.is_taken.store(false, Ordering::Relaxed);
        true
    }
}

/// The state of serving.
struct Server {
    /// By rank; none for those that are gone.
    clients: Vec<Option<Serving>>,
    /// Ranks whose fences are not answered yet.
    fences: Vec<u32>,
}

impl Server {
    /// Does what these events ask for.
    fn take(&mut self, shared: &Shared, events: &[EpollEvent]) {
        for event in events {
            self.handle(shared, event.data());
        }
        self.try_fences(shared);
    }

    fn handle(&mut self, shared: &Shared, data: u64) {
        if data == CALL {
            return;
        }
        if data == BELL {
            // The fences, for which it was rung, are looked at in any case. It fails if somebody else has
            // heard it.
            let _ = shared.service.bell.read();
            return;
        }
        let Some(peer) = shared.peers.get((data / 2) as usize).and_then(Option::as_ref) else { return };
        if data == mark(peer.rank, Socket::Stream) {
            write_backlog(shared, peer);
        } else {
            self.attend(shared, peer);
        }
    }

    /// Does what any rank asks for; whether one did.
    fn try_each(&mut self, shared: &Shared) -> bool {
        let mut any = false;
        for peer in shared.peers.iter().flatten() {
            any |= self.attend(shared, peer);
        }
        if any {
            self.try_fences(shared);
        }
        any
    }

    /// Serves a peer, or sees that it is gone; whether there was something to do.
    fn attend(&mut self, shared: &Shared, peer: &Peer) -> bool {
        self.serve(shared, peer).unwrap_or_else(|fate| {
            peer.lose(fate);
            shared.service.hang_up(peer.serves());
            self.clients[peer.rank as usize] = None;
            true
        })
    }

    /// Goes on with the peer's request, or with the reply to it; whether there was one.
    fn serve(&mut self, shared: &Shared, peer: &Peer) -> Result<bool, LossReason> {
        let Some(client) = &mut self.clients[peer.rank as usize] else { return Ok(false) };
        let was_full = client.is_replying();
        let has_taken = |position| takes(shared, peer, position);
        let step = client.advance(peer.serves(), &shared.segments, has_taken);
        if let Some(position) = client.take_rouse() {
            peer.has_roused(position);
            shared.nap.end();
        }
        match step? {
            RequestState::Nothing => return Ok(false),
            RequestState::Fence(position) => {
                lock(&peer.incoming).ask_fence(position);
                self.fences.push(peer.rank);
            }
            RequestState::Idle if was_full => {
                shared.service.turn_to(peer, EpollFlags::EPOLLIN).map_err(io)?
            }
            RequestState::Full if !was_full => {
                shared.service.turn_to(peer, EpollFlags::EPOLLOUT).map_err(io)?
            }
            RequestState::Idle | RequestState::Full => {}
        }
        Ok(true)
    }

    /// Answers the fences that can be.
    fn try_fences(&mut self, shared: &Shared) {
        let clients = &mut self.clients;
        self.fences.retain(|&rank| {
            let Some(peer) = &shared.peers[rank as usize] else { return false };
            let waits = match &mut clients[rank as usize] {
                Some(client) => try_fence(shared, peer, client),
                None => Ok(false),
            };
            let waits = waits.unwrap_or_else(|fate| {
                peer.lose(fate);
                false
            });
            if !waits {
                shared.service.watch(peer, EpollFlags::EPOLLIN, false);
            }
            waits
        });
    }
}

/// Hands over what the peer's stream has room for now.
fn write_backlog(shared: &Shared, peer: &Peer) {
    let mut outgoing = lock(&peer.outgoing);
    // Under the lock, so that a flush that leaves a backlog asks for the watch after it has ended here.
    if peer.drain(&mut outgoing) == 0 {
        shared.service.watch(peer, EpollFlags::EPOLLOUT, false);
    }
}

/// Whether the peer's stream is taken up to `position`, after taking what is there and may be taken.
fn takes(shared: &Shared, peer: &Peer, position: u64) -> Result<bool, LossReason> {
    let mut incoming = lock(&peer.incoming);
    take_up_to(&mut incoming, shared, peer, position)?;
    Ok(incoming.has_taken(position))
}

/// Takes the peer's stream towards `position`, as far as it has come and as is allowed now.
fn take_up_to(
    incoming: &mut Incoming,
    shared: &Shared,
    peer: &Peer,
    position: u64,
) -> Result<(), LossReason> {
    while !incoming.has_taken(position) && incoming.may_pull() {
        let pulled = incoming.pull_all(peer.stream(), &shared.segments);
        if incoming.has_messages() || incoming.has_ended() {
            peer.post(shared);
        }
        if pulled? == Pulled::All {
            break;
        }
    }
    Ok(())
}

/// Works for the peer's fence, and answers it if it is reached. If not, sees to it that the thread is woken
/// when there is progress, and returns `true`.
fn try_fence(shared: &Shared, peer: &Peer, client: &mut Serving) -> Result<bool, LossReason> {
    let mut incoming = lock(&peer.incoming);
    let Some(position) = incoming.fence() else { return Ok(false) };
    let taken = take_up_to(&mut incoming, shared, peer, position);
    if !incoming.has_taken(position) {
        // While it is held, new data are no reason to wake: the end of the last get is.
        let by_data = !incoming.is_held() && !incoming.has_ended();
        shared.service.watch(peer, EpollFlags::EPOLLIN, by_data);
        return taken.map(|()| true);
    }
    incoming.end_fence();
    drop(incoming);
    if client.answer_fence(peer.serves(), position)? == RequestState::Full {
        shared.service.turn_to(peer, EpollFlags::EPOLLOUT).map_err(io)?;
    }
    Ok(false)
}

fn io(error: nix::Error) -> LossReason {
    std::io::Error::from(error).into()
}
