//! A job in miniature: n threads, each a rank with an endpoint.

use super::{Factory, SharedMemory};
use crate::mem_exchange::MemExchange;
use crate::{Bytes, Endpoint, Event, Exchange, GetRange, PutRange, SegmentId};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// How long one wait inside a test may last.
pub(super) const WAIT: Duration = Duration::from_secs(100);
/// How long a whole test may last.
const JOB: Duration = Duration::from_secs(150);
/// What `idle` may sleep for in the suite's waits.
pub(super) const NAP: Duration = Duration::from_millis(50);

/// A message as the suite keeps it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) from: u32,
    pub(super) kind: u16,
    pub(super) payload: Vec<u8>,
}

/// One rank of a test. The endpoint is declared before the memory: it is dropped first, as `register`
/// demands.
pub(super) struct Rank {
    pub(super) endpoint: Arc<dyn Endpoint>,
    pub(super) inbox: VecDeque<Message>,
    /// Long messages of which some has come, by sender.
    parts: BTreeMap<u32, Vec<u8>>,
    pub(super) downs: Vec<u32>,
    memory: Vec<Arc<SharedMemory>>,
    exchange: MemExchange,
    /// Arrivals of all ranks at all meetings.
    arrivals: Arc<AtomicU64>,
    /// Meetings that this rank has been at.
    meetings: u64,
}

/// Plays `body` at `n` ranks. None leaves before all are through.
pub(super) fn cluster(n: u32, factory: impl Factory, body: impl Fn(&mut Rank) + Send + Sync + 'static) {
    cluster_of_leavers(n, factory, move |mut rank| {
        body(&mut rank);
        rank.meet();
    });
}

/// Plays `body` at `n` ranks, which leave when they like.
pub(super) fn cluster_of_leavers(n: u32, factory: impl Factory, body: impl Fn(Rank) + Send + Sync + 'static) {
    let (factory, body, arrivals) = (Arc::new(factory), Arc::new(body), Arc::new(AtomicU64::new(0)));
    let (done, verdicts) = mpsc::channel();
    let hosts: Vec<u32> = (0..n).map(|rank| factory.host(rank)).collect();
    for mut exchange in MemExchange::ranks_on(&hosts) {
        let (factory, body, arrivals) = (Arc::clone(&factory), Arc::clone(&body), Arc::clone(&arrivals));
        let done = done.clone();
        thread::spawn(move || {
            let verdict = panic::catch_unwind(AssertUnwindSafe(|| {
                let endpoint = factory.endpoint(&mut exchange).expect("cannot make an endpoint");
                assert_eq!((endpoint.rank(), endpoint.size()), (exchange.rank(), n));
                let (inbox, parts, downs, memory) = Default::default();
                body(Rank { endpoint, inbox, parts, downs, memory, exchange, arrivals, meetings: 0 });
            }));
            // The receiver is gone if another rank has failed already: nobody is left to tell.
            let _ = done.send(verdict);
        });
    }
    let deadline = Instant::now() + JOB;
    for _ in 0..n {
        let verdict = verdicts.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        match verdict.expect("the ranks of this test did not come to an end in time") {
            Ok(()) => {}
            Err(panic) => panic::resume_unwind(panic),
        }
    }
}

impl Rank {
    pub(super) fn rank(&self) -> u32 {
        self.endpoint.rank()
    }

    pub(super) fn size(&self) -> u32 {
        self.endpoint.size()
    }

    /// Makes `len` bytes and registers them.
    pub(super) fn register(&mut self, len: usize) -> (SegmentId, Arc<SharedMemory>) {
        let memory = Arc::new(SharedMemory::new(len).unwrap());
        self.memory.push(Arc::clone(&memory));
        // SAFETY: `self.memory` keeps the mapping until the endpoint is gone, and `SharedMemory` gives no
        // references to bytes.
        let id = unsafe { self.endpoint.register(&mut self.exchange, memory.segment()) }.unwrap();
        (id, memory)
    }

    pub(super) fn send(&self, to: u32, kind: u16, payload: &[u8]) {
        self.endpoint.send(to, kind, &[payload]).unwrap();
    }

    pub(super) fn flush(&self) {
        self.endpoint.flush().unwrap();
    }

