use super::*;
use crate::PAGE_SIZE;
use crate::wire::Notice;
use crate::wire::Purpose;
use proptest::prelude::*;
use std::collections::BTreeSet;

const PAGES: u32 = 32;

/// A few nodes whose messages arrive at once. Memory is left out: which pages a comparison finds changed is said beforehand.
struct Job {
    nodes: Vec<Node>,
    /// Pages that differ from their twins at each rank.
    changed: BTreeSet<(u32, u32)>,
    /// What was ordered since it was last looked at, but for messages, by rank.
    orders: Vec<Vec<Output>>,
}

impl Job {
    fn new(size: u32) -> Job {
        let config = |rank| Config {
            rank: Rank(rank),
            size,
            pages: PAGES,
            puts_at_once: true,
            transfer: Transfer::ZeroCopy,
            fetch_first: 1,
            fetch_most: 16,
            predict: true,
            watch_from: 0,
        };
        let nodes = (0..size).map(|r| Node::new(config(r))).collect();
        Job { nodes, changed: BTreeSet::new(), orders: (0..size).map(|_| Vec::new()).collect() }
    }

    /// With one allocation.
    fn with(size: u32, pages: u32, options: AllocOptions) -> Job {
        let mut job = Job::new(size);
        job.all(Collective::Alloc(u64::from(pages) * PAGE_SIZE as u64, options));
        job.orders.iter_mut().for_each(Vec::clear);
        job
    }

    fn give(&mut self, rank: u32, input: Input) {
        self.nodes[rank as usize].handle(input).expect("correct peers");
    }

    /// What a node orders now.
    fn ordered(&mut self, rank: u32) -> Vec<Output> {
        std::iter::from_fn(|| self.nodes[rank as usize].poll_output()).collect()
    }

    /// Orders of one fault.
    fn fault(&mut self, rank: u32, page: u32, want: Access) -> Vec<Output> {
        self.give(rank, Input::Fault { page, want });
        self.ordered(rank)
    }

    /// Touches a page as often as it takes, with all fetches answered.
    fn touch(&mut self, rank: u32, page: u32, want: Access) {
        while self.nodes[rank as usize].access(page) < want {
            for order in self.fault(rank, page, want) {
                if let Output::Get { pages, .. } = order {
                    self.give(rank, Input::Fetched(pages));
                }
            }
        }
    }

    /// Writes to a page: it will differ from its twin.
    fn write(&mut self, rank: u32, page: u32) {
        self.touch(rank, page, Access::Write);
        self.changed.insert((rank, page));
    }

    fn barrier(&mut self) -> Vec<Outcome> {
        self.all(Collective::Barrier)
    }

    /// Every rank makes the call.
    fn all(&mut self, collective: Collective) -> Vec<Outcome> {
        self.each(|_| collective)
    }

    /// Every rank makes its call; returns what each is told at the end.
    fn each(&mut self, call: impl Fn(u32) -> Collective) -> Vec<Outcome> {
        let size = u32::try_from(self.nodes.len()).unwrap();
        (0..size).for_each(|r| self.give(r, Input::Arrive(call(r))));
        let mut done = vec![None; self.nodes.len()];
        while done.iter().any(Option::is_none) {
            let mut idle = true;
            for rank in 0..size {
                while let Some(order) = self.nodes[rank as usize].poll_output() {
                    idle = false;
                    self.carry_out(rank, order, &mut done[rank as usize]);
                }
            }
            assert!(!idle, "the barrier does not end");
        }
        done.into_iter().flatten().collect()
    }

