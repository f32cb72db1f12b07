//! How letters arrive, whole or in parts.

use super::{Fate, GONE, Network};
use crate::engine::Engine;
use crate::requests::{Request, RequestNumber};
use crate::wire::MessageHead;
use scash_comm::Result;

impl Network {
    /// One letter from `from` to `to` arrives; whether there was one.
    pub(super) fn deliver(&mut self, from: usize, to: usize) -> bool {
        let any = self.take(from, to);
        if any {
            self.carry_out(to);
        }
        any
    }

    /// The same, and nothing follows from it yet.
    pub(super) fn take(&mut self, from: usize, to: usize) -> bool {
        if self.fates[to] != Fate::Lives {
            return false;
        }
        let Some((kind, letter)) = self.letters[from][to].pop_front() else { return false };
        if kind == GONE {
            self.engines[to].down(from as u32);
            return true;
        }
        // Pieces of most lengths come in parts, but not those of gets.
        let head = match MessageHead::decode(kind, &letter) {
            Some((MessageHead::Data { receive, .. }, _)) => {
                let request = self.engines[to].requests.get_mut(RequestNumber(receive));
                matches!(request, Some(Request::Coming { .. })).then_some(16)
            }
            Some((MessageHead::Pushed { .. }, _)) => Some(8),
            Some((MessageHead::Eager { .. }, body)) if !body.is_empty() => Some(10),
            _ => None,
        };
        match head.filter(|_| !letter.len().is_multiple_of(3)) {
            None => self.engines[to].arrived(from as u32, kind, &letter).unwrap(),
            Some(head) => {
                let (head, body) = letter.split_at(head);
                arrive_in_parts(&mut self.engines[to], from as u32, (kind, head), body).unwrap();
            }
        }
        true
    }
}

/// A piece arrives, 33 bytes at a time.
pub(super) fn arrive_in_parts(
    engine: &mut Engine,
    from: u32,
    (kind, head): (u16, &[u8]),
    body: &[u8],
) -> Result<()> {
    let mut at = 0;
    while at < body.len() {
        let room = engine.room(from, kind, head, (at, body.len() - at))?;
        let count = room.map_or(usize::MAX, |room| room.len()).min(33).min(body.len() - at);
        if let Some(room) = room {
            room.store(0, &body[at..at + count]);
        }
        // SAFETY: just now.
        unsafe { engine.was_stored(from, kind, head, count) };
        at += count;
    }
    Ok(())
}
