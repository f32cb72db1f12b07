//! The endpoint: its parts, how they come together and how they are left behind.

use super::ShmOptions;
use super::expected::ExpectedMarks;
use super::hello::{self, Hello, HelloDescriptors};
use super::inbox::{Inbox, Layout};
use super::intake::Intake;
use super::outbox::Outbox;
use super::peers::{self, Peers};
use super::ring::Producer;
use super::segments::Segments;
use super::wait_rule::WaitRule;
use crate::biased::Biased;
use crate::endpoint::FAREWELL;
use crate::{
    Atomic, Board, Caps, Endpoint, Error, Event, Exchange, GetRange, LocalSegment, PutRange, Result,
    SegmentId, Traffic,
};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

/// How long a rank that leaves tries to hand over what its peers had no room for.
const LINGER: Duration = Duration::from_secs(1);

/// A rank's endpoint to the other ranks of its host. Dropping it means leaving the job.
pub struct ShmEndpoint {
    pub(super) rank: u32,
    pub(super) inbox: Arc<Inbox>,
    pub(super) peers: Peers,
    pub(super) outboxes: Box<[Biased<Outbox>]>,
    pub(super) intake: Biased<Intake>,
    pub(super) segments: Segments,
    pub(super) wait_rule: WaitRule,
    /// Outboxes with a backlog.
    pub(super) backlogs: AtomicU32,
    /// Polls that found nothing.
    pub(super) vain: AtomicU32,
    /// Threads of this process in a futex wait, or on their way into it.
    pub(super) sleepers: AtomicU32,
    pub(super) moved: Moved,
    pub(super) expected: ExpectedMarks,
}

/// What has been moved besides messages, which outboxes count; see [`Traffic`]. On cache lines of its own:
/// every operation writes it.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Moved {
    puts: AtomicU64,
    gets: AtomicU64,
    atomics: AtomicU64,
    bytes: AtomicU64,
}

/// What [`Moved`] counts apart.
#[derive(Clone, Copy)]
pub(super) enum MovedBytes {
    Puts(usize),
    Gets(usize),
    Atomic,
}

impl ShmEndpoint {
    /// Makes the endpoint of `exchange`'s rank. Collective: returns when all ranks have made theirs.
    pub fn new(exchange: &mut dyn Exchange, options: &ShmOptions) -> Result<Self> {
        Self::join(exchange, options, None)
    }

    /// As [`new`](Self::new), for threads that wait for this endpoint in another one's sleep, which `alarm`
    /// ends (an eventfd that does not block): they do not call [`idle`](Endpoint::idle).
    pub(crate) fn with_alarm(
        exchange: &mut dyn Exchange,
        options: &ShmOptions,
        alarm: OwnedFd,
    ) -> Result<Self> {
        Self::join(exchange, options, Some(alarm))
    }

    fn join(exchange: &mut dyn Exchange, options: &ShmOptions, alarm: Option<OwnedFd>) -> Result<Self> {
        let (rank, size) = (exchange.rank(), exchange.size());
        let layout = Layout::new(size, options.ring);
        let memory = Inbox::create(layout)?;
        let pidfd = peers::own_pidfd();
        let mut given = HelloDescriptors::empty();
        given.set(HelloDescriptors::PIDFD, pidfd.is_some());
        given.set(HelloDescriptors::ALARM, alarm.is_some());
        let fds = [Some(&memory), pidfd.as_ref(), alarm.as_ref()];
        let fds: Vec<_> = fds.into_iter().flatten().map(AsFd::as_fd).collect();
        let all = exchange.all_gather(&Hello::new(layout, given).encode(), &fds)?;
        let (hellos, inboxes) = welcome(all, layout)?;
        let Some(inbox) = inboxes.get(rank as usize).map(|(inbox, _)| Arc::clone(inbox)) else {
            return Err(Error::Invalid(format!("an exchange among {size} ranks has no rank {rank}")));
        };
        let outbox =
            |(peer, _): &(Arc<Inbox>, _)| Biased::new(Outbox::new(Producer::new(Arc::clone(peer), rank)));
        let cores = options.cores.unwrap_or_else(|| hello::cores(&hellos));
        Ok(Self {
            rank,
            outboxes: inboxes.iter().map(outbox).collect(),
            intake: Biased::new(Intake::new(&inbox, size)),
            inbox,
            peers: Peers::new(rank, inboxes, options.alive.clone()),
            segments: Segments::new(),
            wait_rule: WaitRule::new(size.saturating_mul(options.threads.max(1)), cores),
            backlogs: AtomicU32::new(0),
            vain: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            moved: Moved::default(),
            expected: ExpectedMarks::default(),
        })
    }
}

