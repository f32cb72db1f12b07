//! Allocations whose parts the program gives to ranks, one by one.

use super::Runtime;
use super::alike::digest;
use crate::error::{Error, Result};
use scash_proto::{AllocOptions, PAGE_SIZE, Placement};

impl Runtime {
    /// Allocates blocks of bytes, one right behind the other, each at home at a rank of its own: (bytes,
    /// rank). A page that several blocks share is at home at the rank of the first of these. Collective: all
    /// ranks come with the same blocks. Includes memory barriers.
    ///
    /// # Errors
    /// What [`alloc`](Self::alloc) has; a rank that does not exist, or a placement in `options`, which the
    /// blocks take the place of: nothing is allocated then.
    pub fn alloc_blocks(&self, blocks: &[(usize, u32)], options: AllocOptions) -> Result<*mut u8> {
        let bytes = self.check_blocks(blocks, options)?;
        let address = self.alloc(bytes, options)?;
        self.place_blocks(address, blocks)?;
        Ok(address)
    }

    /// What [`alloc_blocks`](Self::alloc_blocks) looks at before it does anything. Returns the bytes of all
    /// blocks together.
    pub(crate) fn check_blocks(&self, blocks: &[(usize, u32)], options: AllocOptions) -> Result<usize> {
        if options.placement != Placement::FirstTouch {
            return Err(Error::Argument(format!(
                "the placement {:?}, and blocks that say where their homes are: leave the first at its default",
                options.placement
            )));
        }
        let known = |&(_, rank): &(usize, u32)| Placement::Rank(rank).check(self.size);
        blocks.iter().try_for_each(known).map_err(|e| Error::Argument(e.to_string()))?;
        Ok(blocks.iter().fold(0usize, |sum, (bytes, _)| sum.saturating_add(*bytes)))
    }

    /// Gives what was allocated just now, at `address`, to the ranks of these blocks.
    pub(crate) fn place_blocks(&self, address: *const u8, blocks: &[(usize, u32)]) -> Result<()> {
        // It is enough that one rank asks.
        if self.rank == 0 {
            for (start, bytes, rank) in whole_pages(blocks) {
                self.set_home(address.wrapping_add(start), bytes, rank)?;
            }
        }
        self.barrier_alike(digest(&("blocks", blocks)))
    }
}

/// The pages that begin in each block: the distance of the first one from the beginning of all blocks, their
/// bytes, and the block's rank.
fn whole_pages(blocks: &[(usize, u32)]) -> impl Iterator<Item = (usize, usize, u32)> {
    let mut end = 0;
    let page_at = |byte: usize| byte.next_multiple_of(PAGE_SIZE);
    let pages = blocks.iter().map(move |&(bytes, rank)| {
        let start = page_at(end);
        end += bytes;
        (start, page_at(end).saturating_sub(start), rank)
    });
    pages.filter(|&(_, bytes, _)| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(blocks: &[(usize, u32)]) -> Vec<(usize, usize, u32)> {
        let page = |bytes: usize| bytes / PAGE_SIZE;
        whole_pages(blocks).map(|(start, bytes, rank)| (page(start), page(bytes), rank)).collect()
    }

    #[test]
    fn each_page_is_of_the_block_in_which_it_begins() {
        assert_eq!(pages(&[(8192, 1), (4096, 0), (1, 2)]), [(0, 2, 1), (2, 1, 0), (3, 1, 2)]);
        assert_eq!(pages(&[(4097, 1), (4095, 0), (4096, 2)]), [(0, 2, 1), (2, 1, 2)]);
        assert_eq!(pages(&[(100, 1), (0, 0), (100, 2), (4096, 3)]), [(0, 1, 1), (1, 1, 3)]);
        assert!(pages(&[(0, 1)]).is_empty() && pages(&[]).is_empty());
    }
}
