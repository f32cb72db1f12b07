//! The typed interface: what Rust programs call.
//!
//! | module | what it has |
//! |---|---|
//! | `dsm` | a rank's part in the job: allocation, memory barrier, homes |
//! | `shared`, `partition` | arrays in shared memory: plain, and owned in parts |
//! | `mutex`, `rwlock`, `signals` | locks and what they guard; semaphores, condition variables, flags |
//! | `atomics`, `reduce` | atomic words, reductions and broadcasts of values |
//! | `destroy` | giving such objects back |

pub(crate) mod atomics;
pub(crate) mod destroy;
pub(crate) mod dsm;
pub(crate) mod mutex;
pub(crate) mod partition;
pub(crate) mod reduce;
pub(crate) mod rwlock;
pub(crate) mod shared;
pub(crate) mod signals;
