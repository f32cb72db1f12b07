//! Objects of the heap with one owner, in the typed interface.

use crate::api::session::{Session, job};
use crate::api::shared::Plain;
use crate::error::Result;
use crate::fault::PAGE;
use crate::runtime;
use std::marker::PhantomData;

/// A value in the heap of shared memory, which has this one owner: what [`Box`] is in private memory.
///
/// One rank makes it by itself, at any time, also while it has a lock. To hand it to another rank the
/// owner [parks](Self::park) it, and gets a [`SharedHandle`], which is plain data and may be kept in other
/// shared memory. Whoever [adopts](SharedHandle::adopt) the value by the handle is its owner from then on.
/// So no two have it, however often the handle was copied. A value that is dropped is freed, whichever
/// rank has made it.
///
/// ```no_run
/// # fn main() -> scash::Result<()> {
/// use scash::{SharedBox, SharedHandle};
///
/// /// A stack of values, which all ranks push to.
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Node {
///     value: u64,
///     below: SharedHandle<Node>,
/// }
///
/// let mut dsm = scash::Dsm::init()?;
/// let top = dsm.mutex(SharedHandle::<Node>::NONE)?;
/// {
///     let mut top = top.lock(&dsm)?;
///     let node = Node { value: dsm.rank() as u64, below: *top };
///     *top = SharedBox::new(&dsm, node)?.park(&dsm)?;
/// }
/// dsm.barrier()?;
/// if dsm.rank() == 0 {
///     let mut next = *top.lock(&dsm)?;
///     let mut sum = 0;
///     while next != SharedHandle::NONE {
///         let node = next.adopt(&dsm)?; // freed at the end of the round
///         sum += node.get(&dsm).value;
///         next = node.get(&dsm).below;
///     }
///     println!("{sum}");
/// }
/// dsm.finalize()
/// # }
/// ```
///
/// A reference is borrowed from the box and a session, so it ends before the next memory barrier:
///
/// ```compile_fail,E0502
/// # fn f(dsm: &mut scash::Dsm, mut count: scash::SharedBox<u64>) -> scash::Result<()> {
/// let value = count.get_mut(dsm);
/// dsm.barrier()?; // error: `value` still borrows it
/// *value += 1;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct SharedBox<T: Plain> {
    value: *mut T,
}

// SAFETY: an owner of a plain value, as `Box` is: it may go to another thread of its rank, and threads
// that have references to it read only.
unsafe impl<T: Plain> Send for SharedBox<T> {}
// SAFETY: as above.
unsafe impl<T: Plain> Sync for SharedBox<T> {}

impl<T: Plain> SharedBox<T> {
    /// A new value, which the calling rank allocates in its part of the heap.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`](crate::Error::OutOfSpace): no room (`SCASH_HEAP`); another thread of this
    /// rank is in a collective call; a rank is gone.
    pub fn new(session: &(impl Session + ?Sized), value: T) -> Result<SharedBox<T>> {
        const { assert!(align_of::<T>() <= PAGE, "values in shared memory are aligned to a page at most") };
        let at = job(session).own_new(align_of::<T>(), size_of::<T>())?.cast::<T>();
        // SAFETY: room for the value, aligned, that nobody else knows of.
        unsafe { at.write(value) };
        Ok(SharedBox { value: at })
    }

    /// The value.
    pub fn get<'a>(&'a self, _session: &'a (impl Session + ?Sized)) -> &'a T {
        // SAFETY: an object of the heap with a plain value, whose one owner is borrowed: nobody writes it.
        unsafe { &*self.value }
    }

    /// The value, to be changed.
    pub fn get_mut<'a>(&'a mut self, _session: &'a (impl Session + ?Sized)) -> &'a mut T {
        // SAFETY: as in `get`, and the owner is borrowed mutably: nobody else reads it.
        unsafe { &mut *self.value }
    }

    /// The value's address, the same on every rank.
    pub fn as_ptr(&self) -> *mut T {
        self.value
    }

    /// Gives the value up, for whoever adopts it first. What was written in it the next owner sees, if a
    /// lock, a flag, a semaphore or a memory barrier brings it the handle. In a job that has barriers only,
    /// other ranks can adopt it after the next one, and this rank at once.
    ///
    /// # Errors
    /// Another thread of this rank is in a collective call; a rank is gone. The value is not freed then.
    pub fn park(self, session: &(impl Session + ?Sized)) -> Result<SharedHandle<T>> {
        let handle = SharedHandle { address: self.value as u64, _type: PhantomData };
        std::mem::forget(self);
        job(session).park(handle.at())?;
        Ok(handle)
    }
}

impl<T: Plain> Drop for SharedBox<T> {
    fn drop(&mut self) {
        // After the end of the job, or when a rank is gone, there is nothing to free, and the next call
        // says so.
        if let Some(runtime) = runtime::current() {
            let _ = runtime.free_object(self.value.cast::<u8>().cast_const());
        }
    }
}

/// Where a parked [`SharedBox`] is: plain data, the same on every rank. Zeros are [`NONE`](Self::NONE).
#[repr(transparent)]
pub struct SharedHandle<T> {
    address: u64,
    _type: PhantomData<T>,
}

impl<T> Clone for SharedHandle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedHandle<T> {}

impl<T> PartialEq for SharedHandle<T> {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

impl<T> Eq for SharedHandle<T> {}

impl<T> std::fmt::Debug for SharedHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedHandle({:#x})", self.address)
    }
}

// SAFETY: zeros are a handle of nothing.
unsafe impl<T> bytemuck::Zeroable for SharedHandle<T> {}
// SAFETY: a number, any of which is a handle: what it leads to is looked at when it is adopted.
unsafe impl<T: 'static> bytemuck::Pod for SharedHandle<T> {}

impl<T> SharedHandle<T> {
    /// The handle of nothing.
    pub const NONE: Self = SharedHandle { address: 0, _type: PhantomData };

    /// The value's address, the same on every rank; null for [`NONE`](Self::NONE).
    pub fn as_ptr(self) -> *mut T {
        self.at().cast_mut().cast()
    }

    fn at(self) -> *const u8 {
        std::ptr::with_exposed_provenance(usize::try_from(self.address).unwrap_or(0))
    }
}

impl<T: Plain> SharedHandle<T> {
    /// Makes the caller the owner of the value. Of several that try, one succeeds.
    ///
    /// The bytes are those that the last owner has left if a lock, a flag, a semaphore or a memory barrier
    /// orders its [`park`](SharedBox::park) before. If it was parked as another type, they are taken for this
    /// one: each mixture of bytes is a value of a plain type.
    ///
    /// # Errors
    /// The value has an owner, was freed, or has less room than this type needs; the handle leads nowhere.
    /// In a job with barriers only: another rank has parked the value since the last one. Another thread of
    /// this rank is in a collective call; a rank is gone.
    pub fn adopt(self, session: &(impl Session + ?Sized)) -> Result<SharedBox<T>> {
        job(session).adopt(self.at(), align_of::<T>(), size_of::<T>())?;
        Ok(SharedBox { value: self.as_ptr() })
    }
}
