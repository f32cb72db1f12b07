//! Messages for which there was no room when they were sent: they go before anything newer, so that nobody
//! who sends waits for the peer.

use super::UnsentParts;
use std::collections::VecDeque;

/// The rest of a message.
pub(super) struct Late {
    pub(super) kind: u16,
    bytes: Vec<u8>,
    /// Bytes that were said.
    said: usize,
}

impl Late {
    /// What is to be said yet, as the parts that it consists of.
    pub(super) fn rest(&self) -> [&[u8]; 1] {
        [&self.bytes[self.said..]]
    }
}

/// What waits for room, in its order.
#[derive(Default)]
pub(super) struct Backlog {
    messages: VecDeque<Late>,
    /// Bytes of them.
    len: usize,
}

impl Backlog {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Keeps the rest of a message.
    pub(super) fn push(&mut self, kind: u16, mut rest: UnsentParts<'_>) {
        let mut bytes = Vec::with_capacity(rest.left);
        rest.take(rest.left, |part| bytes.extend_from_slice(part));
        self.len += bytes.len();
        self.messages.push_back(Late { kind, bytes, said: 0 });
    }

    /// The oldest message. Whatever takes it says something of it, and gives [back](Self::give_back) what is
    /// left.
    pub(super) fn take(&mut self) -> Option<Late> {
        let late = self.messages.pop_front()?;
        self.len -= late.rest()[0].len();
        Some(late)
    }

    /// Keeps a message again, of which `left` bytes are to be said yet.
    pub(super) fn give_back(&mut self, late: Late, left: usize) {
        self.len += left;
        self.messages.push_front(Late { said: late.bytes.len() - left, ..late });
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
