//! What travels: out of a port, over the wire, into a port, to a processor.

use super::{State, World};
use crate::scale::queue::{Freight, Packet, PacketEvent};
use crate::scale::time::Time;
use scash_proto::{PAGE_SIZE, Rank};

impl World<'_> {
    /// Sends something: the processor's part, and then the port's.
    pub(super) fn send(&mut self, rank: usize, to: Rank, bytes: u64, freight: Freight) {
        let me = &mut self.ranks[rank];
        me.clock += self.machine.network.overhead;
        let (from, timed) = (Rank(u32::try_from(rank).unwrap_or(u32::MAX)), me.tally.is_timed());
        self.queue.push(me.clock, PacketEvent::Leaves, Box::new(Packet { from, to, bytes, timed, freight }));
    }

    /// Writes bytes into a peer's frames.
    pub(super) fn put(&mut self, rank: usize, to: Rank, bytes: u64) {
        if !self.machine.network.direct {
            return self.send(rank, to, bytes, Freight::Put);
        }
        self.copy_directly(rank, bytes);
        let timed = self.ranks[rank].tally.is_timed();
        self.ranks[rank].tally.sent.add(timed, bytes);
        self.ranks[to.0 as usize].tally.received.add(timed, bytes);
    }

    /// Copies bytes from or to a peer's frames, where these can be accessed.
    pub(super) fn copy_directly(&mut self, rank: usize, bytes: u64) {
        let network = &self.machine.network;
        self.ranks[rank].clock += network.overhead + network.per_byte * bytes;
    }

    /// A packet comes to its sender's port, and waits until that is free.
    pub(super) fn leaves(&mut self, at: Time, packet: Box<Packet>) {
        let network = &self.machine.network;
        let me = &mut self.ranks[packet.from.0 as usize];
        let begin = at.max(me.port.out);
        me.port.out = begin + network.occupied(packet.bytes);
        me.tally.sent.add(packet.timed, packet.bytes);
        self.queue.push(begin + network.latency, PacketEvent::Comes, packet);
    }

    /// Its first byte comes to its receiver's port, and waits likewise.
    pub(super) fn comes(&mut self, at: Time, packet: Box<Packet>) {
        let network = &self.machine.network;
        let me = &mut self.ranks[packet.to.0 as usize];
        let begin = at.max(me.port.into);
        me.port.into = begin + network.occupied(packet.bytes);
        me.tally.received.add(packet.timed, packet.bytes);
        self.queue.push(begin + network.per_byte * packet.bytes, PacketEvent::IsThere, packet);
    }

    /// All of it is there. What the port deals with by itself is done; messages wait for the processor.
    pub(super) fn is_there(&mut self, at: Time, packet: Packet) {
        let rank = packet.to.0 as usize;
        match packet.freight {
            Freight::Put => {}
            Freight::Get(pages) => {
                let bytes = u64::from(pages.count()) * PAGE_SIZE as u64;
                let freight = Freight::Answer(pages);
                let answer = Packet { from: packet.to, to: packet.from, bytes, timed: packet.timed, freight };
                self.queue.push(at + self.machine.network.serve, PacketEvent::Leaves, Box::new(answer));
            }
            Freight::Answer(pages) => {
                self.looks_up(rank, at);
                self.fetched(rank, pages);
                self.go_on(rank);
            }
            Freight::Message { .. } => {
                let me = &mut self.ranks[rank];
                if me.state == State::Meeting {
                    me.clock = me.clock.max(at);
                    self.take(rank, packet);
                    self.go_on(rank);
                } else {
                    me.inbox.push_back(packet);
                }
            }
        }
    }

    /// The processor, which waited, notices something that came at that time.
    fn looks_up(&mut self, rank: usize, at: Time) {
        let me = &mut self.ranks[rank];
        me.clock = me.clock.max(at) + self.machine.network.overhead;
    }

    /// Takes a message that has come.
    pub(super) fn take(&mut self, rank: usize, packet: Packet) {
        self.ranks[rank].clock += self.machine.network.overhead;
        if let Freight::Message { kind, bytes } = packet.freight {
            let me = &mut self.ranks[rank];
            let merged = me.tally.take(kind, &bytes);
            me.clock += self.machine.pages.applying(merged);
            self.take_message(rank, packet.from, kind, &bytes);
        }
        self.carry_out_all(rank);
    }
}
