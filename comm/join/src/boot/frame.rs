//! Packets and messages of the boot line as values: cut, join, encode, decode. No IO.
//!
//! The byte diagrams are in the [module's documentation](super). Every decoder here takes bytes that a
//! stranger wrote: it answers rubbish with [`Rubbish`]; what it holds is bounded by what has really arrived,
//! and by the receiver's [`Limits`].

use std::os::fd::OwnedFd;

/// First two bytes of every packet; the low byte is the version of this format.
const MAGIC: u16 = 0x5C04;
/// Bytes of a packet's header.
pub(super) const HEADER: usize = 16;
/// Payload bytes of one packet. Far below the default socket buffer (208 KiB), so that a packet always fits.
pub(super) const MAX_PAYLOAD: usize = 64 << 10;
/// Descriptors of one packet: the kernel's `SCM_MAX_FD`.
pub(super) const MAX_FDS: usize = 253;

/// How much one message may carry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) bytes: usize,
    pub(super) fds: usize,
}

impl Limits {
    /// For what a rank sends: bounds what a lying one can make the launcher hold.
    pub(super) const FROM_RANK: Limits = Limits { bytes: 256 << 20, fds: 4096 };
    /// For what the launcher sends, which is what all ranks gave.
    pub(super) const FROM_LAUNCHER: Limits = Limits { bytes: usize::MAX, fds: usize::MAX };
}

/// What a message is. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum LineKind {
    Start = 1,
    Hello = 2,
    Welcome = 3,
    Gather = 4,
    Gathered = 5,
    Finalized = 6,
    Abort = 7,
    Cut = 8,
}

impl LineKind {
    fn decode(byte: u8) -> Option<LineKind> {
        use LineKind::{Abort, Cut, Finalized, Gather, Gathered, Hello, Start, Welcome};
        [Start, Hello, Welcome, Gather, Gathered, Finalized, Abort, Cut]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// Bytes or descriptors that no correct sender sends. The text says what is wrong with them.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Rubbish(pub(super) String);

pub(super) fn rubbish<T>(why: impl Into<String>) -> Result<T, Rubbish> {
    Err(Rubbish(why.into()))
}

/// A whole message.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: LineKind,
    pub(super) sequence: u32,
    pub(super) bytes: Vec<u8>,
    pub(super) fds: Vec<OwnedFd>,
}

impl Message {
    /// A message without descriptors.
    pub(super) fn plain(kind: LineKind, bytes: Vec<u8>) -> Message {
        Message { kind, sequence: 0, bytes, fds: Vec::new() }
    }

    /// Its packet number `index`; `None` past the last.
    pub(super) fn packet(&self, index: usize) -> Option<Packet<'_, OwnedFd>> {
        packet(self.kind, self.sequence, &self.bytes, &self.fds, index)
    }
}

/// What goes to the socket in one call.
#[derive(Debug)]
pub(super) struct Packet<'a, F> {
    pub(super) header: [u8; HEADER],
    pub(super) payload: &'a [u8],
    pub(super) fds: &'a [F],
}

/// Cuts packet number `index` out of a message; `None` past the last. Every message has at least one packet.
pub(super) fn packet<'a, F>(
    kind: LineKind,
    sequence: u32,
    bytes: &'a [u8],
    fds: &'a [F],
    index: usize,
) -> Option<Packet<'a, F>> {
    let count = bytes.len().div_ceil(MAX_PAYLOAD).max(fds.len().div_ceil(MAX_FDS)).max(1);
    if index >= count {
        return None;
    }
    let payload = slice(bytes, index, MAX_PAYLOAD);
    let fds = slice(fds, index, MAX_FDS);
    let last = u8::from(index + 1 == count);
    let mut header = [0; HEADER];
    header[0..2].copy_from_slice(&MAGIC.to_le_bytes());
    header[2] = kind as u8;
    header[3] = last;
    header[4..8].copy_from_slice(&sequence.to_le_bytes());
    header[8..12].copy_from_slice(&small(fds.len()).to_le_bytes());
    header[12..16].copy_from_slice(&small(payload.len()).to_le_bytes());
    Some(Packet { header, payload, fds })
}

/// The `index`th run of at most `run` items, which may be empty.
fn slice<T>(items: &[T], index: usize, run: usize) -> &[T] {
    let start = (index * run).min(items.len());
    let end = (start + run).min(items.len());
    &items[start..end]
}

/// A count that is bounded by [`MAX_PAYLOAD`] or [`MAX_FDS`].
fn small(count: usize) -> u32 {
    u32::try_from(count).expect("a packet's counts fit 32 bits")
}

/// Joins the packets of one sender into messages.
#[derive(Debug)]
pub(super) struct Assembler {
    limits: Limits,
    partial: Option<Message>,
}

impl Assembler {
    pub(super) fn new(limits: Limits) -> Assembler {
        Assembler { limits, partial: None }
    }

