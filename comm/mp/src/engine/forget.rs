//! Sends that nobody waits for: the engine keeps their bytes until they are over.

use super::{Engine, Order};
use crate::requests::{Request, RequestNumber};
use crate::span::Source;
use scash_comm::Result;

impl Engine {
    /// Sends bytes that are the engine's from now on.
    ///
    /// # Errors
    /// The receiver is gone.
    pub(crate) fn send_and_forget(&mut self, to: u32, context: u16, tag: u64, bytes: Vec<u8>) -> Result<()> {
        // SAFETY: they stay where they are, unchanged, until all orders that use them are carried out.
        let body = unsafe { Source::new(bytes.as_ptr(), bytes.len()) };
        match self.send(to, context, tag, body, false)? {
            Some(number) => _ = self.forgotten.insert(number, bytes),
            None => self.orders.push_back(Order::Drop(bytes)),
        }
        self.has_put(to);
        Ok(())
    }

    /// Sends to a rank that nobody waits for, and that are not over.
    pub(crate) fn forgotten(&mut self, to: u32) -> Vec<RequestNumber> {
        let Self { forgotten, requests, .. } = self;
        let is_to = |number: &RequestNumber| match requests.get_mut(*number) {
            Some(Request::Offered { to: theirs, .. } | Request::Leaving { to: theirs, .. }) => *theirs == to,
            _ => false,
        };
        forgotten.keys().copied().filter(is_to).collect()
    }

    /// Whether a send that nobody waits for is not over.
    pub(crate) fn is_forgotten(&self, number: RequestNumber) -> bool {
        self.forgotten.contains_key(&number)
    }

    /// If a send that nobody waits for is over, nothing is kept of it.
    #[inline]
    pub(super) fn forget_if_over(&mut self, number: RequestNumber) {
        if !self.forgotten.is_empty()
            && let Some(bytes) = self.forgotten.remove(&number)
        {
            self.requests.remove(number);
            self.orders.push_back(Order::Drop(bytes));
        }
    }

    /// A rank is gone, and operations with it have failed. The next fence is to tell that messages were lost.
    pub(super) fn lose_forgotten(&mut self, rank: u32) {
        let Self { forgotten, requests, .. } = self;
        let is_lost = |number: &RequestNumber| matches!(requests.get_mut(*number), Some(Request::Over(_)));
        let lost: Vec<RequestNumber> = forgotten.keys().copied().filter(is_lost).collect();
        for number in lost {
            self.has_put(rank);
            self.forget_if_over(number);
        }
    }
}
