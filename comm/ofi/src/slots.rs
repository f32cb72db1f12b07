//! Buffers of one size, registered once: everything that leaves or arrives passes through one.
//!
//! So a source may change as soon as a put was handed over, a destination is never written by an operation
//! that its caller has given up, and only this memory needs to be known to network cards that insist on it.
//! Those that were used last are used first, so that few of them are ever touched.

use super::net::Buffer;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Bytes of a slot: a page and a bit would do for most; longer transfers want fewer operations.
pub(super) const SLOT: usize = 16 << 10;
/// What a provider may use beside each operation: `struct fi_context2`.
const CONTEXT: usize = 64;

/// Names a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u32);

impl Slot {
    /// For tables by slot.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// All slots, and which of them are free.
pub(super) struct Slots {
    memory: NonNull<u8>,
    layout: Layout,
    count: usize,
    free: Vec<Slot>,
}

// SAFETY: the memory belongs to this value, and has no thread.
unsafe impl Send for Slots {}

impl Slots {
    /// So many free slots.
    pub(super) fn new(count: u32) -> Slots {
        let slots = count as usize;
        let bytes = slots.checked_mul(SLOT + CONTEXT).expect("slots are few");
        let layout = Layout::from_size_align(bytes.max(1), 4_096).expect("slots are few");
        // SAFETY: not of size 0.
        let memory = unsafe { alloc_zeroed(layout) };
        let memory = NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout));
        Slots { memory, layout, count: slots, free: (0..count).rev().map(Slot).collect() }
    }

    /// The memory that operations use, without what providers keep beside it.
    pub(super) fn memory(&self) -> (*mut u8, usize) {
        (self.memory.as_ptr(), self.count * SLOT)
    }

    pub(super) fn claim(&mut self) -> Option<Slot> {
        self.free.pop()
    }

    pub(super) fn release(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// The slot as an operation on its first `len` bytes takes it.
    pub(super) fn buffer(&self, slot: Slot, len: usize) -> Buffer {
        assert!(slot.index() < self.count && len <= SLOT, "{slot:?} of {len} bytes");
        let context = self.count * SLOT + slot.index() * CONTEXT;
        // SAFETY: inside the memory (checked above).
        let start = unsafe { self.memory.as_ptr().add(slot.index() * SLOT) };
        // SAFETY: as above: contexts lie behind all slots.
        let context = unsafe { self.memory.as_ptr().add(context) };
        Buffer { start, len, context: context.cast() }
    }

    /// The slot that an operation's context belongs to, if it is one.
    pub(super) fn of_context(&self, context: *mut std::ffi::c_void) -> Option<Slot> {
        let first = self.memory.as_ptr().addr() + self.count * SLOT;
        let index = context.addr().checked_sub(first)? / CONTEXT;
        (index < self.count).then(|| Slot(u32::try_from(index).expect("slots are counted by a u32")))
    }

    /// Copies bytes into a slot.
    ///
    /// # Safety
    /// `from` has `len` bytes to read; no operation on the slot is under way.
    pub(super) unsafe fn fill(&mut self, slot: Slot, at: usize, from: *const u8, len: usize) {
        assert!(at + len <= SLOT, "{len} bytes at {at}");
        let start = self.buffer(slot, SLOT).start;
        // SAFETY: inside the slot (checked above).
        let to = unsafe { start.add(at) };
        // SAFETY: the source is the caller's promise, and no part of a slot that is claimed.
        unsafe { from.copy_to(to, len) };
    }

    /// As [`Self::fill`], from a slice.
    ///
    /// # Safety
    /// No operation on the slot is under way.
    pub(super) unsafe fn write(&mut self, slot: Slot, at: usize, bytes: &[u8]) {
        // SAFETY: the bytes are a slice; the slot is the caller's promise.
        unsafe { self.fill(slot, at, bytes.as_ptr(), bytes.len()) };
    }

    /// The first `len` bytes of a slot.
    ///
    /// # Safety
    /// No operation on the slot is under way or begins while they are borrowed.
    pub(super) unsafe fn bytes(&self, slot: Slot, len: usize) -> &[u8] {
        let start = self.buffer(slot, len).start;
        // SAFETY: inside the memory, which is initialised; nobody writes it meanwhile (caller).
        unsafe { std::slice::from_raw_parts(start, len) }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; the endpoint whose operations used it is closed before.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}
