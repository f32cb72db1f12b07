use super::expansion::{ZERO, minus, multipole, plus, square, value};
use super::field::NEAREST;
use super::plane::{Square, quartered};
use super::tree::Content;
use super::*;
use crate::crew::{Sequential, run_crew};
use crate::memory::Heap;
use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};

#[test]
fn threads_compute_what_one_worker_does_whatever_the_sizes() {
    for (particles, steps, terms, per_box, locks) in [
        (1, 3, 5, 4, 4),
        (2, 2, 1, 1, 1),
        (7, 0, 4, 3, 4),
        (8, 5, 12, 1, 1000),
        (150, 3, 6, 1, 3),
        (400, 3, 8, 10, 5000),
        (300, 2, 40, 400, 2),
    ] {
        agrees_on_any_number_of_threads(Fmm::new(particles, steps, terms, per_box, locks).unwrap());
    }
}

/// The field at each of these places, in the tree of a first step that so many threads build.
fn fields(fmm: &Fmm, places: &[Complex], threads: usize) -> Result<Vec<Complex>> {
    let arrays = fmm.allocate(threads, &mut Heap)?;
    let binomials = Binomials::new(fmm.terms);
    let told = run_crew(&Sequential, threads, false, |worker| {
        fmm.initialise(worker, &arrays)?;
        let present = &arrays.places[0];
        worker.turn(&[present.to(&arrays.own)])?;
        present.mine(worker).copy_from_slice(&places[fmm.own(worker)]);
        worker.turn(&[present.to(&arrays.read[0])])?;
        let step = Step { number: 0, reach: START_REACH, present, binomials: &binomials };
        let keys = fmm.build(worker, &arrays, &step)?;
        worker.turn(&[arrays.cells.array().to(&arrays.read[1])])?;
        fmm.expand(worker, &arrays, &step, &keys)?;
        worker.turn(&[arrays.kept.array().to(&arrays.read[2])])?;
        let mut told = Vec::new();
        fmm.tell_fields(worker, &arrays, &step, &keys, |number, field| told.push((number, field)));
        Ok(told)
    })?;
    let mut told = told.concat();
    told.sort_unstable_by_key(|&(number, _)| number);
    assert!(told.iter().map(|&(number, _)| number).eq(0..fmm.particles), "each particle is told once");
    Ok(told.into_iter().map(|(_, field)| field).collect())
}

/// The same, particle by particle.
fn direct_fields(fmm: &Fmm, places: &[Complex]) -> Vec<Complex> {
    let field = |here: &Complex| {
        let one = |(number, there): (usize, &Complex)| {
            let [x, y] = minus(*here, *there);
            let strength = fmm.strength(number) / (x * x + y * y).max(NEAREST * NEAREST);
            [strength * x, -strength * y]
        };
        places.iter().enumerate().map(one).fold(ZERO, plus)
    };
    places.iter().map(field).collect()
}

fn starting_places(fmm: &Fmm) -> Vec<Complex> {
    (0..fmm.particles).map(|number| fmm.start(number).0).collect()
}

/// The largest distance between two of the same number.
fn difference(a: &[Complex], b: &[Complex]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| square(minus(a, b)).sqrt()).fold(0.0, f64::max)
}

#[test]
fn the_more_terms_the_closer_is_the_field_to_the_sum_over_all_particles() {
    for per_box in [1, 5, 40] {
        let with = |terms| Fmm::new(1000, 0, terms, per_box, 64).unwrap();
        let places = starting_places(&with(1));
        let direct = direct_fields(&with(1), &places);
        // Of one term, more is left than rounding: not all is added up particle by particle.
        let mut before = difference(&fields(&with(1), &places, 1).unwrap(), &direct);
        assert!(before > 0.02, "{before}");
        for (terms, tolerance) in [(2, 0.2), (5, 0.02), (10, 1e-3), (20, 1e-5), (40, 1e-9)] {
            let error = difference(&fields(&with(terms), &places, 1).unwrap(), &direct);
            assert!(error < tolerance && error < before / 2.0, "{terms} terms, {per_box}: {error}");
            before = error;
        }
    }
}

#[test]
fn where_one_box_holds_all_particles_the_field_is_their_sum() {
    let fmm = Fmm::new(50, 0, 1, 50, 8).unwrap();
    let places = starting_places(&fmm).into_iter().map(|[x, y]| [x / 16.0 + 0.5, y / 16.0 + 0.5]);
    let places: Vec<_> = places.collect();
    assert!(difference(&fields(&fmm, &places, 3).unwrap(), &direct_fields(&fmm, &places)) < 1e-12);
}

