//! Registered memory: buffers that lie where ranks of the same host can read them directly, so that a long
//! message is one copy, without the kernel's help.
//!
//! **Memory that the program has already is not registered**: with the providers that there are nothing is
//! gained by it. Within a host the kernel reads a long message out of it, which takes no registration;
//! whether it may is found out once, when ranks meet, and each send compares its address with those of
//! registered memory, no more. For a copy without the kernel the memory would have to be a file that others
//! map, which only who allocates it can see to ([`Communicator::allocate`](super::Communicator::allocate)).
//! `tcp` copies into sockets, and `ofi` through slots that are registered once, so there is nothing to look
//! up either.

use scash_comm::{Error, Result, SegmentId, SharedMemory};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Buffers begin at multiples of this, so that what is given back is whole pages.
const PAGE: usize = 4096;

/// A rank's registered memory.
#[derive(Debug)]
pub(super) struct Heap {
    memory: SharedMemory,
    len: usize,
    segment: SegmentId,
    /// What is free: where, and how long. Neighbours are one.
    free: Mutex<BTreeMap<usize, usize>>,
}

/// Memory of a communicator in which long messages travel in one copy within a host. It is the program's like
/// any other: initialised, and given back when dropped.
#[derive(Debug)]
pub struct Buffer {
    heap: Arc<Heap>,
    offset: usize,
    len: usize,
}

impl Heap {
    /// The heap of `len` bytes of memory that was registered as this segment.
    pub(super) fn new(memory: SharedMemory, len: usize, segment: SegmentId) -> Self {
        Self { memory, len, segment, free: Mutex::new(BTreeMap::from([(0, len)])) }
    }

    /// What it is registered as.
    pub(super) fn segment(&self) -> SegmentId {
        self.segment
    }

    /// Its addresses in this process.
    pub(super) fn addresses(&self) -> Range<usize> {
        let base = self.memory.at(0).addr();
        base..base + self.len
    }

    /// Whether nobody has any of it.
    pub(super) fn is_unused(&self) -> bool {
        self.free().get(&0) == Some(&self.len)
    }

    /// Address of the byte at `offset`, at most as many as there are.
    pub(super) fn at(&self, offset: usize) -> *mut u8 {
        self.memory.at(offset)
    }

    fn free(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        // The map is consistent wherever its owner can panic.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `len` bytes, and what is left of their last page: where they are.
    ///
    /// # Errors
    /// There is no room for them.
    pub(super) fn claim(&self, len: usize) -> Result<usize> {
        let none = || {
            Error::Invalid(format!(
                "no room for {len} bytes of registered memory: there are {} in all; choose more (SCASH_MP_REGISTERED)",
                self.len
            ))
        };
        match len.checked_next_multiple_of(PAGE) {
            None => Err(none()),
            Some(0) => Ok(0),
            Some(taken) => self.take(taken).ok_or_else(none),
        }
    }

    /// Gives back what was claimed, and its memory to the system.
    pub(super) fn release(&self, offset: usize, len: usize) {
        if len > 0 {
            self.give_back(offset, len.next_multiple_of(PAGE));
        }
    }

    /// Takes `len` bytes, a multiple of pages, from the first place that has as many.
    fn take(&self, len: usize) -> Option<usize> {
        let mut free = self.free();
        let (&offset, &room) = free.iter().find(|&(_, &room)| room >= len)?;
        free.remove(&offset);
        if room > len {
            free.insert(offset + len, room - len);
        }
        Some(offset)
    }

    fn give_back(&self, offset: usize, len: usize) {
        let at: *mut u8 = self.memory.at(offset).cast();
        // SAFETY: the range was taken and nobody has a reference to it any more; what is read there next is
        // zero.
        if unsafe { libc::madvise(at.cast(), len, libc::MADV_REMOVE) } != 0 {
            // As of memory that the program has locked.
            // SAFETY: likewise.
            unsafe { at.write_bytes(0, len) };
        }
        let mut free = self.free();
        let mut whole = offset..offset + len;
        if let Some((&before, &room)) = free.range(..offset).next_back()
            && before + room == offset
        {
            free.remove(&before);
            whole.start = before;
        }
        if let Some(room) = free.remove(&whole.end) {
            whole.end += room;
        }
        free.insert(whole.start, whole.len());
    }
}

impl Buffer {
    /// A buffer of so many bytes.
    pub(super) fn new(heap: &Arc<Heap>, len: usize) -> Result<Self> {
        let offset = heap.claim(len)?;
        Ok(Self { heap: Arc::clone(heap), offset, len })
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range belongs to this buffer and is mapped for as long as the heap is; other ranks only
        // read it.
        unsafe { std::slice::from_raw_parts(self.heap.memory.at(self.offset), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; and of a message from here, other ranks read only while its send is under way,
        // which borrows it.
        unsafe { std::slice::from_raw_parts_mut(self.heap.memory.at(self.offset), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.heap.release(self.offset, self.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn heap(pages: usize) -> Arc<Heap> {
        let memory = SharedMemory::new(pages * PAGE).unwrap();
        Arc::new(Heap::new(memory, pages * PAGE, SegmentId(0)))
    }

    proptest! {
        #[test]
        fn buffers_do_not_overlap_and_everything_comes_back(steps in prop::collection::vec((0..20_000usize, 0..4usize), 0..60)) {
            let heap = heap(16);
            let mut buffers: Vec<(Buffer, u8)> = Vec::new();
            for (number, (len, drops)) in (1u8..).zip(steps) {
                if let Ok(mut buffer) = Buffer::new(&heap, len) {
                    buffer.fill(number);
                    buffers.push((buffer, number));
                }
                for _ in 0..drops.min(buffers.len()) {
                    buffers.remove(buffers.len() / 2);
                }
                prop_assert!(buffers.iter().all(|(buffer, number)| buffer.iter().all(|byte| byte == number)));
            }
            drop(buffers);
            prop_assert_eq!(&*heap.free(), &BTreeMap::from([(0, heap.len)]));
        }
    }

    #[test]
    fn more_than_there_is_is_refused_with_what_there_is() {
        let heap = heap(4);
        for len in [4 * PAGE + 1, usize::MAX] {
            let error = Buffer::new(&heap, len).unwrap_err().to_string();
            assert!(error.contains("there are 16384 in all"), "{error}");
        }
        assert_eq!(Buffer::new(&heap, 4 * PAGE).unwrap().len(), 4 * PAGE);
        assert!(Buffer::new(&heap, 0).unwrap().is_empty());
    }
}
