//! reduction: each rank has a number, and all get the sum.
//!
//! Ranks compute strips of the area below 4 / (1 + x^2), which is pi. `reduce` makes one number of those of
//! all ranks, with the same bits at every rank and in every run. No shared memory is needed, and no lock.
//! Any number of ranks is right.

#![expect(clippy::print_stdout, reason = "that is what it is for")]

const STRIPS: usize = 1_000_000;

fn main() -> scash::Result<()> {
    let dsm = scash::Dsm::init()?;
    let strips = (dsm.rank()..STRIPS).step_by(dsm.size());
    let mine: f64 = strips.map(|i| (i as f64 + 0.5) / STRIPS as f64).map(|x| 4.0 / (1.0 + x * x)).sum();
    let all = dsm.reduce(scash::Combine::Sum, mine)?;
    if dsm.rank() == 0 {
        println!("pi is {:.9}", all / STRIPS as f64);
    }
    dsm.finalize()
}
