//! The engine: everything about messages but the way they travel. A value without IO, threads or clock.
//!
//! What the application wants and what arrives goes in; [`Order`]s come out, which its owner carries out in
//! their order. So the same engine runs on real endpoints, and in tests on a network in memory that delays
//! what it likes.

mod account;
mod active;
mod alike;
mod arrive;
mod describe;
mod drain;
mod forget;
mod landings;
mod offers;
mod one_sided;
mod parts;
mod protocols;
mod reads;
mod receive;
mod running;
mod send;
mod silence;
mod spares;
#[cfg(test)]
mod tests;

use super::barrier::Groups;
use super::matching::{PostedQueue, Unexpected};
use super::requests::{Awaited, Completion, Outcome, Request, RequestNumber, Requests};
pub(super) use super::span::REGISTERED;
use super::span::{ReceiveBuffer, Source};
use super::wire::{Encoded, MessageHead};
use super::{Options, Status};
use account::Account;
pub(crate) use account::COST;
pub(super) use active::HandlerCall;
use active::{CreditQueue, Dues};
use alike::Alike;
pub(super) use describe::message;
pub use drain::Hindrance;
pub(super) use drain::{Found, MISSES};
use landings::Landings;
use offers::Offer;
pub(super) use protocols::Protocols;
pub(super) use reads::LONG;
use reads::Reads;
use running::Running;
use scash_comm::{Error, Mark};
pub(super) use send::COPIED_PIECE;
use send::Leaving;
pub(super) use silence::SILENT_TICKS;
use silence::Signs;
use spares::Spares;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;

/// What the engine's owner is to do.
#[derive(Debug)]
pub(super) enum Order {
    /// Send `head` to `to`, and behind it the body.
    Send { to: u32, head: Encoded, body: MessageBody },
    /// Read what [`Engine::reading`] says, all of it, and say how it went: [`Engine::was_read`].
    Read(RequestNumber),
    /// Write a word of this rank on the board.
    Post(Mark, u64),
    /// Forget bytes that orders before this one have used, when they are handed over.
    Drop(Vec<u8>),
}

/// What follows a head.
#[derive(Debug)]
pub(super) enum MessageBody {
    Nothing,
    /// A part of somebody's memory: from where, and how many bytes. They stay unchanged until the order is
    /// carried out.
    Lent(Source, usize, usize),
    /// The same of a message whose receiver finds a place for its bytes before they are there, so that they
    /// may come in parts. They stay unchanged until they are handed over.
    Piece(Source, usize, usize),
    Own(Vec<u8>),
}

impl MessageBody {
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            MessageBody::Nothing => &[],
            MessageBody::Lent(source, from, len) | MessageBody::Piece(source, from, len) => {
                source.piece(*from, *len)
            }
            MessageBody::Own(bytes) => bytes,
        }
    }
}

/// A read of another process's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// The rank whose process it is.
    pub(super) from: u32,
    /// Where the bytes begin there.
    pub(super) address: u64,
    /// Where they go: as many as there is room.
    pub(super) place: ReceiveBuffer,
}

/// What is known of a rank.
#[derive(Debug)]
struct Peer {
    /// Messages that are sent before a receive asks for them, there and from there,
    messages: Account,
    /// and active messages, of which some may be held back.
    calls: Account,
    held: CreditQueue,
    /// Which protocol serves messages to it.
    protocols: Protocols,
    /// What it can read of this process's memory,
    reads: ReadAccess,
    /// and this process of its memory.
    readable: ReadAccess,
    /// What leaves piece by piece, the first one first.
    leaving: VecDeque<Leaving>,
    /// What was put and called there without waiting for it to be done: how often, and how much of that is
    /// known to be done.
    loose: u64,
    fenced: u64,
    is_gone: bool,
    /// Another rank gives up collective operations because of this one, from this one on: none of them can
    /// succeed any more.
    missed_from: Option<u64>,
    /// What shows that it lives.
    signs: Signs,
    /// It said what no engine says, and is not listened to any more.
    is_refused: bool,
    /// It has sent all that it sends before the checkpoint that comes.
    is_drained: bool,
}

/// A message for which there was no receive when it came.
#[derive(Debug)]
struct Arrival {
    context: u16,
    status: Status,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Here(Vec<u8>),
    /// At the sender still: the send's number and address.
    Offered(Offer),
    /// On its way here, unasked: the push's number, or [`landings::EAGER`].
    Landing {
        push: u64,
    },
}

