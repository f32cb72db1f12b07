//! What a connection's bytes go through on their way to and from its socket: nothing, or encryption.
//!
//! An encrypted direction is a sequence of records, each one message of the Noise Protocol Framework:
//!
//! ```text
//! 0         2
//! +---------+--------------------------------+
//! | length  | length bytes: what is in the record, encrypted, and the cipher's tag of 16 bytes
//! +---------+--------------------------------+
//! ```
//! The length is little-endian, and at most [`MOST`]. The nth record is encrypted under the number n, so a
//! record that is changed, left out, repeated or moved does not decrypt, and ends the connection. A
//! connection that is cut between records lacks the goodbye that the protocol above ends with.
//!
//! Where records begin and end means nothing to what they carry: both sides see the bytes that they would see
//! without encryption, and count only those. So [`Outlet::send`] and [`Inlet::receive`] do what the system
//! calls do, with two differences:
//! - What is sealed and has not left as a whole counts as not taken. The caller offers it again, as it does
//!   after any call that took less than it was asked to; the record that is under way goes on.
//! - Opened bytes may be left when the caller has no room for more, and no poll of the socket tells of those:
//!   [`Inlet::holds`] does.
//!
//! Without encryption this is one look at a word for each system call. With it, bytes are copied once more on
//! each side: what is to be sent may lie in memory that others write, and what has come is believed only when
//! its tag has been checked.

use super::noise::{Keys, TAG};
use super::sys::{self, IoVec};
use crate::remote::{LossReason, u16_at};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Most bytes in a record: few enough to stay in a processor's cache while they are encrypted.
const FULL: usize = 16 << 10;
/// Bytes of a record's length.
const LENGTH: usize = 2;
/// Longest record behind its length.
const MOST: usize = FULL + TAG;
/// Bytes that one system call takes out of the socket at most.
const BUFFER: usize = 64 << 10;

const _: () = assert!(MOST <= u16::MAX as usize, "a message of Noise is no longer");
const _: () =
    assert!(2 * (LENGTH + MOST) <= BUFFER, "there is room to read behind a record that is not whole");

/// A connection that has just been made.
pub(super) struct NewConnection {
    pub(super) socket: OwnedFd,
    /// If its traffic is encrypted.
    pub(super) keys: Option<Keys>,
}

impl NewConnection {
    /// The socket, and what its bytes go through in both directions.
    pub(super) fn split(self) -> (OwnedFd, Outlet, Inlet) {
        let keys = self.keys.map(Arc::new);
        let outlet = Outlet(keys.clone().map(|keys| Box::new(Sealing::new(keys))));
        (self.socket, outlet, Inlet(keys.map(|keys| Box::new(Opening::new(keys)))))
    }
}

/// The way out to a socket.
#[derive(Default)]
pub(super) struct Outlet(Option<Box<Sealing>>);

impl Outlet {
    /// Sends from `pieces` as much as the socket takes now; `None` when it takes nothing. After a call that
    /// did not take everything the next one begins with the bytes that were left.
    ///
    /// # Safety
    /// Each piece is mapped memory of this process during the call.
    pub(super) unsafe fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        pieces: &[IoVec],
    ) -> io::Result<Option<usize>> {
        match &mut self.0 {
            // SAFETY: passed on to the caller.
            None => unsafe { sys::send(socket, pieces) },
            // SAFETY: passed on to the caller.
            Some(sealing) => unsafe { sealing.send(socket, pieces) },
        }
    }
}

/// The way in from a socket.
#[derive(Default)]
pub(super) struct Inlet(Option<Box<Opening>>);

