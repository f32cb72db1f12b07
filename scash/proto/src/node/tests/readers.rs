//! Which copies are kept up to date, and how homes find that they are read.

use super::*;

/// A job of two ranks, over a network or not. Page 0 is at home at rank 1. In some of so many intervals rank
/// 0 reads or writes it, and in some rank 1 does.
struct Uses {
    network: bool,
    every: usize,
    home_writes: fn(usize) -> bool,
    uses: fn(usize) -> Option<Access>,
}

/// What intervals cost.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    fetched: u64,
    brought: u64,
    read_faults: u64,
}

impl Uses {
    /// What so many times these intervals cost after as many.
    fn cost(&self, times: usize) -> Cost {
        let [_, cost] = self.costs(times);
        cost
    }

    /// What so many times these intervals cost, and as many more.
    fn costs(&self, times: usize) -> [Cost; 2] {
        let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
        job.nodes.iter_mut().for_each(|node| node.cfg.puts_at_once = !self.network);
        let mut before = [0; 3];
        [(); 2].map(|()| {
            for interval in (0..times).flat_map(|_| 0..self.every) {
                job.changed.clear();
                if let Some(access) = (self.uses)(interval) {
                    job.touch(0, 0, access);
                    job.changed.extend((access == Access::Write).then_some((0, 0)));
                }
                if (self.home_writes)(interval) {
                    job.write(1, 0);
                    job.changed.insert((1, 0));
                }
                job.barrier();
            }
            let here = job.nodes[0].counters();
            let now = [here.fetched, job.nodes[1].counters().updates, here.read_faults];
            let [fetched, brought, read_faults] = [0, 1, 2].map(|i| now[i] - before[i]);
            before = now;
            Cost { fetched, brought, read_faults }
        })
    }
}

fn always(_: usize) -> bool {
    true
}

#[test]
fn a_page_that_is_read_after_each_write_is_brought_however_long_it_rests_in_between() {
    for network in [true, false] {
        let home_writes = |interval| interval % 100 == 0;
        let rare = Uses { network, every: 100, home_writes, uses: |i| (i < 3).then_some(Access::Read) };
        let cost = rare.cost(8);
        assert_eq!((cost.fetched, cost.brought), (0, 8), "read, written and read again, and a long rest");
        let once = Uses { uses: |i| (i == 1).then_some(Access::Read), ..rare };
        assert_eq!(once.cost(4).fetched, 4, "fetched once in 100 intervals, it is a lease");
    }
}

#[test]
fn a_page_that_is_read_no_more_is_brought_a_few_times_more() {
    let uses = |interval| (interval < 3).then_some(Access::Read);
    let cost = Uses { network: true, every: 200, home_writes: always, uses }.cost(1);
    assert!(cost.brought <= 12 && cost.fetched <= 6, "{cost:?}");
}

#[test]
fn a_home_that_writes_what_is_there_already_does_not_fault_for_ever_for_who_does_not_read_it() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    for interval in 0..200 {
        if interval < 3 {
            job.touch(0, 0, Access::Read);
        }
        // A write that changes nothing.
        job.touch(1, 0, Access::Write);
        job.barrier();
    }
    assert_eq!(job.nodes[1].directory_entries(), 0);
}

#[test]
fn a_page_that_is_read_in_each_interval_is_asked_about_more_and_more_seldom() {
    let all = Uses { network: false, every: 650, home_writes: always, uses: |_| Some(Access::Read) };
    // Out of view each 64 times that it is brought, and once more for the answer.
    assert_eq!(all.cost(1), Cost { fetched: 0, brought: 650, read_faults: 10 });
}

#[test]
fn what_one_rank_writes_and_then_its_home_is_not_brought_to_the_one_that_wrote_it() {
    for network in [true, false] {
        // Of two arrays that change roles, each is read in one interval and written in the next.
        let uses = |interval: usize| match interval {
            16.. => None,
            _ if interval.is_multiple_of(2) => Some(Access::Read),
            _ => Some(Access::Write),
        };
        let in_turns = Uses { network, every: 32, home_writes: |interval| interval >= 16, uses };
        for cost in in_turns.costs(4) {
            assert!(cost.fetched <= 4 * 3 && cost.brought == 0, "{cost:?}");
        }
    }
}

#[test]
fn a_page_that_both_write_in_each_interval_is_brought() {
    for network in [true, false] {
        let cost = Uses { network, every: 64, home_writes: always, uses: |_| Some(Access::Write) }.cost(1);
        assert!(cost.fetched == 0 && cost.brought >= 64, "{cost:?}");
    }
}

#[test]
fn a_page_that_both_write_now_and_then_is_brought_over_a_network_only() {
    let uses = |interval| (interval % 4 == 3).then_some(Access::Write);
    let over_a_network = Uses { network: true, every: 64, home_writes: |i| i % 4 == 0, uses };
    let cost = over_a_network.cost(1);
    assert!(cost.fetched == 0 && cost.brought >= 16, "{cost:?}");
    let cost = Uses { network: false, ..over_a_network }.cost(1);
    assert!(cost.fetched >= 16 && cost.brought == 0, "{cost:?}");
}

#[test]
fn a_rank_that_wrote_a_page_and_now_only_reads_it_has_it_brought() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    for interval in 0..24 {
        job.changed.clear();
        // Alone at first, and then two intervals after each write of its home.
        if interval < 2 {
            job.write(0, 0);
            job.changed.insert((0, 0));
        } else if interval % 4 == 2 {
            job.touch(0, 0, Access::Read);
        }
        if interval >= 4 && interval % 4 == 0 {
            job.write(1, 0);
            job.changed.insert((1, 0));
        }
        job.barrier();
    }
    assert_eq!(job.nodes[1].update_sharers(0).collect::<Vec<_>>(), [Rank(0)]);
}

#[test]
fn what_was_brought_in_vain_is_seldom_brought_again() {
    for every in 14..=20 {
        // Given up shortly before it is read again.
        let uses = |interval| (interval < 3).then_some(Access::Read);
        let cost = Uses { network: true, every, home_writes: always, uses }.cost(64);
        assert_eq!(cost, Cost { fetched: 192, brought: 0, read_faults: 192 }, "3 of {every}");
    }
}

#[test]
fn a_page_that_one_rank_writes_in_a_job_with_locks_is_brought_to_it_again() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    job.all(Collective::Make(ObjectKind::Lock, 1));
    for _ in 0..8 {
        job.touch(0, 0, Access::Write);
        job.changed.insert((0, 0));
        job.barrier();
    }
    assert_eq!(job.nodes[1].update_sharers(0).collect::<Vec<_>>(), [Rank(0)]);
    let fetched = job.nodes[0].counters().fetched;
    job.touch(0, 0, Access::Write);
    job.barrier();
    assert_eq!(job.nodes[0].counters().fetched, fetched);
}

#[test]
fn what_was_in_vain_three_times_is_brought_again_where_it_is_used_soon() {
    for soon in [2, 3] {
        let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
        // Read in each interval for a while, and then in none, four times; then two or three after each
        // write.
        for interval in 0..4 * 64 + 80 {
            job.changed.clear();
            let (uses, writes) = match interval {
                0..256 => (interval % 64 < 6, true),
                _ => (interval % 4 == soon, interval % 4 == 0),
            };
            if uses {
                job.touch(0, 0, Access::Read);
            }
            if writes {
                job.write(1, 0);
                job.changed.insert((1, 0));
            }
            job.barrier();
        }
        let counters = job.nodes[0].counters();
        assert_eq!(job.nodes[1].update_sharers(0).collect::<Vec<_>>(), [Rank(0)], "{counters:?}");
    }
}
