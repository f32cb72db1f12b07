//! libpmix, loaded at run time.

use super::sys;
use libloading::os::unix::Library as Loaded;
use scash_comm::{Error, Result};
use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

const NAME: &str = "libpmix.so.2";

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
        // SAFETY: its constructors are those of a package of the system.
        let library = unsafe { Loaded::new(NAME) }.map_err(|why| {
            format!(
                "a launcher that uses PMIx has started this program, and the library cannot be loaded: {why}; install it (Debian: apt-get install \
                 libpmix2), or use a launcher that speaks PMI (srun --mpi=pmi2, MPICH's mpiexec), or scash run"
            )
        })?;
        let found = Library {
            // SAFETY: the type is that of the standard.
            init: unsafe { function::<sys::Init>(&library, "PMIx_Init") }?,
            // SAFETY: the type is that of the standard.
            finalize: unsafe { function::<sys::Finalize>(&library, "PMIx_Finalize") }?,
            // SAFETY: the type is that of the standard.
            abort: unsafe { function::<sys::Abort>(&library, "PMIx_Abort") }?,
            // SAFETY: the type is that of the standard.
            put: unsafe { function::<sys::Put>(&library, "PMIx_Put") }?,
            // SAFETY: the type is that of the standard.
            commit: unsafe { function::<sys::Commit>(&library, "PMIx_Commit") }?,
            // SAFETY: the type is that of the standard.
            fence: unsafe { function::<sys::Fence>(&library, "PMIx_Fence_nb") }?,
            // SAFETY: the type is that of the standard.
            get: unsafe { function::<sys::Get>(&library, "PMIx_Get") }?,
            // SAFETY: the type is that of the standard.
            error_string: unsafe { function::<sys::ErrorString>(&library, "PMIx_Error_string") }?,
        };
        // It is never unloaded: it may have threads and hooks of its own.
        std::mem::forget(library);
        Ok(found)
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

/// The library's function of that name.
///
/// # Safety
/// `F` is the type that the standard gives to it.
unsafe fn function<F: Copy>(library: &Loaded, name: &str) -> std::result::Result<F, String> {
    // SAFETY: the caller's promise.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    found.map(|symbol| *symbol).map_err(|why| format!("{NAME} is not a library that scash can use: {why}"))
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
