//! Programs that run on scash, and without it for comparison.
//!
//! A [`Program`](program::Program) is a computation on shared arrays, written for one of any number of
//! workers. The same code runs in all modes:
//!
//! | mode | workers | shared arrays |
//! |---|---|---|
//! | `--sequential` | one | private memory |
//! | `--threads T` | T threads of one process | private memory |
//! | under `scash run` (without it: one rank) | ranks, times threads of each | the DSM's region |
//!
//! Reading order: [`laplace`] and [`lu`] (what is computed, and who owns what), [`program`] and [`run`] (what
//! a program is, how it is run, timed and checked), [`owned`], [`turn`], [`shared`] and [`memory`] (shared
//! arrays), [`runs`] and [`dealt`] (arrays that are cut into runs), [`crew`] (workers and barriers),
//! [`kernels`] (the arithmetic). The C twins are in `c/`.
//!
//! The others each show a pattern of sharing: [`matmul`] (data that all read), [`sor`] (what is written and
//! what is read in one array), [`fft`] (everybody exchanges with everybody), [`radix`] (writes all over an
//! array), [`kmeans`] (sums with the same bits on any number of workers), [`ocean`] (grids of many sizes, of
//! which some leave workers without work), [`is`] (counts that all add up), [`ep`] (nothing but a sum). Some
//! have [locks](lock) besides barriers: [`tsp`] (work from a queue, and a bound that all know), [`water`]
//! (one lock for each of many sums), [`market`] (one for each of many small objects, beside pages that one
//! worker alone writes), [`nbody`] (a tree that all build), [`fmm`] (one that is also climbed, by whoever
//! comes last), [`cholesky`] (tasks that wait for each other). Two [deal](dealt) parts of an array out to
//! whoever is free: [`raytrace`] by a counter, [`volume`] from [queues] of which each worker has one, and
//! steals from those of others. And two are there to be measured, for who writes what changes in them:
//! [`shifting`], [`relay`].
//!
//! Programs of another kind share nothing and pass messages: [`nas`].

use nix::errno::Errno;

pub mod cholesky;
pub mod counter;
pub mod crew;
pub mod dealt;
mod dsm;
pub mod ep;
pub mod fft;
pub mod fmm;
pub mod is;
pub mod kernels;
pub mod kmeans;
pub mod laplace;
mod life;
pub mod lock;
pub mod lu;
pub mod market;
pub mod matmul;
pub mod memory;
pub mod nas;
pub mod nbody;
pub mod npb;
pub mod ocean;
pub mod options;
pub mod owned;
pub mod program;
pub mod queues;
pub mod radix;
pub mod random;
pub mod raytrace;
pub mod relay;
mod repetitions;
pub mod report;
pub mod run;
pub mod runs;
pub mod semaphore;
pub mod shared;
pub mod shifting;
pub mod sor;
pub mod tiles;
pub mod tsp;
pub mod turn;
pub mod vector;
pub mod volume;
pub mod water;
pub mod word;

/// What may go wrong in a program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The parameters ask for more than an address space holds.
    #[error("the arrays do not fit in the address space; choose a smaller --size")]
    TooLarge,
    /// The system gave no memory.
    #[error("no memory for {bytes} bytes ({reason}); choose a smaller --size")]
    Memory {
        /// How much was asked for.
        bytes: usize,
        /// What the system said.
        reason: Errno,
    },
    /// The system gave no thread.
    #[error("cannot start a thread ({0}); choose fewer --threads")]
    Thread(std::io::Error),
    /// The processors to run on could not be asked for or set.
    #[error("cannot pin a thread to its processor ({0}); leave out --pin")]
    Pin(Errno),
    /// Workers do not agree on who owns what.
    #[error("workers turn to different owners of arrays")]
    Disagree,
    /// Another worker failed, which explains why.
    #[error("another worker gave up")]
    Deserted,
    /// There is nothing to compute.
    #[error("{0} 0 leaves nothing to compute; choose at least 1")]
    Empty(
        /// The option that says so.
        &'static str,
    ),
    /// Block and matrix do not fit together.
    #[error("--size {size} is not a multiple of --block {block}")]
    NotAMultiple {
        /// Rows of the matrix.
        size: usize,
        /// Rows of a block.
        block: usize,
    },
    /// Rows and columns of a matrix of that many points are not a power of two.
    #[error("--size {0} is not a power of 4, such as 16, 1024, 65536 or 1048576")]
    NotAPowerOf4(usize),
    /// Rows and columns cannot be halved until one is left off the coast.
    #[error("--size {size} is not a power of 2 and 1 more, from {least} on, such as 65, 257 or 1025")]
    NotAPowerOf2And1 {
        /// Points in a row.
        size: usize,
        /// How many there must be.
        least: usize,
    },
    /// Some clusters would begin without a point.
    #[error("--clusters {clusters} are more than --size {size} points; choose fewer clusters or more points")]
    TooManyClusters {
        /// How many clusters.
        clusters: usize,
        /// How many points.
        size: usize,
    },
    /// No bound saves enough of the search for so many.
    #[error("--cities {cities} would take years; choose at most {most}")]
    TooManyCities {
        /// How many cities.
        cities: usize,
        /// How many there may be.
        most: usize,
    },
    /// There are no numbers for so many points, or no memory.
    #[error("--size {size} is too large a grid; choose at most {most}")]
    TooLargeGrid {
        /// Rows of the grid.
        size: usize,
        /// How many there may be.
        most: usize,
    },
    /// What there is no sense in, or no memory for.
    #[error("{option} {value} is not from {least} to {most}")]
    OutOfRange {
        /// The option that says so.
        option: &'static str,
        /// What it says.
        value: usize,
        /// The least that can be asked for.
        least: usize,
        /// The most.
        most: usize,
    },
    /// No tree has a place for so many.
    #[error("--bodies {bodies} are more than a tree holds; choose at most {most}")]
    TooManyBodies {
        /// How many bodies.
        bodies: usize,
        /// How many there may be.
        most: usize,
    },
    /// To tell bodies apart that nearly touch takes more cubes than there is room for.
    #[error("the bodies have come too close to each other; choose fewer --steps")]
    TooClose,
    /// To tell particles apart that nearly touch takes more boxes than there is room for.
    #[error("the particles have come too close to each other; choose fewer --steps or a larger --per-box")]
    TooDense,
    /// What a cube looks like.
    #[error("--theta {0} is not from 0 to 1")]
    Theta(f64),
    /// A kernel cannot divide its work among so many.
    #[error("{kernel} cannot run on {ranks} ranks; choose {can}")]
    Ranks {
        /// The kernel's name.
        kernel: &'static str,
        /// How many ranks there are.
        ranks: usize,
        /// How many there can be.
        can: &'static str,
    },
    /// This process is not a rank of a job whose ranks pass messages.
    #[error("{0}")]
    JoinMessages(scash_comm::Error),
    /// Message passing failed.
    #[error("{0}")]
    Messages(#[from] scash_comm::Error),
    /// This process is not a rank of a job.
    #[error("{0}\n(--sequential and --threads T run the program without ranks)")]
    Join(scash::Error),
    /// The DSM failed.
    #[error("{0}")]
    Dsm(#[from] scash::Error),
    /// The picture could not be written.
    #[error("cannot write the picture to {}: {reason}", path.display())]
    Picture {
        /// The file.
        path: std::path::PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The report could not be written.
    #[error("cannot write the report: {0}")]
    Output(#[from] std::io::Error),
}

/// What most functions here return.
pub type Result<T> = std::result::Result<T, Error>;
