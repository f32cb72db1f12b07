use super::*;
use crate::crew::{Sequential, run_crew};
use crate::memory::Heap;
use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};

/// The length of the shortest tour by another way: of all ways through each set of cities to each last one
/// (Held and Karp).
fn shortest(cities: usize) -> u32 {
    let mut ways = vec![vec![u32::MAX / 2; cities]; 1 << cities];
    ways[1][0] = 0;
    for set in 1..1usize << cities {
        for (last, next) in (0..cities).flat_map(|last| (0..cities).map(move |next| (last, next))) {
            if set >> next & 1 == 0 {
                let longer = ways[set][last] + Tsp::distance(last, next);
                let way = &mut ways[set | 1 << next][next];
                *way = longer.min(*way);
            }
        }
    }
    (0..cities).map(|last| ways[(1 << cities) - 1][last] + Tsp::distance(last, 0)).min().unwrap()
}

#[test]
fn no_tour_is_shorter() {
    for cities in 1..=11 {
        assert_eq!(result_of(&Tsp::new(cities).unwrap()), [shortest(cities)], "{cities} cities");
    }
}

#[test]
fn threads_compute_what_one_worker_does_whatever_the_sizes() {
    for cities in [1, 2, 3, 4, 5, 10] {
        agrees_on_any_number_of_threads(Tsp::new(cities).unwrap());
    }
}

#[test]
fn the_best_tour_visits_every_city_once_and_is_as_long_as_it_says() {
    let tsp = Tsp::new(9).unwrap();
    let arrays = tsp.allocate(3, &mut Heap).unwrap();
    run_crew(&Sequential, 3, false, |worker| {
        tsp.initialise(worker, &arrays)?;
        tsp.compute(worker, &arrays)
    })
    .unwrap();
    let best = arrays.best.lock().unwrap();
    let cities: Vec<usize> = best.cities().iter().map(|&city| usize::from(city)).collect();
    let next = cities.iter().cycle().skip(1);
    let length: u32 = cities.iter().zip(next).map(|(&from, &to)| Tsp::distance(from, to)).sum();
    assert_eq!(best.length(), length);
    let mut sorted = cities;
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..9));
}

#[test]
fn the_queue_holds_all_branches_of_as_many_cities_as_there_may_be() {
    let cities = MOST_CITIES;
    let distances: Vec<u32> = (0..cities * cities).map(|i| Tsp::distance(i / cities, i % cities)).collect();
    let map = Map::new(&distances, cities);
    let mut queue = Queue { count: 0, tours: [Tour::NONE; _] };
    queue.push(Tour::FIRST_CITY);
    let taken = std::iter::from_fn(|| queue.next(&map, u32::MAX)).count();
    assert_eq!(taken, (cities - 1) * (cities - 2) * (cities - 3), "none is lost");
}

#[test]
fn no_cities_and_too_many_are_refused() {
    assert!(matches!(Tsp::new(0), Err(Error::Empty("--cities"))));
    assert!(matches!(Tsp::new(MOST_CITIES + 1), Err(Error::TooManyCities { .. })));
}