impl Inlet {
    /// Receives into `pieces` what is there; `None` when nothing is, `Some(0)` at the end of the stream.
    ///
    /// # Safety
    /// Each piece is writable memory of this process, into which bytes may be written during the call.
    pub(super) unsafe fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        pieces: &[IoVec],
    ) -> Result<Option<usize>, LossReason> {
        match &mut self.0 {
            // SAFETY: passed on to the caller.
            None => Ok(unsafe { sys::receive(socket, pieces) }?),
            // SAFETY: passed on to the caller.
            Some(opening) => unsafe { opening.receive(socket, pieces) },
        }
    }

    /// Whether there is something to receive that the socket knows nothing of.
    pub(super) fn holds(&self) -> bool {
        self.0.as_ref().is_some_and(|opening| opening.holds())
    }
}

/// The encrypting end of a direction.
struct Sealing {
    keys: Arc<Keys>,
    /// Of the next record.
    number: u64,
    /// What the next record is made of.
    plain: Vec<u8>,
    /// The last record, of which `gone` bytes have left.
    record: Vec<u8>,
    gone: usize,
}

impl Sealing {
    fn new(keys: Arc<Keys>) -> Self {
        Self { keys, number: 0, plain: Vec::new(), record: Vec::new(), gone: 0 }
    }

    /// See [`Outlet::send`].
    unsafe fn send(&mut self, socket: BorrowedFd<'_>, pieces: &[IoVec]) -> io::Result<Option<usize>> {
        let asked: usize = pieces.iter().map(|piece| piece.iov_len).sum();
        let mut taken = 0;
        while taken < asked {
            if self.plain.is_empty() {
                // SAFETY: passed on to the caller.
                unsafe { self.gather(pieces, taken) };
                self.seal()?;
            }
            if !self.push(socket)? {
                break;
            }
            taken += self.plain.len();
            self.plain.clear();
        }
        Ok((taken > 0).then_some(taken))
    }

    /// Copies what follows the first `skip` bytes of `pieces`, as far as it fits into a record.
    ///
    /// # Safety
    /// The pieces are readable memory.
    unsafe fn gather(&mut self, pieces: &[IoVec], mut skip: usize) {
        self.plain.reserve(FULL);
        for piece in pieces {
            let start = skip.min(piece.iov_len);
            skip -= start;
            let len = (piece.iov_len - start).min(FULL - self.plain.len());
            let from = sys::piece(piece.iov_base.cast::<u8>().wrapping_add(start), len);
            // SAFETY: a part of a piece, for which the caller vouches; `plain` is ours alone.
            unsafe { sys::append(&mut self.plain, &from) };
        }
    }

    /// Makes the next record of what was gathered.
    fn seal(&mut self) -> io::Result<()> {
        let len = self.plain.len() + TAG;
        self.record.resize(LENGTH + len, 0);
        let (length, record) = self.record.split_at_mut(LENGTH);
        length.copy_from_slice(&u16::try_from(len).expect("MOST fits").to_le_bytes());
        self.keys.seal(self.number, &self.plain, record).map_err(io::Error::other)?;
        self.number += 1;
        self.gone = 0;
        Ok(())
    }

