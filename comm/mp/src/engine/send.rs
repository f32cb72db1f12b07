//! Sends: how they begin, leave piece by piece, and are taken back.

use super::reads::LONG;
use super::{Engine, MessageBody, Order, Protocols, REGISTERED, gone};
use crate::blocks::Blocks;
use crate::requests::{Completion, Request, RequestNumber};
use crate::span::Source;
use crate::wire::MessageHead;
use crate::{Large, Status};
use scash_comm::Result;

/// Bytes of a piece that is copied on its way: few enough to stay in a processor's cache between its copies.
pub(crate) const COPIED_PIECE: usize = (16 << 10) - 64;

/// What is on its way, piece by piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    payload: OutgoingPayload,
    /// Bytes that have left.
    gone: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum OutgoingPayload {
    /// A send that was pushed.
    Push(RequestNumber, Source),
    /// A send that a receive has asked for, by its number there.
    Asked(RequestNumber, Source, u64),
    /// What a get reads, by its number there. Others may write it meanwhile, so it is copied before it is
    /// looked at.
    Window(Blocks, u64),
}

impl OutgoingPayload {
    fn len(self) -> usize {
        match self {
            OutgoingPayload::Push(_, body) | OutgoingPayload::Asked(_, body, _) => body.len(),
            OutgoingPayload::Window(blocks, _) => blocks.total(),
        }
    }

    /// Bytes of its longest piece.
    fn most(self) -> usize {
        match self {
            OutgoingPayload::Push(..) | OutgoingPayload::Asked(..) => usize::MAX,
            OutgoingPayload::Window(..) => COPIED_PIECE,
        }
    }
}

impl Engine {
    /// Begins to send for a thread that waits for the end of that, or not. `None`: it is over as soon as the
    /// orders are carried out.
    ///
    /// # Errors
    /// The receiver is gone.
    pub(crate) fn send(
        &mut self,
        to: u32,
        context: u16,
        tag: u64,
        body: Source,
        waits: bool,
    ) -> Result<Option<RequestNumber>> {
        let len = body.len();
        if self.sends_at_once(to, len) {
            let head = MessageHead::Eager { context, tag }.encode();
            self.orders.push_back(Order::Send { to, head, body: MessageBody::Piece(body, 0, len) });
            return Ok(None);
        }
        self.send_piecewise(to, context, tag, body, waits).map(Some)
    }

    /// Begins to send so that nothing is copied before it has room on its way. For messages that are too long
    /// to leave at once, and others where that way is not free.
    ///
    /// # Errors
    /// The receiver is gone.
    pub(crate) fn send_piecewise(
        &mut self,
        to: u32,
        context: u16,
        tag: u64,
        body: Source,
        waits: bool,
    ) -> Result<RequestNumber> {
        let len = body.len();
        let peer = &mut self.peers[to as usize];
        if peer.is_gone {
            return Err(gone(to));
        }
        let Protocols { eager, push, large } = peer.protocols;
        let has_credit = peer.messages.affords(len);
        let address =
            if matches!(large, Large::Auto | Large::Get) { body.address(&self.registered) } else { 0 };
        let address = if peer.reads.includes(address) { address } else { 0 };
        let is_pushed = match large {
            // A short one waits for room on its way, never for a receive. Of others two copies through shared
            // memory take less time than the kernel's one, which has to look up page after page; not less
            // than one of registered memory.
            Large::Auto => {
                len <= eager || address == 0 || address & REGISTERED == 0 && self.groups.includes(to)
            }
            Large::Push => true,
            Large::Get | Large::Rendezvous => false,
        };
        let status = Status { source: to, tag, len };
        if is_pushed && has_credit && len <= push {
            peer.messages.spend(len);
            let send = self.requests.add(Request::Leaving { to, status });
            self.say(to, MessageHead::Push { context, tag, len: len as u64, push: send.0 });
            self.leave(to, OutgoingPayload::Push(send, body));
            return Ok(send);
        }
        let is_unheard = len >= LONG;
        let send = self.requests.add(Request::Offered { to, body, status, is_unwanted: false, is_unheard });
        let waits = waits && large == Large::Auto;
        self.say(to, MessageHead::Offer { context, tag, len: len as u64, send: send.0, address, waits });
        Ok(send)
    }