/// Every rank's announcement, and its inbox with its pidfd.
fn welcome(all: Vec<(Vec<u8>, Vec<OwnedFd>)>, layout: Layout) -> Result<(Vec<Hello>, Vec<Welcomed>)> {
    let (mut hellos, mut inboxes) = (Vec::new(), Vec::new());
    for (rank, (blob, fds)) in (0..).zip(all) {
        let hello = Hello::decode(&blob, rank, layout)?;
        let mut fds = fds.into_iter();
        let missing = |what: &str| Error::Protocol {
            rank,
            why: format!("its {what} did not come with its announcement"),
        };
        let memory = fds.next().ok_or_else(|| missing("inbox"))?;
        let mut given = |flag, what| match hello.given.contains(flag) {
            true => fds.next().map(Some).ok_or_else(|| missing(what)),
            false => Ok(None),
        };
        let pidfd = given(HelloDescriptors::PIDFD, "pidfd")?;
        let alarm = given(HelloDescriptors::ALARM, "alarm")?;
        inboxes.push((Arc::new(Inbox::open(memory, alarm, layout, rank)?), pidfd));
        hellos.push(hello);
    }
    Ok((hellos, inboxes))
}

type Welcomed = (Arc<Inbox>, Option<OwnedFd>);

impl Moved {
    pub(super) fn add(&self, what: MovedBytes, bytes: usize) {
        let (counter, count) = match what {
            MovedBytes::Puts(ranges) => (&self.puts, ranges),
            MovedBytes::Gets(ranges) => (&self.gets, ranges),
            MovedBytes::Atomic => (&self.atomics, 1),
        };
        counter.fetch_add(count as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

// SAFETY: puts and gets are copies during the call, of ranges that are checked to be inside a mapping which
// lives as long as the endpoint; messages are copied into rings before the call returns; the rings are those
// of the exchange's ranks.
unsafe impl Endpoint for ShmEndpoint {
    fn hold_still(&self) -> Option<crate::Stillness<'_>> {
        Some(crate::Stillness::default())
    }

    fn misses(&self) -> bool {
        self.peers.misses()
    }

    fn abandon(mut self: Box<Self>) {
        self.intake.get_mut().give_buffers_back();
        std::mem::forget(self);
    }

    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.peers.size()
    }

    fn provider(&self) -> &'static str {
        "shm"
    }

    fn caps(&self) -> Caps {
        Caps::DIRECT | Caps::ROUSED
    }

    unsafe fn register(&self, exchange: &mut dyn Exchange, mem: LocalSegment) -> Result<SegmentId> {
        self.segments.register(exchange, mem)
    }

