//! libfabric, loaded at run time.

use super::sys::{self, FabricAttr, Fid, Info};
use libloading::os::unix::Library as Loaded;
use scash_comm::{Error, Result};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

const NAME: &str = "libfabric.so.1";

type GetInfo =
    unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const Info, *mut *mut Info) -> c_int;

type FreeInfo = unsafe extern "C" fn(*mut Info);
type DupInfo = unsafe extern "C" fn(*const Info) -> *mut Info;
type OpenFabric = unsafe extern "C" fn(*mut FabricAttr, *mut *mut Fid, *mut c_void) -> c_int;
type StrError = unsafe extern "C" fn(c_int) -> *const c_char;
type Version = unsafe extern "C" fn() -> u32;

/// The library's functions that are symbols. All others are in tables that objects point to.
pub(super) struct Library {
    getinfo: GetInfo,
    freeinfo: FreeInfo,
    dupinfo: DupInfo,
    fabric: OpenFabric,
    strerror: StrError,
    version: Version,
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
            format!("libfabric cannot be loaded: {why}; Debian: apt-get install libfabric1")
        })?;
        let found = Library {
            // SAFETY: the type is that of the header.
            getinfo: unsafe { function::<GetInfo>(&library, "fi_getinfo") }?,
            // SAFETY: the type is that of the header.
            freeinfo: unsafe { function::<FreeInfo>(&library, "fi_freeinfo") }?,
            // SAFETY: the type is that of the header.
            dupinfo: unsafe { function::<DupInfo>(&library, "fi_dupinfo") }?,
            // SAFETY: the type is that of the header.
            fabric: unsafe { function::<OpenFabric>(&library, "fi_fabric") }?,
            // SAFETY: the type is that of the header.
            strerror: unsafe { function::<StrError>(&library, "fi_strerror") }?,
            // SAFETY: the type is that of the header.
            version: unsafe { function::<Version>(&library, "fi_version") }?,
        };
        // It is never unloaded: it may have threads and hooks of its own.
        std::mem::forget(library);
        Ok(found)
    }

    /// Its version, as people write it.
    pub(super) fn version(&self) -> String {
        // SAFETY: takes nothing and gives a number.
        let version = unsafe { (self.version)() };
        format!("{}.{}", version >> 16, version & 0xFFFF)
    }

    /// An empty description, for hints.
    pub(super) fn hints(&'static self) -> Result<InfoList> {
        // SAFETY: null asks for a new one.
        let info = unsafe { (self.dupinfo)(std::ptr::null()) };
        if info.is_null() {
            return Err(self.error("asking libfabric for memory", -libc::ENOMEM));
        }
        Ok(InfoList { library: self, info })
    }

    /// What there is that satisfies the hints, best first; none, if nothing does. `node` is a name or an
    /// address of this host.
    pub(super) fn info(&'static self, node: Option<&CStr>, hints: &InfoList) -> Result<Option<InfoList>> {
        let (name, flags) = node.map_or((std::ptr::null(), 0), |node| (node.as_ptr(), sys::SOURCE));
        let mut info = std::ptr::null_mut();
        // SAFETY: strings and hints live during the call, which stores a list of its own making.
        let status =
            unsafe { (self.getinfo)(sys::API, name, std::ptr::null(), flags, hints.info, &mut info) };
        match -status {
            0 if !info.is_null() => Ok(Some(InfoList { library: self, info })),
            0 | sys::ENODATA => Ok(None),
            _ => Err(self.error("asking libfabric what there is", status)),
        }
    }

    /// Opens the fabric that a description names.
    pub(super) fn fabric(&self, info: &InfoList) -> Result<*mut Fid> {
        let mut fabric = std::ptr::null_mut();
        let attributes = info.get().fabric_attr;
        // SAFETY: the attributes are those of a live description; the call stores an object.
        let status = unsafe { (self.fabric)(attributes, &mut fabric, std::ptr::null_mut()) };
        if status != 0 {
            return Err(self.error("opening the fabric", status));
        }
        Ok(fabric)
    }

    /// What libfabric calls an error.
    pub(super) fn text(&self, error: c_int) -> String {
        // SAFETY: takes a number and gives a C string that is never freed.
        let text = unsafe { (self.strerror)(error.abs()) };
        if text.is_null() {
            return format!("error {error}");
        }
        // SAFETY: as above.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// The error for a call that gave `status`.
    pub(super) fn error(&self, what: &str, status: c_int) -> Error {
        let source = std::io::Error::other(self.text(status));
        Error::Io { what: format!("ofi: {what} (`FI_LOG_LEVEL=warn` makes libfabric say more)"), source }
    }
}

