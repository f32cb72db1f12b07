//! What engines say to each other: one message of the endpoint each, its kind and head as below, then the
//! body. Numbers are little-endian.
//!
//! | kind | name | head | body |
//! |---|---|---|---|
//! | 1 | Eager | context `u16`, tag `u64` | the whole message |
//! | 2 | Offer | context `u16`, tag `u64`, length `u64`, the send's number `u64`, its address in the sender's process `u64` (0: not to be read), whether a thread waits for its end `u64` (0 or 1) | none |
//! | 3 | Accept | the send's number `u64`, the receive's number `u64` | none |
//! | 4 | Data | the receive's number `u64`, offset `u64` | the bytes from there on |
//! | 5 | Done | the send's number `u64` | none |
//! | 6 | Push | context `u16`, tag `u64`, length `u64`, the push's number `u64` | none |
//! | 7 | Pushed | the push's number `u64` | the bytes that follow those before it |
//! | 8 | Credit | bytes `u64` | none |
//! | 9 | Withdraw | the send's number `u64` | none |
//! | 10 | Abort | the collective operation's number `u64`, the rank because of which it fails `u64` | none |
//! | 11 | Get | the get's number `u64`, offset in registered memory `u64`, blocks `u64`, their length `u64`, their distance `u64` | none |
//! | 12 | Mark | the mark's number `u64` | none |
//! | 13 | Marked | the mark's number `u64` | none |
//! | 14 | Active | the handler's number `u16` | the bytes for it |
//! | 15 | Refill | bytes of active messages `u64` | none |
//! | 16 | Withdrawn | the send's number `u64` | none |
//! | 17 | Ask | nothing: whoever waits for a rank that says nothing wants a sign of life | none |
//! | 18 | Here | nothing: the sign | none |
//! | 19 | Reading | the send's number `u64`: a thread that waits for it reads it | none |
//! | 20 | Playing | context `u16`, tag `u64` of a collective operation that waits for the other rank | none |
//! | 21 | Drained | nothing: no more comes of this rank until a checkpoint is over | none |
//!
//! A get is answered with Data, like an accepted offer. All numbers are the business of the rank that gave
//! them; the other one only repeats them.

use super::matching::Envelope;

/// Kinds of messages begin here, so that an endpoint's other users can have theirs.
pub(super) const FIRST_KIND: u16 = 0x4D00;
/// Bytes of the head of an eager message.
const EAGER_HEAD: usize = 2 + 8;
/// Bytes of the longest head.
const LONGEST: usize = 42;

/// The head of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageHead {
    Eager { context: u16, tag: u64 },
    Offer { context: u16, tag: u64, len: u64, send: u64, address: u64, waits: bool },
    Accept { send: u64, receive: u64 },
    Data { receive: u64, offset: u64 },
    Done { send: u64 },
    Push { context: u16, tag: u64, len: u64, push: u64 },
    Pushed { push: u64 },
    Credit { bytes: u64 },
    Withdraw { send: u64 },
    Abort { operation: u64, culprit: u64 },
    Get { get: u64, offset: u64, count: u64, len: u64, stride: u64 },
    Mark { mark: u64 },
    Marked { mark: u64 },
    Active { handler: u16 },
    Refill { bytes: u64 },
    Withdrawn { send: u64 },
    Ask,
    Here,
    Reading { send: u64 },
    Playing { context: u16, tag: u64 },
    Drained,
}

/// An encoded head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Encoded {
    pub(super) kind: u16,
    bytes: [u8; LONGEST],
    len: usize,
}

impl Encoded {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

struct Writer(Encoded);

impl Writer {
    fn new(number: u16) -> Self {
        Self(Encoded { kind: FIRST_KIND + number, bytes: [0; LONGEST], len: 0 })
    }

    fn put(mut self, bytes: &[u8]) -> Self {
        self.0.bytes[self.0.len..self.0.len + bytes.len()].copy_from_slice(bytes);
        self.0.len += bytes.len();
        self
    }

