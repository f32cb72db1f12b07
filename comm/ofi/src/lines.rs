//! Words of this rank that its peers write, one line of them a peer.

use super::net::RemoteAddress;
use std::sync::atomic::{AtomicU64, Ordering};

/// What one peer writes. The first word is the number of the last put that it has announced, the second
/// counts its signs of life.
#[repr(C, align(64))]
#[derive(Default)]
struct PeerLine {
    announced: AtomicU64,
    beats: AtomicU64,
}

/// All lines, by rank.
pub(super) struct PeerLines(Box<[PeerLine]>);

impl PeerLines {
    pub(super) fn new(size: u32) -> PeerLines {
        PeerLines((0..size).map(|_| PeerLine::default()).collect())
    }

    /// The memory to register. It stays where it is.
    pub(super) fn memory(&self) -> (*mut u8, usize) {
        (self.0.as_ptr().cast_mut().cast(), size_of_val(&*self.0))
    }

    /// How many puts the peer has announced.
    pub(super) fn announced(&self, rank: u32) -> u64 {
        self.0[rank as usize].announced.load(Ordering::SeqCst)
    }

    /// How many signs of life it has given.
    pub(super) fn beats(&self, rank: u32) -> u64 {
        self.0[rank as usize].beats.load(Ordering::Relaxed)
    }

    /// The line of a rank among lines that begin at `start`.
    pub(super) fn line(start: RemoteAddress, rank: u32) -> RemoteAddress {
        let distance = u64::from(rank) * size_of::<PeerLine>() as u64;
        RemoteAddress { address: start.address.wrapping_add(distance), key: start.key }
    }

    /// The word of a line that counts signs of life.
    pub(super) fn beat_place(line: RemoteAddress) -> RemoteAddress {
        let distance = std::mem::offset_of!(PeerLine, beats) as u64;
        RemoteAddress { address: line.address.wrapping_add(distance), key: line.key }
    }
}
