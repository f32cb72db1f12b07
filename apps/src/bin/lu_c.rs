//! Links LU in C, whose `main` is in `c/lu.c`, with the DSM's C interface.
#![no_main]

extern crate scash_capi as _;

#[link(name = "lu_c", kind = "static")]
unsafe extern "C" {}