/// One rank's engine.
#[derive(Debug)]
pub(super) struct Engine {
    options: Options,
    requests: Requests,
    expected: PostedQueue,
    unexpected: Unexpected<Arrival>,
    /// Where offers are in the unexpected queue, by their senders and the sends' numbers.
    offers: HashMap<(u32, u64), u32>,
    landings: Landings,
    spares: Spares,
    peers: Vec<Peer>,
    orders: VecDeque<Order>,
    /// Addresses of registered memory.
    registered: Range<usize>,
    /// Windows in it: where each begins there.
    windows: BTreeMap<usize, ReceiveBuffer>,
    /// Numbers of handlers of active messages.
    handlers: BTreeSet<u16>,
    dues: Dues,
    /// Bytes of sends that nobody waits for, while they are under way.
    forgotten: HashMap<RequestNumber, Vec<u8>>,
    /// Ranks to which something leaves piece by piece.
    busy: usize,
    reads: Reads,
    /// This rank.
    rank: u32,
    /// Collective operations under way, and how many there have been.
    running: Vec<Running>,
    collectives: u64,
    /// What is known of those that others play.
    alike: Alike,
    /// Who meets whom at barriers, and what was seen on the board and is posted there.
    groups: Groups,
    seen: [u64; 2],
    posted: [u64; 2],
    /// Those that others have given up before this rank has begun them, who said so, and because of which
    /// rank.
    aborted: Vec<(u64, u32, u32)>,
    /// A collective operation has failed: there may be messages that nobody will receive.
    has_stale: bool,
    /// Threads that wait until a message comes from whichever rank, and receive none.
    probing: u32,
}

/// What one process can read of another one's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadAccess {
    /// All of it, by the kernel.
    pub(super) all: bool,
    /// What is registered, directly.
    pub(super) registered: bool,
}

impl ReadAccess {
    /// Whether what is at this address can be read.
    fn includes(self, address: u64) -> bool {
        address != 0 && if address & REGISTERED != 0 { self.registered } else { self.all }
    }
}

impl Engine {
    /// The engine of a rank among as many as there are entries: what each can read of this process's memory,
    /// and this process of its. Registered memory is at these addresses; these share a board.
    pub(super) fn new(
        rank: u32,
        options: Options,
        reads: &[ReadAccess],
        readable: &[ReadAccess],
        registered: Range<usize>,
        groups: Groups,
    ) -> Self {
        let peer = |rank: usize| Peer {
            messages: Account::new(options.window),
            calls: Account::new(options.window),
            held: CreditQueue::default(),
            protocols: Protocols::of(&options),
            reads: reads[rank],
            readable: readable[rank],
            leaving: VecDeque::new(),
            loose: 0,
            fenced: 0,
            is_gone: false,
            missed_from: None,
            signs: Signs::default(),
            is_refused: false,
            is_drained: false,
        };
        Self {
            requests: Requests::default(),
            expected: PostedQueue::new(),
            unexpected: Unexpected::new(),
            offers: HashMap::new(),
            landings: Landings::new(reads.len()),
            spares: Spares::default(),
            peers: (0..reads.len()).map(peer).collect(),
            registered,
            windows: BTreeMap::new(),
            handlers: BTreeSet::new(),
            dues: Dues::default(),
            forgotten: HashMap::new(),
            orders: VecDeque::new(),
            busy: 0,
            reads: Reads::default(),
            rank,
            running: Vec::new(),
            collectives: 0,
            alike: Alike::default(),
            groups,
            seen: [0; 2],
            posted: [0; 2],
            aborted: Vec::new(),
            has_stale: false,
            probing: 0,
            options,
        }
    }

