//! What two ranks may send each other unasked: credits, so that the memory for it is bounded.

use super::arrive::Checked;

/// What an unasked message costs of the window besides its bytes: what its receiver keeps of it.
pub(crate) const COST: usize = 64;

/// One kind of messages to and from a rank.
#[derive(Debug)]
pub(super) struct Account {
    window: usize,
    /// Bytes that may be sent there before they are asked for.
    pub(super) credit: usize,
    /// Bytes that it sent so, of which it does not know yet that they were received,
    pub(super) debt: usize,
    /// and how many of them have been.
    received: usize,
}

impl Account {
    pub(super) fn new(window: usize) -> Self {
        Self { window, credit: window, debt: 0, received: 0 }
    }

    /// Whether a message of so many bytes may be sent.
    #[inline]
    pub(super) fn affords(&self, len: usize) -> bool {
        len + COST <= self.credit
    }

    /// It is sent.
    #[inline]
    pub(super) fn spend(&mut self, len: usize) {
        self.credit -= len + COST;
    }

    /// Messages are known to have been received.
    pub(super) fn refill(&mut self, bytes: u64) -> Checked {
        let credit = usize::try_from(bytes).ok().and_then(|bytes| self.credit.checked_add(bytes));
        self.credit =
            credit.filter(|&credit| credit <= self.window).ok_or("more is given back than was taken")?;
        Ok(())
    }

    /// A message of so many bytes has come.
    pub(super) fn owe(&mut self, len: usize) -> Checked {
        let debt = len.checked_add(COST).and_then(|cost| self.debt.checked_add(cost));
        self.debt =
            debt.filter(|&debt| debt <= self.window).ok_or("more is sent unasked than the window allows")?;
        Ok(())
    }

    /// One that has come was received: its room is the sender's again, and what is to be told of that.
    pub(super) fn was_received(&mut self, len: usize) -> Option<u64> {
        self.received += len + COST;
        if self.received < self.window / 2 {
            return None;
        }
        let bytes = std::mem::take(&mut self.received);
        self.debt -= bytes;
        Some(bytes as u64)
    }
}