    fn carry_out(&mut self, rank: u32, order: Output, done: &mut Option<Outcome>) {
        let (from, meeting) = (Rank(rank), self.nodes[rank as usize].meeting());
        match order {
            Output::Token(to, token) => return self.give(to.0, Input::Token(from, token)),
            Output::Control(to, meeting, c) => return self.give(to.0, Input::Control(from, meeting, c)),
            Output::Parcel { to, meeting, home } => {
                return self.give(to.0, Input::Parcel(from, meeting, home));
            }
            Output::Flushed => return self.give(rank, Input::Flushed),
            Output::Done(ref outcome) => *done = Some(outcome.clone()),
            Output::Diff { page, to, force } => {
                let changed = self.changed.remove(&(rank, page));
                if changed || force {
                    self.give(to.0, Input::Diff(from, meeting, page));
                    self.nodes[to.0 as usize].batch_taken().expect("correct peers");
                }
                self.give(rank, Input::Compared { page, changed });
            }
            Output::DiffZero { page, to } => {
                self.give(to.0, Input::Diff(from, meeting, page));
                self.nodes[to.0 as usize].batch_taken().expect("correct peers");
                self.give(rank, Input::Compared { page, changed: true });
            }
            Output::Push(page) => {
                let changed = self.changed.remove(&(rank, page));
                self.give(rank, Input::Compared { page, changed });
            }
            _ => {}
        }
        self.orders[rank as usize].push(order);
    }

    /// Orders of a rank since they were last asked for.
    fn orders(&mut self, rank: u32) -> Vec<Output> {
        std::mem::take(&mut self.orders[rank as usize])
    }
}

fn at(rank: u32, protocol: Protocol) -> AllocOptions {
    AllocOptions { placement: Placement::Rank(rank), protocol, block: 1 }
}

fn one(page: u32) -> Pages {
    Pages::one(page)
}

#[test]
fn an_untouched_page_reads_as_zeros_until_the_barrier() {
    let mut job = Job::with(2, 4, AllocOptions::default());
    assert_eq!(job.fault(0, 2, Access::Read), [Output::MapZero(one(2), Access::Read)]);
    assert_eq!(job.nodes[0].home(2), None);
    job.barrier();
    assert_eq!(job.orders(0)[0], Output::Unmap(one(2)));
    assert_eq!(job.nodes[0].access(2), Access::None);
}

#[test]
fn the_first_writer_is_the_home_and_everybody_learns_it() {
    let mut job = Job::with(5, 4, AllocOptions::default());
    assert_eq!(job.fault(3, 1, Access::Write), [Output::MapZero(one(1), Access::Write)]);
    job.barrier();
    assert!(job.nodes.iter().all(|n| n.home(1) == Some(Rank(3))));
    assert_eq!(job.nodes[3].access(1), Access::Write, "nobody caches it: it is not protected");
    assert!(job.nodes.iter().all(|n| n.counters().second_meetings == 0));
}

#[test]
fn a_page_that_was_read_as_zeros_becomes_writable_without_being_cleared() {
    let mut job = Job::with(2, 4, AllocOptions::default());
    job.touch(0, 0, Access::Read);
    assert_eq!(job.fault(0, 0, Access::Write), [Output::Protect(one(0), Access::Write)]);
}

#[test]
fn of_two_first_writers_the_lower_is_the_home_and_the_other_sends_what_it_wrote() {
    let mut job = Job::with(3, 4, AllocOptions::default());
    job.touch(2, 0, Access::Write);
    job.touch(1, 0, Access::Write);
    job.barrier();
    assert!(job.nodes.iter().all(|n| n.home(0) == Some(Rank(1))));
    let orders = job.orders(2);
    assert!(orders.contains(&Output::DiffZero { page: 0, to: Rank(1) }));
    assert!(orders.contains(&Output::Unmap(one(0))));
    assert!(job.nodes.iter().all(|n| n.counters().third_meetings == 1));
}

#[test]
fn a_block_is_first_touched_as_a_whole() {
    let mut job = Job::with(2, 8, AllocOptions { block: 4, ..AllocOptions::default() });
    job.touch(1, 6, Access::Write);
    job.barrier();
    let homes: Vec<_> = (0..8).map(|p| job.nodes[0].home(p)).collect();
    assert_eq!(homes, [vec![None; 4], vec![Some(Rank(1)); 4]].concat());
}

