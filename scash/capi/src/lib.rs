//! The C interface of scash.
//!
//! What a C program sees is `include/scash.h` and, for message passing, `include/scash_comm.h`, which
//! cbindgen makes of this crate: the comments on what is exported are written for C programmers. The
//! functions (`functions`, `heap`, `files`, `locks`, `signals`, `own`, `atomics`, `reduce`) are one thin
//! layer: they check what C lets pass (pointers, enums), call [`scash::runtime`], and turn its answer into a
//! number or a pointer (`call`) and, if it is an error, a text (`error`). Message passing (`comm`) is such a
//! layer on [`scash_mp`].
//!
//! This crate is the rlib that Rust programs link (a C program that cargo builds among them); the package
//! `libscash` makes `libscash.so` and `libscash.a` of it.
//!
//! **Invariant:** no function unwinds into C. A panic is a bug of ours; in an `extern "C"` function it prints
//! its message and ends the process with `SIGABRT`.
//!
//! **Invariant:** a function that fails leaves a text for [`dsm_error`] and [`scomm_error`]; one that
//! succeeds leaves the text that was there.

mod atomics;
mod call;
mod comm;
mod error;
mod files;
mod functions;
mod heap;
mod locks;
mod own;
mod pointers;
mod reduce;
mod signals;
mod streams;
mod types;

pub use atomics::*;
pub use comm::*;
pub use files::*;
pub use functions::*;
pub use heap::*;
pub use locks::*;
pub use own::*;
pub use reduce::*;
pub use signals::*;
pub use types::*;
