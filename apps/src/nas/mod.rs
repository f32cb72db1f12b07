//! Kernels of the NAS Parallel Benchmarks on message passing: EP, IS, CG, MG, FT.
//!
//! They follow the specification (Bailey et al., RNR-94-007, 1994) and the distribution of data of NPB's own
//! message-passing programs (Bailey et al., *The NAS Parallel Benchmarks 2.0*, NAS-95-020, 1995), and their
//! results are held to the values that are published. What they communicate by is a parameter ([`Messages`]),
//! so the same code runs over scash and over MPI. Each of their iterations begins with a place for a
//! checkpoint, which is nothing where ranks do not come back.
//!
//! | kernel | what it computes | what travels |
//! |---|---|---|
//! | [`ep`] | Gaussian deviates | sums, once |
//! | [`is`] | ranks of integer keys | counts, and all keys |
//! | [`cg`] | the smallest eigenvalue of a sparse matrix, by conjugate gradients | parts of vectors, within rows of ranks and between transposed ones |
//! | [`mg`] | a Poisson problem, by multigrid | faces of grids of all sizes |
//! | [`ft`] | a diffusion equation, by Fourier transforms in three dimensions | the whole grid, transposed |

pub mod cg;
pub mod ep;
pub mod ft;
pub mod is;
pub mod mg;
pub mod report;

use std::time::Instant;

use clap::ValueEnum;
use scash_messages::Messages;
use scash_mp::Op;
use serde::Serialize;

use crate::npb::Class;
use crate::{Error, Result};

/// Which kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kernel {
    /// Ranks of random keys
    Is,
    /// Gaussian deviates
    Ep,
    /// Conjugate gradients
    Cg,
    /// Multigrid
    Mg,
    /// Fourier transforms
    Ft,
}

/// What came of a kernel: the same at all ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// What the timed part took at the rank where it took longest.
    pub seconds: f64,
    /// Operations of the timed part, as NPB counts them for this kernel; the unit is up to the kernel.
    pub operations: f64,
    /// Whether the result is the published one.
    pub verified: bool,
}

impl Outcome {
    /// Millions of operations in a second.
    pub fn mops(&self) -> f64 {
        self.operations / 1e6 / self.seconds
    }
}

impl Kernel {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Is => "is",
            Kernel::Ep => "ep",
            Kernel::Cg => "cg",
            Kernel::Mg => "mg",
            Kernel::Ft => "ft",
        }
    }

    /// Runs it, with all ranks.
    ///
    /// # Errors
    /// A number of ranks that it cannot divide its work among, or one that is gone.
    pub fn run(self, class: Class, messages: &dyn Messages) -> Result<Outcome> {
        match self {
            Kernel::Is => is::run(class, messages),
            Kernel::Ep => ep::run(class, messages),
            Kernel::Cg => cg::run(class, messages),
            Kernel::Mg => mg::run(class, messages),
            Kernel::Ft => ft::run(class, messages),
        }
    }
}

/// What `work` takes at the rank where it takes longest; all begin together.
fn timed(messages: &dyn Messages, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    messages.barrier()?;
    let start = Instant::now();
    work()?;
    let [longest] = messages.combined(Op::Max, [start.elapsed().as_secs_f64()])?;
    Ok(longest)
}

/// Whether all ranks say so.
fn all(messages: &dyn Messages, mine: bool) -> Result<bool> {
    let [least] = messages.combined(Op::Min, [u32::from(mine)])?;
    Ok(least == 1)
}

/// Whether a number is the published one, but for a small part of it. (Nothing that is no number is.)
fn close(number: f64, published: f64, tolerance: f64) -> bool {
    ((number - published) / published).abs() <= tolerance
}

/// A number of ranks that a kernel can use; `can` says which ones it can.
fn ranks(
    kernel: Kernel,
    messages: &dyn Messages,
    fits: impl Fn(usize) -> bool,
    can: &'static str,
) -> Result<usize> {
    let ranks = messages.size() as usize;
    if fits(ranks) { Ok(ranks) } else { Err(Error::Ranks { kernel: kernel.name(), ranks, can }) }
}

/// This rank, as an index.
fn me(messages: &dyn Messages) -> usize {
    messages.rank() as usize
}

/// A rank, of its index.
fn rank(index: usize) -> u32 {
    u32::try_from(index).expect("ranks are counted by a u32")
}
