use super::*;
use crate::crew::{Sequential, run_crew};
use crate::memory::Heap;
use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};

fn input(size: usize) -> Vec<Complex> {
    (0..size).map(|at| [unit(2 * at) - 0.5, unit(2 * at + 1) - 0.5]).collect()
}

/// What becomes of that input.
fn transformed(input: &[Complex]) -> Vec<Complex> {
    let fft = Fft::new(input.len()).unwrap();
    let mut matrices = fft.allocate(1, &mut Heap).unwrap();
    run_crew(&Sequential, 1, false, |worker| {
        fft.initialise(worker, &matrices)?;
        worker.turn(&[matrices.input.to(&matrices.rows)])?;
        matrices.input.mine(worker).copy_from_slice(input);
        worker.turn(&[matrices.input.to(&matrices.read)])?;
        fft.compute(worker, &matrices)
    })
    .unwrap();
    matrices.output.whole().to_vec()
}

fn assert_close(actual: &[Complex], expected: &[Complex]) {
    assert_eq!(actual.len(), expected.len());
    for (at, (a, b)) in actual.iter().zip(expected).enumerate() {
        let error = (a[0] - b[0]).hypot(a[1] - b[1]);
        assert!(error < 1e-15 * a.len() as f64 * actual.len() as f64, "{at}: {a:?} for {b:?}");
    }
}

#[test]
fn threads_compute_what_one_worker_does_whatever_the_sizes() {
    for size in [1, 4, 16, 64, 1024] {
        agrees_on_any_number_of_threads(Fft::new(size).unwrap());
    }
}

#[test]
fn the_transform_is_what_its_definition_says() {
    for n in [1, 4, 16, 64, 256, 1024] {
        let input = input(n);
        let sum = |k: usize| {
            let terms = input.iter().enumerate().map(|(j, x)| multiply(*x, root(n, j * k % n)));
            terms.fold([0.0, 0.0], |a, b| [a[0] + b[0], a[1] + b[1]])
        };
        let expected: Vec<Complex> = (0..n).map(sum).collect();
        assert_close(&result_of(&Fft::new(n).unwrap()), &expected);
    }
}

#[test]
fn the_inverse_leads_back_to_the_input() {
    for n in [4, 64, 4096, 1 << 16] {
        let input = input(n);
        // The inverse is the transform between two conjugations, over n.
        let conjugate = |x: &Complex| [x[0], -x[1]];
        let between: Vec<Complex> = transformed(&input).iter().map(conjugate).collect();
        let back: Vec<Complex> =
            transformed(&between).iter().map(|x| [x[0] / n as f64, -x[1] / n as f64]).collect();
        assert_close(&back, &input);
    }
}

#[test]
fn other_sizes_than_powers_of_4_are_refused() {
    assert!(matches!(Fft::new(0), Err(Error::Empty("--size"))));
    for size in [2, 3, 8, 12, 1000, 1 << 63, usize::MAX] {
        assert!(matches!(Fft::new(size), Err(Error::NotAPowerOf4(_))), "{size}");
    }
    let huge = Fft::new(1 << 62).unwrap();
    assert!(matches!(huge.allocate(1, &mut Heap), Err(Error::TooLarge)));
}
