//! The network: what is on its way between ranks.
//!
//! One queue for each ordered pair, so a message never overtakes a put or another message of its pair; nothing is promised between
//! pairs. Replies to gets do not pass here: a reader copies from the home's frame (see the exclusion in [`World`](super::World)).

use scash_proto::wire::Kind;
use std::collections::{HashMap, VecDeque};

/// Something on its way.
#[derive(Debug)]
pub(super) enum Parcel {
    /// Bytes for the receiver's frame, as a diff.
    Put { page: u32, diff: Vec<u8> },
    /// A message, encoded.
    Message { kind: Kind, bytes: Vec<u8> },
}

#[derive(Debug, Default)]
struct Channel {
    parcels: VecDeque<Parcel>,
    puts: u32,
}

/// All queues that were ever used.
#[derive(Debug, Default)]
pub(super) struct Net {
    channels: HashMap<(u32, u32), Channel>,
}

impl Net {
    /// Sends. Returns whether the queue was empty.
    pub(super) fn send(&mut self, from: u32, to: u32, parcel: Parcel) -> bool {
        let channel = self.channels.entry((from, to)).or_default();
        channel.puts += u32::from(matches!(parcel, Parcel::Put { .. }));
        channel.parcels.push_back(parcel);
        channel.parcels.len() == 1
    }

    /// What the receiver will get next.
    pub(super) fn front(&self, from: u32, to: u32) -> Option<&Parcel> {
        self.channels.get(&(from, to))?.parcels.front()
    }

    /// Takes it off the queue.
    pub(super) fn take(&mut self, from: u32, to: u32) -> Option<Parcel> {
        let channel = self.channels.get_mut(&(from, to))?;
        let parcel = channel.parcels.pop_front()?;
        channel.puts -= u32::from(matches!(parcel, Parcel::Put { .. }));
        Some(parcel)
    }

    /// Whether puts of this pair have not landed yet.
    pub(super) fn has_puts(&self, from: u32, to: u32) -> bool {
        self.channels.get(&(from, to)).is_some_and(|c| c.puts > 0)
    }

    /// What is on the way, for a dump.
    pub(super) fn describe(&self) -> String {
        let mut waiting: Vec<_> = self.channels.iter().filter(|(_, c)| !c.parcels.is_empty()).collect();
        waiting.sort_unstable_by_key(|(pair, _)| **pair);
        let line = |(&(from, to), c): (&(u32, u32), &Channel)| {
            let what: Vec<String> = c.parcels.iter().map(describe).collect();
            format!("  {from} -> {to}: {}\n", what.join(", "))
        };
        waiting.into_iter().map(line).collect()
    }
}

fn describe(parcel: &Parcel) -> String {
    match parcel {
        Parcel::Put { page, diff } => format!("put of page {page} ({} bytes)", diff.len()),
        Parcel::Message { kind, bytes } => format!("{kind:?} ({} bytes)", bytes.len()),
    }
}
