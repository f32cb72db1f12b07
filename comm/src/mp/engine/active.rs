//! Active messages: their handlers are run where they arrive, one after the other (von Eicken and others: Active Messages, ISCA 1992).
//!
//! The engine keeps them until its owner has time: [`Engine::next_call`]. What their senders have on their way is bounded by an account of its own, so that messages which nobody receives do not
//! hold them back. Past that they are *held* at the sender, in their order.

use super::account::COST;
use super::arrive::Checked;
use super::{Body, Engine, Head, gone};
use crate::Result;
use crate::mp::requests::Number;
use crate::mp::span::Source;
use std::collections::VecDeque;

/// A handler to be run.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::mp) struct Call {
    pub(in crate::mp) from: u32,
    pub(in crate::mp) handler: u16,
    pub(in crate::mp) bytes: Vec<u8>,
}

/// What is done in the order in which it came.
#[derive(Debug)]
pub(super) enum Due {
    Call(Call),
    /// The answer to a mark.
    Mark {
        from: u32,
        mark: u64,
    },
}

/// What waits for credit.
#[derive(Debug)]
pub(super) enum Held {
    Active { handler: u16, bytes: Vec<u8> },
    Mark(Number),
}

/// What was received, and is to be run.
#[derive(Debug, Default)]
pub(super) struct Dues {
    queue: VecDeque<Due>,
    /// A thread runs handlers: there is one at a time.
    is_running: bool,
}

impl Engine {
    /// Bytes of the longest active message: even the longest is affordable when half of the window is.
    pub(in crate::mp) fn longest_active(&self) -> usize {
        self.options.eager.max(self.options.push).min((self.options.window / 2).saturating_sub(COST))
    }

    /// There is a handler of this number, or there is none any more; whether that is new.
    pub(in crate::mp) fn set_handler(&mut self, number: u16, exists: bool) -> bool {
        if exists { self.handlers.insert(number) } else { self.handlers.remove(&number) }
    }

    /// Whether there is a handler of this number.
    pub(in crate::mp) fn has_handler(&self, number: u16) -> bool {
        self.handlers.contains(&number)
    }

    /// Whether active messages to a rank wait for credit.
    pub(in crate::mp) fn is_holding(&self, to: u32) -> bool {
        !self.peers[to as usize].held.is_empty()
    }

    /// Sends an active message, or holds a copy of it until there is credit. It is no longer than the longest.
    ///
    /// # Errors
    /// The rank is gone.
    pub(in crate::mp) fn active(&mut self, to: u32, handler: u16, body: Source) -> Result<()> {
        let peer = &mut self.peers[to as usize];
        if peer.is_gone {
            return Err(gone(to));
        }
        let len = body.len();
        peer.loose += 1;
        if peer.held.is_empty() && peer.calls.affords(len) {
            peer.calls.spend(len);
            self.say_with(to, Head::Active { handler }, Body::Lent(body, 0, len));
        } else {
            peer.held.push_back(Held::Active { handler, bytes: body.piece(0, len).to_vec() });
        }
        Ok(())
    }

    /// Says a mark, behind what is held.
    pub(super) fn say_mark(&mut self, to: u32, mark: Number) {
        let held = &mut self.peers[to as usize].held;
        if held.is_empty() {
            self.say(to, Head::Mark { mark: mark.0 });
        } else {
            held.push_back(Held::Mark(mark));
        }
    }

    /// A rank has handled active messages: others may leave.
    pub(super) fn refilled(&mut self, from: u32, bytes: u64) -> Checked {
        self.peers[from as usize].calls.refill(bytes)?;
        loop {
            let peer = &mut self.peers[from as usize];
            match peer.held.pop_front() {
                None => return Ok(()),
                Some(Held::Mark(mark)) => self.say(from, Head::Mark { mark: mark.0 }),
                Some(Held::Active { handler, bytes }) if peer.calls.affords(bytes.len()) => {
                    peer.calls.spend(bytes.len());
                    self.say_with(from, Head::Active { handler }, Body::Own(bytes));
                }
                Some(held) => {
                    peer.held.push_front(held);
                    return Ok(());
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
        self.dues.queue.push_back(Due::Call(Call { from, handler, bytes: body.to_vec() }));
        Ok(())
    }

    /// A mark has come. It is answered when the active messages before it were handled.
    pub(super) fn was_marked(&mut self, from: u32, mark: u64) {
        if self.dues.queue.is_empty() && !self.dues.is_running {
            self.say(from, Head::Marked { mark });
        } else {
            self.dues.queue.push_back(Due::Mark { from, mark });
        }
    }

    /// Whether there are handlers to be run, and no thread runs any.
    #[inline]
    pub(in crate::mp) fn has_calls(&self) -> bool {
        !self.dues.queue.is_empty() && !self.dues.is_running
    }

    /// The next handler to be run, by the thread that was told that there are some; `None`: it has run them all. It says when one is over: [`Engine::was_called`].
    pub(in crate::mp) fn next_call(&mut self) -> Option<Call> {
        loop {
            match self.dues.queue.pop_front() {
                Some(Due::Mark { from, mark }) => self.say(from, Head::Marked { mark }),
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

    /// A handler has run.
    pub(in crate::mp) fn was_called(&mut self, Call { from, bytes, .. }: Call) {
        if let Some(bytes) = self.peers[from as usize].calls.was_received(bytes.len()) {
            self.say(from, Head::Refill { bytes });
        }
    }
}