    /// Takes the next packet; returns the message that it completes.
    pub(super) fn push(&mut self, packet: &[u8], fds: Vec<OwnedFd>) -> Result<Option<Message>, Rubbish> {
        let mut reader = Reader::new(packet);
        let magic = reader.u16()?;
        let kind = reader.u8()?;
        let last = reader.u8()?;
        let sequence = reader.u32()?;
        let fd_count = reader.u32()?;
        let length = reader.u32()?;
        let payload = reader.rest();
        if magic != MAGIC {
            return rubbish(format!("a packet starts with {magic:#06x} instead of {MAGIC:#06x}"));
        }
        let Some(kind) = LineKind::decode(kind) else { return rubbish(format!("unknown kind {kind}")) };
        if length as usize != payload.len() {
            return rubbish(format!("a packet announces {length} bytes and carries {}", payload.len()));
        }
        if fd_count as usize != fds.len() {
            return rubbish(format!("a packet announces {fd_count} descriptors and carries {}", fds.len()));
        }
        // A sender that dribbles would keep its receiver busy for nothing.
        if last > 1 || (last == 0 && payload.len() < MAX_PAYLOAD && fds.len() < MAX_FDS) {
            return rubbish("a packet that is neither full nor the last of its message");
        }
        let message = self.grow(kind, sequence, payload, fds)?;
        if last == 1 {
            return Ok(Some(message));
        }
        self.partial = Some(message);
        Ok(None)
    }

    /// The partial message (or a new one) with a packet's contents added.
    fn grow(
        &mut self,
        kind: LineKind,
        sequence: u32,
        payload: &[u8],
        fds: Vec<OwnedFd>,
    ) -> Result<Message, Rubbish> {
        let mut message =
            self.partial.take().unwrap_or(Message { kind, sequence, bytes: Vec::new(), fds: Vec::new() });
        if (message.kind, message.sequence) != (kind, sequence) {
            return rubbish(format!("a {kind:?} packet in the middle of a {:?} message", message.kind));
        }
        let Limits { bytes: max_bytes, fds: max_fds } = self.limits;
        if payload.len() > max_bytes - message.bytes.len() {
            return rubbish(format!("a {kind:?} message of more than {max_bytes} bytes"));
        }
        if fds.len() > max_fds - message.fds.len() {
            return rubbish(format!("a {kind:?} message of more than {max_fds} descriptors"));
        }
        message.bytes.extend_from_slice(payload);
        message.fds.extend(fds);
        Ok(message)
    }
}

/// Takes numbers and strings off the front of bytes.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Rubbish> {
        match self.bytes.split_at_checked(length) {
            Some((head, tail)) => {
                self.bytes = tail;
                Ok(head)
            }
            None => rubbish(format!("{length} bytes expected where {} are left", self.bytes.len())),
        }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Rubbish> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Rubbish> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, Rubbish> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Rubbish> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A length, as wide as memory.
    pub(super) fn length(&mut self) -> Result<usize, Rubbish> {
        let length = u64::from_le_bytes(self.array()?);
        usize::try_from(length).or_else(|_| rubbish(format!("a length of {length} bytes")))
    }

    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    /// Checks that nothing is left.
    pub(super) fn end(self) -> Result<(), Rubbish> {
        if self.bytes.is_empty() { Ok(()) } else { rubbish(format!("{} bytes too many", self.bytes.len())) }
    }
}

/// What one rank gave to a gather: its blob and its descriptors.
pub(super) type Share = (Vec<u8>, Vec<OwnedFd>);

/// All ranks' shares as the message that goes to each of them.
pub(super) fn encode_gathered(sequence: u32, shares: Vec<Share>) -> Message {
    let mut bytes = Vec::with_capacity(shares.iter().map(|(blob, _)| blob.len() + 12).sum());
    for (blob, fds) in &shares {
        bytes.extend_from_slice(&(blob.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&small(fds.len()).to_le_bytes());
    }
    let mut all_fds = Vec::new();
    for (blob, fds) in shares {
        bytes.extend_from_slice(&blob);
        all_fds.extend(fds);
    }
    Message { kind: LineKind::Gathered, sequence, bytes, fds: all_fds }
}

/// The inverse of [`encode_gathered`], for a job of `size` ranks.
pub(super) fn decode_gathered(size: u32, message: Message) -> Result<Vec<Share>, Rubbish> {
    let mut reader = Reader::new(&message.bytes);
    let mut lengths = Vec::with_capacity(size as usize);
    for _ in 0..size {
        lengths.push((reader.length()?, reader.u32()? as usize));
    }
    let mut fds = message.fds.into_iter();
    let mut shares = Vec::with_capacity(size as usize);
    for (length, fd_count) in lengths {
        let blob = reader.take(length)?.to_vec();
        let own: Vec<OwnedFd> = fds.by_ref().take(fd_count).collect();
        if own.len() != fd_count {
            return rubbish(format!("{} descriptors where {fd_count} were announced", own.len()));
        }
        shares.push((blob, own));
    }
    reader.end()?;
    Ok(shares)
}

#[cfg(test)]
mod tests;
