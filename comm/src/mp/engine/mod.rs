//! The engine: everything about messages but the way they travel. A value without IO, threads or clock.
//!
//! What the application wants and what arrives goes in; [`Order`]s come out, which its owner carries out in their order. So the same engine runs on real endpoints, and
//! in tests on a network in memory that delays what it likes.

mod account;
mod active;
mod arrive;
mod forget;
mod one_sided;
mod receive;
mod running;
#[cfg(test)]
mod tests;

use super::blocks::Blocks;
use super::matching::{Expected, Unexpected};
use super::requests::{Ended, Number, Outcome, Request, Requests};
use super::span::{Place, Source};
use super::wire::{Encoded, Head};
use super::{Large, Options, Status};
use crate::{Error, Result};
use account::Account;
pub(super) use active::Call;
use active::{Dues, Held};
use running::Running;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;

/// What the engine's owner is to do.
#[derive(Debug)]
pub(super) enum Order {
    /// Send `head` to `to`, and behind it the body.
    Send { to: u32, head: Encoded, body: Body },
    /// Read what [`Engine::reading`] says, and say how it went: [`Engine::was_read`].
    Read(Number),
    /// Forget bytes that orders before this one have used.
    Drop(Vec<u8>),
}

/// What follows a head.
#[derive(Debug)]
pub(super) enum Body {
    Nothing,
    /// A part of somebody's memory: from where, and how many bytes. They stay unchanged until the order is carried out.
    Lent(Source, usize, usize),
    Own(Vec<u8>),
}

impl Body {
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Body::Nothing => &[],
            Body::Lent(source, from, len) => source.piece(*from, *len),
            Body::Own(bytes) => bytes,
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
    pub(super) place: Place,
}

/// What is known of a rank.
#[derive(Debug)]
struct Peer {
    /// Messages that are sent before a receive asks for them, there and from there,
    mail: Account,
    /// and active messages, of which some may be held back.
    calls: Account,
    held: VecDeque<Held>,
    /// What it can read of this process's memory,
    reads: Reach,
    /// and this process of its memory.
    readable: Reach,
    /// What leaves piece by piece, the first one first.
    leaving: VecDeque<Leaving>,
    /// What was put and called there without waiting for it to be done: how often, and how much of that is known to be done.
    loose: u64,
    fenced: u64,
    is_gone: bool,
    /// It said what no engine says, and is not listened to any more.
    is_refused: bool,
}

/// What is on its way, piece by piece.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    cargo: Cargo,
    /// Bytes that have left.
    gone: usize,
}

#[derive(Clone, Copy, Debug)]
enum Cargo {
    /// A send that was pushed.
    Push(Number, Source),
    /// A send that a receive has asked for, by its number there.
    Asked(Number, Source, u64),
    /// What a get reads, by its number there. Others may write it meanwhile, so it is copied before it is looked at.
    Window(Blocks, u64),
}

impl Cargo {
    fn len(self) -> usize {
        match self {
            Cargo::Push(_, body) | Cargo::Asked(_, body, _) => body.len(),
            Cargo::Window(blocks, _) => blocks.total(),
        }
    }
}

/// A message for which there was no receive when it came.
#[derive(Debug)]
struct Arrival {
    status: Status,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Here(Vec<u8>),
    /// At the sender still: the send's number and address.
    Offered {
        send: u64,
        address: u64,
    },
    /// On its way here, unasked: the push's number.
    Landing {
        push: u64,
    },
}

/// A pushed message on its way here.
#[derive(Debug)]
struct Landing {
    len: usize,
    /// Bytes that are here.
    here: usize,
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// A receive.
    Receive(Number),
    /// The memory that was made for it, and its place in the unexpected queue.
    Waiting(u32, Vec<u8>),
    /// Nobody: its receive had no room for it.
    Nobody,
}

/// One rank's engine.
#[derive(Debug)]
pub(super) struct Engine {
    options: Options,
    requests: Requests,
    expected: Expected,
    unexpected: Unexpected<Arrival>,
    landings: HashMap<(u32, u64), Landing>,
    peers: Vec<Peer>,
    orders: VecDeque<Order>,
    /// Addresses of registered memory.
    registered: Range<usize>,
    /// Windows in it: where each begins there.
    windows: BTreeMap<usize, Place>,
    /// Numbers of handlers of active messages.
    handlers: BTreeSet<u16>,
    dues: Dues,
    /// Bytes of sends that nobody waits for, while they are under way.
    forgotten: HashMap<Number, Vec<u8>>,
    /// Ranks to which something leaves piece by piece.
    busy: usize,
    /// This rank.
    rank: u32,
    /// Collective operations under way, and how many there have been.
    running: Vec<Running>,
    collectives: u64,
    /// Those that others have given up before this rank has begun them, who said so, and because of which rank.
    aborted: Vec<(u64, u32, u32)>,
}

