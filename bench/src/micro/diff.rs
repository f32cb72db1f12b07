//! What a diff costs for each page, by itself: comparing a page with its twin and encoding what changed, and
//! applying it. Pages are in the first-level cache. More kinds of pages: `cargo run --release -p scash-bench
//! --example diff_cost`.

use std::hint::black_box;

use scash::Dsm;
use scash_proto::diff::{PageBytes, apply, encode};

use crate::area::PAGE;
use crate::outcome::{Outcome, Stopwatch, Unit, microseconds, samples};
use crate::{Error, Result};

/// Diffs of pages: equal, changed throughout, and of numbers that changed a little
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Samples
    #[arg(long, value_name = "R", default_value_t = 50)]
    rounds: usize,

    /// Pages in a sample
    #[arg(long, value_name = "K", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pages: u32,
}

/// A page and what became of it.
struct DiffCase {
    names: [&'static str; 2],
    old: PageBytes,
    new: PageBytes,
}

/// Measures on rank 0, which tells.
pub(crate) fn measure(dsm: &mut Dsm, options: &Options) -> Result<Option<Outcome>> {
    if dsm.rank() != 0 {
        return Ok(None);
    }
    let watch = Stopwatch::start(dsm);
    let costs =
        cases().iter().map(|case| Ok((case.names, cost(case, options)?))).collect::<Result<Vec<_>>>()?;
    let outcome = Outcome::new(watch.stop(dsm)).right(true);
    Ok(Some(costs.into_iter().fold(outcome, |outcome, ([encode, apply], costs)| {
        outcome.figure(encode, costs[0], Unit::Nanoseconds).figure(apply, costs[1], Unit::Nanoseconds)
    })))
}

fn cases() -> [DiffCase; 3] {
    let old: PageBytes = std::array::from_fn(|i| i.to_le_bytes()[0].wrapping_mul(7));
    let smooth = |i: usize| (i as f64 / 300.0).sin() + 2.0;
    let step = |i: usize| 0.25 * (smooth(i.max(1) - 1) + smooth(i + 1) + 2.0 * smooth(i));
    [
        DiffCase { names: ["equal_encode", "equal_apply"], old, new: old },
        DiffCase { names: ["dense_encode", "dense_apply"], old, new: old.map(|byte| !byte) },
        DiffCase { names: ["f64_encode", "f64_apply"], old: numbers(smooth), new: numbers(step) },
    ]
}

/// A page of numbers.
fn numbers(number: impl Fn(usize) -> f64) -> PageBytes {
    let mut page = [0; PAGE];
    for (i, bytes) in page.chunks_exact_mut(size_of::<f64>()).enumerate() {
        bytes.copy_from_slice(&number(i).to_le_bytes());
    }
    page
}

/// Nanoseconds of encoding and of applying a page's diff.
fn cost(case: &DiffCase, options: &Options) -> Result<[f64; 2]> {
    let (mut diff, mut page) = (Vec::new(), case.old);
    let (mut encoding, mut applying) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let (time, ()) = microseconds(|| {
            for _ in 0..options.pages {
                diff.clear();
                encode(black_box(&case.old), black_box(&case.new), &mut diff);
            }
        });
        encoding.push(time * 1e3 / f64::from(options.pages));
        let (time, applied) = microseconds(|| {
            (0..options.pages).try_for_each(|_| apply(black_box(&diff), black_box(&mut page)))
        });
        applying.push(time * 1e3 / f64::from(options.pages));
        if applied.is_err() || page != case.new {
            return Err(Error::NotMeasured(format!(
                "{}: the diff does not lead to the new page",
                case.names[0]
            )));
        }
    }
    Ok([samples(encoding)?.median(), samples(applying)?.median()])
}
