//! What is to happen, in the order in which it does, and what travels.

use super::time::Time;
use scash_proto::wire::Kind;
use scash_proto::{Rank, Strided};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// What is on its way.
#[derive(Debug)]
pub(super) enum Freight {
    /// A message of the protocol.
    Message { kind: Kind, bytes: Vec<u8> },
    /// Bytes for a frame.
    Put,
    /// Asks for pages.
    Get(Strided),
    /// Brings them.
    Answer(Strided),
}

/// Something on its way.
#[derive(Debug)]
pub(super) struct Packet {
    pub(super) from: Rank,
    pub(super) to: Rank,
    pub(super) bytes: u64,
    /// Whether it belongs to the timed part of the rank that caused it.
    pub(super) timed: bool,
    pub(super) freight: Freight,
}

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketEvent {
    /// It comes to its sender's port.
    Leaves,
    /// Its first byte comes to its receiver's port.
    Comes,
    /// All of it is there.
    IsThere,
}

#[derive(Debug)]
struct Event {
    at: Time,
    /// Of events at the same time the older one is first: a run is the same every time.
    number: u64,
    stage: PacketEvent,
    packet: Box<Packet>,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// Events to come.
#[derive(Debug, Default)]
pub(super) struct Queue {
    events: BinaryHeap<Reverse<Event>>,
    next: u64,
}

impl Queue {
    pub(super) fn push(&mut self, at: Time, stage: PacketEvent, packet: Box<Packet>) {
        self.events.push(Reverse(Event { at, number: self.next, stage, packet }));
        self.next += 1;
    }

    /// The earliest event.
    pub(super) fn pop(&mut self) -> Option<(Time, PacketEvent, Box<Packet>)> {
        self.events.pop().map(|Reverse(event)| (event.at, event.stage, event.packet))
    }
}
