//! The interface of an endpoint: what the DSM asks of a transport.

use crate::{Atomic, Result};
use std::fmt;
use std::time::Duration;

/// Bytes of the longest head of a long message: [`Endpoint::send_long`].
pub const LONGEST_HEAD: usize = 64;

/// Time that a rank which leaves gives its last bytes to reach its peers.
pub(crate) const FAREWELL: Duration = Duration::from_secs(5);

bitflags::bitflags! {
    /// What an endpoint can do beyond the guarantees that all give.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Caps: u32 {
        /// Peers' registered memory is mapped here: [`Endpoint::read_peer`] works, put and get are plain
        /// copies that make no system call, and a put is in the peer's memory when the call returns.
        const DIRECT = 1;
        /// What [`Endpoint::send_long`] sends goes from the caller's memory to the kernel, and at the peer
        /// from there to where it belongs: so the longer a piece, the better.
        const UNCOPIED = 2;
        /// Naps can be ended: [`Endpoint::end_nap`] works.
        const ROUSED = 4;
    }
}

/// Names a registered segment. Ranks register the same segments in the same order, so the same id means the
/// same segment at each rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SegmentId(pub u32);

/// Memory of this rank that peers may read and write: a shared mapping of `len` bytes at `base` (the start of
/// a page, as of all mappings), whose bytes are those of the file `fd` from offset 0.
#[derive(Clone, Copy, Debug)]
pub struct LocalSegment {
    /// First byte of this rank's always-writable mapping of the segment.
    pub base: *mut u8,
    /// Length in bytes.
    pub len: usize,
    /// The memfd behind it, which providers may hand to ranks of the same host.
    pub fd: std::os::fd::RawFd,
}

/// One contiguous piece of a get: `len` bytes at `offset` of the peer's segment, to be stored at `dst`.
#[derive(Clone, Copy, Debug)]
pub struct GetRange {
    /// Byte offset in the peer's segment.
    pub offset: u64,
    /// Number of bytes.
    pub len: usize,
    /// Where they are stored in this process.
    pub dst: *mut u8,
}

/// One contiguous piece of a put: `len` bytes at `src`, to be stored at `offset` of the peer's segment.
#[derive(Clone, Copy, Debug)]
pub struct PutRange {
    /// Byte offset in the peer's segment.
    pub offset: u64,
    /// Number of bytes.
    pub len: usize,
    /// Where they are in this process.
    pub src: *const u8,
}

/// What [`Endpoint::poll`] delivers.
#[derive(Debug)]
pub enum Event<'a> {
    /// A message. The payload is valid during the call only.
    Message {
        /// The sender's rank.
        from: u32,
        /// The sender's word for what the payload is.
        kind: u16,
        /// The bytes.
        payload: &'a [u8],
    },
    /// Bytes of a long message ([`Endpoint::send_long`]), if its endpoint lets them be [taken](Bytes::take)
    /// to where they are to be. Parts of a message follow one another until nothing is left of it; nothing
    /// else comes from its sender meanwhile. What is not taken is offered again, but if the sink does not ask
    /// for any bytes, the message is thrown away.
    Part {
        /// The sender's rank.
        from: u32,
        /// The sender's word for what the message is.
        kind: u16,
        /// The message's head.
        head: &'a [u8],
        /// Bytes of its body that were taken before,
        at: usize,
        /// and that are to be taken yet, some of which may not have arrived.
        left: usize,
        /// The next of them. Valid during the call only.
        bytes: &'a mut dyn Bytes,
    },
    /// A peer is gone. Delivered once for each.
    Down {
        /// Its rank.
        rank: u32,
    },
}

