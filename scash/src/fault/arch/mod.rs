//! What a fault's machine context says about the access: one file a processor, one for all others.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::{access, instruction};
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) use portable::{access, instruction};
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{access, instruction};