    /// Sends a message of so many bytes, if it leaves as a whole and is over by that: whether [its
    /// head](Head::Eager) is to be sent behind all orders, and its bytes behind it.
    #[inline]
    pub(crate) fn sends_at_once(&mut self, to: u32, len: usize) -> bool {
        let peer = &mut self.peers[to as usize];
        if peer.is_gone || len > peer.protocols.eager || !peer.messages.affords(len) {
            return false;
        }
        peer.messages.spend(len);
        true
    }

    /// The next piece, of at most `most` bytes, of what is on its way to `to`; asked for when the way there
    /// is free. How long it is; `None`: there is none.
    pub(crate) fn next_piece(&mut self, to: u32, most: usize) -> Option<usize> {
        let peer = &mut self.peers[to as usize];
        let leaving = peer.leaving.front_mut()?;
        let Leaving { payload, gone } = *leaving;
        let len = most.min(payload.most()).min(payload.len() - gone);
        leaving.gone += len;
        let is_last = leaving.gone == payload.len();
        if is_last {
            peer.leaving.pop_front();
            self.busy -= usize::from(peer.leaving.is_empty());
        }
        let offset = gone as u64;
        let (send, head, body) = match payload {
            OutgoingPayload::Push(send, body) => {
                (Some(send), MessageHead::Pushed { push: send.0 }, MessageBody::Piece(body, gone, len))
            }
            OutgoingPayload::Asked(send, body, receive) => {
                (Some(send), MessageHead::Data { receive, offset }, MessageBody::Piece(body, gone, len))
            }
            OutgoingPayload::Window(blocks, get) => {
                (None, MessageHead::Data { receive: get, offset }, MessageBody::Own(blocks.gather(gone, len)))
            }
        };
        self.say_with(to, head, body);
        if let Some(send) = send.filter(|_| is_last)
            && let Some(Request::Leaving { status, .. }) = self.requests.get_mut(send)
        {
            let status = *status;
            self.end(send, Ok(Completion { status, bytes: Vec::new() }));
        }
        Some(len)
    }

    /// Ranks to which something leaves piece by piece.
    pub(crate) fn busy(&self) -> impl Iterator<Item = u32> + '_ {
        let all = if self.busy == 0 { &[] } else { &self.peers[..] };
        (0..).zip(all).filter(|(_, peer)| !peer.leaving.is_empty()).map(|(rank, _)| rank)
    }

    /// Asks the receiver of a send to forget it; `false`: there is nothing to be asked, since the send is on
    /// its way or over.
    pub(crate) fn withdraw(&mut self, send: RequestNumber) -> bool {
        let Some(Request::Offered { to, is_unwanted, .. }) = self.requests.get_mut(send) else {
            return false;
        };
        let to = *to;
        if !std::mem::replace(is_unwanted, true) {
            self.say(to, MessageHead::Withdraw { send: send.0 });
        }
        true
    }

    /// What came of that, if it is decided: whether the send was taken back, and its number names nothing any
    /// more; or else it goes on, or is over.
    pub(crate) fn was_withdrawn(&mut self, send: RequestNumber) -> Option<bool> {
        match self.requests.get_mut(send) {
            Some(Request::Offered { .. }) => None,
            Some(Request::Withdrawn) => {
                self.requests.remove(send);
                Some(true)
            }
            _ => Some(false),
        }
    }

    pub(super) fn leave(&mut self, to: u32, payload: OutgoingPayload) {
        let queue = &mut self.peers[to as usize].leaving;
        self.busy += usize::from(queue.is_empty());
        queue.push_back(Leaving { payload, gone: 0 });
    }
}
