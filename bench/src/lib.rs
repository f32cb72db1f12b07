//! Benchmarks of scash: what those who measure and those who compare have in common.
//!
//! Two programs share it. `scash-micro` (in `micro/`) is a program of a job: it measures one thing, and
//! prints one [`Record`](record::Record) a line. `scash bench` starts jobs of it, and of the programs in
//! `apps/`, round after round, and makes tables of what they print.
//!
//! **No figure without its neighbour.** Machines are disturbed, and drift. So a figure is the median of many
//! [`Samples`](figures::Samples), and what is compared is measured in turns: first a ratio for each round,
//! then their median and [`Spread`](figures::Spread).

pub mod bare;
pub mod cores;
pub mod figures;
pub mod namespaces;
pub mod record;
pub mod scale;
pub mod size;