/// The library's function of that name.
///
/// # Safety
/// `F` is the type that libfabric's header gives to it.
unsafe fn function<F: Copy>(library: &Loaded, name: &str) -> std::result::Result<F, String> {
    // SAFETY: the caller's promise.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    found.map(|symbol| *symbol).map_err(|why| format!("{NAME} is not a library that scash can use: {why}"))
}

/// A list of descriptions, of which the first counts.
pub(super) struct InfoList {
    library: &'static Library,
    info: *mut Info,
}

// SAFETY: the list belongs to this value alone; the library has no thread that knows it.
unsafe impl Send for InfoList {}

impl InfoList {
    pub(super) fn get(&self) -> &Info {
        // SAFETY: never null, made by the library and owned by this value; nothing changes it while it is
        // borrowed.
        unsafe { &*self.info }
    }

    pub(super) fn get_mut(&mut self) -> &mut Info {
        // SAFETY: as above, and exclusively.
        unsafe { &mut *self.info }
    }

    /// The first description, as the library's calls take it.
    pub(super) fn as_ptr(&self) -> *mut Info {
        self.info
    }

    /// Names the provider to look for.
    pub(super) fn set_provider(&mut self, name: &CStr) -> Result<()> {
        let name = duplicate(name)?;
        let Some(fabric) = self.attributes_mut(|info| info.fabric_attr) else {
            return Err(Error::Invalid("libfabric gave hints without attributes".into()));
        };
        fabric.prov_name = name;
        Ok(())
    }

    /// One of the structures behind the first description.
    pub(super) fn attributes_mut<T>(&mut self, which: impl Fn(&Info) -> *mut T) -> Option<&mut T> {
        let attributes = which(self.get());
        // SAFETY: null, or made by the library as part of the description, which is borrowed exclusively.
        unsafe { attributes.as_mut() }
    }

    /// As [`Self::attributes_mut`], for looking.
    pub(super) fn attributes<T>(&self, which: impl Fn(&Info) -> *mut T) -> Option<&T> {
        // SAFETY: null, or made by the library as part of the description, which is borrowed.
        unsafe { which(self.get()).as_ref() }
    }

    /// The name of the first description's provider.
    pub(super) fn provider(&self) -> String {
        self.names().next().unwrap_or_default()
    }

    /// The providers' names, best first.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        let mut next = self.info.cast_const();
        std::iter::from_fn(move || {
            // SAFETY: null, or a member of the list, which `self` keeps.
            let info = unsafe { next.as_ref() }?;
            next = info.next;
            Some(info)
        })
        .filter_map(|info| {
            // SAFETY: null, or part of the description.
            let name = unsafe { info.fabric_attr.as_ref() }?.prov_name;
            // SAFETY: null, or a C string that is part of the description.
            (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
        })
    }
}

impl Drop for InfoList {
    fn drop(&mut self) {
        // SAFETY: made by the library, and freed once.
        unsafe { (self.library.freeinfo)(self.info) };
    }
}

/// A copy that `fi_freeinfo` may free.
fn duplicate(text: &CStr) -> Result<*mut c_char> {
    // SAFETY: a C string.
    let copy = unsafe { libc::strdup(text.as_ptr()) };
    if copy.is_null() {
        return Err(Error::Io {
            what: "ofi: copying a name".into(),
            source: std::io::ErrorKind::OutOfMemory.into(),
        });
    }
    Ok(copy)
}

/// Text for the library.
pub(super) fn c_text(what: &str, text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::Invalid(format!("{what} {text:?} has a zero byte in it")))
}
