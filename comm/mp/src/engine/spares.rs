//! Memory for messages that come before their receives: kept for the next ones.
//!
//! The allocator gives long blocks back to the kernel as soon as it can, and pages that are new cost several
//! times what copying to them does. So blocks stay here that nobody uses: never more than [`MOST`] bytes.

use super::Engine;
use crate::requests::Destination;

/// Bytes that are kept at most.
const MOST: usize = 4 << 20;
/// Bytes of the shortest block that is kept, a power of two: shorter ones the allocator keeps itself.
const SHORTEST: usize = 4 << 10;
/// How many capacities there are.
const KINDS: usize = (MOST.ilog2() - SHORTEST.ilog2() + 1) as usize;

/// Blocks that nobody uses.
#[derive(Debug, Default)]
pub(super) struct Spares {
    /// By their capacity, each of a power of two, from [`SHORTEST`] on.
    blocks: [Vec<Vec<u8>>; KINDS],
    /// Bytes of all.
    kept: usize,
}

/// The capacity of a block for so many bytes: what is kept is to serve all that are about as long.
fn rounded(len: usize) -> usize {
    if (SHORTEST..=MOST).contains(&len) { len.next_power_of_two() } else { len }
}

/// The place of blocks of a capacity; `None`: they are not kept.
fn kind(capacity: usize) -> Option<usize> {
    let is_kept = capacity.is_power_of_two() && (SHORTEST..=MOST).contains(&capacity);
    is_kept.then(|| (capacity.ilog2() - SHORTEST.ilog2()) as usize)
}

impl Spares {
    /// A block for as many bytes, empty.
    pub(super) fn take(&mut self, len: usize) -> Vec<u8> {
        self.find(len).unwrap_or_else(|| Vec::with_capacity(rounded(len)))
    }

    /// The same, if there is one.
    fn find(&mut self, len: usize) -> Option<Vec<u8>> {
        let block = self.blocks[kind(rounded(len))?].pop()?;
        self.kept -= block.capacity();
        Some(block)
    }

    /// Keeps a block, if it is of use and there is room.
    pub(super) fn give(&mut self, mut block: Vec<u8>) {
        let capacity = block.capacity();
        if let Some(kind) = kind(capacity)
            && capacity <= MOST - self.kept
        {
            block.clear();
            self.kept += capacity;
            self.blocks[kind].push(block);
        }
    }

    /// Prepares for a message of `len` bytes; whether it fits.
    pub(super) fn prepare(&mut self, into: &mut Destination, len: usize) -> bool {
        match into {
            Destination::Room(place) => len <= place.len(),
            Destination::Own(bytes) => match self.find(len) {
                Some(block) => {
                    *bytes = block;
                    true
                }
                None => bytes.try_reserve_exact(rounded(len)).is_ok(),
            },
        }
    }
}

impl Engine {
    /// Keeps memory of a message for others.
    pub(crate) fn recycle(&mut self, block: Vec<u8>) {
        self.spares.give(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_used_again_for_what_is_about_as_long_and_for_nothing_else() {
        let mut spares = Spares::default();
        let block = spares.take(5_000);
        assert_eq!(block.capacity(), 8 << 10);
        let at = block.as_ptr();
        spares.give(block);
        assert!([8_193, 4_096, 100].iter().all(|&len| spares.find(len).is_none()));
        let again = spares.take(8_192);
        assert!(again.is_empty() && again.as_ptr() == at);
        assert!(spares.find(8_192).is_none() && spares.kept == 0);
    }

    #[test]
    fn a_receive_without_room_gets_what_is_kept() {
        let mut spares = Spares::default();
        spares.give(Vec::with_capacity(SHORTEST));
        let mut into = [(); 2].map(|()| Destination::Own(Vec::new()));
        assert!(into.iter_mut().all(|into| spares.prepare(into, SHORTEST)));
        assert_eq!(spares.kept, 0);
        assert!(into.map(Destination::bytes).iter().all(|block| block.capacity() == SHORTEST));
        assert!(!spares.prepare(&mut Destination::Own(Vec::new()), usize::MAX), "there is no such memory");
    }

    #[test]
    fn blocks_that_would_serve_nobody_are_not_kept_nor_more_bytes_than_are_to_be() {
        let mut spares = Spares::default();
        [0, SHORTEST / 2, SHORTEST + 1, 2 * MOST]
            .iter()
            .for_each(|&len| spares.give(Vec::with_capacity(len)));
        assert_eq!(spares.kept, 0);
        (0..10).for_each(|_| spares.give(vec![1; MOST / 4]));
        assert_eq!(spares.kept, MOST);
        assert!(spares.take(MOST / 4).is_empty());
        assert_eq!(spares.take(100).capacity(), 100);
    }
}
