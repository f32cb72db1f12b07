//! Shared pages of a rank go into its store: by comparison
//! (docs/decisions/0058-shared-pages-are-compared.md).

use super::files;
use crate::runtime::core::Core;
use crate::runtime::frames;
use crate::runtime::{Runtime, lock};
use scash_ft::inject::Point;
use scash_ft::store::{Key, Staged, Unsaved};

impl Runtime {
    /// Saves the shared pages that this rank answers for, its words of the heap among them, and the words
    /// of objects if it is rank 0.
    pub(super) fn save_shared(&self, core: &Core, staged: &mut Staged<'_>) -> Result<(), Unsaved> {
        let may_fail = lock(&self.fate).is_some();
        let region = &self.context.region;
        let mut save = |key, bytes| {
            // SAFETY: a page of the region's frames, or of the mapped words, which stay mapped; all ranks are
            // in the barrier, where none of them uses the heap, or an object.
            unsafe { staged.page(key, bytes) }?;
            if may_fail {
                self.passes(Point::ImageShared);
            }
            Ok(())
        };
        for run in core.node.allocations() {
            for page in files::with_contents(region.fd(), run.first..run.end()) {
                if core.node.keeps(page) {
                    save(Key::shared(page), frames::frame(region, page))?;
                }
            }
        }
        for page in files::with_contents(region.fd(), self.heap.layout().words_of(self.rank)) {
            save(Key::shared(page), frames::frame(region, page))?;
        }
        let words = self.context.objects.words().filter(|_| self.rank == 0);
        if let Some(words) = words {
            for page in files::with_contents(words.fd(), 0..words.pages()) {
                save(Key::words(page), words.page(page))?;
            }
        }
        Ok(())
    }
}