/// The bytes of an [`Event::Part`].
///
/// # Safety
/// [`take`](Self::take) writes as many bytes at `to` as it returns, which are `most` at most, and no others:
/// receivers take them for initialised memory. So code without `unsafe` cannot implement it:
/// ```compile_fail,E0200
/// struct Liar;
/// impl scash_comm::Bytes for Liar {
///     unsafe fn take(&mut self, _: *mut u8, most: usize) -> usize {
///         most
///     }
/// }
/// ```
pub unsafe trait Bytes {
    /// Stores the next bytes at `to`: those that are here, and `most` at most. Never waits. Returns how many
    /// there were.
    ///
    /// # Safety
    /// `most` bytes at `to` are writable, and nobody relies on what they are during the call.
    unsafe fn take(&mut self, to: *mut u8, most: usize) -> usize;
}

impl fmt::Debug for dyn Bytes + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes to be taken")
    }
}

/// A rank's access to all others.
///
/// All methods take `&self` and may be called by several threads, also from a signal handler that serves a
/// *synchronous* fault of application code. So the common paths of `put`, `get`, `atomic`, `read_peer`,
/// `send` do not allocate, and **no call may be given memory whose access can raise such a fault**: it is
/// accessed under the endpoint's locks, which the serving of the fault would need again.
///
/// # Safety
/// Callers of these safe and unsafe methods rely on the following in code that is unsafe itself. An
/// implementation
/// - accesses memory that it is given only as far, and only as long, as the method's documentation says:
///   sources of puts and the bodies of long messages until the next [`flush`](Self::flush) has returned,
///   destinations of gets during the call, registered memory until the endpoint is dropped;
/// - has written all ranges of a [`get`](Self::get) that returns `Ok`, and has done nothing outside of the
///   segment with a range that is not inside;
/// - gives the functions of [`read_peer`](Self::read_peer) and [`read_peer_once`](Self::read_peer_once) an
///   address at which `len` bytes are readable while they run;
/// - always gives the same [`rank`](Self::rank) and [`size`](Self::size).
pub unsafe trait Endpoint: Send + Sync {
    /// This rank.
    fn rank(&self) -> u32;
    /// Number of ranks of the job.
    fn size(&self) -> u32;
    /// The provider's name, for people: never to be decided upon.
    fn provider(&self) -> &'static str;
    /// What this endpoint can do with all peers.
    fn caps(&self) -> Caps;

    /// What it can do with one peer: no less than with all ([`caps`](Self::caps)).
    fn caps_to(&self, rank: u32) -> Caps {
        let _ = rank;
        self.caps()
    }

    /// Whether this rank competes for cores with ranks that it can only send messages to: then few messages
    /// are worth more than few rounds of them.
    fn shares_cores(&self) -> bool {
        false
    }

    /// Makes memory of this rank reachable for put, get and atomic operations. Collective: every rank
    /// registers the same segments in the same order, and the call returns when all have. The memory must
    /// stay mapped until the endpoint is dropped.
    ///
    /// # Safety
    /// `mem` describes a live shared mapping of `mem.fd`, to which no Rust reference is kept while peers may
    /// write.
    unsafe fn register(&self, exchange: &mut dyn crate::Exchange, mem: LocalSegment) -> Result<SegmentId>;

    /// Writes pieces of memory into the peer's segment. Returns at once; the bytes are handed over by the
    /// next [`flush`](Self::flush) (or earlier). `to` may be this rank.
    ///
    /// # Safety
    /// The source ranges stay readable and unchanged until `flush` returns.
    unsafe fn put(&self, to: u32, segment: SegmentId, ranges: &[PutRange]) -> Result<()>;

    /// Writes, of `64 * masks.len()` bytes at `src`, those whose bit in `masks` is set, to the same distances
    /// from `offset` in the peer's segment, and no byte between them: a put of very many small pieces.
    /// Returns `false`, having done nothing, where pieces are better packed into a message.
    ///
    /// # Safety
    /// As for [`put`](Self::put).
    unsafe fn put_masked(
        &self,
        to: u32,
        segment: SegmentId,
        offset: u64,
        src: *const u8,
        masks: &[u64],
    ) -> Result<bool> {
        let _ = (to, segment, offset, src, masks);
        Ok(false)
    }