    /// Takes what has arrived into `inbox` and `downs`, and returns how many events there were.
    pub(super) fn pump(&mut self) -> usize {
        let (inbox, parts, downs) = (&mut self.inbox, &mut self.parts, &mut self.downs);
        let take = &mut |event: Event<'_>| match event {
            Event::Message { from, kind, payload } => {
                inbox.push_back(Message { from, kind, payload: payload.to_vec() });
            }
            Event::Part { from, kind, head, at, left, bytes } => {
                let payload = parts.entry(from).or_insert_with(|| head.to_vec());
                assert_eq!(payload.len(), head.len() + at, "the parts of a message follow each other");
                if take_some(bytes, left, payload) == left {
                    let payload = parts.remove(&from).unwrap();
                    inbox.push_back(Message { from, kind, payload });
                }
            }
            Event::Down { rank } => downs.push(rank),
        };
        self.endpoint.poll(take).unwrap()
    }

    /// Pumps until `ready` gives something.
    pub(super) fn wait<T>(&mut self, what: &str, mut ready: impl FnMut(&mut Self) -> Option<T>) -> T {
        let start = Instant::now();
        let mut turn = 0;
        loop {
            if let Some(value) = ready(self) {
                return value;
            }
            if self.pump() > 0 {
                turn = 0;
                continue;
            }
            assert!(start.elapsed() < WAIT, "rank {} waited too long for {what}", self.rank());
            self.endpoint.idle(turn, NAP);
            turn += 1;
        }
    }

    /// The next message.
    pub(super) fn receive(&mut self) -> Message {
        self.wait("a message", |rank| rank.inbox.pop_front())
    }

    /// The next message from `from`; those of others stay.
    pub(super) fn receive_from(&mut self, from: u32) -> Message {
        self.wait("a message", |rank| {
            let at = rank.inbox.iter().position(|message| message.from == from)?;
            rank.inbox.remove(at)
        })
    }

    /// Waits, pumping, until all ranks have come here.
    pub(super) fn meet(&mut self) {
        self.meetings += 1;
        let all = self.meetings * u64::from(self.size());
        self.flush();
        self.arrivals.fetch_add(1, Ordering::AcqRel);
        self.wait("the others", |rank| (rank.arrivals.load(Ordering::Acquire) >= all).then_some(()));
    }

    /// Waits **without calling the endpoint** until all ranks have come here.
    pub(super) fn meet_in_silence(&mut self) {
        self.meetings += 1;
        let all = self.meetings * u64::from(self.size());
        self.arrivals.fetch_add(1, Ordering::AcqRel);
        let start = Instant::now();
        while self.arrivals.load(Ordering::Acquire) < all {
            assert!(start.elapsed() < WAIT, "rank {} waited too long for the others", self.rank());
            thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Puts `bytes` and hands them over.
pub(super) fn put(endpoint: &dyn Endpoint, to: u32, segment: SegmentId, offset: u64, bytes: &[u8]) {
    let range = PutRange { offset, len: bytes.len(), src: bytes.as_ptr() };
    // SAFETY: `bytes` is borrowed until after `flush`.
    unsafe { endpoint.put(to, segment, &[range]) }.unwrap();
    endpoint.flush().unwrap();
}

/// Gets `len` bytes.
pub(super) fn get(
    endpoint: &dyn Endpoint,
    from: u32,
    segment: SegmentId,
    offset: u64,
    len: usize,
) -> Vec<u8> {
    let mut bytes = vec![0xEE; len];
    let range = GetRange { offset, len, dst: bytes.as_mut_ptr() };
    // SAFETY: `bytes` is exclusively ours for the call.
    unsafe { endpoint.get(from, segment, &[range]) }.unwrap();
    bytes
}

/// `len` bytes that differ from those of every other `seed`, and from their neighbours.
pub(super) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes: Vec<u8> = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// SplitMix64: small, seedable, the same everywhere.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }
}

/// Takes of `left` bytes those that have come, up to a bound that falls in the middle of many. Returns how
/// many.
fn take_some(bytes: &mut dyn Bytes, left: usize, into: &mut Vec<u8>) -> usize {
    let most = left.min(100_000);
    into.reserve(most);
    // SAFETY: the room is there, and nobody has seen it.
    let count = unsafe { bytes.take(into.spare_capacity_mut().as_mut_ptr().cast(), most) };
    // SAFETY: they were written.
    unsafe { into.set_len(into.len() + count) };
    count
}
