//! libpmix, loaded at run time.

use super::sys;
use crate::dynamic::{Dynamic, function};
use crate::{Error, Result};
use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

const NAME: &CStr = c"libpmix.so.2";

/// The library's functions.
#[derive(Debug)]
pub(super) struct Library {
    pub(super) init: sys::Init,
    pub(super) finalize: sys::Finalize,
    pub(super) abort: sys::Abort,
    pub(super) put: sys::Put,
    pub(super) commit: sys::Commit,
    pub(super) fence: sys::Fence,
    pub(super) get: sys::Get,
    error_string: sys::ErrorString,
}

impl Library {
    /// The library, loaded at the first call.
    pub(super) fn get() -> Result<&'static Library> {
        static LIBRARY: OnceLock<std::result::Result<Library, String>> = OnceLock::new();
        LIBRARY.get_or_init(Self::load).as_ref().map_err(|why| Error::Invalid(why.clone()))
    }

    fn load() -> std::result::Result<Library, String> {
        let library = Dynamic::load(NAME).map_err(|why| {
            format!(
                "a launcher that uses PMIx has started this program, and the library cannot be loaded: {why}; install it (Debian: apt-get install \
                 libpmix2), or use a launcher that speaks PMI (srun --mpi=pmi2, MPICH's mpiexec), or scash run"
            )
        })?;
        Ok(Library {
            init: function!(library, c"PMIx_Init", sys::Init),
            finalize: function!(library, c"PMIx_Finalize", sys::Finalize),
            abort: function!(library, c"PMIx_Abort", sys::Abort),
            put: function!(library, c"PMIx_Put", sys::Put),
            commit: function!(library, c"PMIx_Commit", sys::Commit),
            fence: function!(library, c"PMIx_Fence_nb", sys::Fence),
            get: function!(library, c"PMIx_Get", sys::Get),
            error_string: function!(library, c"PMIx_Error_string", sys::ErrorString),
        })
    }

    /// An error for a call that gave `status`, if that is not success.
    pub(super) fn check(&self, what: &str, status: c_int) -> Result<()> {
        if status == sys::SUCCESS {
            return Ok(());
        }
        // SAFETY: takes a number, and gives a C string that is never freed.
        let text = unsafe { (self.error_string)(status) };
        let text = match text.is_null() {
            true => format!("error {status}"),
            // SAFETY: as above.
            false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        };
        Err(Error::Io { what: format!("PMIx: {what}"), source: std::io::Error::other(text) })
    }
}

/// Frees a value that the library has made: a string, or one without anything behind it.
pub(super) fn release(value: *mut sys::Value) {
    // SAFETY: null, or a value that nobody else has.
    let Some(inner) = (unsafe { value.as_ref() }) else { return };
    if inner.r#type == sys::STRING {
        // SAFETY: the type says which member it is.
        let string = unsafe { inner.data.string };
        // SAFETY: the library has it from `malloc`, as the standard says.
        unsafe { libc::free(string.cast()) };
    }
    // SAFETY: as above; nothing refers to it any more.
    unsafe { libc::free(value.cast()) };
}