#[test]
fn writing_an_absent_page_fetches_it_then_makes_a_twin_then_opens_it() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    assert_eq!(job.fault(0, 3, Access::Write), [Output::Get { from: Rank(1), pages: one(3) }]);
    job.give(0, Input::Fetched(one(3)));
    assert_eq!(job.nodes[0].access(3), Access::Read);
    let orders = job.fault(0, 3, Access::Write);
    assert_eq!(orders, [Output::Twin(3), Output::Protect(one(3), Access::Write)]);
    job.barrier();
    let orders = job.orders(0);
    assert_eq!(orders[0], Output::Diff { page: 3, to: Rank(1), force: false });
    assert!(orders.contains(&Output::DropTwin(3)));
}

#[test]
fn a_second_thread_waits_for_the_page_that_the_first_is_fetching() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    job.fault(0, 3, Access::Read);
    assert_eq!(job.fault(0, 3, Access::Write), [Output::Wait(3)]);
    assert!(job.nodes[0].is_fetching(3));
    job.give(0, Input::FetchFailed(one(3)));
    assert!(!job.nodes[0].is_fetching(3));
    assert_eq!(job.fault(0, 3, Access::Read), [Output::Get { from: Rank(1), pages: one(3) }]);
}

#[test]
fn consecutive_faults_fetch_twice_as_many_pages_each_time() {
    let mut job = Job::with(2, 31, at(1, Protocol::Adaptive));
    let mut page = 0;
    for count in [1, 2, 4, 8, 16] {
        let pages = Pages { first: page, count };
        assert_eq!(job.fault(0, page, Access::Read), [Output::Get { from: Rank(1), pages }]);
        job.give(0, Input::Fetched(pages));
        page += count;
    }
}

#[test]
fn memory_of_no_allocation_is_denied() {
    let mut job = Job::with(2, 4, AllocOptions::default());
    assert_eq!(job.fault(0, 4, Access::Read), [Output::Denied(4)]);
    assert_eq!(job.fault(0, PAGES + 7, Access::Write), [Output::Denied(PAGES + 7)]);
    job.touch(0, 1, Access::Write);
    job.all(Collective::Free(0));
    assert!(job.orders(0).contains(&Output::Discard(Pages { first: 0, count: 4 })));
    assert_eq!(job.fault(0, 1, Access::Read), [Output::Denied(1)]);
}

#[test]
fn a_copy_that_is_fetched_once_is_unknown_to_its_home() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    job.touch(1, 0, Access::Write);
    job.touch(0, 0, Access::Read);
    job.barrier();
    assert_eq!(job.nodes[0].access(0), Access::None, "a lease ends with the barrier");
    assert_eq!(job.nodes[1].access(0), Access::Write);
    assert_eq!(job.nodes[1].directory_entries(), 0);
}

#[test]
fn a_copy_that_is_fetched_again_is_subscribed_to_and_its_home_writes_with_a_twin() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    job.touch(1, 0, Access::Write);
    for _ in 0..2 {
        job.touch(0, 0, Access::Read);
        job.barrier();
    }
    assert_eq!(job.nodes[1].update_sharers(0).collect::<Vec<_>>(), [Rank(0)]);
    assert!(job.orders(1).contains(&Output::Protect(one(0), Access::Read)));
    job.touch(0, 0, Access::Read);
    assert_eq!(job.fault(1, 0, Access::Write), [Output::Twin(0), Output::Protect(one(0), Access::Write)]);
    job.changed.insert((1, 0));
    job.barrier();
    assert_eq!(job.orders(1)[0], Output::Push(0));
    assert_eq!(job.nodes[0].access(0), Access::Read, "kept up to date, so kept");
    // Once as what differed from the twin, and once whole: it was fetched while its home was writing it.
    assert_eq!(job.nodes[1].counters().updates, 2);
}

#[test]
fn a_page_written_in_two_barriers_is_compared_in_the_third_without_a_fault() {
    let mut job = Job::with(2, 4, at(1, Protocol::Update));
    job.touch(0, 0, Access::Read);
    job.barrier();
    for _ in 0..2 {
        job.write(1, 0);
        job.barrier();
    }
    assert_eq!(job.nodes[1].access(0), Access::Write);
    job.orders(1);
    job.changed.insert((1, 0));
    job.barrier();
    assert_eq!(job.orders(1)[0], Output::Push(0));
    let counters = job.nodes[1].counters();
    // The first write takes two steps: to map the page, and to make the twin.
    assert_eq!((counters.write_faults, counters.predicted, counters.updates), (3, 1, 3));
}

