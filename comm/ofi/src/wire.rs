//! What packets between two ranks are made of. All numbers are little-endian; bytes marked `0` are zero.
//!
//! ```text
//! packet   token 16 | from 4 | number 4 | taken 4 | 0 4 | frames
//! frame    what 1 | last 1 | kind 2 | length 4 | bytes
//!
//! number   of the packet, from 1; 0 if it is there for `taken` only
//! taken    how many packets of the receiver's its sender has taken
//!
//! what 1   piece of a message of this kind; `last` is 1 in its last piece
//!      2   fence       number 8
//!      3   fenced      number 8, of the fence that all puts before it are over for
//!      4   atomic      segment 4 | 0 4 | operation 32
//!      5   was         the word before the operation, 8
//!      6   goodbye
//!      7   heard       the goodbye
//! ```

use hmac::{Hmac, KeyInit, Mac};
use scash_comm::Secret;
use scash_comm::remote::{Garbage, OPERATION, Operation, garbage, u16_at, u32_at, u64_at};
use sha2::Sha256;

/// Bytes before the frames of a packet.
pub(super) const HEADER: usize = TOKEN + 16;
/// Bytes before those of a frame.
pub(super) const FRAME: usize = 8;
/// Longest message. What is longer goes by put.
pub(super) const MAX_MESSAGE: usize = 1 << 30;
/// Bytes of the longest frame that is no piece of a message, its head included.
pub(super) const LONGEST_WORD: usize = FRAME + 8 + OPERATION;

const TOKEN: usize = 16;

/// Shows that a packet is from this rank of this job to that: made of the job's secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Token([u8; TOKEN]);

impl Token {
    /// The token of packets from one rank to another.
    pub(super) fn new(secret: &Secret, from: u32, to: u32) -> Token {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.bytes()).expect("HMAC takes keys of any length");
        mac.update(b"scash ofi packet");
        mac.update(&from.to_le_bytes());
        mac.update(&to.to_le_bytes());
        let mut token = [0; TOKEN];
        token.copy_from_slice(&mac.finalize().into_bytes()[..TOKEN]);
        Token(token)
    }

    /// Whether a packet has this token, in a time that does not tell where they differ.
    pub(super) fn is_of(&self, packet: &[u8; HEADER]) -> bool {
        self.0.iter().zip(packet).fold(0, |differences, (ours, theirs)| differences | (ours ^ theirs)) == 0
    }
}

/// What a packet begins with, but for its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) from: u32,
    pub(super) number: u32,
    pub(super) taken: u32,
}

impl Header {
    /// The header's bytes.
    pub(super) fn encode(self, token: Token) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..16].copy_from_slice(&token.0);
        bytes[16..20].copy_from_slice(&self.from.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.taken.to_le_bytes());
        bytes
    }

    /// Reads a header. Whose it is, its token says.
    pub(super) fn decode(bytes: &[u8; HEADER]) -> Header {
        Header { from: u32_at(bytes, 16), number: u32_at(bytes, 20), taken: u32_at(bytes, 24) }
    }
}

/// One thing that a packet says, but for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketItem {
    Fence(u64),
    Fenced(u64),
    Atomic { segment: u32, operation: Operation },
    Was(u64),
    Goodbye,
    Heard,
}

/// One frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    Piece { kind: u16, last: bool, bytes: &'a [u8] },
    Word(PacketItem),
}

/// The head of a piece of a message.
pub(super) fn piece_head(kind: u16, last: bool, len: u32) -> [u8; FRAME] {
    head(1, u8::from(last), kind, len)
}

fn head(what: u8, last: u8, kind: u16, len: u32) -> [u8; FRAME] {
    let mut bytes = [0; FRAME];
    bytes[..2].copy_from_slice(&[what, last]);
    bytes[2..4].copy_from_slice(&kind.to_le_bytes());
    bytes[4..].copy_from_slice(&len.to_le_bytes());
    bytes
}

impl PacketItem {
    /// The frame's bytes, and how many they are.
    pub(super) fn encode(self) -> ([u8; LONGEST_WORD], usize) {
        let mut bytes = [0; LONGEST_WORD];
        let (what, len) = match self {
            PacketItem::Fence(number) => (2, number_into(&mut bytes, number)),
            PacketItem::Fenced(number) => (3, number_into(&mut bytes, number)),
            PacketItem::Atomic { segment, operation } => {
                bytes[FRAME..FRAME + 4].copy_from_slice(&segment.to_le_bytes());
                bytes[FRAME + 8..].copy_from_slice(&operation.encode());
                (4, 8 + OPERATION)
            }
            PacketItem::Was(before) => (5, number_into(&mut bytes, before)),
            PacketItem::Goodbye => (6, 0),
            PacketItem::Heard => (7, 0),
        };
        let short = u32::try_from(len).expect("at most LONGEST_WORD");
        bytes[..FRAME].copy_from_slice(&head(what, 0, 0, short));
        (bytes, FRAME + len)
    }

