//! What travels on the connections, byte by byte. Pure: bytes in, values out, and anything that no correct
//! peer sends is a [`Garbage`]. All numbers are little-endian; bytes marked `0` must be zero.
//!
//! # Stream connection (both directions): a sequence of frames
//!
//! ```text
//! message   0        1   2        4            8
//!           +--------+---+--------+------------+-----------------+
//!           | type 1 | 0 | kind   | length     | length bytes    |
//!           +--------+---+--------+------------+-----------------+
//!
//! long      0        1   2        4            8            8 + h
//!           +--------+---+--------+------------+------------+----------------------------+
//!           | type 4 | h | kind   | length     | h bytes    | length - h bytes           |
//!           +--------+---+--------+------------+------------+----------------------------+
//!                    a message whose receiver says, when it has seen the first h bytes, where the others go
//!
//! padding   0        1   2        4            8
//!           +--------+---+--------+------------+-----------------+
//!           | type 5 | 0 | 0      | length     | length bytes    |
//!           +--------+---+--------+------------+-----------------+
//!                    nothing; it moves what follows (`outgoing`)
//!
//! puts      0        1   2        4            8                     8 + 16 count
//!           +--------+---+--------+------------+---------------------+----------------------------+
//!           | type 2 | 0 | count  | 0          | count targets       | the bytes of each target   |
//!           +--------+---+--------+------------+---------------------+----------------------------+
//! target    0            2   4        8                 16
//!           +------------+---+--------+-----------------+
//!           | segment    | 0 | length | offset          |
//!           +------------+---+--------+-----------------+
//!
//! goodbye   0        1   2                     8
//!           +--------+-------------------------+
//!           | type 3 | 0                       |
//!           +--------+-------------------------+
//! ```
//! All targets of a run of puts come before the bytes of any, so that one vectored read can place them all.
//!
//! # Service connection: requests one way, replies the other, one request at a time
//!
//! ```text
//! header    0        1   2        4            8                 16
//!           +--------+---+--------+------------+-----------------+
//!           | type   | 0 | segment| count      | number          |
//!           +--------+---+--------+------------+-----------------+
//!
//! request 1 get      segment and count as said; number = the position in the requester's stream that
//!                    the server must have taken before it reads; then count ranges of 16 bytes:
//!           0                 8                 16
//!           +-----------------+-----------------+
//!           | offset          | length          |
//!           +-----------------+-----------------+
//! request 5 atomic   segment as said, count 0; number = the position in the requester's stream that the
//!                    server must have taken before it executes; then an operation:
//!           0        1        2                 8                 16                24                32
//!           +--------+--------+-----------------+-----------------+-----------------+-----------------+
//!           | code   | width  | 0               | offset          | operand         | new             |
//!           +--------+--------+-----------------+-----------------+-----------------+-----------------+
//!                    code: 0 load, 1 add, 2 and, 3 or, 4 xor, 5 swap, 6 compare and swap; width: 4 or 8
//!                    bytes; operand: 0 for a load, the expected value for compare and swap; new: 0 but for
//!                    compare and swap
//! request 2 fence    number = the position in the requester's stream up to which the server shall take it
//! request 6 rouse    number = the position in the requester's stream; it ends a nap, and has no reply
//! reply   1 got      number = bytes that follow: the ranges of the request, one after the other
//! reply   2 fenced   number = the position of the request
//! either  3 goodbye  number 0
//! reply   4 behind   number = the position of the request: the stream has not come that far, fence first
//! reply   5 was      number = the word before the operation
//! ```

use super::sys::MAX_PIECES;
use crate::LONGEST_HEAD;
use crate::remote::{Garbage, garbage, u16_at, u32_at, u64_at};

/// Version of everything on the wire, the handshake included. Ranks that differ do not form a job.
pub(super) const VERSION: u16 = 7;

/// Longest message. What is longer goes by put.
pub(super) const MAX_MESSAGE: usize = 1 << 30;
/// Longest single target of a put; longer puts are split.
pub(super) const MAX_TARGET: usize = 1 << 30;
/// Longest padding: less than an OS page.
pub(super) const MAX_PADDING: usize = 4095;
/// Targets in one run of puts: half the pieces of a vectored read, which also takes what follows the run.
pub(super) const MAX_RUN: usize = 512;
/// Ranges in one request: those, and the header, are one vectored reply.
pub(super) const MAX_RANGES: usize = MAX_PIECES - 1;