    /// The next thing to be done.
    #[inline]
    pub(super) fn order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// Whether there is nothing to be done, and nothing to go on with when something has come or left.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.orders.is_empty() && self.running.is_empty() && self.busy == 0
    }

    /// Whether there is anything to be done.
    pub(super) fn has_orders(&self) -> bool {
        !self.orders.is_empty()
    }

    /// What came of an operation that is over, whose number names nothing then; `None`: it is not over.
    pub(super) fn outcome(&mut self, number: RequestNumber) -> Option<Outcome> {
        match self.requests.remove_if(number, is_over) {
            Some(Request::Over(outcome)) => Some(outcome),
            Some(Request::Received(status)) => Some(Ok(Completion { status, bytes: Vec::new() })),
            Some(_) => Some(Ok(Completion::default())),
            None if self.has(number) => None,
            None => Some(Err(unknown())),
        }
    }

    /// The same of a receive that is over and went well, if its message is in the application's room. `None`
    /// says nothing: ask for the [outcome](Self::outcome). Here no value goes from place to place that is
    /// larger than a status, each time by loads of what smaller stores have left, for which processors wait.
    #[inline]
    pub(super) fn received(&mut self, number: RequestNumber) -> Option<Status> {
        self.requests.received(number)
    }

    /// Whether there is something to be said of an operation: it is over, or does not exist.
    pub(super) fn is_over(&mut self, number: RequestNumber) -> bool {
        self.requests.get_mut(number).is_none_or(|request| is_over(request))
    }

    /// The ranks that are gone.
    pub(super) fn gone(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.peers).filter(|(_, peer)| peer.is_gone).map(|(rank, _)| rank)
    }

    /// Why no message comes from `source` any more; or, if it may be any rank, why not from one that is gone
    /// and not among those `known`.
    pub(super) fn absent(&self, source: Option<u32>, known: &[u32]) -> Option<Error> {
        let is_missed = |rank: u32| source.map_or_else(|| !known.contains(&rank), |source| source == rank);
        self.gone().find(|&rank| is_missed(rank)).map(gone)
    }

    /// Whether the number names an operation.
    pub(super) fn has(&mut self, number: RequestNumber) -> bool {
        self.requests.get_mut(number).is_some()
    }

    /// Operations that the application has begun, and whose end it was not told: all but those that nobody
    /// waits for, and the transfers of collective operations.
    pub(super) fn unfinished(&self) -> usize {
        self.requests.len() - self.forgotten.len() - self.transfers()
    }

    /// Takes back a receive that no message has been matched with; whether that was so.
    pub(super) fn cancel(&mut self, receive: RequestNumber) -> bool {
        let Some(Request::Expected { slot, .. }) = self.requests.get_mut(receive) else { return false };
        self.expected.withdraw(*slot);
        self.requests.remove(receive);
        true
    }

    /// A rank is gone: so are all operations with it. Receives from whichever rank fail too, once, since it
    /// may have been this one that they waited for.
    pub(super) fn down(&mut self, rank: u32) {
        let peer = &mut self.peers[rank as usize];
        let is_new = !peer.is_gone;
        peer.is_gone = true;
        self.busy -= usize::from(!peer.leaving.is_empty());
        peer.leaving.clear();
        peer.held.clear();
        for request in self.requests.iter_mut() {
            let is_concerned = match request.awaits() {
                Some(Awaited::Rank(awaited)) => awaited == rank,
                Some(Awaited::Any) => is_new,
                None => false,
            };
            // Who writes there tells when it does no more.
            if !is_concerned || self.reads.is_claimed(request) {
                continue;
            }
            if let Request::Expected { slot, .. } = request {
                self.expected.withdraw(*slot);
            }
            *request = Request::Over(Err(gone(rank)));
        }
        self.lose_forgotten(rank);
        self.landings.lose(rank);
        self.offers.retain(|&(from, _), _| from != rank);
        let never: Vec<u32> = (self.unexpected.iter())
            .filter(|(_, arrival)| {
                arrival.status.source == rank && !matches!(arrival.content, Content::Here(_))
            })
            .map(|(at, _)| at)
            .collect();
        never.into_iter().for_each(|at| drop(self.unexpected.remove(at)));
        self.discard_stale();
        if is_new {
            self.announce_failure(rank);
        }
    }

    /// A rank said what no engine says: it is as good as gone.
    pub(super) fn refuse(&mut self, rank: u32) {
        self.peers[rank as usize].is_refused = true;
        self.down(rank);
    }

    fn say(&mut self, to: u32, head: MessageHead) {
        self.say_with(to, head, MessageBody::Nothing);
    }

    #[inline]
    fn say_with(&mut self, to: u32, head: MessageHead, body: MessageBody) {
        self.orders.push_back(Order::Send { to, head: head.encode(), body });
    }

    fn end(&mut self, number: RequestNumber, outcome: Outcome) {
        if let Some(request) = self.requests.get_mut(number) {
            *request = Request::Over(outcome);
            self.forget_if_over(number);
        }
    }
}

fn is_over(request: &Request) -> bool {
    matches!(request, Request::Received(_) | Request::Over(_) | Request::Withdrawn)
}

fn unknown() -> Error {
    let why =
        "there is no such operation: it was waited for or cancelled before, or begun by another communicator";
    Error::Invalid(why.to_owned())
}

fn gone(rank: u32) -> Error {
    Error::Down {
        rank,
        why: "it ended, was cut off, or gave no sign of life for too long (see SCASH_MP_SILENCE) while messages to or from it were under way".to_owned(),
    }
}
