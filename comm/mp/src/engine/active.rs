//! Active messages: their handlers are run where they arrive, one after the other (von Eicken and others:
//! Active Messages, ISCA 1992).
//!
//! The engine keeps them until its owner has time: [`Engine::next_call`]. What their senders have on their
//! way is bounded by an account of its own, so that messages which nobody receives do not hold them back.
//! Past that they are *held* at the sender, in their order.
//!
//! **Handlers are never kept waiting, and what they send is bounded because a send can fail.** An
//! application's thread that finds something held waits until it has left ([`Engine::is_holding`]), so such
//! threads add one message each. A handler must not wait: its rank's progress is the progress of others. So
//! what it sends past the credits is held, up to [`Options::held`](crate::Options::held) bytes for each rank;
//! past that the send is refused, and the handler decides, which alone knows what the message is worth. Held
//! messages always leave, since all ranks run handlers whatever they hold, and each that has run gives its
//! message's credit back. Without a refusal nothing bounds what is held, or something deadlocks:
//! - *Handlers that are not run while much is held*: two ranks hold answers for each other. The credits for
//!   these come back when the other one runs handlers, which neither does.
//! - *Credits that come back only when the answers have left*, so that no more is held than others have on
//!   their way, times what a handler makes of it: all credits of both directions may be those of messages
//!   that were handled, and whose answers wait for just these credits.
//! - *Credits of their own for answers*: they are enough where answers are not answered. Here a token may go
//!   round by handlers alone, and no number of generations is the last one.

use super::account::COST;
use super::arrive::Checked;
use super::{Engine, MessageBody, MessageHead, gone};
use crate::options::MOST_EAGER;
use crate::requests::RequestNumber;
use crate::span::Source;
use scash_comm::{Error, Result};
use std::collections::VecDeque;

/// A handler to be run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HandlerCall {
    pub(crate) from: u32,
    pub(crate) handler: u16,
    pub(crate) bytes: Vec<u8>,
}

/// What is done in the order in which it came.
#[derive(Debug)]
pub(super) enum Due {
    Call(HandlerCall),
    /// The answer to a mark.
    Mark {
        from: u32,
        mark: u64,
    },
}

/// What waits for credit.
#[derive(Debug)]
pub(super) enum CreditWaiter {
    Active { handler: u16, bytes: Vec<u8> },
    Mark(RequestNumber),
}

impl CreditWaiter {
    /// What it takes of memory.
    fn cost(&self) -> usize {
        match self {
            CreditWaiter::Active { bytes, .. } => bytes.len() + COST,
            CreditWaiter::Mark(_) => 0,
        }
    }
}

/// All that waits for credit of a rank, in its order.
#[derive(Debug, Default)]
pub(super) struct CreditQueue {
    queue: VecDeque<CreditWaiter>,
    /// What its messages take of memory.
    bytes: usize,
}

impl CreditQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// What its messages take of memory.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a message of so many bytes has room below a bound. A first one always has.
    fn admits(&self, len: usize, bound: usize) -> bool {
        self.bytes == 0 || self.bytes.saturating_add(len + COST) <= bound
    }

    fn push(&mut self, held: CreditWaiter) {
        self.bytes += held.cost();
        self.queue.push_back(held);
    }

    /// The first one, if it is a mark or `affords` agrees to its length.
    fn pop_if(&mut self, affords: impl FnOnce(usize) -> bool) -> Option<CreditWaiter> {
        if let CreditWaiter::Active { bytes, .. } = self.queue.front()?
            && !affords(bytes.len())
        {
            return None;
        }
        let held = self.queue.pop_front()?;
        self.bytes -= held.cost();
        Some(held)
    }
}

/// What was received, and is to be run.
#[derive(Debug, Default)]
pub(super) struct Dues {
    queue: VecDeque<Due>,
    /// A thread runs handlers: there is one at a time.
    is_running: bool,
}

impl Engine {
    /// Bytes of the longest active message: even the longest is affordable when half of the window is, and
    /// travels at once.
    pub(crate) fn longest_active(&self) -> usize {
        let most = self.options.eager.max(self.options.push).min(MOST_EAGER);
        most.min((self.options.window / 2).saturating_sub(COST))
    }

    /// There is a handler of this number, or there is none any more; whether that is new.
    pub(crate) fn set_handler(&mut self, number: u16, exists: bool) -> bool {
        if exists { self.handlers.insert(number) } else { self.handlers.remove(&number) }
    }