/// What one process can read of another one's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// All of it, by the kernel.
    pub(super) all: bool,
    /// What is registered, directly.
    pub(super) registered: bool,
}

/// Set in an address that counts from the start of registered memory. No address of a process has it.
pub(super) const REGISTERED: u64 = 1 << 63;

impl Reach {
    /// Whether what is at this address can be read.
    fn includes(self, address: u64) -> bool {
        address != 0 && if address & REGISTERED != 0 { self.registered } else { self.all }
    }
}

impl Engine {
    /// The engine of a rank among as many as there are entries: what each can read of this process's memory, and this process of its. Registered memory is at these addresses.
    pub(super) fn new(
        rank: u32,
        options: Options,
        reads: &[Reach],
        readable: &[Reach],
        registered: Range<usize>,
    ) -> Self {
        let peer = |rank: usize| Peer {
            mail: Account::new(options.window),
            calls: Account::new(options.window),
            held: VecDeque::new(),
            reads: reads[rank],
            readable: readable[rank],
            leaving: VecDeque::new(),
            loose: 0,
            fenced: 0,
            is_gone: false,
            is_refused: false,
        };
        Self {
            requests: Requests::default(),
            expected: Expected::new(),
            unexpected: Unexpected::new(),
            landings: HashMap::new(),
            peers: (0..reads.len()).map(peer).collect(),
            registered,
            windows: BTreeMap::new(),
            handlers: BTreeSet::new(),
            dues: Dues::default(),
            forgotten: HashMap::new(),
            orders: VecDeque::new(),
            busy: 0,
            rank,
            running: Vec::new(),
            collectives: 0,
            aborted: Vec::new(),
            options,
        }
    }

    /// The next thing to be done.
    #[inline]
    pub(super) fn order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// Whether there is anything to be done.
    pub(super) fn has_orders(&self) -> bool {
        !self.orders.is_empty()
    }

    /// Begins to send. `None`: it is over as soon as the orders are carried out.
    ///
    /// # Errors
    /// The receiver is gone.
    pub(super) fn send(&mut self, to: u32, context: u16, tag: u64, body: Source) -> Result<Option<Number>> {
        let options = &self.options;
        let peer = &mut self.peers[to as usize];
        if peer.is_gone {
            return Err(gone(to));
        }
        let len = body.len();
        let has_credit = peer.mail.affords(len);
        if len <= options.eager && has_credit {
            peer.mail.spend(len);
            self.say_with(to, Head::Eager { context, tag }, Body::Lent(body, 0, len));
            return Ok(None);
        }
        let address = if matches!(options.large, Large::Auto | Large::Get) {
            body.address(&self.registered)
        } else {
            0
        };
        let address = if peer.reads.includes(address) { address } else { 0 };
        let status = Status { source: to, tag, len };
        if address == 0 && has_credit && options.large != Large::Rendezvous && len <= options.push {
            peer.mail.spend(len);
            let send = self.requests.add(Request::Leaving { to, status });
            self.say(to, Head::Push { context, tag, len: len as u64, push: send.0 });
            self.leave(to, Cargo::Push(send, body));
            return Ok(Some(send));
        }
        let send = self.requests.add(Request::Offered { to, body, status, is_unwanted: false });
        self.say(to, Head::Offer { context, tag, len: len as u64, send: send.0, address });
        Ok(Some(send))
    }

    /// The next piece, of at most `most` bytes, of what is on its way to `to`; asked for when the way there is free. `false`: there is none.
    pub(super) fn next_piece(&mut self, to: u32, most: usize) -> bool {
        let peer = &mut self.peers[to as usize];
        let Some(leaving) = peer.leaving.front_mut() else { return false };
        let Leaving { cargo, gone } = *leaving;
        let len = most.min(cargo.len() - gone);
        leaving.gone += len;
        let is_last = leaving.gone == cargo.len();
        if is_last {
            peer.leaving.pop_front();
            self.busy -= usize::from(peer.leaving.is_empty());
        }
        let offset = gone as u64;
        let (send, head, body) = match cargo {
            Cargo::Push(send, body) => {
                (Some(send), Head::Pushed { push: send.0 }, Body::Lent(body, gone, len))
            }
            Cargo::Asked(send, body, receive) => {
                (Some(send), Head::Data { receive, offset }, Body::Lent(body, gone, len))
            }
            Cargo::Window(blocks, get) => {
                (None, Head::Data { receive: get, offset }, Body::Own(blocks.gather(gone, len)))
            }
        };
        self.say_with(to, head, body);
        if let Some(send) = send.filter(|_| is_last)
            && let Some(Request::Leaving { status, .. }) = self.requests.get_mut(send)
        {
            let status = *status;
            self.end(send, Ok(Ended { status, bytes: Vec::new() }));
        }
        true
    }