    /// Reads pieces of the peer's segment, as they are after what this rank has put there and flushed
    /// (guarantee 5); returns when they are here. Several threads may get at once.
    ///
    /// # Safety
    /// The destination ranges are writable, and nobody else relies on their contents during the call.
    unsafe fn get(&self, from: u32, segment: SegmentId, ranges: &[GetRange]) -> Result<()>;

    /// Executes an atomic operation on the word at `offset` of the peer's segment, and returns what the word
    /// was before, a shorter one with zeros in front. `to` may be this rank. The offset must be a multiple of
    /// the word's width. The word is in the byte order of its owner's processor, as its owner's loads and
    /// stores are. For what is ordered, see guarantees 6 and 7. Several threads may operate at once.
    ///
    /// After [`Down`](crate::Error::Down) from a peer that was lost during the call, the operation may or may
    /// not have been executed; it was not executed twice.
    fn atomic(&self, to: u32, segment: SegmentId, offset: u64, op: Atomic) -> Result<u64>;

    /// With [`Caps::DIRECT`] to that peer: calls `f` with the address of the peer's bytes, under guarantee 2
    /// (a put by `from` to this rank waits until `f` has returned). Returns `false`, without calling `f`,
    /// where the peer's memory is not mapped here.
    fn read_peer(
        &self,
        from: u32,
        segment: SegmentId,
        offset: u64,
        len: usize,
        f: &mut dyn FnMut(*const u8),
    ) -> Result<bool>;

    /// Like [`read_peer`](Self::read_peer), for bytes of one page at most that this rank has most likely not
    /// read before, and may not read again: they may be shown in a copy, where that is cheaper than mapping
    /// them here.
    fn read_peer_once(
        &self,
        from: u32,
        segment: SegmentId,
        offset: u64,
        len: usize,
        f: &mut dyn FnMut(*const u8),
    ) -> Result<bool> {
        self.read_peer(from, segment, offset, len, f)
    }

    /// Sends a message made of `parts` one after the other. The bytes are taken before the call returns; they
    /// leave with the next [`flush`](Self::flush) at the latest. `to` may be this rank. The parts must not
    /// lie where an access can fault: in a DSM, not in the application's protected view.
    fn send(&self, to: u32, kind: u16, parts: &[&[u8]]) -> Result<()>;

    /// Sends a message whose receiver may find a place for its bytes before they are there: `head`, at most
    /// [`LONGEST_HEAD`] bytes that say what it is, and `body`. It leaves with the next
    /// [`flush`](Self::flush). Where it pays, the body is copied neither here nor at the peer, and arrives as
    /// [`Event::Part`]s; elsewhere head and body arrive as the payload of one [`Event::Message`].
    ///
    /// # Safety
    /// The body stays readable and unchanged until `flush` returns.
    unsafe fn send_long(&self, to: u32, kind: u16, head: &[u8], body: &[u8]) -> Result<()> {
        self.send(to, kind, &[head, body])
    }

    /// Hands over all that was put and sent so far: one vectored write per peer, where there is a socket.
    fn flush(&self) -> Result<()>;

    /// Whether something that was sent or put to `to`, and flushed, has not left yet: more would only be
    /// copied to wait behind it.
    fn is_congested(&self, to: u32) -> bool;

    /// Returns when all earlier puts of this rank to `to` are in its memory (and drives progress meanwhile).
    fn fence(&self, to: u32) -> Result<()>;