#[test]
fn a_prediction_that_does_not_come_true_is_given_up() {
    let mut job = Job::with(2, 4, at(1, Protocol::Update));
    job.touch(0, 0, Access::Read);
    job.barrier();
    for _ in 0..2 {
        job.write(1, 0);
        job.barrier();
    }
    (0..8).for_each(|_| drop(job.barrier()));
    let orders = job.orders(1);
    assert!(orders.contains(&Output::DropTwin(0)));
    assert_eq!(job.nodes[1].access(0), Access::Read);
    job.barrier();
    assert!(!job.orders(1).contains(&Output::Push(0)));
}

#[test]
fn under_invalidate_the_home_tells_once_and_is_not_tracked_any_more() {
    let mut job = Job::with(3, 4, at(1, Protocol::Invalidate));
    for _ in 0..2 {
        job.touch(0, 0, Access::Read);
        job.barrier();
    }
    assert_eq!(job.nodes[0].access(0), Access::Read);
    job.write(1, 0);
    assert_eq!(job.nodes[1].counters().twins, 0, "a notice needs no twin");
    job.barrier();
    assert_eq!(job.nodes[0].access(0), Access::None);
    assert_eq!(job.nodes[1].directory_entries(), 0);
    assert_eq!(job.nodes[1].access(0), Access::Write);
}

#[test]
fn a_sharer_that_is_only_told_is_told_of_a_write_that_left_all_bytes_as_they_were() {
    let mut job = Job::with(3, 4, at(1, Protocol::Update));
    job.give(2, Input::SetProtocol(0, Protocol::Invalidate));
    for _ in 0..2 {
        [0, 2].into_iter().for_each(|r| job.touch(r, 0, Access::Read));
        job.barrier();
    }
    job.touch(1, 0, Access::Write);
    job.barrier();
    assert_eq!((job.nodes[0].access(0), job.nodes[2].access(0)), (Access::Read, Access::None));
}

#[test]
fn a_page_fetched_by_a_sharer_that_gets_updates_comes_again_at_the_barrier() {
    let mut job = Job::with(2, 4, at(1, Protocol::Update));
    job.touch(0, 0, Access::Read);
    job.barrier();
    job.touch(0, 0, Access::Read);
    job.barrier();
    assert!(job.orders(1).contains(&Output::PutPages { pages: one(0), to: Rank(0) }));
    job.barrier();
    assert_eq!(job.nodes[0].counters().second_meetings, 1);
}

#[test]
fn what_a_sharer_wrote_goes_to_the_other_sharers_but_not_back() {
    let mut job = Job::with(3, 4, at(1, Protocol::Update));
    for rank in [0, 2] {
        job.touch(rank, 0, Access::Read);
    }
    job.barrier();
    for rank in [0, 2] {
        job.touch(rank, 0, Access::Read);
    }
    job.write(2, 0);
    job.barrier();
    assert!(job.orders(1).contains(&Output::PushWhole { page: 0, except: Some(Rank(2)) }));
    assert_eq!(job.nodes[2].access(0), Access::Read);
    assert!(job.nodes.iter().all(|n| n.counters().second_meetings == 1));
}

#[test]
fn a_written_page_that_did_not_change_costs_no_second_meeting() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    job.touch(0, 0, Access::Write);
    job.barrier();
    assert_eq!(job.nodes[0].counters().second_meetings, 0);
    assert_eq!(job.nodes[0].counters().diffs, 0);
}

#[test]
fn what_was_written_back_is_reported_at_the_barrier_even_if_nothing_more_changed() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    job.touch(0, 2, Access::Write);
    job.give(0, Input::WriteBack(Pages { first: 0, count: 4 }));
    assert_eq!(job.ordered(0), [Output::PutDiff { page: 2, to: Rank(1) }]);
    job.barrier();
    assert_eq!(job.orders(0)[0], Output::Diff { page: 2, to: Rank(1), force: true });
    assert_eq!(job.nodes[1].counters().second_meetings, 1);
}

