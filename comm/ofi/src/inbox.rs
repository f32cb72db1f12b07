//! What has arrived and is not delivered yet, in one growing buffer: once it has its size, messages cost no
//! allocation.

use scash_comm::Event;

/// Bytes before each payload: from 4 | kind 2 | is a message 1 | 0 1 | length 8.
const HEAD: usize = 16;

/// Events, one behind the other.
#[derive(Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
}

impl Inbox {
    /// Grows with every event.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn message(&mut self, from: u32, kind: u16, parts: &[&[u8]]) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.head(from, kind, 1, len);
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
    }

    pub(super) fn down(&mut self, rank: u32) {
        self.head(rank, 0, 0, 0);
    }

    fn head(&mut self, rank: u32, kind: u16, message: u8, len: usize) {
        self.bytes.extend_from_slice(&rank.to_le_bytes());
        self.bytes.extend_from_slice(&kind.to_le_bytes());
        self.bytes.extend_from_slice(&[message, 0]);
        self.bytes.extend_from_slice(&(len as u64).to_le_bytes());
    }

    /// Delivers everything, and returns how many events that was.
    pub(super) fn deliver(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let mut rest = &self.bytes[..];
        let mut events = 0;
        while let Some((head, behind)) = rest.split_first_chunk::<HEAD>() {
            let rank = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
            let kind = u16::from_le_bytes([head[4], head[5]]);
            let [.., a, b, c, d, e, f, g, h] = *head;
            let len = usize::try_from(u64::from_le_bytes([a, b, c, d, e, f, g, h])).expect("was a usize");
            let (payload, behind) = behind.split_at(len);
            sink(if head[6] == 1 {
                Event::Message { from: rank, kind, payload }
            } else {
                Event::Down { rank }
            });
            rest = behind;
            events += 1;
        }
        self.bytes.clear();
        events
    }
}
