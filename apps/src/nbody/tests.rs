use super::tree::Child;
use super::*;
use crate::crew::{Sequential, run_crew};
use crate::memory::Heap;
use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};

#[test]
fn threads_compute_what_one_worker_does_whatever_the_sizes() {
    for (bodies, steps, locks) in [(1, 3, 4), (2, 2, 1), (7, 0, 4), (8, 5, 1000), (150, 4, 3), (300, 3, 5000)]
    {
        agrees_on_any_number_of_threads(Nbody::new(bodies, steps, 0.5, locks).unwrap());
    }
}

/// A part of a tree without the numbers of its cells.
#[derive(Debug, PartialEq, Eq)]
enum Shape {
    Nothing,
    Body(usize),
    Cell(Vec<Shape>),
}

fn shape(cells: &[Cell], cell: usize) -> Shape {
    let child = |&word: &u32| match Child::of(word) {
        Child::Nothing => Shape::Nothing,
        Child::Body(body) => Shape::Body(body),
        Child::Cell(below) => shape(cells, below),
    };
    Shape::Cell(cells[cell].iter().map(child).collect())
}

/// The tree of these bodies, put in one after the other.
fn tree(places: &[[f64; 3]], order: impl Iterator<Item = usize> + Clone + Sync) -> Result<Shape> {
    let mut memory = Heap;
    let count = tree::most_cells(places.len(), 1).unwrap();
    let mut cells: Locked<Cell> = memory.locked_in_groups(count, 3).unwrap();
    let used = memory.mutex().unwrap();
    *used.lock().unwrap() = ROOTS;
    run_crew(&Sequential, 1, false, |worker| {
        worker.turn(&[cells.to_holders()])?;
        let mut builder = Builder::new(worker, &cells, &used, Cube::around(places));
        order.clone().try_for_each(|body| builder.put(1, body))?;
        drop(builder);
        worker.turn(&[cells.array().to(&Division::read_by_all(count, 1))])
    })?;
    Ok(shape(cells.array_mut().whole(), 1))
}

#[test]
fn a_tree_has_the_same_shape_in_whatever_order_bodies_are_put_in() {
    let nbody = Nbody::new(200, 0, 0.5, 1).unwrap();
    let mut places: Vec<_> = (0..200).map(|body| nbody.start(body).0).collect();
    // Two that no coordinate tells apart.
    places[190] = places[17];
    let forwards = tree(&places, 0..200).unwrap();
    assert_eq!(forwards, tree(&places, (0..200).rev()).unwrap());
    assert_eq!(forwards, tree(&places, (0..200).map(|body| body * 7 % 200)).unwrap());
}

#[test]
fn bodies_that_are_all_in_one_place_have_a_tree_or_are_refused() {
    assert!(matches!(tree(&[[1.0; 3]], 0..1), Ok(Shape::Cell(_))));
    assert!(matches!(tree(&[[1.0; 3]; 2], 0..2), Ok(Shape::Cell(_))));
    // Each two in a place of their own.
    let pairs: Vec<_> = (0..400).map(|body| [f64::from(body / 2), 0.0, 0.0]).collect();
    assert!(matches!(tree(&pairs, 0..400), Err(Error::TooClose)));
}

/// Where the bodies are after some steps, if each two pull at each other by themselves.
fn moved_by_pairs(nbody: &Nbody) -> Vec<[f64; 3]> {
    let (mut places, mut velocities): (Vec<_>, Vec<_>) =
        (0..nbody.bodies).map(|body| nbody.start(body)).unzip();
    for _ in 0..nbody.steps {
        let before = places.clone();
        for (body, (place, velocity)) in places.iter_mut().zip(&mut velocities).enumerate() {
            let here = before[body];
            for (_, there) in before.iter().enumerate().filter(|&(other, _)| other != body) {
                let way = [0, 1, 2].map(|axis| there[axis] - here[axis]);
                let square = way.iter().map(|x| x * x).sum::<f64>() + 1e-3;
                let strength = STEP / (square.powf(1.5) * nbody.bodies as f64);
                velocity.iter_mut().zip(way).for_each(|(v, x)| *v += strength * x);
            }
            place.iter_mut().zip(velocity).for_each(|(x, v)| *x += STEP * *v);
        }
    }
    places
}

/// The largest difference of a coordinate.
fn difference(a: &[[f64; 3]], b: &[[f64; 3]]) -> f64 {
    a.as_flattened().iter().zip(b.as_flattened()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn bodies_move_as_if_each_two_pulled_at_each_other() {
    let exact = Nbody::new(200, 20, 0.0, 64).unwrap();
    let pairs = moved_by_pairs(&exact);
    let start: Vec<_> = (0..200).map(|body| exact.start(body).0).collect();
    assert!(difference(&start, &pairs) > 0.1, "they move");
    assert!(difference(&result_of(&exact), &pairs) < 1e-12, "no cube counts as one body");
    let near = difference(&result_of(&Nbody::new(200, 20, 0.5, 64).unwrap()), &pairs);
    assert!(near > 1e-9 && near < 2e-3, "{near}: some do");
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    assert!(matches!(Nbody::new(0, 1, 0.5, 1), Err(Error::Empty("--bodies"))));
    assert!(matches!(Nbody::new(9, 1, 0.5, 0), Err(Error::Empty("--locks"))));
    assert!(matches!(Nbody::new(usize::MAX, 1, 0.5, 1), Err(Error::TooManyBodies { .. })));
    for theta in [-0.5, 1.5, f64::NAN, f64::INFINITY] {
        assert!(matches!(Nbody::new(9, 1, theta, 1), Err(Error::Theta(_))));
    }
}
