//! Pointers that C gives: what can be said of them before they are used.

use scash::{Error, Result};

/// Why a pointer leads to no value of its type, if its address tells. Null is aligned: whether it is an
/// address is for the caller to say.
pub(crate) fn misplaced<T>(name: &str, at: *const T) -> Option<String> {
    (!at.is_aligned()).then(|| {
        let size = align_of::<T>();
        format!("{name}: {at:p} is no multiple of {size}: give it the address of a variable of the type that the header says")
    })
}

/// The pointer is null, or leads to a value of its type as far as its address tells.
pub(crate) fn aligned<T>(name: &str, at: *const T) -> Result<()> {
    misplaced(name, at).map_or(Ok(()), |why| Err(Error::Argument(why)))
}