#[test]
fn particles_in_one_place_do_not_pull_at_each_other_and_are_told_apart() {
    // A third of them, whose places no coordinates tell apart, among others.
    let fmm = Fmm::new(90, 0, 30, 2, 5).unwrap();
    let mut places = starting_places(&fmm);
    places.iter_mut().step_by(3).for_each(|place| *place = [0.25, -0.5]);
    let all = fields(&fmm, &places, 1).unwrap();
    assert_eq!(fields(&fmm, &places, 4).unwrap(), all);
    assert!(difference(&all, &direct_fields(&fmm, &places)) < 1e-5);
    assert!(all.iter().step_by(3).all(|field| *field == all[0]), "the same field in one place");
}

#[test]
fn particles_move_as_if_each_two_pulled_at_each_other() {
    let fmm = Fmm::new(200, 20, 30, 4, 64).unwrap();
    let (mut places, mut velocities): (Vec<_>, Vec<_>) = (0..200).map(|number| fmm.start(number)).unzip();
    for _ in 0..20 {
        let fields = direct_fields(&fmm, &places);
        for ((place, velocity), [x, y]) in places.iter_mut().zip(&mut velocities).zip(fields) {
            *velocity = plus(*velocity, [-STEP * x, STEP * y]);
            *place = plus(*place, velocity.map(|x| STEP * x));
        }
    }
    assert!(difference(&starting_places(&fmm), &places) > 0.05, "they move");
    let moved = difference(&result_of(&fmm), &places);
    assert!(moved < 1e-8, "{moved}");
}

#[test]
fn expansions_have_the_same_field_wherever_they_are_moved() {
    let particles = [([0.1, 0.2], 0.5), ([-0.2, 0.1], 0.25), ([0.15, -0.05], 2.0)];
    let field = |here: Complex| {
        particles.iter().fold(ZERO, |sum, &(there, strength)| {
            plus(sum, expansion::scaled(strength, expansion::inverse(minus(here, there))))
        })
    };
    let binomials = Binomials::new(30);
    let (centre, around, far, near_far) = ([0.0, 0.0], [0.25, 0.25], [3.0, -1.0], [3.25, -1.25]);
    let own = multipole(particles.into_iter(), centre, 30);
    let mut moved = vec![ZERO; 30];
    binomials.add_multipole(&mut moved, &own, minus(centre, around));
    let there = multipole(particles.into_iter(), around, 30);
    assert!(difference(&moved, &there) < 1e-12, "a multipole expansion has one form about each centre");
    let mut local = vec![ZERO; 30];
    binomials.add_to_local(&mut local, &moved, minus(far, around));
    let below = binomials.moved(&local, minus(near_far, far));
    for here in [[3.25, -1.25], [3.4, -1.1], [3.1, -1.4]] {
        let [exact, first, second] =
            [field(here), value(&local, minus(here, far)), value(&below, minus(here, near_far))];
        assert!(difference(&[exact; 2], &[first, second]) < 1e-12, "{exact:?} {first:?} {second:?}");
    }
}

/// A box of a tree without the numbers of cells.
#[derive(Debug, PartialEq, Eq)]
enum Shape {
    Particles(Vec<usize>),
    Cut(Vec<(usize, Shape)>),
}

fn shape(tree: Tree<'_>, cell: usize) -> Shape {
    let of = |quarter| match quarter {
        tree::Quarter { content: Content::Cell(below), index, .. } => (index, shape(tree, below)),
        tree::Quarter { index, .. } => (index, Shape::Particles(tree.particles(quarter).collect())),
    };
    Shape::Cut(tree.quarters(cell, Square::ALL).map(of).collect())
}

/// The tree of particles of which one worker puts in so many at a time.
fn tree(places: &[Complex], per_box: usize, at_a_time: usize, order: &[usize]) -> Result<Shape> {
    let fmm = Fmm::new(places.len(), 0, 1, per_box, 3).unwrap();
    let mut arrays = fmm.allocate(1, &mut Heap).unwrap();
    run_crew(&Sequential, 1, false, |worker| {
        fmm.initialise(worker, &arrays)?;
        let (plane, layout) = (Plane::new(places, START_REACH), fmm.layout());
        let Arrays { cells, used, .. } = &arrays;
        let mut builder = Builder { worker, cells, used, plane, layout, spares: Vec::new() };
        for numbers in order.chunks(at_a_time) {
            let mut keys: Vec<_> = numbers.iter().map(|&number| plane.key(number)).collect();
            keys.sort_unstable();
            builder.put(0, &keys)?;
        }
        drop(builder);
        worker.turn(&[cells.array().to(&arrays.read[1])])
    })?;
    Ok(shape(Tree { words: arrays.cells.array_mut().whole(), layout: fmm.layout() }, 0))
}

#[test]
fn a_tree_has_the_same_shape_in_whatever_order_particles_are_put_in() {
    let mut places = starting_places(&Fmm::new(200, 0, 1, 1, 1).unwrap());
    // Three that no coordinates tell apart.
    (places[190], places[62]) = (places[17], places[17]);
    for per_box in [1, 2, 7, 300] {
        let forwards = tree(&places, per_box, 1, &Vec::from_iter(0..200)).unwrap();
        for (order, at_a_time) in [(Vec::from_iter((0..200).rev()), 1), (Vec::from_iter(0..200), 200)] {
            assert_eq!(tree(&places, per_box, at_a_time, &order).unwrap(), forwards);
        }
        let mixed: Vec<_> = (0..200).map(|number| number * 7 % 200).collect();
        assert_eq!(tree(&places, per_box, 9, &mixed).unwrap(), forwards);
    }
}