#[test]
fn copies_that_are_valid_are_refreshed_and_others_are_not() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    job.touch(0, 2, Access::Read);
    job.give(0, Input::ReadHome(Pages { first: 0, count: 4 }));
    assert_eq!(job.ordered(0), [Output::Refresh { page: 2, from: Rank(1) }]);
    job.give(1, Input::ReadHome(Pages { first: 0, count: 4 }));
    assert_eq!(job.ordered(1), []);
}

#[test]
fn a_home_that_moves_hands_its_page_over_and_all_copies_end() {
    let mut job = Job::with(3, 4, at(1, Protocol::Update));
    job.touch(1, 0, Access::Write);
    for _ in 0..2 {
        job.touch(0, 0, Access::Read);
        job.barrier();
    }
    job.give(0, Input::SetHome(one(0), Rank(2)));
    job.barrier();
    assert!(job.orders(1).contains(&Output::Hand { page: 0, to: Rank(2) }));
    assert!(job.nodes.iter().all(|n| n.home(0) == Some(Rank(2)) && n.access(0) == Access::None));
    assert_eq!(job.nodes[1].directory_entries(), 0);
}

#[test]
fn of_two_calls_that_move_a_page_the_later_counts_and_of_two_ranks_the_higher() {
    let mut job = Job::with(4, 8, at(1, Protocol::Adaptive));
    for home in [3, 0] {
        job.give(2, Input::SetHome(Pages { first: 0, count: 4 }, Rank(home)));
    }
    job.give(0, Input::SetHome(Pages { first: 3, count: 3 }, Rank(2)));
    job.barrier();
    let homes: Vec<u32> = (0..8).filter_map(|p| job.nodes[1].home(p)).map(|r| r.0).collect();
    assert_eq!(homes, [0, 0, 0, 0, 2, 2, 1, 1]);
    assert!(job.nodes.iter().all(|n| (0..8).all(|p| n.home(p) == job.nodes[1].home(p))));
}

#[test]
fn a_page_that_is_first_touched_and_moved_in_one_interval_moves_at_the_next_barrier() {
    let mut job = Job::with(3, 8, AllocOptions::default());
    job.touch(2, 4, Access::Write);
    job.give(0, Input::SetHome(Pages { first: 3, count: 3 }, Rank(1)));
    job.barrier();
    let homes = |job: &Job| (3..6).map(|p| job.nodes[0].home(p)).collect::<Vec<_>>();
    assert_eq!(homes(&job), [Some(Rank(1)), Some(Rank(2)), Some(Rank(1))]);
    job.barrier();
    assert_eq!(homes(&job), [Some(Rank(1)); 3]);
}

#[test]
fn a_broadcast_sends_each_homes_pages_down_a_tree() {
    let options = AllocOptions { placement: Placement::Block, ..AllocOptions::default() };
    let mut job = Job::with(4, 8, options);
    let pages = Pages { first: 0, count: 4 };
    job.all(Collective::Broadcast(pages));
    let mine = |to| Output::PutPages { pages: Pages { first: 0, count: 2 }, to: Rank(to) };
    let puts: Vec<_> = job.orders(0).into_iter().filter(|o| matches!(o, Output::PutPages { .. })).collect();
    assert_eq!(puts[..2], [mine(1), mine(2)]);
    assert!((2..4).all(|r| pages.iter().all(|p| job.nodes[r].access(p) == Access::Read)));
    job.barrier();
    assert!((2..4).all(|r| pages.iter().all(|p| job.nodes[r].access(p) == Access::None)));
}

#[test]
fn changes_that_went_by_message_once_go_by_message_in_the_next_barrier_too() {
    let mut job = Job::with(2, 4, at(1, Protocol::Update));
    job.touch(0, 0, Access::Read);
    job.barrier();
    job.touch(1, 0, Access::Write);
    (0..2).for_each(|r| job.give(r, Input::Arrive(Collective::Barrier)));
    assert_eq!(job.nodes[1].poll_output(), Some(Output::Push(0)));
    assert!(!job.nodes[1].must_message(0));
    let meeting = job.nodes[1].meeting();
    job.give(1, Input::Messaged { page: 0 });
    job.give(0, Input::Update(Rank(1), meeting, 0));
    finish(&mut job);
    assert!(job.nodes[1].must_message(0));
    job.barrier();
    assert!(!job.nodes[1].must_message(0));
}

