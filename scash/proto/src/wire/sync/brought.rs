//! Pages that come with a lock.

use super::{KnownIntervals, known, put_known};
use super::{Malformed, Reader, Why, Writer};
use crate::PAGE_SIZE;
use crate::diff::PageBytes;

/// Pages that a rank may want with a lock, and that come with it, at most.
pub const MOST_BROUGHT: u32 = 64;

/// Pages whose home hands a lock on, for copies of the next holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// What the home knew when it looked at the pages: all of it is in their bytes. Empty if there are no
    /// pages.
    pub known: KnownIntervals,
    /// Which pages, in ascending order.
    pub pages: Vec<u32>,
    /// What they hold, page after page. Empty until the pages were looked at, which is when the message
    /// leaves.
    pub bytes: Vec<u8>,
}

impl Brought {
    /// Whether there are no pages.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// What a page holds, if it is among them.
    pub fn page(&self, page: u32) -> Option<&PageBytes> {
        let at = self.pages.binary_search(&page).ok()?;
        self.bytes.as_chunks().0.get(at)
    }

    pub(super) fn put(&self, w: &mut Writer<'_>) {
        w.varint(self.pages.len() as u64);
        if self.is_empty() {
            return;
        }
        put_known(w, &self.known);
        self.pages.iter().for_each(|&page| w.varint(u64::from(page)));
        w.bytes(&self.bytes);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Brought, Malformed> {
        let (at, count, limit) = (r.position(), r.count(PAGE_SIZE)?, MOST_BROUGHT as usize);
        if count > limit {
            return Err(Malformed { at, why: Why::TooLarge { value: count as u64, limit: limit as u64 } });
        }
        if count == 0 {
            return Ok(Brought::default());
        }
        let known = known(r)?;
        let pages = (0..count).map(|_| r.varint_u32()).collect::<Result<Vec<u32>, _>>()?;
        let bytes = r.bytes(pages.len() * PAGE_SIZE)?.to_vec();
        Ok(Brought { known, pages, bytes })
    }
}
