//! Environment variables as text.

use scash_comm::{Error, Result};
use std::ffi::OsString;

/// The value of an environment variable. An empty one counts as none.
///
/// # Errors
/// It is not text.
pub fn setting(name: &str, value: Option<OsString>) -> Result<Option<String>> {
    let value = value.filter(|value| !value.is_empty()).map(OsString::into_string).transpose();
    value.map_err(|value| {
        Error::Invalid(format!("{name}={value:?} is not readable as text (UTF-8): set it anew, or unset it"))
    })
}