/// Holds each box to what it may have, and returns how many particles there are in a shape.
fn count(shape: &Shape, per_box: usize, is_root: bool) -> usize {
    match shape {
        Shape::Particles(numbers) => {
            assert!(numbers.is_sorted() && (1..=per_box).contains(&numbers.len()), "{numbers:?}");
            numbers.len()
        }
        Shape::Cut(boxes) => {
            let count = boxes.iter().map(|(_, shape)| count(shape, per_box, false)).sum();
            assert!(is_root || count > per_box, "a box of {count} particles is cut");
            count
        }
    }
}

#[test]
fn boxes_hold_so_many_particles_and_are_cut_only_for_more() {
    let places = starting_places(&Fmm::new(300, 0, 1, 1, 1).unwrap());
    for per_box in [1, 3, 20] {
        let shape = tree(&places, per_box, 1, &Vec::from_iter(0..300)).unwrap();
        assert_eq!(count(&shape, per_box, true), 300);
    }
}

#[test]
fn particles_that_are_all_in_one_place_have_a_tree_or_are_refused() {
    let shape = |count, per_box| tree(&vec![[0.5; 2]; count], per_box, 1, &Vec::from_iter(0..count));
    assert!(shape(1, 1).is_ok() && shape(2, 1).is_ok() && shape(100, 1).is_ok());
    assert!(shape(100, 8).is_ok());
    // Each two in a place of their own.
    let pairs: Vec<_> = (0..100).map(|number| [f64::from(number / 2) / 25.0 - 1.0, 0.0]).collect();
    let order = Vec::from_iter(0..100);
    assert!(matches!(tree(&pairs, 1, 1, &order), Err(Error::TooDense)));
    assert!(tree(&pairs, 2, 1, &order).is_ok());
}

#[test]
fn a_key_says_the_number_and_leads_to_a_square_around_the_particle() {
    let places = starting_places(&Fmm::new(100, 0, 1, 1, 1).unwrap());
    let plane = Plane::new(&places, START_REACH);
    let mut keys: Vec<_> = (0..100).map(|number| plane.key(number)).collect();
    keys.sort_unstable();
    for &key in &keys {
        let mut square = Square::ALL;
        let mut side = 2.0;
        for depth in 0..10 {
            square = square.quarter(key.quarter(depth));
            side /= 2.0;
            let way = minus(plane.place(key.number() as usize), plane.centre(square));
            assert!(way.iter().all(|x| x.abs() <= side / 2.0), "{key:?} {square:?}");
        }
    }
    let mut numbers: Vec<_> = quartered(&keys, 0).concat().iter().map(|key| key.number()).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..100));
}

#[test]
fn squares_are_apart_if_a_third_one_fits_between_them() {
    let of =
        |quarters: &[usize]| quarters.iter().fold(Square::ALL, |square, &quarter| square.quarter(quarter));
    let corner = of(&[0, 0]);
    for near in [of(&[0, 0]), of(&[0, 1]), of(&[0, 3]), of(&[0, 1, 3]), of(&[0])] {
        assert!(!corner.is_apart(near) && !near.is_apart(corner), "{near:?}");
    }
    for apart in [of(&[1, 0]), of(&[1, 2]), of(&[3, 3]), of(&[1, 0, 0])] {
        assert!(corner.is_apart(apart) && apart.is_apart(corner), "{apart:?}");
    }
    let smallest = [0; 18].iter().fold(Square::ALL, |square, &quarter| square.quarter(quarter));
    assert!(!smallest.is_apart(smallest.quarter(3)), "the smallest square is its own quarter");
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let refused =
        |option| move |error: &Error| matches!(error, Error::OutOfRange { option: o, .. } if *o == option);
    for particles in [0, MOST_PARTICLES + 1, usize::MAX] {
        assert!(Fmm::new(particles, 1, 9, 9, 9).is_err_and(|error| refused("--particles")(&error)));
    }
    for terms in [0, MOST_TERMS + 1] {
        assert!(Fmm::new(9, 1, terms, 9, 9).is_err_and(|error| refused("--terms")(&error)));
    }
    for per_box in [0, MOST_PER_BOX + 1] {
        assert!(Fmm::new(9, 1, 9, per_box, 9).is_err_and(|error| refused("--per-box")(&error)));
    }
    assert!(matches!(Fmm::new(9, 1, 9, 9, 0), Err(Error::Empty("--locks"))));
    assert!(Fmm::new(MOST_PARTICLES, 1, MOST_TERMS, MOST_PER_BOX, usize::MAX).is_ok());
}
