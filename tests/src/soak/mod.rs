//! The soak: real jobs whose ranks are killed at random, each drawn from a seed, and all that is looked at.
//!
//! ```text
//!  seed ─▶ Plan ─▶ launchers, one behind the other, struck from outside ─▶ findings ─▶ Tally
//! ```
//!
//! A job whose checkpoints are files may lose its launcher, too; then `scash resume` goes on with it until it
//! is done. What must hold of a run:
//! - Its result is bitwise that of an undisturbed run; nothing that it prints is missing or there twice.
//! - It ends. It leaves no process, no file in `/dev/shm`, and none in the directory of its checkpoints.
//! - Each restart is explained by a kill (`told`).
//! - No rank and no launcher says anything else.
//!
//! A job may be spread over hosts, which are network namespaces, and lose some ([`Spread`]), while the user
//! moves ranks between them. Then it must also hold:
//! - What launchers tell of ranks and hosts that were lost, and of where ranks come back, is so (`losses`).
//! - Nothing that a rank has printed is lost with its host.
//! - It ends for want of a checkpoint only if more hosts were lost, since there were copies, than there were
//!   copies; and for want of its last output only if no copies were left.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a soak that cannot go on ends")]

mod losses;
mod output;
mod plan;
mod programs;
mod run;
mod spread;
mod strikes;
mod tally;
mod told;

pub use output::{Expected, Files};
pub use plan::{Blow, Plan, Strike};
pub use programs::{PROGRAMS, Program, Programs, Proof};
pub use run::{Finding, Job, Run, Wrong, run};
pub use spread::{MOST_HOSTS, Spread};
pub use strikes::{Hit, Process};
pub use tally::Tally;
pub use told::Injected;
