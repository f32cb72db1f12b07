//! Links LU in C, whose `main` is in `c/lu.c`, into a binary of this crate.
#![no_main]

#[link(name = "lu_c", kind = "static")]
unsafe extern "C" {}
