//! Links LAPLACE in C, whose `main` is in `c/laplace.c`, with the DSM's C interface.
#![no_main]

extern crate scash_capi as _;

#[link(name = "laplace_c", kind = "static")]
#[link(name = "m")]
unsafe extern "C" {}
