//! Simulated stores: what each slot and index holds, or that nobody knows.

use super::Image;
use scash_ft::recovery::Survivor;
use scash_ft::{Base, Epoch, Mark};
use scash_proto::diff::PageBytes;
use std::rc::Rc;

/// Pages of private memory in an image: enough that an image can be a mixture.
pub(super) const PARTS: u8 = 3;

/// What a page of an index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::world) enum Key {
    /// A part of the process.
    Private(u8),
    /// A shared page.
    Shared(u32),
}

/// What a slot holds.
#[derive(Clone)]
pub(super) enum Content {
    /// A part of this image.
    Private(Rc<Image>, u8),
    Shared(Rc<PageBytes>),
}

impl PartialEq for Content {
    fn eq(&self, other: &Content) -> bool {
        match (self, other) {
            (Content::Private(one, i), Content::Private(other, j)) => Rc::ptr_eq(one, other) && i == j,
            (Content::Shared(one), Content::Shared(other)) => one == other,
            _ => false,
        }
    }
}

/// The slot of each page, in ascending order.
pub(super) type Index = Vec<(Key, u32)>;

/// What an epoch's index names, with what is in the slots.
pub(super) type Saved = Vec<(Key, u32, Content)>;

/// A slot or an index.
#[derive(Clone, Default, PartialEq)]
pub(super) enum Cell<T> {
    #[default]
    Empty,
    /// A write to it was under way when its writer died. It may hold what it held before, what was written,
    /// or a part of both: whoever reads it has lost.
    Torn,
    Holds(T),
}

impl<T: PartialEq> Cell<T> {
    /// A write was under way. Writing what is there already changes no byte.
    fn tear(&mut self, value: T) {
        let value = Cell::Holds(value);
        if *self != value {
            *self = Cell::Torn;
        }
    }
}

/// A write to a store.
#[derive(Clone)]
pub(super) enum Write {
    Slot(u32, Content),
    Index(Epoch, Rc<Index>),
    /// A mark that is written, or erased.
    Mark(Epoch, Option<Mark>),
}

/// A rank's store at one holder.
#[derive(Clone, Default)]
pub(super) struct Store {
    slots: Vec<Cell<Content>>,
    indices: [Cell<Rc<Index>>; 2],
    marks: [Option<Mark>; 2],
    pub(super) base: Base,
}

/// Index and mark of an epoch.
fn half(epoch: Epoch) -> usize {
    usize::from(!epoch.0.is_multiple_of(2))
}

impl Store {
    fn slot(&mut self, number: u32) -> &mut Cell<Content> {
        let at = number as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, Cell::default);
        }
        &mut self.slots[at]
    }

    /// A write arrives.
    pub(super) fn land(&mut self, write: Write) {
        match write {
            Write::Slot(slot, content) => *self.slot(slot) = Cell::Holds(content),
            Write::Index(epoch, index) => self.indices[half(epoch)] = Cell::Holds(index),
            Write::Mark(epoch, mark) => self.marks[half(epoch)] = mark,
        }
    }

    /// A write has arrived in part. A mark is written whole: nothing of it has.
    pub(super) fn tear(&mut self, write: Write) {
        match write {
            Write::Slot(slot, content) => self.slot(slot).tear(content),
            Write::Index(epoch, index) => self.indices[half(epoch)].tear(index),
            Write::Mark(..) => {}
        }
    }

    /// The index of an epoch, and what stands in the slots that it names. None if any of it is torn.
    pub(super) fn read(&self, epoch: Epoch) -> Option<Saved> {
        let Cell::Holds(index) = &self.indices[half(epoch)] else { return None };
        let content = |&(key, slot): &(Key, u32)| match self.slots.get(slot as usize) {
            Some(Cell::Holds(content)) => Some((key, slot, content.clone())),
            _ => None,
        };
        index.iter().map(content).collect()
    }

    pub(super) fn survivor(&self, host: u32) -> Survivor {
        Survivor { host, marks: self.marks, base: self.base }
    }
}
