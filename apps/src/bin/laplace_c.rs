//! Links LAPLACE in C, whose `main` is in `c/laplace.c`, into a binary of this crate.
#![no_main]

#[link(name = "laplace_c", kind = "static")]
#[link(name = "m")]
unsafe extern "C" {}
