//! The heap: objects that single ranks allocate and free.

use crate::call::call;
use scash::Result;
use scash::runtime::Runtime;
use std::ffi::c_void;

/// The pointer that C gets.
fn pointer(name: &str, allocate: impl FnOnce(&Runtime) -> Result<*mut u8>) -> *mut c_void {
    call(name, allocate).map_or(std::ptr::null_mut(), <*mut u8>::cast)
}

/// Frees what is in the heap by this rank alone, and what `dsm_alloc` returned together with all others.
pub(crate) fn free(runtime: &Runtime, p: *mut c_void) -> Result<()> {
    if p.is_null() {
        return Ok(());
    }
    if runtime.is_in_heap(p.cast()) { runtime.free_object(p.cast()) } else { runtime.free(p.cast()) }
}

/// Allocates `bytes` bytes of the heap of shared memory. Not collective: any thread of any rank calls it
/// at any time, also while it has locks, but not while another thread of its rank is in a collective
/// function.
///
/// The address is a multiple of 16 and means the same on every rank: it may be kept in other shared
/// memory, and any rank reads, writes and frees the object. What one rank writes there others see as
/// they see all shared memory: after a memory barrier, or when they get a lock, a semaphore, a
/// condition or a flag after it. The bytes have no particular values (dsm_calloc sets them to zero).
/// For 0 bytes there is an address, too, that no other object has.
///
/// Objects of different ranks lie on different pages; small ones of one rank share pages. Where ranks
/// do not share frames, a page's home is the rank that touches it first.
///
/// Each rank has an equal part of the heap (SCASH_HEAP), and allocates there. What is freed can be
/// allocated again; its memory is not given back to the system.
///
/// Returns NULL if there is no room in this rank's part.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_malloc(bytes: usize) -> *mut c_void {
    pointer("dsm_malloc", |runtime| runtime.malloc(bytes))
}

/// Allocates `count` objects of `bytes` bytes side by side, as dsm_malloc, and sets all bytes to zero.
///
/// Returns NULL as dsm_malloc does, or if there are no so large numbers.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_calloc(count: usize, bytes: usize) -> *mut c_void {
    pointer("dsm_calloc", |runtime| runtime.calloc(count, bytes))
}

/// Allocates as dsm_malloc does, at a multiple of `alignment`, which is a power of two.
///
/// Returns NULL as dsm_malloc does, or if `alignment` is no power of two.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_memalign(alignment: usize, bytes: usize) -> *mut c_void {
    pointer("dsm_memalign", |runtime| runtime.memalign(alignment, bytes))
}

/// Makes the object at `p`, which any rank has allocated by dsm_malloc or the like, `bytes` bytes long.
/// If it does not fit where it is, it is moved to this rank's part of the heap, and the old one is
/// freed. As many bytes as fit are as they were. With NULL this is dsm_malloc. An object that is made
/// 0 bytes long is not freed. Alignments that dsm_memalign gave are lost if it is moved.
///
/// Returns NULL as dsm_malloc does, or if no object begins at `p`. The object is as it was then.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_realloc(p: *mut c_void, bytes: usize) -> *mut c_void {
    pointer("dsm_realloc", |runtime| runtime.realloc(p.cast(), bytes))
}
