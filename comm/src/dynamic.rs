//! Libraries of the system that are loaded at run time: who does not use one does not need it. They are never unloaded: they may have threads and hooks of their own.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

/// A loaded library.
#[derive(Clone, Copy)]
pub(crate) struct Dynamic {
    name: &'static CStr,
    handle: NonNull<c_void>,
}

impl Dynamic {
    /// Loads the library of that name, whose constructors run.
    ///
    /// # Errors
    /// Why it cannot be loaded.
    pub(crate) fn load(name: &'static CStr) -> Result<Self, String> {
        // SAFETY: the name is a C string. The constructors are those of a package of the system.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(|handle| Self { name, handle }).ok_or_else(why_not)
    }

    /// The address of what has this name.
    ///
    /// # Errors
    /// It has no such thing.
    pub(crate) fn symbol(self, symbol: &CStr) -> Result<NonNull<c_void>, String> {
        // SAFETY: the handle is a loaded library's, the name a C string.
        let address = unsafe { libc::dlsym(self.handle.as_ptr(), symbol.as_ptr()) };
        let name = self.name;
        NonNull::new(address)
            .ok_or_else(|| format!("{name:?} has no {symbol:?}: it is not a library that scash can use"))
    }
}

/// Why the last `dlopen` failed.
fn why_not() -> String {
    // SAFETY: gives null or a C string that lives until the next call of this kind, which is not made meanwhile.
    let why = unsafe { libc::dlerror() };
    if why.is_null() {
        return "no reason given".into();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned()
}

/// The function of a library that has this name, as one of this type, which its header or standard must give it.
macro_rules! function {
    ($library:expr, $name:literal, $kind:ty) => {{
        let address = $library.symbol($name)?;
        // SAFETY: the header or standard says that the function of this name has this type.
        unsafe { std::mem::transmute::<*mut std::ffi::c_void, $kind>(address.as_ptr()) }
    }};
}
pub(crate) use function;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    type Length = unsafe extern "C" fn(*const std::ffi::c_char) -> usize;

    fn length() -> Result<Length, String> {
        let library = Dynamic::load(c"libc.so.6")?;
        Ok(function!(library, c"strlen", Length))
    }

    #[test]
    fn functions_of_a_library_are_found_and_what_is_missing_is_named() {
        // SAFETY: `strlen`, called with a C string.
        assert_eq!(unsafe { length().unwrap()(c"seven".as_ptr()) }, 5);
        let library = Dynamic::load(c"libc.so.6").unwrap();
        let missing = library.symbol(c"no_such_function").unwrap_err();
        assert!(missing.contains("no_such_function"), "{missing}");
        let missing = Dynamic::load(c"libno-such-library.so.7").err().unwrap();
        assert!(missing.contains("libno-such-library.so.7"), "{missing}");
    }
}
