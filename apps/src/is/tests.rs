use super::*;
use crate::crew::{Sequential, run_crew};
use crate::memory::Heap;
use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};

#[test]
fn threads_compute_what_one_worker_does() {
    agrees_on_any_number_of_threads(Is::new(Class::S));
}

#[test]
fn the_ranks_are_where_the_sorted_keys_change_their_values() {
    let is = Is::new(Class::S);
    let mut keys: Vec<u32> = is.initial_keys(0..is.parameters.keys).collect();
    for iteration in 1..=ITERATIONS {
        keys[iteration as usize] = iteration;
        keys[(iteration + ITERATIONS) as usize] = is.parameters.values - iteration;
    }
    keys.sort_unstable();
    let ranks = result_of(&is);
    for (value, &rank) in (0..).zip(&ranks) {
        assert_eq!(rank as usize, keys.partition_point(|&key| key <= value), "value {value}");
    }
}

#[test]
fn keys_are_the_same_in_whatever_parts_they_are_made() {
    let is = Is::new(Class::S);
    let whole: Vec<u32> = is.initial_keys(0..1000).collect();
    let parts = WorkerNumber::all(7).flat_map(|who| is.initial_keys(who.part(1000)));
    assert_eq!(parts.collect::<Vec<u32>>(), whole);
    assert!(whole.iter().all(|&key| key < is.parameters.values));
}

#[test]
fn wrong_ranks_are_found() {
    let keys = [2, 0, 2, 1];
    assert!(ranks_sort(&[1, 2, 4], &keys));
    for wrong in [[1, 2, 5], [1, 2, 3], [0, 2, 4], [2, 1, 4], [1, 3, 4]] {
        assert!(!ranks_sort(&wrong, &keys), "{wrong:?}");
    }
}

#[test]
fn a_result_is_verified_by_all_its_tests_and_all_its_keys() {
    let is = Is::new(Class::S);
    let mut arrays = is.allocate(1, &mut Heap).unwrap();
    let set = |arrays: &Arrays, passed| {
        run_crew(&Sequential, 1, false, |worker| {
            is.initialise(worker, arrays)?;
            // All keys are 0; so all are up to any value.
            arrays.keys.mine(worker).fill(0);
            arrays.ranks.mine(worker).fill(1 << 16);
            arrays.passed.mine(worker).fill(passed);
            let read = &arrays.read;
            let one = arrays.passed.to(&read.one_each);
            worker.turn(&[arrays.keys.to(&read.keys), arrays.ranks.to(&read.ranks), one])
        })
    };
    for (passed, verified) in [(49, false), (50, true), (51, false)] {
        set(&arrays, passed).unwrap();
        assert_eq!(is.verify(&mut arrays), Some(verified));
    }
}
