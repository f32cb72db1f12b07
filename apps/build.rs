//! Compiles the C twins of the programs: one static library for each, which its binary links, and one with
//! the kernels alone, for the test that compares them with those in Rust.

use std::env;
use std::path::PathBuf;

/// What all programs share.
const COMMON: [&str; 5] = ["crew.c", "dsm.c", "options.c", "program.c", "report.c"];

fn main() {
    let library = |name: &str, sources: &[&str]| {
        cc::Build::new()
            .files(sources.iter().map(|source| format!("c/{source}")))
            .include("../scash/capi/include")
            .std("gnu11")
            // Kernels are measured and compared, so they are optimised in every profile.
            .opt_level(3)
            // The results in C and Rust have the same bits where products and sums are fused alike.
            .flag_if_supported("-ffp-contract=fast")
            .extra_warnings(true)
            .cargo_metadata(false)
            .compile(name);
    };
    library("laplace_c", &[&COMMON[..], &["laplace.c", "stencil.c"]].concat());
    library("lu_c", &[&COMMON[..], &["lu.c", "block.c"]].concat());
    library("kernels_c", &["stencil.c", "block.c"]);

    let directory = env::var_os("OUT_DIR").map(PathBuf::from).expect("cargo names the directory");
    println!("cargo::rustc-link-search=native={}", directory.display());
    println!("cargo::rerun-if-changed=c");
}