/// Bytes of a frame's header on the stream.
pub(super) const HEAD: usize = 8;
/// Bytes of a target.
pub(super) const TARGET: usize = 16;
/// Bytes of a header on a service connection.
pub(super) const SERVICE_HEAD: usize = 16;
/// Bytes of a range in a request.
pub(super) const RANGE: usize = 16;

/// The header of a frame on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameHead {
    /// A message of `len` bytes.
    Message { kind: u16, len: usize },
    /// A long message: `len` bytes, of which the first `head` are its head, and at least one is not.
    Long { kind: u16, head: u8, len: usize },
    /// A run of `count` puts.
    Puts { count: u16 },
    /// Nothing: `len` bytes to be passed over.
    Padding { len: u16 },
    /// The sender drops its endpoint.
    Goodbye,
}

impl FrameHead {
    /// The header's bytes.
    pub(super) fn encode(self) -> [u8; HEAD] {
        let length = |len| u32::try_from(len).expect("bounded by MAX_MESSAGE");
        let (kind, head, small, number) = match self {
            FrameHead::Message { kind, len } => (1, 0, kind, length(len)),
            FrameHead::Puts { count } => (2, 0, count, 0),
            FrameHead::Goodbye => (3, 0, 0, 0),
            FrameHead::Long { kind, head, len } => (4, head, kind, length(len)),
            FrameHead::Padding { len } => (5, 0, 0, len.into()),
        };
        let mut bytes = [kind, head, 0, 0, 0, 0, 0, 0];
        bytes[2..4].copy_from_slice(&small.to_le_bytes());
        bytes[4..8].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    /// Reads a header, if all its bytes are there.
    pub(super) fn decode(bytes: &[u8]) -> Result<Option<FrameHead>, Garbage> {
        let Some(bytes) = bytes.first_chunk::<HEAD>() else { return Ok(None) };
        let (small, number) = (u16_at(bytes, 2), u32_at(bytes, 4));
        let (kind, len) = (small, number as usize);
        let head = match (bytes[0], bytes[1]) {
            (1, 0) | (4, _) if len > MAX_MESSAGE => {
                return garbage(format!("a message of {len} bytes, more than {MAX_MESSAGE}"));
            }
            (1, 0) => FrameHead::Message { kind, len },
            (4, head) if usize::from(head) <= LONGEST_HEAD && usize::from(head) < len => {
                FrameHead::Long { kind, head, len }
            }
            (2, 0) if number == 0 && (1..=MAX_RUN).contains(&usize::from(small)) => {
                FrameHead::Puts { count: small }
            }
            (3, 0) if number == 0 && small == 0 => FrameHead::Goodbye,
            (5, 0) if len <= MAX_PADDING && small == 0 => FrameHead::Padding { len: u16_at(bytes, 4) },
            _ => return garbage(format!("a frame that starts with {bytes:02x?}")),
        };
        Ok(Some(head))
    }
}

/// Where the bytes of one put go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PutTarget {
    pub(super) segment: u16,
    pub(super) len: u32,
    pub(super) offset: u64,
}

impl PutTarget {
    /// The target's bytes.
    pub(super) fn encode(self) -> [u8; TARGET] {
        let mut bytes = [0; TARGET];
        bytes[..2].copy_from_slice(&self.segment.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    /// Reads a target.
    pub(super) fn decode(bytes: &[u8; TARGET]) -> Result<PutTarget, Garbage> {
        if u16_at(bytes, 2) != 0 {
            return garbage(format!("a put's target {bytes:02x?}"));
        }
        Ok(PutTarget { segment: u16_at(bytes, 0), len: u32_at(bytes, 4), offset: u64_at(bytes, 8) })
    }
}

/// The header of what travels towards a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Send me `count` ranges of `segment`, as they are after the puts before `position`.
    Get { segment: u16, count: u32, position: u64 },
    /// Execute the operation that follows on a word of `segment`, after the puts before `position`.
    Atomic { segment: u16, position: u64 },
    /// Tell me when you have taken my stream up to here.
    Fence { position: u64 },
    /// Have somebody look at my stream, of which this is the end.
    Rouse { position: u64 },
    /// I drop my endpoint.
    Goodbye,
}

impl Request {
    /// The header's bytes.
    pub(super) fn encode(self) -> [u8; SERVICE_HEAD] {
        match self {
            Request::Get { segment, count, position } => service_head(1, segment, count, position),
            Request::Atomic { segment, position } => service_head(5, segment, 0, position),
            Request::Fence { position } => service_head(2, 0, 0, position),
            Request::Rouse { position } => service_head(6, 0, 0, position),
            Request::Goodbye => service_head(3, 0, 0, 0),
        }
    }

