//! What a living job keeps of its ranks is damaged before one of them dies: it goes on from the epoch before,
//! or says what is lost (`scash run --replicas`, `--checkpoint-dir`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use scash_tests::cluster::built::built;
use scash_tests::cluster::{
    Ended, Job, JobDirectory, came_back, kill_ranks, newest_epoch, open_store, run_beside, wait_for,
};
use std::collections::HashSet;
use std::os::unix::fs::FileExt;

const LU: [&str; 6] = ["--size", "256", "--block", "16", "--check", "--json"];

/// A word of a store, as `ft/src/store/{header,geometry}.rs` lay it out.
#[derive(Clone, Copy, Debug)]
enum Word {
    /// Of the mark of an epoch.
    Mark(u64, u64),
    /// Of what is said of the process at the beginning of an epoch's index.
    Description(u64, u64),
    /// Of the lines of that index.
    Entry(u64, u64),
    /// Of a page that an epoch has: of one that the epoch before it has, too, or of another.
    Page(u64, bool),
}

impl Word {
    /// Where it is, in a store of which `read` reads a word.
    fn at(self, read: &dyn Fn(u64) -> u64) -> u64 {
        const MIB: u64 = 1 << 20;
        let slots = read(8 * 4);
        let index = |parity: u64| 16 * MIB + parity * (16 * MIB + 16 * slots);
        match self {
            Word::Mark(epoch, word) => 8 * (192 + epoch % 2 * 64 + word),
            Word::Description(epoch, word) => index(epoch % 2) + 8 * word,
            Word::Entry(epoch, word) => index(epoch % 2) + 16 * MIB + 8 * word,
            Word::Page(epoch, is_in_both) => {
                let slots_of = |epoch| {
                    let lines = read(Word::Mark(epoch, 3).at(read));
                    let slot = |line| read(Word::Entry(epoch, 2 * line + 1).at(read)) & u64::from(u32::MAX);
                    (0..lines).map(slot).collect::<HashSet<u64>>()
                };
                let (newest, before) = (slots_of(epoch), slots_of(epoch - 1));
                let slot = newest.into_iter().find(|slot| before.contains(slot) == is_in_both);
                index(2).next_multiple_of(MIB) + 4096 * slot.expect("there are such pages")
            }
        }
    }
}

/// Runs a job until all ranks have epoch 6, and 5 before that; flips bits of words of the store of rank 1,
/// and kills these ranks.
fn run(in_files: bool, words: &[Word], ranks: &[u32]) -> Ended {
    let directory = JobDirectory::new();
    let path = directory.path();
    let job = if in_files {
        Job::plain(2).option("--checkpoint-dir", path.to_str().unwrap())
    } else {
        Job::plain(2).option("--replicas", "1")
    };
    let job = job.option("--checkpoint", "every=2");
    let job = job.option("--inject", "delay all ranks by 300s at barrier 13 after enter");
    run_beside(job.command(&built("lu"), &LU), |front| {
        for rank in 0..2 {
            wait_for("epoch 6", || (newest_epoch(front, rank) == 6).then_some(()));
        }
        let store = open_store(front, 1).unwrap();
        let word = |at| {
            let mut bytes = [0; 8];
            store.read_exact_at(&mut bytes, at).unwrap();
            u64::from_le_bytes(bytes)
        };
        for at in words.iter().map(|damaged| damaged.at(&word)) {
            store.write_all_at(&(word(at) ^ 1 << 13).to_le_bytes(), at).unwrap();
        }
        kill_ranks(front, ranks);
    })
}

/// No rank has begun to write over epoch 5: none has come to the next checkpoint.
#[test]
fn a_mark_that_is_damaged_is_none_and_ranks_go_on_from_the_epoch_before() {
    for in_files in [false, true] {
        for (word, rank) in (0..9).zip([0, 1].into_iter().cycle()) {
            let ended = run(in_files, &[Word::Mark(6, word)], &[rank]);
            ended.is_right();
            assert_eq!(came_back(&ended), 1, "{ended}");
            ended.said(&["(epoch 5, incarnation 1)"]);
        }
    }
}

#[test]
fn a_mark_of_an_older_epoch_that_is_damaged_is_not_missed() {
    for in_files in [false, true] {
        let ended = run(in_files, &[Word::Mark(5, 1)], &[0, 1]);
        ended.is_right();
        ended.said(&["(epoch 6, incarnation 1)"]);
    }
}

#[test]
fn an_index_that_is_damaged_ends_the_job_with_the_name_of_its_rank() {
    let why = "its index does not have the sum that its mark says";
    for word in [Word::Description(6, 0), Word::Description(6, 40), Word::Entry(6, 0), Word::Entry(6, 41)] {
        let ended = run(false, &[word], &[0]);
        ended.failed(78, &["rank 1 cannot go on from epoch 6: ", why]);
        assert_eq!(ended.out, "", "{ended}");
        let ended = run(true, &[word], &[0]);
        ended.failed(128 + 9, &["the store of rank 1: epoch 6 is damaged: ", why, "` goes on from epoch 5"]);
        assert_eq!(ended.out, "", "{ended}");
    }
}

#[test]
fn a_rank_without_any_mark_ends_the_job_and_is_named() {
    for in_files in [false, true] {
        let ended = run(in_files, &[Word::Mark(5, 2), Word::Mark(6, 2)], &[1]);
        let said = "rank 1 is lost: no store that is left has its checkpoint of epoch 5";
        ended.failed(128 + 9, &[said]);
        assert_eq!(ended.out, "", "{ended}");
    }
}

/// In memory, pages have no sums: what changes there by itself would change the program's, too.
#[test]
fn a_page_that_the_disk_has_damaged_is_noticed_before_ranks_go_on_from_it() {
    let words = "the store of rank 1: epoch 6 is damaged: the page in slot ";
    let ended = run(true, &[Word::Page(6, false)], &[0]);
    ended.failed(128 + 9, &[words, "`scash resume ", "` goes on from epoch 5"]);
    assert_eq!(ended.out, "", "{ended}");
    let ended = run(true, &[Word::Page(6, true)], &[0]);
    ended.failed(128 + 9, &[words]);
    assert!(ended.out.is_empty() && !ended.err.contains("scash resume"), "{ended}");
}
