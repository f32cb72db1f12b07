//! Which copies are kept up to date, and how homes find that they are read.

use super::*;

/// A job of two ranks, over a network or not. Page 0 is at home at rank 1, and in so many intervals of so
/// many rank 0 reads it, or else writes it, while rank 1 writes it in one that says so. How many pages are
/// fetched and brought, in so many times more intervals, after as many.
struct Uses {
    network: bool,
    every: usize,
    home_writes: fn(usize) -> bool,
    uses: fn(usize) -> Option<Access>,
}

impl Uses {
    fn fetched_and_brought(&self, times: usize) -> (u64, u64) {
        let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
        job.nodes.iter_mut().for_each(|node| node.cfg.puts_at_once = !self.network);
        let mut seen = [(0, 0); 2];
        for half in &mut seen {
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
            *half = (job.nodes[0].counters().fetched, job.nodes[1].counters().updates);
        }
        (seen[1].0 - seen[0].0, seen[1].1 - seen[0].1)
    }
}

fn always(_: usize) -> bool {
    true
}

#[test]
fn a_page_that_is_read_after_each_write_is_brought_however_long_it_rests_in_between() {
    for network in [true, false] {
        let home_writes = |interval| interval % 100 == 0;
        let uses = |interval| (interval % 100 == 1).then_some(Access::Read);
        let rare = Uses { network, every: 100, home_writes, uses: |i| (i < 3).then_some(Access::Read) };
        assert_eq!(
            rare.fetched_and_brought(8),
            (0, 8),
            "read, written and read again, and 97 intervals' rest"
        );
        let once = Uses { uses, ..rare };
        assert_eq!(once.fetched_and_brought(4).0, 4, "fetched once in 100 intervals, it is a lease");
    }
}

#[test]
fn a_page_that_is_read_no_more_is_brought_a_few_times_more() {
    let uses = |interval| (interval < 3).then_some(Access::Read);
    let once = Uses { network: true, every: 200, home_writes: always, uses };
    let (fetched, brought) = once.fetched_and_brought(1);
    assert!(brought <= 12 && fetched <= 6, "{fetched} fetched, {brought} brought");
}

#[test]
fn a_page_that_is_read_in_each_interval_is_asked_about_more_and_more_seldom() {
    let uses = |_| Some(Access::Read);
    let all = Uses { network: false, every: 640, home_writes: always, uses };
    assert_eq!(all.fetched_and_brought(1), (0, 640));
}

#[test]
fn what_one_rank_writes_and_then_its_home_is_not_brought_to_the_one_that_wrote_it() {
    for network in [true, false] {
        let uses = |interval| (interval < 16).then_some(Access::Write);
        let in_turns = Uses { network, every: 32, home_writes: |interval| interval >= 16, uses };
        let (fetched, brought) = in_turns.fetched_and_brought(4);
        // The home brings it again where it was fetched by a sharer.
        assert!(fetched <= 4 * 3 && brought <= 4, "{fetched} fetched, {brought} brought");
    }
}

#[test]
fn a_page_that_both_write_in_each_interval_is_brought() {
    for network in [true, false] {
        let both = Uses { network, every: 64, home_writes: always, uses: |_| Some(Access::Write) };
        let (fetched, brought) = both.fetched_and_brought(1);
        assert!(fetched == 0 && brought >= 64, "{fetched} fetched, {brought} brought");
    }
}

#[test]
fn a_page_that_both_write_now_and_then_is_brought_over_a_network_only() {
    let uses = |interval| (interval % 4 == 3).then_some(Access::Write);
    let over_a_network = Uses { network: true, every: 64, home_writes: |i| i % 4 == 0, uses };
    let (fetched, brought) = over_a_network.fetched_and_brought(1);
    assert!(fetched == 0 && brought >= 16, "{fetched} fetched, {brought} brought");
    let (fetched, brought) = Uses { network: false, ..over_a_network }.fetched_and_brought(1);
    assert!(fetched >= 16 && brought == 0, "{fetched} fetched, {brought} brought");
}

#[test]
fn a_rank_that_wrote_a_page_and_now_only_reads_it_has_it_brought() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    for interval in 0..40 {
        job.changed.clear();
        let access = if interval < 10 { Access::Write } else { Access::Read };
        job.touch(0, 0, access);
        job.changed.extend((interval < 10).then_some((0, 0)));
        job.write(1, 0);
        job.changed.insert((1, 0));
        job.barrier();
    }
    assert_eq!(job.nodes[1].update_sharers(0).collect::<Vec<_>>(), [Rank(0)]);
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
