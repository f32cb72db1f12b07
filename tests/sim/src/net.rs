//! The network: what is on its way between ranks.
//!
//! For each ordered pair one queue of puts and one of messages. A message never overtakes a put of its pair;
//! but a put may well overtake messages, because it lands by itself while messages wait until their receiver
//! looks. Nothing is promised between pairs. Replies to gets do not pass here: a reader copies from the
//! home's frame (see the exclusion in [`World`](super::World)).

use scash_proto::wire::Kind;
use std::collections::{HashMap, VecDeque};

/// Bytes on their way to a frame, as a diff.
#[derive(Debug)]
pub(super) struct Put {
    pub(super) page: u32,
    pub(super) diff: Vec<u8>,
}

/// A message on its way, encoded.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: Kind,
    pub(super) bytes: Vec<u8>,
    /// Puts of the pair that were issued before it.
    behind: u64,
}

#[derive(Debug, Default)]
struct Channel {
    puts: VecDeque<Put>,
    messages: VecDeque<Message>,
    /// Puts issued so far.
    issued: u64,
}

impl Channel {
    fn landed(&self) -> u64 {
        self.issued - self.puts.len() as u64
    }

    fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.messages.is_empty()
    }
}

/// All queues that were ever used.
#[derive(Debug, Default)]
pub(super) struct Net {
    channels: HashMap<(u32, u32), Channel>,
}

impl Net {
    fn open(&mut self, from: u32, to: u32) -> (&mut Channel, bool) {
        let channel = self.channels.entry((from, to)).or_default();
        let was_empty = channel.is_empty();
        (channel, was_empty)
    }

    /// Issues a put. Returns whether nothing was on the way before.
    pub(super) fn put(&mut self, from: u32, to: u32, put: Put) -> bool {
        let (channel, was_empty) = self.open(from, to);
        channel.puts.push_back(put);
        channel.issued += 1;
        was_empty
    }

    /// Sends a message. Returns whether nothing was on the way before.
    pub(super) fn send(&mut self, from: u32, to: u32, kind: Kind, bytes: Vec<u8>) -> bool {
        let (channel, was_empty) = self.open(from, to);
        let behind = channel.issued;
        channel.messages.push_back(Message { kind, bytes, behind });
        was_empty
    }

    /// The put that lands next.
    pub(super) fn next_put(&self, from: u32, to: u32) -> Option<&Put> {
        self.channels.get(&(from, to))?.puts.front()
    }

    /// Whether all puts of a rank have landed.
    pub(super) fn have_landed(&self, from: u32) -> bool {
        self.channels.iter().all(|(&(sender, _), channel)| sender != from || channel.puts.is_empty())
    }

    /// The message that arrives next, if no put is in front of it.
    pub(super) fn next_message(&self, from: u32, to: u32) -> Option<&Message> {
        let channel = self.channels.get(&(from, to))?;
        channel.messages.front().filter(|m| m.behind <= channel.landed())
    }

    /// Takes the put that lands next off its queue.
    pub(super) fn take_put(&mut self, from: u32, to: u32) -> Option<Put> {
        self.channels.get_mut(&(from, to))?.puts.pop_front()
    }

    /// Takes the message that arrives next off its queue.
    pub(super) fn take_message(&mut self, from: u32, to: u32) -> Option<Message> {
        self.next_message(from, to)?;
        self.channels.get_mut(&(from, to))?.messages.pop_front()
    }

    /// A connection is gone, and what was on its way is lost.
    pub(super) fn lose(&mut self, from: u32, to: u32) {
        self.channels.remove(&(from, to));
    }

    /// Messages that nobody will take. Puts stay where they are.
    pub(super) fn lose_messages(&mut self, from: u32, to: u32) -> VecDeque<Message> {
        self.channels
            .get_mut(&(from, to))
            .map(|channel| std::mem::take(&mut channel.messages))
            .unwrap_or_default()
    }

    /// Takes the newest message of a pair off its queue.
    pub(super) fn lose_newest_message(&mut self, from: u32, to: u32) {
        self.channels.get_mut(&(from, to)).and_then(|channel| channel.messages.pop_back());
    }

    /// Whether nothing is on the way between a pair.
    pub(super) fn is_empty(&self, from: u32, to: u32) -> bool {
        self.channels.get(&(from, to)).is_none_or(Channel::is_empty)
    }

    /// The pairs between which something is on the way.
    pub(super) fn busy(&self) -> Vec<(u32, u32)> {
        let busy = self.channels.iter().filter(|(_, channel)| !channel.is_empty());
        let mut pairs: Vec<_> = busy.map(|(pair, _)| *pair).collect();
        pairs.sort_unstable();
        pairs
    }

    /// What is on the way, for a dump.
    pub(super) fn describe(&self) -> String {
        let mut waiting: Vec<_> = self.channels.iter().filter(|(_, c)| !c.is_empty()).collect();
        waiting.sort_unstable_by_key(|(pair, _)| **pair);
        let line = |(&(from, to), c): (&(u32, u32), &Channel)| {
            let puts = c.puts.iter().map(|p| format!("put of page {} ({} bytes)", p.page, p.diff.len()));
            let messages = c.messages.iter().map(|m| format!("{:?} ({} bytes)", m.kind, m.bytes.len()));
            let what: Vec<String> = puts.chain(messages).collect();
            format!("  {from} -> {to}: {}\n", what.join(", "))
        };
        waiting.into_iter().map(line).collect()
    }
}