    /// Takes what has arrived and gives it to `sink`; returns how many events there were. Never waits. If
    /// another thread is polling, returns 0 at once.
    fn poll(&self, sink: &mut dyn FnMut(Event<'_>)) -> Result<usize>;

    /// Called by a thread that has polled in vain and has nothing else to do; `turn` counts its vain polls in
    /// a row from 0. Spins (returns at once) while that is worth it, yields the core when ranks outnumber
    /// cores, and at last sleeps until something arrives or `limit` has passed.
    fn idle(&self, turn: u32, limit: Duration);

    /// Whether busy threads outnumber the cores of the host, as far as the endpoint knows: then who waits for
    /// another thread had better not spin.
    fn cores_are_scarce(&self) -> bool {
        true
    }

    /// Sleeps until `limit` has passed, or somebody [ends the nap](Self::end_nap) of this rank: whether that
    /// is so, or was since the last nap. What arrives does not end it. One thread naps.
    fn nap(&self, limit: Duration) -> bool {
        std::thread::park_timeout(limit);
        false
    }

    /// Ends a rank's [nap](Self::nap), or the sleep of those of its threads that are [idle](Self::idle); it
    /// may be this one. Without [`Caps::ROUSED`] to that rank it does nothing.
    fn end_nap(&self, rank: u32) {
        let _ = rank;
    }

    /// Whether a rank sleeps, as far as can be seen from here: one that shares memory with this one, or one
    /// that has ended a nap here and sent nothing since.
    fn is_asleep(&self, rank: u32) -> bool {
        let _ = rank;
        false
    }

    /// Where this rank meets those that share memory with it without messages; `None` where none does.
    fn board(&self) -> Option<&dyn crate::Board> {
        None
    }

    /// Whether a call waits for that rank's endpoint now, or something that was put or sent there for room:
    /// if so, a number that changes whenever something moves. A watcher over ranks learns by it that one is
    /// silent which somebody waits for, and [gives it up](Self::give_up).
    fn waits_for(&self, rank: u32) -> Option<u64> {
        let _ = rank;
        None
    }

    /// Asks at once which peers still live, where that takes no message: their [`Event::Down`] is then what
    /// the next polls deliver. Those who poll ask themselves, but seldom while others keep them busy.
    fn look_after_peers(&self) {}

    /// Takes leave of all peers, for who ends the process without dropping the endpoint: what was flushed
    /// reaches those that are there. Nothing is called meanwhile; afterwards polls find nothing, flushes do
    /// nothing, and other calls than [`traffic`](Self::traffic) need not return.
    fn part(&self) {}

    /// Stops the endpoint's threads, if it has any, outside of all work, so that an image of the process can
    /// be taken. `None`: it has threads that cannot be stopped so. Messages that arrive meanwhile wait;
    /// nobody else calls the endpoint.
    fn hold_still(&self) -> Option<crate::Stillness<'_>> {
        None
    }

    /// Whether it has found out that a peer is gone, told by an event or an error or not told yet: then what
    /// is known of that may be anywhere in this process.
    fn misses(&self) -> bool {
        false
    }

    /// Ends an endpoint that has come here in an image of another process: of what it had of the system
    /// nothing is there any more, whatever it remembers, and nothing is given back. Large buffers of its own
    /// may be.
    fn abandon(self: Box<Self>) {
        std::mem::forget(self);
    }

    /// How the way to that peer broke, if that is why it is gone, and not its end: a sentence that names both
    /// ends.
    fn cut(&self, rank: u32) -> Option<String> {
        let _ = rank;
        None
    }

    /// Takes a peer for gone from now on: calls that wait for it end with [`Down`](crate::Error::Down), and
    /// so do later ones. `why` is for people.
    fn give_up(&self, rank: u32, why: &str) {
        let _ = (rank, why);
    }

    /// Payload bytes and operations that this endpoint has moved so far.
    fn traffic(&self) -> Traffic;
}

/// What an endpoint has moved since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages sent.
    pub messages: u64,
    /// Puts issued (ranges).
    pub puts: u64,
    /// Gets issued (ranges).
    pub gets: u64,
    /// Atomic operations issued.
    pub atomics: u64,
    /// Payload bytes of messages, puts and gets, counted where they were issued.
    pub bytes: u64,
}

impl std::ops::Add for Traffic {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            messages: self.messages + other.messages,
            puts: self.puts + other.puts,
            gets: self.gets + other.gets,
            atomics: self.atomics + other.atomics,
            bytes: self.bytes + other.bytes,
        }
    }
}
