//! What a rank has printed and its user has perhaps not seen, as part of an epoch: pages of the files in
//! which that is kept. A rank that comes back on another host finds it in the copy there.

use super::geometry::{DESCRIPTION, ENTRY, Geometry, PAGE};
use super::{Entry, Key, Store};
use crate::Epoch;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Entries that are read at once.
const AT_ONCE: u64 = 256;

/// A page of one of the two files, and its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PrintedPage {
    stream: usize,
    page: u64,
    slot: u32,
}

impl Store {
    /// From where on an epoch has what its rank had printed to standard output and error, up to what
    /// [`outputs`](Self::outputs) says.
    ///
    /// # Errors
    /// The epoch is not here, or the file cannot be read.
    pub fn printed_from(&self, epoch: Epoch) -> io::Result<[u64; 2]> {
        let outputs = self.outputs(epoch).ok_or_else(|| io::Error::other("there is no such epoch"))?;
        let pages = self.printed_pages(epoch)?;
        Ok([0, 1].map(|stream| {
            let mut from = outputs[stream];
            // In the order of places, from the last one on as long as they follow one another.
            for page in pages.iter().rev().filter(|page| page.stream == stream) {
                if (page.page + 1) * PAGE as u64 >= from {
                    from = from.min(page.page * PAGE as u64);
                }
            }
            from
        }))
    }

    /// Gives what an epoch has of what its rank had printed to a stream (0 or 1), from that byte on: pieces
    /// with their places.
    ///
    /// # Errors
    /// The epoch is not here, the file cannot be read, or `take` fails.
    pub fn printed(
        &self,
        epoch: Epoch,
        stream: usize,
        from: u64,
        mut take: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let end = self.outputs(epoch).ok_or_else(|| io::Error::other("there is no such epoch"))?[stream];
        let geometry = self.geometry()?;
        let file = File::from(self.file.try_clone()?);
        let mut bytes = [0; PAGE];
        for page in self.printed_pages(epoch)?.into_iter().filter(|page| page.stream == stream) {
            let at = page.page * PAGE as u64;
            let (first, last) = (at.max(from), (at + PAGE as u64).min(end));
            if first < last {
                file.read_exact_at(&mut bytes, geometry.slots_at() + u64::from(page.slot) * PAGE as u64)?;
                let within = |place: u64| usize::try_from(place - at).unwrap_or(PAGE);
                take(first, &bytes[within(first)..within(last)])?;
            }
        }
        Ok(())
    }

    /// The pages that an epoch has of what was printed: the last entries of its index, in their order.
    fn printed_pages(&self, epoch: Epoch) -> io::Result<Vec<PrintedPage>> {
        let geometry = self.geometry()?;
        let marked = self.marked(epoch).ok_or_else(|| io::Error::other("there is no such epoch"))?;
        let first = geometry.index_at(epoch.0 % 2) + DESCRIPTION;
        let file = File::from(self.file.try_clone()?);
        let (mut end, mut pages) = (marked.entries.min(geometry.slots()), Vec::new());
        while end > 0 {
            let begin = end.saturating_sub(AT_ONCE);
            let mut bytes = vec![0; usize::try_from((end - begin) * ENTRY).unwrap_or(0)];
            file.read_exact_at(&mut bytes, first + begin * ENTRY)?;
            for entry in bytes.as_chunks::<{ size_of::<Entry>() }>().0.iter().rev() {
                let (key, rest) = entry.split_at(8);
                let key = Key::from_number(u64::from_le_bytes(key.try_into().unwrap_or_default()));
                let Some((stream, page)) = key.printed_page() else {
                    pages.reverse();
                    return Ok(pages);
                };
                let slot = u32::from_le_bytes(rest[..4].try_into().unwrap_or_default());
                if u64::from(slot) >= geometry.slots() {
                    return Err(io::Error::other("its index names a slot that there is not"));
                }
                pages.push(PrintedPage { stream, page, slot });
            }
            end = begin;
        }
        pages.reverse();
        Ok(pages)
    }

    fn geometry(&self) -> io::Result<Geometry> {
        self.header.check(u64::MAX).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::open_at;
    use super::*;
    use crate::Base;

    const AT: usize = 0x0a00_0000_0000;

    #[test]
    fn a_store_has_what_its_rank_has_printed_and_says_from_where_on() {
        let store = Store::create(0, 1).unwrap();
        let mut rank = open_at(AT, &store, Base::default()).unwrap();
        let mut save = |keys: &[(Key, u8)], outputs: [u64; 2]| {
            let bytes: Vec<[u8; PAGE]> = keys.iter().map(|(_, byte)| [*byte; PAGE]).collect();
            let mut staged = rank.stage();
            for ((key, _), page) in keys.iter().zip(&bytes) {
                // SAFETY: it is a page, and outlives the stage.
                unsafe { staged.page(*key, page.as_ptr()) }.unwrap();
            }
            let written = staged.written().unwrap();
            rank.wrote(written).unwrap();
            rank.mark(outputs, 1).unwrap();
            rank.commit();
        };
        let page = PAGE as u64;
        let all = |epoch: u64, stream: usize, from: u64| {
            let mut text = Vec::new();
            store
                .printed(Epoch(epoch), stream, from, |at, bytes| {
                    text.push((at, bytes[0], bytes.len() as u64));
                    Ok(())
                })
                .unwrap();
            text
        };
        // Nothing is kept of what was printed.
        save(&[(Key::private(0x5000), 1), (Key::words(3), 2)], [2 * page + 5, 7]);
        assert_eq!(store.printed_from(Epoch(1)).unwrap(), [2 * page + 5, 7]);
        assert!(all(1, 0, 0).is_empty());
        // Its last pages are; one that lies apart is of no use.
        let many: Vec<(Key, u8)> = (0..600).map(|number| (Key::private(number << 12), 1)).collect();
        let printed = [
            (Key::printed(0, 1), 3),
            (Key::printed(0, 3), 4),
            (Key::printed(0, 4), 5),
            (Key::printed(1, 0), 6),
        ];
        save(&[&many[..], &[(Key::words(9), 2)], &printed].concat(), [4 * page + 5, 7]);
        assert_eq!(store.printed_from(Epoch(2)).unwrap(), [3 * page, 0]);
        assert_eq!(all(2, 0, 3 * page + 7), [(3 * page + 7, 4, page - 7), (4 * page, 5, 5)]);
        assert_eq!((all(2, 0, 4 * page + 5), all(2, 1, 2)), (vec![], vec![(2, 6, 5)]));
        // More than are read at once.
        let lines: Vec<(Key, u8)> = (0..700).map(|number| (Key::printed(0, number), 8)).collect();
        save(&lines, [700 * page, 0]);
        assert_eq!(store.printed_from(Epoch(3)).unwrap(), [0, 0]);
        assert_eq!(all(3, 0, 0).len(), 700);
        assert!(store.printed_from(Epoch(1)).is_err(), "it is gone");
    }
}
