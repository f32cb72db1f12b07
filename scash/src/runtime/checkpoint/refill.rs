//! Frames of a rank that has come back get what they had at its checkpoint. They may be those of the process
//! that is gone, and then hold what it had when it ended.

use super::super::Runtime;
use super::files;
use crate::error::{Error, Result};
use scash_ft::inject::Point;
use scash_ft::store::{Entry, RankStore};
use scash_proto::node::Node;

impl Runtime {
    /// Writes what was saved of shared pages into the frames. What was saved of none of them is zeros.
    pub(super) fn refill(&self, node: &Node, store: &RankStore) -> Result<()> {
        let damaged =
            |e: std::io::Error| Error::Broken(format!("the store of this rank cannot be read: {e}"));
        let saved = store.saved().map_err(damaged)?;
        self.forget_newer(node, saved.entries)?;
        let words = self.context.objects.words();
        let region = &self.context.region;
        let mut left = saved.entries;
        while let Some(&first) = left.first() {
            let pages = run(left);
            left = &left[pages..];
            let (file, to) = match (first.key.shared_page(), first.key.words_page(), &words) {
                (Some(page), _, _) if has_room(region.pages(), page, pages) => (region.fd(), page),
                (None, Some(page), Some(words)) if has_room(words.pages(), page, pages) => (words.fd(), page),
                _ => continue,
            };
            // SAFETY: the run's slots lie one behind the other in the store.
            let wrote = unsafe { files::write_pages(file, to, saved.bytes(first), pages) };
            wrote.map_err(|e| Error::Broken(format!("shared memory cannot be filled again: {e}")))?;
            self.passes(Point::RecoveryFilled);
        }
        Ok(())
    }

    /// Gives back the frames of pages that had contents when the process ended that is gone, and none at the
    /// checkpoint. A page may have been allocated since, and read or written.
    fn forget_newer(&self, node: &Node, saved: &[Entry]) -> Result<()> {
        let region = &self.context.region;
        let (words, mine) = (self.heap.layout().words_of(0).start, self.heap.layout().words_of(self.rank));
        // The protocol knows nothing of the words behind the heap.
        let is_of_words = |page| node.shares_frames() && page >= words;
        let refills = |page| if is_of_words(page) { mine.contains(&page) } else { node.refills(page) };
        let mut saved = saved.iter().filter_map(|entry| entry.key.shared_page()).peekable();
        let mut stale = 0..0;
        for page in files::with_contents(region.fd(), 0..region.pages()) {
            while saved.next_if(|it| *it < page).is_some() {}
            if saved.peek() == Some(&page) || !refills(page) {
                continue;
            }
            if page != stale.end {
                region.punch(&stale)?;
                stale.start = page;
            }
            stale.end = page + 1;
        }
        Ok(region.punch(&stale)?)
    }
}

/// Whether a file of so many pages has these.
fn has_room(all: u32, first: u32, pages: usize) -> bool {
    first as usize + pages <= all as usize
}

/// How many entries from the first on, and at least that one, are of pages that lie one behind the other, in
/// slots that do so, too.
fn run(entries: &[Entry]) -> usize {
    let follows = |pair: &[Entry]| pair[1].key.follows(pair[0].key) && pair[1].slot == pair[0].slot + 1;
    let most = &entries[..entries.len().min(files::MOST_AT_ONCE)];
    1 + most.windows(2).take_while(|pair| follows(pair)).count()
}