    unsafe fn put(&self, to: u32, segment: SegmentId, ranges: &[PutRange]) -> Result<()> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.copy_out(to, segment, ranges) }
    }

    unsafe fn put_masked(
        &self,
        to: u32,
        segment: SegmentId,
        offset: u64,
        src: *const u8,
        masks: &[u64],
    ) -> Result<bool> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.copy_out_masked(to, segment, offset, src, masks) }.map(|()| true)
    }

    unsafe fn get(&self, from: u32, segment: SegmentId, ranges: &[GetRange]) -> Result<()> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.copy_in(from, segment, ranges) }
    }

    fn atomic(&self, to: u32, segment: SegmentId, offset: u64, op: Atomic) -> Result<u64> {
        self.operate(to, segment, offset, op)
    }

    fn read_peer(
        &self,
        from: u32,
        segment: SegmentId,
        offset: u64,
        len: usize,
        f: &mut dyn FnMut(*const u8),
    ) -> Result<bool> {
        self.show(from, segment, offset, len, f).map(|()| true)
    }

    fn read_peer_once(
        &self,
        from: u32,
        segment: SegmentId,
        offset: u64,
        len: usize,
        f: &mut dyn FnMut(*const u8),
    ) -> Result<bool> {
        self.show_copy(from, segment, offset, len, f).map(|()| true)
    }

    fn send(&self, to: u32, kind: u16, parts: &[&[u8]]) -> Result<()> {
        self.write(to, kind, parts)
    }

    unsafe fn send_long(&self, to: u32, kind: u16, head: &[u8], body: &[u8]) -> Result<()> {
        self.write_long(to, kind, head, body)
    }

    fn flush(&self) -> Result<()> {
        self.drain()
    }

    /// What is in a ring is there for its reader, whoever ends.
    fn part(&self) {
        let deadline = Instant::now() + FAREWELL;
        while self.drain().is_ok() && self.backlogs.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_congested(&self, to: u32) -> bool {
        self.backlogs.load(Ordering::Relaxed) > 0 && self.has_backlog(to)
    }

    fn fence(&self, to: u32) -> Result<()> {
        // Puts are copies: they are where they belong when `put` returns, for every thread that this one
        // tells about it.
        self.peers.alive(to)?;
        fence(Ordering::SeqCst);
        Ok(())
    }

    fn poll(&self, sink: &mut dyn FnMut(Event<'_>)) -> Result<usize> {
        self.deliver(sink)
    }

    fn idle(&self, turn: u32, limit: Duration) {
        self.wait(turn, limit);
    }

    fn cores_are_scarce(&self) -> bool {
        self.wait_rule.is_scarce()
    }

    fn nap(&self, limit: Duration) -> bool {
        self.doze(limit)
    }

    fn end_nap(&self, rank: u32) {
        if let Ok(peer) = self.peers.alive(rank) {
            Self::shake(peer);
        }
    }

    fn is_asleep(&self, rank: u32) -> bool {
        self.peers.alive(rank).is_ok_and(|peer| peer.bell().is_asleep())
    }

    fn board(&self) -> Option<&dyn Board> {
        Some(self)
    }

    fn waits_for(&self, rank: u32) -> Option<u64> {
        self.peers.waiting(rank).filter(|count| count.load(Ordering::Relaxed) > 0).map(|_| 0)
    }

    fn look_after_peers(&self) {
        self.peers.look_closely();
        // Those who sleep would hear of it at the end of their sleep.
        if self.peers.any_unreported() {
            Self::wake(&self.inbox);
        }
    }

    fn give_up(&self, rank: u32, _: &str) {
        self.peers.mark_silent(rank);
        Self::wake(&self.inbox);
    }

    fn traffic(&self) -> Traffic {
        let Moved { puts, gets, atomics, bytes } = &self.moved;
        let [puts, gets, atomics, bytes] =
            [puts, gets, atomics, bytes].map(|counter| counter.load(Ordering::Relaxed));
        let traffic = Traffic { messages: 0, puts, gets, atomics, bytes };
        (0..self.peers.size()).map(|to| self.outbox(to).taken()).fold(traffic, |sum, taken| Traffic {
            messages: sum.messages + taken.messages,
            bytes: sum.bytes + taken.bytes,
            ..sum
        })
    }
}

impl Drop for ShmEndpoint {
    /// Leaves: hands over what is still in the backlogs as far as the peers make room, says so, and wakes
    /// those who may wait for this rank.
    fn drop(&mut self) {
        // It is not for a child to leave in the rank's name.
        if crate::forked::is_child() {
            return;
        }
        let deadline = Instant::now() + LINGER;
        while self.backlogs.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
            self.peers.look_closely();
            // An error concerns one peer, which is given up by it; the others are still to be served.
            let _ = self.drain();
            std::thread::sleep(super::wait_rule::BACKLOG_SLEEP);
        }
        self.inbox.bell().leave();
        self.peers.others().for_each(|(_, peer)| Self::wake(peer));
    }
}

impl std::fmt::Debug for ShmEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShmEndpoint")
            .field("rank", &self.rank)
            .field("size", &self.peers.size())
            .finish_non_exhaustive()
    }
}