    /// Whether there is a handler of this number.
    pub(crate) fn has_handler(&self, number: u16) -> bool {
        self.handlers.contains(&number)
    }

    /// Whether active messages to a rank wait for credit.
    pub(crate) fn is_holding(&self, to: u32) -> bool {
        !self.peers[to as usize].held.is_empty()
    }

    /// Sends an active message, or holds a copy of it until there is credit. It is no longer than the
    /// longest.
    ///
    /// # Errors
    /// The rank is gone, or [`Error::Full`]: as much is held as may be.
    pub(crate) fn active(&mut self, to: u32, handler: u16, body: Source) -> Result<()> {
        let peer = &mut self.peers[to as usize];
        if peer.is_gone {
            return Err(gone(to));
        }
        let (len, bound) = (body.len(), self.options.held);
        if peer.held.is_empty() && peer.calls.affords(len) {
            peer.loose += 1;
            peer.calls.spend(len);
            self.say_with(to, MessageHead::Active { handler }, MessageBody::Lent(body, 0, len));
        } else if peer.held.admits(len, bound) {
            peer.loose += 1;
            peer.held.push(CreditWaiter::Active { handler, bytes: body.piece(0, len).to_vec() });
        } else {
            return Err(Error::Full { rank: to, held: peer.held.bytes, bound });
        }
        Ok(())
    }

    /// Says a mark, behind what is held.
    pub(super) fn say_mark(&mut self, to: u32, mark: RequestNumber) {
        let held = &mut self.peers[to as usize].held;
        if held.is_empty() {
            self.say(to, MessageHead::Mark { mark: mark.0 });
        } else {
            held.push(CreditWaiter::Mark(mark));
        }
    }

    /// A rank has handled active messages: others may leave.
    pub(super) fn refilled(&mut self, from: u32, bytes: u64) -> Checked {
        self.peers[from as usize].calls.refill(bytes)?;
        loop {
            let peer = &mut self.peers[from as usize];
            match peer.held.pop_if(|len| peer.calls.affords(len)) {
                None => return Ok(()),
                Some(CreditWaiter::Mark(mark)) => self.say(from, MessageHead::Mark { mark: mark.0 }),
                Some(CreditWaiter::Active { handler, bytes }) => {
                    peer.calls.spend(bytes.len());
                    self.say_with(from, MessageHead::Active { handler }, MessageBody::Own(bytes));
                }
            }
        }
    }

    /// An active message has come.
    pub(super) fn called(&mut self, from: u32, handler: u16, body: &[u8]) -> Checked {
        if !self.has_handler(handler) {
            return Err("an active message is for a handler that nobody has registered");
        }
        self.peers[from as usize].calls.owe(body.len())?;
        self.dues.queue.push_back(Due::Call(HandlerCall { from, handler, bytes: body.to_vec() }));
        Ok(())
    }

    /// A mark has come. It is answered when the active messages before it were handled.
    pub(super) fn was_marked(&mut self, from: u32, mark: u64) {
        if self.dues.queue.is_empty() && !self.dues.is_running {
            self.say(from, MessageHead::Marked { mark });
        } else {
            self.dues.queue.push_back(Due::Mark { from, mark });
        }
    }

    /// Whether there are handlers to be run, and no thread runs any.
    #[inline]
    pub(crate) fn has_calls(&self) -> bool {
        !self.dues.queue.is_empty() && !self.dues.is_running
    }

    /// The next handler to be run, by the thread that was told that there are some; `None`: it has run them
    /// all. It says when one is over ([`Engine::was_called`]), and when it runs no more
    /// ([`Engine::leave_calls`]).
    pub(crate) fn next_call(&mut self) -> Option<HandlerCall> {
        loop {
            match self.dues.queue.pop_front() {
                Some(Due::Mark { from, mark }) => self.say(from, MessageHead::Marked { mark }),
                Some(Due::Call(call)) => {
                    self.dues.is_running = true;
                    return Some(call);
                }
                None => {
                    self.dues.is_running = false;
                    return None;
                }
            }
        }
    }

    /// The thread that runs handlers leaves the others to the next one.
    pub(crate) fn leave_calls(&mut self) {
        self.dues.is_running = false;
    }

    /// A handler has run.
    pub(crate) fn was_called(&mut self, HandlerCall { from, bytes, .. }: HandlerCall) {
        if let Some(bytes) = self.peers[from as usize].calls.was_received(bytes.len()) {
            self.say(from, MessageHead::Refill { bytes });
        }
    }
}