/// Ends a barrier in which all ranks have arrived.
fn finish(job: &mut Job) {
    let mut done = [None, None];
    while done.iter().any(Option::is_none) {
        for rank in 0..2u32 {
            while let Some(order) = job.nodes[rank as usize].poll_output() {
                job.carry_out(rank, order, &mut done[rank as usize]);
            }
        }
    }
}

#[test]
fn ranks_that_come_for_different_things_are_named_to_all() {
    let mut job = Job::with(7, 4, AllocOptions::default());
    let outcomes = job.each(|r| if r == 4 { Collective::Free(0) } else { Collective::Barrier });
    for outcome in outcomes {
        let Outcome::Mismatch([a, b]) = outcome else { panic!("{outcome:?}") };
        assert_eq!((a, b.rank), (Attendance { purpose: Purpose([0; 4]), rank: Rank(0) }, Rank(4)));
        assert_ne!(b.purpose, a.purpose);
    }
}

#[test]
fn allocations_of_different_size_or_options_are_a_mismatch() {
    let bytes = |r: u32| Collective::Alloc(4096 + u64::from(r == 2), AllocOptions::default());
    let block = |r: u32| Collective::Alloc(9, AllocOptions { block: 1 + r / 3, ..AllocOptions::default() });
    let home = |r: u32| Collective::Alloc(9, at(r / 3, Protocol::Adaptive));
    let protocol = |r: u32| match r {
        1 => Collective::Alloc(9, at(0, Protocol::Update)),
        _ => Collective::Alloc(9, at(0, Protocol::Invalidate)),
    };
    let calls: [&dyn Fn(u32) -> Collective; 4] = [&bytes, &block, &home, &protocol];
    for call in calls {
        let outcomes = Job::new(4).each(call);
        assert!(outcomes.iter().all(|o| matches!(o, Outcome::Mismatch(_))), "{outcomes:?}");
    }
}

#[test]
fn what_no_correct_peer_sends_is_refused_and_changes_nothing() {
    let mut job = Job::with(4, 4, at(1, Protocol::Update));
    let meeting = job.nodes[0].meeting();
    let attendance = Attendance::default();
    let token = |meeting, round| Token {
        meeting,
        round,
        away: false,
        span: [attendance; 2],
        counts: Vec::new(),
        notices: Vec::new(),
    };
    let wild = Pages { first: PAGES - 1, count: 2 };
    let notice = Notice { origin: Rank(2), pages: wild, moved_to: None };
    let subscribe = Control { leave: vec![wild], ..Control::default() };
    let wrong = vec![
        Input::Token(Rank(2), token(meeting, 0)),
        Input::Token(Rank(3), token(meeting, 2)),
        Input::Token(Rank(3), token(meeting, 200)),
        Input::Token(Rank(3), token(meeting + 2, 0)),
        Input::Token(Rank(3), token(meeting.wrapping_sub(1), 0)),
        Input::Token(Rank(3), Token { counts: vec![(Rank(4), 1)], ..token(meeting, 0) }),
        Input::Token(Rank(3), Token { notices: vec![notice], ..token(meeting, 0) }),
        Input::Control(Rank(1), meeting, subscribe),
        Input::Control(Rank(9), meeting, Control::default()),
        Input::Diff(Rank(1), meeting, 0),
        Input::Diff(Rank(1), meeting, PAGES),
        Input::Update(Rank(1), meeting, PAGES),
        Input::Parcel(Rank(1), meeting, Rank(0)),
        Input::Parcel(Rank(1), meeting, Rank(77)),
    ];
    for input in wrong {
        let text = format!("{input:?}");
        assert!(job.nodes[0].handle(input).is_err(), "{text}");
    }
    job.give(0, Input::Token(Rank(3), token(meeting, 0)));
    let again = job.nodes[0].handle(Input::Token(Rank(3), token(meeting, 0)));
    assert_eq!(again.unwrap_err().to_string(), "rank 3 broke the protocol: the same token twice");
}

