//! Pages that move to the only rank that writes them.

use super::*;

/// Rank 1 writes page 0 in so many intervals, whose home is rank 0. Returns the page's home after each.
fn rewrite(job: &mut Job, rank: u32, intervals: u32) -> Vec<Option<Rank>> {
    (0..intervals)
        .map(|_| {
            job.write(rank, 0);
            job.barrier();
            job.nodes[2].home(0)
        })
        .collect()
}

/// A job in which rank 0 has filled four pages.
fn filled(options: AllocOptions) -> Job {
    let mut job = Job::with(3, 4, options);
    (0..4).for_each(|page| job.write(0, page));
    job.barrier();
    job.changed.clear();
    job
}

#[test]
fn a_page_that_one_rank_alone_writes_becomes_its_own() {
    let mut job = filled(AllocOptions::default());
    let homes = rewrite(&mut job, 1, 6);
    assert_eq!(homes, [0, 0, 0, 1, 1, 1].map(|home| Some(Rank(home))));
    assert!(job.orders(0).contains(&Output::Hand { page: 0, to: Rank(1) }));
    assert_eq!(job.nodes[0].counters().migrated, 1);
    let before = job.nodes[1].counters().write_faults;
    rewrite(&mut job, 1, 4);
    assert_eq!(job.nodes[1].counters().write_faults, before, "nobody else has it, so it is not tracked");
    assert!((0..3).all(|r| (1..4).all(|p| job.nodes[r].home(p) == Some(Rank(0)))));
}

#[test]
fn a_page_that_its_home_writes_too_stays_there() {
    let mut job = filled(AllocOptions::default());
    for _ in 0..10 {
        job.write(0, 0);
        rewrite(&mut job, 1, 1);
    }
    assert_eq!(job.nodes[2].home(0), Some(Rank(0)));
}

#[test]
fn a_page_that_two_ranks_write_in_turn_stays_where_it_is() {
    let mut job = filled(AllocOptions::default());
    for interval in 0..12 {
        rewrite(&mut job, 1 + interval % 2, 1);
    }
    assert_eq!(job.nodes[0].home(0), Some(Rank(0)));
}

#[test]
fn each_move_of_a_page_takes_twice_as_long_as_the_one_before() {
    let mut job = filled(AllocOptions::default());
    let expected = [3, 6, 12, 24];
    // Miri is too slow for all of them.
    let moves = if cfg!(miri) { 2 } else { expected.len() };
    let mut times = Vec::new();
    for writer in [1, 0, 1, 0].into_iter().take(moves) {
        let homes = rewrite(&mut job, writer, if cfg!(miri) { 10 } else { 60 });
        times.push(homes.iter().take_while(|&&home| home != Some(Rank(writer))).count());
    }
    assert_eq!(times, expected[..moves]);
}

#[test]
fn a_page_that_the_program_has_placed_stays() {
    let mut job = filled(AllocOptions::default());
    job.give(2, Input::SetHome(one(0), Rank(0)));
    assert_eq!(rewrite(&mut job, 1, 8), [Some(Rank(0)); 8], "its home is the one that was asked for already");
    let mut job = filled(at(0, Protocol::Adaptive));
    assert_eq!(rewrite(&mut job, 1, 8), [Some(Rank(0)); 8]);
}

#[test]
fn what_is_freed_before_it_moves_does_not() {
    let mut job = filled(AllocOptions::default());
    rewrite(&mut job, 1, 3);
    job.all(Collective::Free(0));
    job.all(Collective::Alloc(4 * PAGE_SIZE as u64, AllocOptions::default()));
    job.barrier();
    assert_eq!(job.nodes[2].home(0), None);
}
