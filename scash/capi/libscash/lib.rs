//! The libraries that C programs link: what [`scash_capi`] exports, and nothing else.

pub use scash_capi::*;
