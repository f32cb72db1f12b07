//! Several messages at once, on borrowed memory.

use scash_comm::Result;
use scash_messages::{Messages, Request};

/// A message to another rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) to: u32,
    pub(crate) tag: u16,
    pub(crate) bytes: &'a [u8],
}

/// A message from another rank, which is as long as the memory for it.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    pub(crate) from: u32,
    pub(crate) tag: u16,
    pub(crate) into: &'a mut [u8],
}

/// Begins all receives in their order, then all sends; does `meanwhile`; and waits for all of them.
pub(crate) fn exchange(
    messages: &dyn Messages,
    receives: &mut [Incoming<'_>],
    sends: &[Outgoing<'_>],
    meanwhile: impl FnOnce() -> crate::Result<()>,
) -> crate::Result<()> {
    let mut begun =
        PendingOperations { messages, requests: Vec::with_capacity(receives.len() + sends.len()) };
    for Incoming { from, tag, into } in receives {
        // SAFETY: the memory is borrowed until `begun` has waited for the operation, by a panic too.
        begun.requests.push(unsafe { messages.start_receive(*from, *tag, into.as_mut_ptr(), into.len()) }?);
    }
    for Outgoing { to, tag, bytes } in sends {
        // SAFETY: as above.
        begun.requests.push(unsafe { messages.start_send(*to, *tag, bytes.as_ptr(), bytes.len()) }?);
    }
    meanwhile()?;
    Ok(begun.end()?)
}

/// Operations that are waited for when this is dropped.
struct PendingOperations<'a> {
    messages: &'a dyn Messages,
    requests: Vec<Request>,
}

impl PendingOperations<'_> {
    /// Waits for all; why the first of those failed that did.
    fn end(&mut self) -> Result<()> {
        let all: Vec<Result<()>> =
            self.requests.drain(..).map(|request| self.messages.wait(request)).collect();
        all.into_iter().collect()
    }
}

impl Drop for PendingOperations<'_> {
    fn drop(&mut self) {
        // Whoever could be told has been.
        let _ = self.end();
    }
}