    fn words(self, words: &[u64]) -> Encoded {
        words.iter().fold(self, |writer, word| writer.put(&word.to_le_bytes())).0
    }
}

impl MessageHead {
    #[inline]
    pub(super) fn encode(self) -> Encoded {
        match self {
            MessageHead::Eager { context, tag } => Writer::new(1).put(&context.to_le_bytes()).words(&[tag]),
            MessageHead::Offer { context, tag, len, send, address, waits } => {
                Writer::new(2).put(&context.to_le_bytes()).words(&[tag, len, send, address, waits.into()])
            }
            MessageHead::Accept { send, receive } => Writer::new(3).words(&[send, receive]),
            MessageHead::Data { receive, offset } => Writer::new(4).words(&[receive, offset]),
            MessageHead::Done { send } => Writer::new(5).words(&[send]),
            MessageHead::Push { context, tag, len, push } => {
                Writer::new(6).put(&context.to_le_bytes()).words(&[tag, len, push])
            }
            MessageHead::Pushed { push } => Writer::new(7).words(&[push]),
            MessageHead::Credit { bytes } => Writer::new(8).words(&[bytes]),
            MessageHead::Withdraw { send } => Writer::new(9).words(&[send]),
            MessageHead::Abort { operation, culprit } => Writer::new(10).words(&[operation, culprit]),
            MessageHead::Get { get, offset, count, len, stride } => {
                Writer::new(11).words(&[get, offset, count, len, stride])
            }
            MessageHead::Mark { mark } => Writer::new(12).words(&[mark]),
            MessageHead::Marked { mark } => Writer::new(13).words(&[mark]),
            MessageHead::Active { handler } => Writer::new(14).put(&handler.to_le_bytes()).words(&[]),
            MessageHead::Refill { bytes } => Writer::new(15).words(&[bytes]),
            MessageHead::Withdrawn { send } => Writer::new(16).words(&[send]),
            MessageHead::Ask => Writer::new(17).words(&[]),
            MessageHead::Here => Writer::new(18).words(&[]),
            MessageHead::Reading { send } => Writer::new(19).words(&[send]),
            MessageHead::Playing { context, tag } => {
                Writer::new(20).put(&context.to_le_bytes()).words(&[tag])
            }
            MessageHead::Drained => Writer::new(21).words(&[]),
        }
    }

    /// Reads the head of a message; returns it and the body. `None`: no engine says that.
    #[inline]
    pub(super) fn decode(kind: u16, message: &[u8]) -> Option<(MessageHead, &[u8])> {
        let mut rest = message;
        let mut context = || {
            let (bytes, after) = rest.split_first_chunk()?;
            rest = after;
            Some(u16::from_le_bytes(*bytes))
        };
        let number = kind.checked_sub(FIRST_KIND)?;
        let context = if matches!(number, 1 | 2 | 6 | 14 | 20) { context()? } else { 0 };
        let mut word = || {
            let (bytes, after) = rest.split_first_chunk()?;
            rest = after;
            Some(u64::from_le_bytes(*bytes))
        };
        let head = match number {
            1 => MessageHead::Eager { context, tag: word()? },
            2 => {
                let [tag, len, send, address, waits] = [word()?, word()?, word()?, word()?, word()?];
                let waits = [false, true].into_iter().find(|&it| u64::from(it) == waits)?;
                MessageHead::Offer { context, tag, len, send, address, waits }
            }
            3 => MessageHead::Accept { send: word()?, receive: word()? },
            4 => MessageHead::Data { receive: word()?, offset: word()? },
            5 => MessageHead::Done { send: word()? },
            6 => MessageHead::Push { context, tag: word()?, len: word()?, push: word()? },
            7 => MessageHead::Pushed { push: word()? },
            8 => MessageHead::Credit { bytes: word()? },
            9 => MessageHead::Withdraw { send: word()? },
            10 => MessageHead::Abort { operation: word()?, culprit: word()? },
            11 => MessageHead::Get {
                get: word()?,
                offset: word()?,
                count: word()?,
                len: word()?,
                stride: word()?,
            },
            12 => MessageHead::Mark { mark: word()? },
            13 => MessageHead::Marked { mark: word()? },
            14 => MessageHead::Active { handler: context },
            15 => MessageHead::Refill { bytes: word()? },
            16 => MessageHead::Withdrawn { send: word()? },
            17 => MessageHead::Ask,
            18 => MessageHead::Here,
            19 => MessageHead::Reading { send: word()? },
            20 => MessageHead::Playing { context, tag: word()? },
            21 => MessageHead::Drained,
            _ => return None,
        };
        (head.has_body() || rest.is_empty()).then_some((head, rest))
    }