/// Anything that a peer can say about a job of four ranks, sensible or not.
fn lie() -> impl Strategy<Value = Input> {
    let rank = || (0..6u32).prop_map(Rank);
    let page = || prop_oneof![0..PAGES + 2, any::<u32>()];
    let pages = || (0..PAGES, 0..5u32).prop_map(|(first, count)| Pages { first, count });
    let meeting = || 0..6u32;
    let notice = (rank(), pages(), proptest::option::of(rank()))
        .prop_map(|(origin, pages, moved_to)| Notice { origin, pages, moved_to });
    let attendance =
        (rank(), 0..2u64).prop_map(|(rank, n)| Attendance { purpose: Purpose([n, 0, 0, 0]), rank });
    let counts = proptest::collection::vec((rank(), prop_oneof![0..3u32, any::<u32>()]), 0..4);
    let notices = proptest::collection::vec(notice, 0..4);
    let token = (meeting(), 0..4u8, any::<bool>(), [attendance.clone(), attendance], counts, notices)
        .prop_map(|(meeting, round, away, span, counts, notices)| Token {
            meeting,
            round,
            away,
            span,
            counts,
            notices,
        });
    let list = || proptest::collection::vec(pages(), 0..3);
    let mode = || {
        any::<bool>().prop_map(|u| {
            if u { crate::copyset::CopyMode::Update } else { crate::copyset::CopyMode::Invalidate }
        })
    };
    let control = (list(), proptest::collection::vec((pages(), mode()), 0..3), list())
        .prop_map(|(stale, subscribe, leave)| Control { fresh: stale.clone(), stale, subscribe, leave });
    prop_oneof![
        (rank(), token).prop_map(|(from, t)| Input::Token(from, t)),
        (rank(), meeting(), control).prop_map(|(from, m, c)| Input::Control(from, m, c)),
        (rank(), meeting(), page()).prop_map(|(from, m, p)| Input::Diff(from, m, p)),
        (rank(), meeting(), page()).prop_map(|(from, m, p)| Input::Update(from, m, p)),
        (rank(), meeting(), rank()).prop_map(|(from, m, h)| Input::Parcel(from, m, h)),
    ]
}

/// Lets a node carry out what it ordered, as far as that takes nobody else.
fn serve(node: &mut Node) {
    while let Some(order) = node.poll_output() {
        let answer = match order {
            Output::Flushed => Input::Flushed,
            Output::Diff { page, .. } | Output::DiffZero { page, .. } | Output::Push(page) => {
                Input::Compared { page, changed: page.is_multiple_of(2) }
            }
            Output::Get { pages, .. } => Input::Fetched(pages),
            _ => continue,
        };
        let _ = node.handle(answer);
    }
}

proptest! {
    #[test]
    fn no_peer_can_make_a_node_panic(
        lies in proptest::collection::vec((lie(), 0..8u32, 0..PAGES), 1..60),
        placed in any::<bool>(),
    ) {
        let options = if placed { at(0, Protocol::Update) } else { AllocOptions::default() };
        let mut job = Job::with(4, PAGES - 4, options);
        let node = &mut job.nodes[0];
        for (lie, act, page) in lies {
            let _ = node.handle(lie);
            let _ = node.batch_taken();
            match act {
                0 if node.phase == Phase::Running => {
                    let _ = node.handle(Input::Arrive(Collective::Barrier));
                }
                1 if node.phase == Phase::Running => {
                    let _ = node.handle(Input::Arrive(Collective::Broadcast(Pages { first: 0, count: 5 })));
                }
                2 | 3 if node.phase == Phase::Running => {
                    let want = if act == 2 { Access::Read } else { Access::Write };
                    let _ = node.handle(Input::Fault { page, want });
                }
                _ => {}
            }
            serve(node);
        }
    }
}
