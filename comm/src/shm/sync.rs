//! The atomics of the shared words, named in one place so that the models in `tests/shm_models.rs` can put
//! loom's in their stead.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