    fn has_body(self) -> bool {
        matches!(
            self,
            MessageHead::Eager { .. }
                | MessageHead::Data { .. }
                | MessageHead::Pushed { .. }
                | MessageHead::Active { .. }
        )
    }
}

/// The kind of an [eager message](Head::Eager), and its head: encoded without a detour through memory, whose
/// parts a processor would have to put together again.
#[inline]
pub(super) fn eager_head(context: u16, tag: u64) -> (u16, [u8; EAGER_HEAD]) {
    let mut bytes = [0; EAGER_HEAD];
    bytes[..8].copy_from_slice(&(tag << 16 | u64::from(context)).to_le_bytes());
    bytes[8..].copy_from_slice(&tag.to_le_bytes()[6..]);
    (FIRST_KIND + 1, bytes)
}

/// The context, the tag and the body of an eager message; `None`: it is another one, or none.
#[inline]
pub(super) fn eager(kind: u16, message: &[u8]) -> Option<(u16, u64, &[u8])> {
    let (head, body) = message.split_first_chunk::<EAGER_HEAD>().filter(|_| kind == FIRST_KIND + 1)?;
    let [c, d, tag @ ..] = *head;
    Some((u16::from_le_bytes([c, d]), u64::from_le_bytes(tag), body))
}

/// The envelope of a message of `source`.
pub(super) fn envelope(source: u32, context: u16, tag: u64) -> Envelope {
    Envelope { context, source, tag }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head() -> impl Strategy<Value = MessageHead> {
        let word = any::<u64>;
        prop_oneof![
            (any::<u16>(), word()).prop_map(|(context, tag)| MessageHead::Eager { context, tag }),
            (any::<u16>(), word(), word(), word(), word(), any::<bool>()).prop_map(
                |(context, tag, len, send, address, waits)| {
                    MessageHead::Offer { context, tag, len, send, address, waits }
                }
            ),
            (word(), word()).prop_map(|(send, receive)| MessageHead::Accept { send, receive }),
            (word(), word()).prop_map(|(receive, offset)| MessageHead::Data { receive, offset }),
            word().prop_map(|send| MessageHead::Done { send }),
            (any::<u16>(), word(), word(), word()).prop_map(|(context, tag, len, push)| MessageHead::Push {
                context,
                tag,
                len,
                push
            }),
            word().prop_map(|push| MessageHead::Pushed { push }),
            word().prop_map(|bytes| MessageHead::Credit { bytes }),
            word().prop_map(|send| MessageHead::Withdraw { send }),
            (word(), word()).prop_map(|(operation, culprit)| MessageHead::Abort { operation, culprit }),
            (word(), word(), word(), word(), word()).prop_map(|(get, offset, count, len, stride)| {
                MessageHead::Get { get, offset, count, len, stride }
            }),
            word().prop_map(|mark| MessageHead::Mark { mark }),
            word().prop_map(|mark| MessageHead::Marked { mark }),
            any::<u16>().prop_map(|handler| MessageHead::Active { handler }),
            word().prop_map(|bytes| MessageHead::Refill { bytes }),
            word().prop_map(|send| MessageHead::Withdrawn { send }),
            Just(MessageHead::Ask),
            Just(MessageHead::Here),
            word().prop_map(|send| MessageHead::Reading { send }),
            (any::<u16>(), word()).prop_map(|(context, tag)| MessageHead::Playing { context, tag }),
        ]
    }

    proptest! {
        #[test]
        fn heads_come_back_as_they_were_sent(head in head(), body in prop::collection::vec(any::<u8>(), 0..20)) {
            let encoded = head.encode();
            let body = if head.has_body() { &body[..] } else { &[] };
            let message = [encoded.bytes(), body].concat();
            prop_assert_eq!(MessageHead::decode(encoded.kind, &message), Some((head, body)));
            if let Some((_, shortened)) = encoded.bytes().split_last() {
                prop_assert_eq!(MessageHead::decode(encoded.kind, shortened), None);
            }
        }

        #[test]
        fn any_bytes_are_a_head_or_nothing(
            number in 0..22u16, bytes in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            if let Some((head, body)) = MessageHead::decode(FIRST_KIND + number, &bytes) {
                prop_assert_eq!([head.encode().bytes(), body].concat(), bytes);
            }
        }
    }

    proptest! {
        #[test]
        fn the_short_way_to_an_eager_head_and_back_is_the_long_one(
            context in any::<u16>(), tag in any::<u64>(), body in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let encoded = MessageHead::Eager { context, tag }.encode();
            let (kind, head) = eager_head(context, tag);
            prop_assert_eq!((encoded.kind, encoded.bytes()), (kind, &head[..]));
            let message = [&head[..], &body].concat();
            prop_assert_eq!(eager(kind, &message), Some((context, tag, &body[..])));
            prop_assert_eq!(eager(kind, &head[1..]), None);
            prop_assert_eq!(eager(kind + 1, &message), None);
        }
    }

    #[test]
    fn other_kinds_are_not_ours() {
        assert_eq!(MessageHead::decode(3, &[0; 16]), None);
        assert_eq!(MessageHead::decode(u16::MAX, &[0; 16]), None);
    }
}
