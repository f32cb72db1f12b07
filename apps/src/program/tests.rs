use super::*;
use crate::crew::tests::within_a_minute;
use crate::memory::Private;

/// What a single worker computes.
pub(crate) fn result_of<P: Program>(program: &P) -> Vec<P::Element> {
    Reference::compute(program).unwrap().as_slice().to_vec()
}

/// Runs the program on more and more threads, also on more than it has work for, twice each, and holds every result to
/// that of a single worker.
pub(crate) fn agrees_on_any_number_of_threads<P>(program: P)
where
    P: Program + std::fmt::Debug + Send + 'static,
{
    within_a_minute(move || agrees(&program));
}

fn agrees<P: Program + std::fmt::Debug>(program: &P) {
    let reference = Reference::compute(program).unwrap();
    for count in 1..=9 {
        let mut heap = Heap::default();
        let arrays = program.allocate(count, &mut heap).unwrap();
        let timings = run_crew(&Alone, count, false, |worker| {
            // SAFETY: the threads made here are the workers, nobody else knows the arrays, and `heap` lives on.
            unsafe { work(program, worker, &arrays, 2, Some(&reference)) }
        });
        let equal = |timing: &Timing| timing.equal == Some(true);
        assert!(timings.unwrap().iter().flatten().all(equal), "{program:?} on {count} threads");
        let result = program.result(&arrays);
        let everything: Vec<Run> = Who::all(count).flat_map(|who| program.owned(who, result.len())).collect();
        let owned: usize = everything.iter().map(|run| run.range.len()).sum();
        assert_eq!(owned, result.len(), "{program:?}: all of the result has an owner");
        // SAFETY: the threads are done.
        assert!(unsafe { reference.equals(result, &everything) });
    }
}

#[test]
fn a_wrong_bit_anywhere_is_found() {
    let program = crate::laplace::Laplace::new(5, 2).unwrap();
    let reference = Reference::compute(&program).unwrap();
    let mut result = Private::zeroed(7 * 7).unwrap();
    result.as_mut_slice().copy_from_slice(reference.as_slice());
    let everything = program.owned(Who::ALONE, 7 * 7);
    // SAFETY: nobody else uses `result`.
    assert!(unsafe { reference.equals(result.share(), &everything) });
    for at in 0..7 * 7 {
        let x = result.as_slice()[at];
        result.as_mut_slice()[at] = f64::from_bits(x.to_bits() ^ 1);
        // SAFETY: nobody else uses `result`.
        assert!(!unsafe { reference.equals(result.share(), &everything) });
        result.as_mut_slice()[at] = x;
    }
}
