//! The typed interface: what Rust programs call.
//!
//! | module | what it has |
//! |---|---|
//! | `dsm` | a rank's part in the job: allocation, memory barrier, homes |
//! | `session`, `worker`, `team` | a thread that calls; the threads of a rank, and where they meet |
//! | `shared`, `racing` | plain arrays in shared memory; values that several write |
//! | `partition`, `matrix`, `split`, `division` | arrays whose parts have owners, and who owns what |
//! | `boxes` | objects of the heap, which have one owner at a time |
//! | `messages` | messages beside shared memory |
//! | `mutex`, `rwlock`, `signals` | locks and what they guard; semaphores, condition variables, flags |
//! | `group` | what is made of these: barriers of some threads, events |
//! | `atomics`, `reduce` | atomic words, reductions and broadcasts of values |
//! | `destroy` | giving such objects back |
//! | `own` | those that one rank makes, and one gives back |

pub(crate) mod atomics;
pub(crate) mod boxes;
pub(crate) mod destroy;
pub(crate) mod division;
pub(crate) mod dsm;
pub(crate) mod group;
pub(crate) mod matrix;
pub(crate) mod messages;
pub(crate) mod mutex;
pub(crate) mod own;
pub(crate) mod partition;
pub(crate) mod racing;
pub(crate) mod reduce;
pub(crate) mod rwlock;
pub(crate) mod session;
pub(crate) mod shared;
pub(crate) mod signals;
pub(crate) mod split;
pub(crate) mod team;
pub(crate) mod worker;