    fn decode(what: u8, bytes: &[u8]) -> Result<PacketItem, Garbage> {
        let word = match (what, bytes.len()) {
            (2, 8) => PacketItem::Fence(u64_at(bytes, 0)),
            (3, 8) => PacketItem::Fenced(u64_at(bytes, 0)),
            (4, _) => match bytes.split_first_chunk::<8>() {
                Some((place, operation)) if u32_at(place, 4) == 0 => {
                    let Ok(operation) = operation.try_into() else {
                        return garbage("an atomic operation of another length");
                    };
                    PacketItem::Atomic { segment: u32_at(place, 0), operation: Operation::decode(operation)? }
                }
                _ => return garbage("an atomic operation without its place"),
            },
            (5, 8) => PacketItem::Was(u64_at(bytes, 0)),
            (6, 0) => PacketItem::Goodbye,
            (7, 0) => PacketItem::Heard,
            _ => return garbage(format!("a frame {what} of {} bytes", bytes.len())),
        };
        Ok(word)
    }
}

fn number_into(bytes: &mut [u8; LONGEST_WORD], number: u64) -> usize {
    bytes[FRAME..FRAME + 8].copy_from_slice(&number.to_le_bytes());
    8
}

/// Takes the first frame off the frames of a packet; none, if there is none left.
pub(super) fn next_frame<'a>(frames: &mut &'a [u8]) -> Result<Option<Frame<'a>>, Garbage> {
    if frames.is_empty() {
        return Ok(None);
    }
    let Some((head, rest)) = frames.split_first_chunk::<FRAME>() else {
        return garbage("a frame that is cut off in its head");
    };
    let (last, kind) = (head[1], u16_at(head, 2));
    let Some((bytes, rest)) = rest.split_at_checked(u32_at(head, 4) as usize) else {
        return garbage("a frame that is cut off");
    };
    *frames = rest;
    match (head[0], last, kind) {
        (1, 0 | 1, kind) => Ok(Some(Frame::Piece { kind, last: last == 1, bytes })),
        (what, 0, 0) => Ok(Some(Frame::Word(PacketItem::decode(what, bytes)?))),
        _ => garbage(format!("a frame that starts with {head:02x?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use scash_comm::{Atomic, Rmw};

    const WORDS: [PacketItem; 6] = [
        PacketItem::Fence(1),
        PacketItem::Fenced(u64::MAX),
        PacketItem::Atomic { segment: 7, operation: Operation { offset: 16, op: Atomic::U32(Rmw::Add(3)) } },
        PacketItem::Was(9),
        PacketItem::Goodbye,
        PacketItem::Heard,
    ];

    #[test]
    fn what_is_said_is_what_is_heard() {
        let mut packet = Vec::new();
        for word in WORDS {
            let (bytes, len) = word.encode();
            packet.extend_from_slice(&bytes[..len]);
        }
        packet.extend_from_slice(&piece_head(77, true, 3));
        packet.extend_from_slice(b"abc");
        let mut frames = &packet[..];
        for word in WORDS {
            assert_eq!(next_frame(&mut frames), Ok(Some(Frame::Word(word))));
        }
        let piece = Frame::Piece { kind: 77, last: true, bytes: b"abc" };
        assert_eq!(next_frame(&mut frames), Ok(Some(piece)));
        assert_eq!(next_frame(&mut frames), Ok(None));
    }

    #[test]
    fn a_packet_is_known_by_who_sent_it_to_whom_in_which_job() {
        let secret = Secret::random().unwrap();
        let header = Header { from: 1, number: 5, taken: 6 };
        let packet = header.encode(Token::new(&secret, 1, 2));
        assert_eq!(Header::decode(&packet), header);
        assert!(Token::new(&secret, 1, 2).is_of(&packet));
        for other in [
            Token::new(&secret, 2, 1),
            Token::new(&secret, 1, 3),
            Token::new(&Secret::random().unwrap(), 1, 2),
        ] {
            assert!(!other.is_of(&packet));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_reading_frames_panic_or_go_on_for_ever(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut frames = &bytes[..];
            for _ in 0..=bytes.len() {
                match next_frame(&mut frames) {
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => return Ok(()),
                }
            }
            prop_assert!(false, "more frames than bytes");
        }
    }
}