    /// Reads a header, if all its bytes are there.
    pub(super) fn decode(bytes: &[u8]) -> Result<Option<Request>, Garbage> {
        let Some(bytes) = bytes.first_chunk::<SERVICE_HEAD>() else { return Ok(None) };
        let (segment, count, number) = (u16_at(bytes, 2), u32_at(bytes, 4), u64_at(bytes, 8));
        let request = match (bytes[0], bytes[1], segment, count, number) {
            (1, 0, _, count, position) if (1..=MAX_RANGES).contains(&(count as usize)) => {
                Request::Get { segment, count, position }
            }
            (5, 0, segment, 0, position) => Request::Atomic { segment, position },
            (2, 0, 0, 0, position) => Request::Fence { position },
            (6, 0, 0, 0, position) => Request::Rouse { position },
            (3, 0, 0, 0, 0) => Request::Goodbye,
            _ => return garbage(format!("a request that starts with {bytes:02x?}")),
        };
        Ok(Some(request))
    }
}

/// The header of what a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// `bytes` bytes follow.
    Got { bytes: u64 },
    /// Your stream is taken up to `position`.
    Fenced { position: u64 },
    /// I drop my endpoint.
    Goodbye,
    /// Your stream is not taken up to `position`.
    NotYet { position: u64 },
    /// The operation is executed; the word was `before`.
    Was { before: u64 },
}

impl Reply {
    /// The header's bytes.
    pub(super) fn encode(self) -> [u8; SERVICE_HEAD] {
        match self {
            Reply::Got { bytes } => service_head(1, 0, 0, bytes),
            Reply::Fenced { position } => service_head(2, 0, 0, position),
            Reply::Goodbye => service_head(3, 0, 0, 0),
            Reply::NotYet { position } => service_head(4, 0, 0, position),
            Reply::Was { before } => service_head(5, 0, 0, before),
        }
    }

    /// Reads a header.
    pub(super) fn decode(bytes: &[u8; SERVICE_HEAD]) -> Result<Reply, Garbage> {
        match (bytes[0], bytes[1], u16_at(bytes, 2), u32_at(bytes, 4), u64_at(bytes, 8)) {
            (1, 0, 0, 0, bytes) => Ok(Reply::Got { bytes }),
            (2, 0, 0, 0, position) => Ok(Reply::Fenced { position }),
            (3, 0, 0, 0, 0) => Ok(Reply::Goodbye),
            (4, 0, 0, 0, position) => Ok(Reply::NotYet { position }),
            (5, 0, 0, 0, before) => Ok(Reply::Was { before }),
            _ => garbage(format!("a reply that starts with {bytes:02x?}")),
        }
    }
}

fn service_head(kind: u8, segment: u16, count: u32, number: u64) -> [u8; SERVICE_HEAD] {
    let mut bytes = [0; SERVICE_HEAD];
    bytes[0] = kind;
    bytes[2..4].copy_from_slice(&segment.to_le_bytes());
    bytes[4..8].copy_from_slice(&count.to_le_bytes());
    bytes[8..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// A range of a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl Range {
    /// The range's bytes.
    pub(super) fn encode(self) -> [u8; RANGE] {
        let mut bytes = [0; RANGE];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// Reads a range; every pattern of bits is one.
    pub(super) fn decode(bytes: &[u8; RANGE]) -> Range {
        Range { offset: u64_at(bytes, 0), len: u64_at(bytes, 8) }
    }
}

#[cfg(test)]
mod tests;
