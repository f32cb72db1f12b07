//! The frames of one simulated rank: bytes, twins, and what the application may do.

use scash_proto::PAGE_SIZE;
use scash_proto::diff::{self, PageBytes};
use scash_proto::{Access, Pages};

static ZEROS: PageBytes = [0; PAGE_SIZE];

/// One page's memory. A frame that nobody wrote holds zeros and takes no memory.
#[derive(Debug, Default)]
struct Frame {
    bytes: Option<Box<PageBytes>>,
    twin: Option<Box<PageBytes>>,
}

/// All frames of a rank.
#[derive(Debug)]
pub(super) struct Frames {
    frames: Vec<Frame>,
    rights: Vec<Access>,
    /// For watched pages, whether they were written since the last scan.
    watched: Vec<Option<bool>>,
}

impl Frames {
    pub(super) fn new(pages: u32) -> Self {
        let n = pages as usize;
        Frames {
            frames: (0..n).map(|_| Frame::default()).collect(),
            rights: vec![Access::None; n],
            watched: vec![None; n],
        }
    }

    pub(super) fn rights(&self, page: u32) -> Access {
        self.rights[page as usize]
    }

    pub(super) fn set_rights(&mut self, pages: Pages, access: Access) {
        pages.iter().for_each(|p| self.rights[p as usize] = access);
    }

    /// Begins to remember writes to these pages. Returns whether they were writable and not watched before,
    /// as they must be.
    pub(super) fn watch(&mut self, pages: Pages) -> bool {
        let sound = |p: u32| self.rights(p) == Access::Write && self.watched[p as usize].is_none();
        let all = pages.iter().all(sound);
        pages.iter().for_each(|p| self.watched[p as usize] = Some(false));
        all
    }

    /// Ends it. Returns whether all were watched, as they must be.
    pub(super) fn unwatch(&mut self, pages: Pages) -> bool {
        let watched = pages.iter().filter(|&p| self.watched[p as usize].take().is_some()).count();
        watched == pages.count as usize
    }

    /// The program wrote a page.
    pub(super) fn note_write(&mut self, page: u32) {
        if let Some(written) = &mut self.watched[page as usize] {
            *written = true;
        }
    }

    /// The watched pages that were written since the last scan.
    pub(super) fn scan(&mut self, pages: Pages) -> Vec<u32> {
        let mut written = |page: &u32| self.watched[*page as usize].as_mut().is_some_and(std::mem::take);
        pages.iter().filter(|page| written(page)).collect()
    }

    pub(super) fn bytes(&self, page: u32) -> &PageBytes {
        self.frames[page as usize].bytes.as_deref().unwrap_or(&ZEROS)
    }

    pub(super) fn bytes_mut(&mut self, page: u32) -> &mut PageBytes {
        self.frames[page as usize].bytes.get_or_insert_with(|| Box::new(ZEROS))
    }

    /// Whether the frame takes memory.
    pub(super) fn is_there(&self, page: u32) -> bool {
        self.frames[page as usize].bytes.is_some()
    }

    pub(super) fn twin(&self, page: u32) -> Option<&PageBytes> {
        self.frames[page as usize].twin.as_deref()
    }

    pub(super) fn twin_mut(&mut self, page: u32) -> Option<&mut PageBytes> {
        self.frames[page as usize].twin.as_deref_mut()
    }

    pub(super) fn set_twin(&mut self, page: u32, twin: Box<PageBytes>) {
        self.frames[page as usize].twin = Some(twin);
    }

    /// Returns whether there was one.
    pub(super) fn drop_twin(&mut self, page: u32) -> bool {
        self.frames[page as usize].twin.take().is_some()
    }

    /// They hold what those held, which hold nothing from now on.
    pub(super) fn inherit(&mut self, old: &mut Frames) {
        for (frame, old) in self.frames.iter_mut().zip(&mut old.frames) {
            frame.bytes = old.bytes.take();
        }
    }

    /// The frame's memory goes back to the system.
    pub(super) fn discard(&mut self, pages: Pages) {
        for p in pages.iter() {
            self.frames[p as usize] = Frame::default();
            self.watched[p as usize] = None;
        }
        self.set_rights(pages, Access::None);
    }

    /// Merges bytes of other ranks into the frame.
    pub(super) fn merge(&mut self, page: u32, diff: &[u8]) -> Result<(), diff::DiffError> {
        diff::apply(diff, self.bytes_mut(page))
    }
}
