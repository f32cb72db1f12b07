use super::*;
use crate::crew::WorkerNumber;
use crate::crew::tests::within_a_minute;

/// What a single worker computes.
pub(crate) fn result_of<P: Program>(program: &P) -> Vec<P::Element> {
    Reference::compute(program).unwrap().as_slice().to_vec()
}

/// Runs the program on more and more threads, also on more than it has work for, twice each, and holds every
/// result to that of a single worker.
pub(crate) fn agrees_on_any_number_of_threads<P>(program: P)
where
    P: Program + std::fmt::Debug + Send + 'static,
{
    within_a_minute(move || agrees(&program));
}

fn agrees<P: Program + std::fmt::Debug>(program: &P) {
    let reference = Reference::compute(program).unwrap();
    for count in 1..=9 {
        let mut arrays = program.allocate(count, &mut Heap).unwrap();
        let timings =
            run_crew(&Sequential, count, false, |worker| work(program, worker, &arrays, 2, Some(&reference)));
        let equal = |timing: &Timing| timing.equal == Some(true);
        assert!(timings.unwrap().iter().flatten().all(equal), "{program:?} on {count} threads");
        let result = program.result_mut(&mut arrays).whole();
        let everything: Vec<ResultRun> =
            WorkerNumber::all(count).flat_map(|who| program.owned(who, result.len())).collect();
        let owned: usize = everything.iter().map(|run| run.range.len()).sum();
        assert_eq!(owned, result.len(), "{program:?}: all of the result has an owner");
        assert!(reference.equals(|run| &result[run], &everything));
    }
}

#[test]
fn a_wrong_bit_anywhere_is_found() {
    let program = crate::laplace::Laplace::new(5, 2).unwrap();
    let reference = Reference::compute(&program).unwrap();
    let everything = program.owned(WorkerNumber::ALONE, 7 * 7);
    assert!(reference.equals(|run| &reference.as_slice()[run], &everything));
    for at in 0..7 * 7 {
        let mut wrong = reference.as_slice().to_vec();
        wrong[at] = f64::from_bits(wrong[at].to_bits() ^ 1);
        assert!(!reference.equals(|run| &wrong[run], &everything));
    }
}
