//! Stores as the enumeration sees them: what each slot and index holds, or that nobody knows.

use scash_ft::recovery::Survivor;
use scash_ft::{Base, Epoch, Mark};

/// Pages of a rank: page 0 is written in each interval, page 1 in every other.
pub(crate) const PAGES: usize = 2;
/// Slots of a store: enough for two epochs that share nothing.
pub(crate) const SLOTS: u32 = 4;

/// What a rank has in a page: who wrote it, in which interval of which incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Content {
    pub(crate) rank: u8,
    pub(crate) page: u8,
    pub(crate) incarnation: u64,
    pub(crate) interval: u8,
}

/// All pages of a rank.
pub(crate) type Memory = [Content; PAGES];

/// The slot of each page.
pub(crate) type Index = [u32; PAGES];

/// A slot or an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Cell<T> {
    #[default]
    Empty,
    /// A write to it was under way when its writer died. It may hold what it held before, what was
    /// written, or a part of both: whoever reads it has lost.
    Torn,
    Holds(T),
}

impl<T: PartialEq> Cell<T> {
    /// A write was under way. Writing what is there already changes no byte.
    fn tear(&mut self, value: T) {
        if *self != Cell::Holds(value) {
            *self = Cell::Torn;
        }
    }
}

/// A write to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Write {
    Slot(u32, Content),
    Index(Epoch, Index),
    /// A mark that is written, or erased.
    Mark(Epoch, Option<Mark>),
}

/// A rank's store at one holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    slots: [Cell<Content>; SLOTS as usize],
    indices: [Cell<Index>; 2],
    marks: [Option<Mark>; 2],
    pub(crate) base: Base,
}

/// Index and mark of an epoch.
fn half(epoch: Epoch) -> usize {
    usize::from(!epoch.0.is_multiple_of(2))
}

impl Store {
    /// A write arrives.
    pub(crate) fn land(&mut self, write: Write) {
        match write {
            Write::Slot(slot, content) => self.slots[slot as usize] = Cell::Holds(content),
            Write::Index(epoch, index) => self.indices[half(epoch)] = Cell::Holds(index),
            Write::Mark(epoch, mark) => self.marks[half(epoch)] = mark,
        }
    }

    /// A write may have arrived, not, or in part. A mark is written whole: this says nothing of marks.
    pub(crate) fn tear(&mut self, write: Write) {
        match write {
            Write::Slot(slot, content) => self.slots[slot as usize].tear(content),
            Write::Index(epoch, index) => self.indices[half(epoch)].tear(index),
            Write::Mark(..) => {}
        }
    }

    /// The index of an epoch, and what stands in the slots that it names. None if any of it is torn.
    pub(crate) fn read(&self, epoch: Epoch) -> Option<(Index, Memory)> {
        let Cell::Holds(index) = self.indices[half(epoch)] else { return None };
        let mut memory = [None; PAGES];
        for (page, slot) in index.iter().enumerate() {
            let Cell::Holds(content) = self.slots[*slot as usize] else { return None };
            memory[page] = Some(content);
        }
        Some((index, [memory[0]?, memory[1]?]))
    }

    pub(crate) fn survivor(&self, host: u32) -> Survivor {
        Survivor { host, marks: self.marks, base: self.base }
    }
}
