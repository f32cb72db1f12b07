use super::*;
use proptest::prelude::*;

fn cyclic(pages: u32) -> Placement {
    Placement::Cyclic { pages: NonZeroU32::new(pages).unwrap(), first: 0 }
}

fn homes(placement: Placement, pages: u32, ranks: u32) -> Vec<u32> {
    (0..pages).map(|page| placement.home_of(page, pages, ranks).unwrap()).collect()
}

#[test]
fn the_table_in_the_documentation_is_true() {
    assert_eq!(homes(Placement::Block, 10, 4), [0, 0, 1, 1, 1, 2, 2, 3, 3, 3]);
    let cyclic = Placement::Cyclic { pages: NonZeroU32::new(2).unwrap(), first: 3 };
    assert_eq!(homes(cyclic, 10, 4), [3, 3, 0, 0, 1, 1, 2, 2, 3, 3]);
    assert_eq!(homes(Placement::Rank(2), 10, 4), [2; 10]);
}

#[test]
fn first_touch_names_no_home() {
    assert_eq!(Placement::default(), Placement::FirstTouch);
    assert_eq!(Placement::FirstTouch.home_of(3, 10, 4), None);
}

#[test]
fn a_single_rank_is_home_to_everything() {
    for placement in [Placement::Block, cyclic(3), Placement::Rank(0)] {
        assert_eq!(homes(placement, 7, 1), [0; 7]);
    }
}

#[test]
fn with_fewer_pages_than_ranks_no_rank_has_two() {
    assert_eq!(homes(Placement::Block, 3, 8), [2, 5, 7]);
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let last = u32::MAX - 1;
    assert_eq!(Placement::Block.home_of(last, u32::MAX, u32::MAX), Some(last));
    assert_eq!(Placement::Block.home_of(0, 1, u32::MAX), Some(u32::MAX - 1));
    assert_eq!(cyclic(u32::MAX).home_of(last, u32::MAX, 3), Some(0));
}

#[test]
fn a_rank_that_does_not_exist_is_refused_with_the_ranks_there_are() {
    assert_eq!(Placement::Rank(3).check(4), Ok(()));
    let refused = Placement::Rank(4).check(4).unwrap_err();
    assert_eq!(refused, NoSuchRank { rank: 4, ranks: 4 });
    assert_eq!(refused.to_string(), "there is no rank 4 to be home: this job's ranks are 0 to 3");
    assert_eq!(Placement::Block.check(1), Ok(()));
}

#[test]
#[should_panic(expected = "page 10 of an allocation of 10 pages")]
fn asking_for_a_page_outside_the_allocation_is_a_bug() {
    Placement::FirstTouch.home_of(10, 10, 4);
}

proptest! {
    #[test]
    fn block_parts_are_contiguous_and_differ_by_one_page_at_most(pages in 1u32..2000, ranks in 1u32..200) {
        let homes = homes(Placement::Block, pages, ranks);
        prop_assert!(homes.is_sorted());
        let share = |rank| homes.iter().filter(|&&home| home == rank).count() as u64;
        for rank in 0..ranks {
            let begin = u64::from(rank) * u64::from(pages) / u64::from(ranks);
            let end = (u64::from(rank) + 1) * u64::from(pages) / u64::from(ranks);
            prop_assert_eq!(share(rank), end - begin);
            prop_assert!((pages / ranks..=pages.div_ceil(ranks)).any(|fair| share(rank) == u64::from(fair)));
        }
    }

    #[test]
    fn cyclic_runs_of_equal_length_go_round(pages in 1u32..2000, ranks in 1u32..200, run in 1u32..50) {
        let homes = homes(cyclic(run), pages, ranks);
        let runs: Vec<&[u32]> = homes.chunks(run as usize).collect();
        for (number, run) in runs.iter().enumerate() {
            prop_assert!(run.iter().all(|&home| home as usize == number % ranks as usize));
        }
    }

    #[test]
    fn every_home_is_a_rank(page: u32, pages: u32, ranks in 1u32.., run in 1u32..) {
        prop_assume!(page < pages);
        let last = Placement::Cyclic { pages: NonZeroU32::new(run).unwrap(), first: ranks - 1 };
        for placement in [Placement::Block, cyclic(run), last, Placement::Rank(ranks - 1)] {
            prop_assert!(placement.home_of(page, pages, ranks).unwrap() < ranks);
        }
    }
}