    /// Sends what is left of the record; `false` if the socket does not take all of it.
    fn push(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        while self.gone < self.record.len() {
            let left = &self.record[self.gone..];
            // SAFETY: the piece is the record, which is not touched during the call.
            match unsafe { sys::send(socket, &[sys::piece(left.as_ptr(), left.len())]) }? {
                Some(sent) => self.gone += sent,
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// The decrypting end of a direction.
struct Opening {
    keys: Arc<Keys>,
    /// Of the next record.
    number: u64,
    /// What has come: `start..end` is not decrypted yet.
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    /// The last record's bytes: those in `at..len` are not handed out yet. (Behind them is room for the tag.)
    plain: Box<[u8]>,
    at: usize,
    len: usize,
}

impl Opening {
    fn new(keys: Arc<Keys>) -> Self {
        let room = |len| vec![0; len].into_boxed_slice();
        let (bytes, plain) = (room(BUFFER), room(MOST));
        Self { keys, number: 0, bytes, start: 0, end: 0, plain, at: 0, len: 0 }
    }

    fn holds(&self) -> bool {
        self.at < self.len || !matches!(self.whole_record(), Ok(None))
    }

    /// See [`Inlet::receive`]. Makes one system call, or none if what is asked for has come before.
    unsafe fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        pieces: &[IoVec],
    ) -> Result<Option<usize>, LossReason> {
        let asked: usize = pieces.iter().map(|piece| piece.iov_len).sum();
        let (mut given, mut has_read) = (0, false);
        loop {
            // SAFETY: passed on to the caller.
            given += unsafe { self.hand_out(pieces, given) };
            if given == asked {
                break;
            }
            match self.open() {
                Ok(true) => continue,
                Ok(false) if has_read => break,
                Ok(false) => {}
                // What came before is good, and is taken first; this is found again.
                Err(_) if given > 0 => break,
                Err(fate) => return Err(fate),
            }
            match self.read(socket)? {
                None => break,
                Some(0) if given == 0 => return self.at_the_end(),
                Some(count) => self.end += count,
            }
            has_read = true;
        }
        Ok((given > 0).then_some(given))
    }

    /// Copies opened bytes to where the first `skip` bytes of `pieces` end. Returns how many.
    ///
    /// # Safety
    /// The pieces are writable memory.
    unsafe fn hand_out(&mut self, pieces: &[IoVec], mut skip: usize) -> usize {
        let before = self.at;
        for piece in pieces {
            let start = skip.min(piece.iov_len);
            skip -= start;
            let opened = &self.plain[self.at..self.len];
            let len = (piece.iov_len - start).min(opened.len());
            let to = piece.iov_base.cast::<u8>().wrapping_add(start);
            // SAFETY: a part of a piece, for which the caller vouches; the source is ours alone, so they do
            // not overlap.
            unsafe { to.copy_from_nonoverlapping(opened.as_ptr(), len) };
            self.at += len;
        }
        self.at - before
    }

    /// The length of the next record if it is there as a whole; an error if no record has that length.
    fn whole_record(&self) -> Result<Option<usize>, LossReason> {
        let there = &self.bytes[self.start..self.end];
        if there.len() < LENGTH {
            return Ok(None);
        }
        let len = usize::from(u16_at(there, 0));
        if len <= TAG || len > MOST {
            return Err(LossReason::Broke(format!(
                "it sent an encrypted record of {len} bytes, which none has"
            )));
        }
        Ok((there.len() >= LENGTH + len).then_some(len))
    }

    /// Decrypts the next record, whose predecessor is handed out. `false` if it is not there yet.
    fn open(&mut self) -> Result<bool, LossReason> {
        debug_assert!(self.at == self.len, "opened bytes must not be lost");
        let Some(len) = self.whole_record()? else { return Ok(false) };
        let from = self.start + LENGTH;
        let opened = self.keys.open(self.number, &self.bytes[from..from + len], &mut self.plain);
        (self.at, self.len) = (0, opened.map_err(|_| forged())?);
        self.start = from + len;
        self.number += 1;
        Ok(true)
    }

    /// Reads behind what has come.
    fn read(&mut self, socket: BorrowedFd<'_>) -> io::Result<Option<usize>> {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let free = &mut self.bytes[self.end..];
        // SAFETY: the piece is the free part of our own buffer, which nobody else uses.
        unsafe { sys::receive(socket, &[sys::piece(free.as_mut_ptr(), free.len())]) }
    }

    /// What the end of the stream means here.
    fn at_the_end(&self) -> Result<Option<usize>, LossReason> {
        if self.start == self.end {
            return Ok(Some(0));
        }
        Err(LossReason::Lost(
            "its connection ended within an encrypted record; it has ended, was killed or was cut off".into(),
        ))
    }
}

/// A record is not what the peer sent.
fn forged() -> LossReason {
    LossReason::Broke(
        "an encrypted record from it does not decrypt: something on the way has changed, repeated or left out bytes"
            .into(),
    )
}

#[cfg(test)]
mod tests;
