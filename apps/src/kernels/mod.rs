//! The arithmetic of the programs, one file per kernel.
//!
//! Every mode of a program (sequential, threads, DSM) calls the same kernel on the same rows or blocks, and a
//! kernel applies its operations to an element in one fixed order. So the modes agree bitwise, whatever the
//! number of workers, and `--check` may ask for exactly that.
//!
//! The crate is built for any processor of its architecture; each kernel is compiled once more for AVX2 with
//! fused multiply-add, and picks the version when it is called. A fused operation rounds once instead of
//! twice: machines with and without it give results that differ in the last bits, so the ranks of one job
//! should agree on it.

pub mod block;
pub mod stencil;

/// Whether the version of a kernel that every processor of this architecture can run uses fused multiply-add.
const BASELINE_FUSED: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

/// Whether this processor has what the wide version of a kernel needs.
#[cfg(target_arch = "x86_64")]
fn wide_available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// Whether the kernels use fused multiply-add on this processor.
pub fn fused() -> bool {
    #[cfg(target_arch = "x86_64")]
    if wide_available() {
        return true;
    }
    BASELINE_FUSED
}

/// Subtracts `a · b` from `c`, with one rounding if `FUSED`, or two.
#[inline(always)]
fn subtract_product<const FUSED: bool>(c: f64, a: f64, b: f64) -> f64 {
    if FUSED { (-a).mul_add(b, c) } else { c - a * b }
}

/// Defines `$name`, which runs `$body::<true>` compiled for AVX2 and FMA where the processor has both, and
/// the body compiled for any processor elsewhere. The body must be `#[inline(always)]` all the way down.
macro_rules! multiversion {
    ($(#[$meta:meta])* pub fn $name:ident($($arg:ident: $type:ty),* $(,)?) => $body:ident) => {
        $(#[$meta])*
        pub fn $name($($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn wide($($arg: $type),*) {
                    $body::<true>($($arg),*);
                }
                if $crate::kernels::wide_available() {
                    // SAFETY: this processor has both features.
                    return unsafe { wide($($arg),*) };
                }
            }
            $body::<{ $crate::kernels::BASELINE_FUSED }>($($arg),*);
        }
    };
}
use multiversion;
