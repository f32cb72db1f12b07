//! Single ranks allocate objects, and others read, write and free them, in every kind of job.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_tests::cluster::{Ended, Job, all_kinds};
use std::path::Path;

const HEAP: &str = env!("CARGO_BIN_EXE_heap");

fn heap(job: &Job, what: &str, rounds: &str) -> Ended {
    job.run(Path::new(HEAP), &[what, rounds])
}

fn nothing_wrong(job: &Job, ranks: u32, what: &str, rounds: &str) {
    let ended = heap(job, what, rounds);
    ended.succeeded();
    assert!(ended.lines(ranks).iter().all(|line| line.ends_with("saw nothing wrong")), "{ended}");
}

/// In every kind of job, on each of these numbers of ranks.
fn everywhere(what: &str, rounds: &str, sizes: &[u32]) {
    for kind in all_kinds() {
        for &ranks in sizes {
            nothing_wrong(&kind.job(ranks), ranks, what, rounds);
        }
    }
}

#[test]
fn a_list_of_all_ranks_loses_nothing_though_others_free_what_a_rank_inserts() {
    everywhere("list", "150", &[1, 3]);
}

#[test]
fn a_tree_of_all_ranks_stays_sorted() {
    everywhere("tree", "600", &[2, 4]);
}

#[test]
fn ranks_free_each_others_objects_for_thousands_of_rounds_without_growth() {
    everywhere("circle", "4000", &[2, 3]);
}

#[test]
fn objects_change_hands_by_barriers_alone() {
    everywhere("barriers", "60", &[1, 2, 4]);
}

#[test]
fn objects_of_different_ranks_lie_on_different_pages() {
    everywhere("pages", "200", &[3]);
}

#[test]
fn threads_of_all_ranks_allocate_and_free_what_is_in_one_table() {
    for kind in all_kinds() {
        for threads in ["1", "3"] {
            nothing_wrong(&kind.job(3).option("--threads", threads), 3, "table", "6");
        }
    }
}

#[test]
fn a_place_that_is_used_again_has_what_was_written_there_last_for_every_rank() {
    everywhere("reused", "5", &[3]);
}

#[test]
fn a_box_has_one_owner() {
    everywhere("boxes", "30", &[1, 3]);
    everywhere("boxes by barriers", "20", &[1, 2, 3]);
    everywhere("refusals of boxes", "1", &[1, 3]);
}

#[test]
fn a_full_heap_says_how_to_make_it_larger_and_what_is_freed_can_be_had_again() {
    for kind in all_kinds() {
        nothing_wrong(&kind.job(2).env("SCASH_HEAP", "1M"), 2, "full", "1");
    }
}

#[test]
fn copies_that_are_limited_moved_or_made_in_other_ways_are_as_good() {
    let settings = [
        ("SCASH_CACHE", "256K"),
        ("SCASH_TRANSFER", "message"),
        ("SCASH_COPIES", "update"),
        ("SCASH_COPIES", "invalidate"),
        ("SCASH_BLOCK", "4"),
        ("SCASH_RENEW", "off"),
    ];
    for (name, value) in settings {
        for kind in all_kinds().into_iter().filter(|kind| !kind.shares) {
            let job = kind.job(3).env(name, value);
            nothing_wrong(&job, 3, "table", "3");
            nothing_wrong(&job, 3, "barriers", "20");
            nothing_wrong(&job, 3, "boxes by barriers", "12");
        }
    }
}

#[test]
fn a_place_that_is_used_again_is_no_data_race() {
    for what in ["circle", "barriers", "boxes by barriers"] {
        nothing_wrong(&Job::plain(3).env("SCASH_RACES", "report"), 3, what, "60");
    }
}

/// Ranks go on from the checkpoint before, with the objects and the free places that there were.
#[test]
fn a_heap_comes_back_with_its_ranks() {
    for kind in all_kinds() {
        for (what, rounds) in [("table", "10"), ("barriers", "8"), ("list", "60"), ("boxes by barriers", "9")]
        {
            for death in ["kill rank 1 at barrier 5", "kill all ranks at checkpoint 2 after mark"] {
                let job = kind.job(3).option("--replicas", "1").option("--checkpoint", "every=2");
                let ended = heap(&job.option("--inject", death), what, rounds);
                assert_eq!(ended.status, 0, "{death}: {ended}");
                let right = ended.lines(3).iter().all(|line| line.ends_with("saw nothing wrong"));
                assert!(right && ended.err.contains("go on from barrier"), "{death}: {ended}");
            }
        }
    }
}

/// What is answered to each wrong call of `heap wrong`, in their order.
const ANSWERS: [&str; 12] = [
    "was it freed before?",
    "was it freed before?",
    "lies inside the object at",
    "lies inside the object at",
    "was it freed before?",
    "is not in the heap",
    "is not in the heap",
    "is not in the heap",
    "is in the heap, of which single ranks free objects",
    "whose objects have no protocol of their own",
    "no address space has as many bytes",
    "has to be a power of two",
];

#[test]
fn wrong_frees_are_refused_with_words_and_disturb_nothing() {
    for kind in all_kinds() {
        for ranks in [1, 2] {
            let ended = heap(&kind.job(ranks), "wrong", "1");
            ended.succeeded();
            for (line, words) in ended.lines(u32::try_from(ANSWERS.len()).unwrap()).iter().zip(ANSWERS) {
                assert!(line.contains(words), "no {words:?} in {line:?}: {ended}");
            }
        }
    }
}

#[test]
fn ranks_whose_heaps_differ_are_told() {
    let script = "[ $SCASH_RANK = 1 ] && export SCASH_HEAP=1M; exec \"$1\" table 1";
    let ended = Job::plain(2).run_script(script, &[HEAP]);
    ended.refused(&["SCASH_HEAP is not the same at rank", "set it for the whole job"]);
}