    /// Ranks to which something leaves piece by piece.
    pub(super) fn busy(&self) -> impl Iterator<Item = u32> + '_ {
        let all = if self.busy == 0 { &[] } else { &self.peers[..] };
        (0..).zip(all).filter(|(_, peer)| !peer.leaving.is_empty()).map(|(rank, _)| rank)
    }

    /// What came of an operation that is over, whose number names nothing then; `None`: it is not over.
    pub(super) fn outcome(&mut self, number: Number) -> Option<Outcome> {
        match self.requests.get_mut(number) {
            None => Some(Err(Error::Invalid(
                "there is no such operation: wait with the communicator that has begun it".to_owned(),
            ))),
            Some(Request::Over(_) | Request::Withdrawn) => match self.requests.remove(number)? {
                Request::Over(outcome) => Some(outcome),
                _ => Some(Ok(Ended::default())),
            },
            Some(_) => None,
        }
    }

    /// Takes back a receive that no message has been matched with; whether that was so.
    pub(super) fn cancel(&mut self, receive: Number) -> bool {
        let Some(Request::Expected { slot, .. }) = self.requests.get_mut(receive) else { return false };
        self.expected.withdraw(*slot);
        self.requests.remove(receive);
        true
    }

    /// Asks the receiver of a send to forget it; `false`: there is nothing to be asked, since the send is on its way or over.
    pub(super) fn withdraw(&mut self, send: Number) -> bool {
        let Some(Request::Offered { to, is_unwanted, .. }) = self.requests.get_mut(send) else {
            return false;
        };
        let to = *to;
        if !std::mem::replace(is_unwanted, true) {
            self.say(to, Head::Withdraw { send: send.0 });
        }
        true
    }

    /// What came of that, if it is decided: whether the send was taken back, and its number names nothing any more; or else it goes on, or is over.
    pub(super) fn was_withdrawn(&mut self, send: Number) -> Option<bool> {
        match self.requests.get_mut(send) {
            Some(Request::Offered { .. }) => None,
            Some(Request::Withdrawn) => {
                self.requests.remove(send);
                Some(true)
            }
            _ => Some(false),
        }
    }

    /// A rank is gone: so are all operations with it. Receives from whichever rank fail too, once, since it may have been this one that they waited for.
    pub(super) fn down(&mut self, rank: u32) {
        let peer = &mut self.peers[rank as usize];
        let is_new = !peer.is_gone;
        peer.is_gone = true;
        self.busy -= usize::from(!peer.leaving.is_empty());
        peer.leaving.clear();
        peer.held.clear();
        for request in self.requests.iter_mut() {
            let concerned = match request {
                Request::Offered { to, .. } | Request::Leaving { to, .. } | Request::Mark { to, .. } => {
                    *to == rank
                }
                Request::Coming { from, .. } | Request::Read { from, .. } | Request::Get { from, .. } => {
                    *from == rank
                }
                Request::Expected { source, .. } => source.map_or(is_new, |source| source == rank),
                Request::Collective | Request::Withdrawn | Request::Over(_) => false,
            };
            if !concerned {
                continue;
            }
            if let Request::Expected { slot, .. } = request {
                self.expected.withdraw(*slot);
            }
            *request = Request::Over(Err(gone(rank)));
        }
        self.lose_forgotten(rank);
        self.landings.retain(|&(from, _), _| from != rank);
        let never: Vec<u32> = (self.unexpected.iter())
            .filter(|(_, arrival)| {
                arrival.status.source == rank && !matches!(arrival.content, Content::Here(_))
            })
            .map(|(at, _)| at)
            .collect();
        never.into_iter().for_each(|at| drop(self.unexpected.remove(at)));
    }

    /// A rank said what no engine says: it is as good as gone.
    pub(super) fn refuse(&mut self, rank: u32) {
        self.peers[rank as usize].is_refused = true;
        self.down(rank);
    }

    fn leave(&mut self, to: u32, cargo: Cargo) {
        let queue = &mut self.peers[to as usize].leaving;
        self.busy += usize::from(queue.is_empty());
        queue.push_back(Leaving { cargo, gone: 0 });
    }

    fn say(&mut self, to: u32, head: Head) {
        self.say_with(to, head, Body::Nothing);
    }

    #[inline]
    fn say_with(&mut self, to: u32, head: Head, body: Body) {
        self.orders.push_back(Order::Send { to, head: head.encode(), body });
    }

    fn end(&mut self, number: Number, outcome: Outcome) {
        if let Some(request) = self.requests.get_mut(number) {
            *request = Request::Over(outcome);
            self.forget_if_over(number);
        }
    }
}

fn gone(rank: u32) -> Error {
    Error::Down {
        rank,
        why: "it ended or was cut off while messages to or from it were under way".to_owned(),
    }
}
