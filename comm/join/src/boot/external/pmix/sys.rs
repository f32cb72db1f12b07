//! PMIx's C interface, as far as it is used here: structures, functions and constants, which the standard
//! (version 4, and 5 in what stands here) fixes. Names are those of the C headers without `pmix_`.

use std::ffi::{c_char, c_int, c_void};

/// Bytes of a namespace's name and of a key, with the zero.
pub(super) const NAMESPACE: usize = 256;
pub(super) const KEY: usize = 512;

pub(super) const SUCCESS: c_int = 0;
/// The rank that stands for all of a namespace.
pub(super) const WILDCARD: u32 = u32::MAX - 1;
/// Scope of words that all processes may have.
pub(super) const GLOBAL: u8 = 3;

/// Types of values.
pub(super) const BOOL: u16 = 1;
pub(super) const STRING: u16 = 3;
pub(super) const UINT32: u16 = 14;

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Proc {
    pub(super) nspace: [c_char; NAMESPACE],
    pub(super) rank: u32,
}

/// Its longest member has three words.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union Data {
    pub(super) flag: bool,
    pub(super) uint32: u32,
    pub(super) string: *mut c_char,
    pub(super) words: [usize; 3],
}

#[repr(C)]
pub(super) struct Value {
    pub(super) r#type: u16,
    pub(super) data: Data,
}

#[repr(C)]
pub(super) struct Info {
    pub(super) key: [c_char; KEY],
    pub(super) flags: u32,
    pub(super) value: Value,
}

const _: () = assert!(size_of::<Proc>() == 260 && size_of::<Value>() == 32 && size_of::<Info>() == 552);

pub(super) type Init = unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> c_int;
pub(super) type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;
pub(super) type Abort = unsafe extern "C" fn(c_int, *const c_char, *mut Proc, usize) -> c_int;
pub(super) type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
pub(super) type Commit = unsafe extern "C" fn() -> c_int;
pub(super) type OperationCallback = extern "C" fn(c_int, *mut c_void);
pub(super) type Fence =
    unsafe extern "C" fn(*const Proc, usize, *const Info, usize, OperationCallback, *mut c_void) -> c_int;
pub(super) type Get =
    unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> c_int;
pub(super) type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;
