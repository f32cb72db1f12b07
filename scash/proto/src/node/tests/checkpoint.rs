//! Checkpoints: when there is one, what ranks are ordered, and what is left of a node that comes back.

use super::*;
use crate::wire::sync::Signal;

/// A job whose ranks can come back.
fn job(size: u32) -> Job {
    Job::of(size, Sharing::Off, 1)
}

/// The same, with one allocation.
fn with(size: u32, pages: u32, options: AllocOptions) -> Job {
    let mut job = job(size);
    allocate(&mut job, pages, options);
    job
}

fn allocate(job: &mut Job, pages: u32, options: AllocOptions) {
    job.all(Collective::Alloc(u64::from(pages) * PAGE_SIZE as u64, options));
    job.orders.iter_mut().for_each(Vec::clear);
}

impl Job {
    fn ranks(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.nodes.len()).unwrap()
    }

    /// Whether a rank was ordered to stage, since that was last asked.
    fn is_staging(&mut self, rank: u32) -> bool {
        self.orders(rank).iter().filter(|order| **order == Output::Stage).count() == 1
    }

    /// Every rank makes the call, which is a checkpoint; to where all are staging.
    fn come_to_stage(&mut self, call: Collective) {
        self.give(0, Input::CheckpointDue);
        self.ranks().for_each(|rank| self.give(rank, Input::Arrive(call)));
        let size = self.nodes.len();
        assert_eq!(self.calm(), vec![None; size]);
        self.ranks().for_each(|rank| assert!(self.is_staging(rank)));
    }

    /// All have staged: the call ends.
    fn staged(&mut self) -> Vec<Outcome> {
        self.ranks().for_each(|rank| self.give(rank, Input::Staged));
        self.told()
    }

    /// All ranks come back from these images.
    fn come_back(&mut self, images: &[Node]) {
        self.nodes = images.to_vec();
        self.changed.clear();
        for node in &mut self.nodes {
            node.reborn();
            assert_eq!(node.check(), Ok(()));
        }
        self.orders.iter_mut().for_each(Vec::clear);
    }

    /// What ranks were told of whether the checkpoint counts.
    fn committed(&mut self) -> Vec<Option<bool>> {
        let told = |order: Output| if let Output::Committed(counts) = order { Some(counts) } else { None };
        self.ranks().map(|rank| self.orders(rank).into_iter().find_map(told)).collect()
    }
}

#[test]
fn all_ranks_stage_when_one_says_that_it_is_due_and_nobody_leaves_before_all_have() {
    for size in [1, 2, 5] {
        let mut job = job(size);
        job.give(size - 1, Input::CheckpointDue);
        job.ranks().for_each(|rank| job.give(rank, Input::Arrive(Collective::Barrier)));
        assert!(job.calm().iter().all(Option::is_none));
        for rank in job.ranks() {
            assert!(job.is_staging(rank));
            assert!(job.calm().iter().all(Option::is_none), "rank {rank} has not staged");
            job.give(rank, Input::Staged);
        }
        assert_eq!(job.told(), vec![Outcome::Done; size as usize]);
        assert_eq!(job.committed(), vec![Some(true); size as usize]);
        job.barrier();
        assert_eq!(job.committed(), vec![None; size as usize], "the next barrier is none");
    }
}

#[test]
fn a_checkpoint_that_one_rank_leaves_out_is_nobodys_and_the_job_goes_on() {
    let mut job = job(4);
    job.come_to_stage(Collective::Barrier);
    for rank in 0..4 {
        job.give(rank, if rank == 2 { Input::NotStaged } else { Input::Staged });
    }
    assert_eq!(job.told(), vec![Outcome::Done; 4]);
    assert_eq!(job.committed(), [Some(false); 4]);
    job.come_to_stage(Collective::Barrier);
    assert_eq!(job.staged(), vec![Outcome::Done; 4]);
    assert_eq!(job.committed(), [Some(true); 4]);
}

#[test]
fn ranks_that_do_not_come_back_have_no_checkpoints() {
    let mut job = Job::new(3);
    job.give(1, Input::CheckpointDue);
    assert_eq!(job.barrier(), vec![Outcome::Done; 3]);
    assert_eq!(job.committed(), [None; 3]);
}

#[test]
fn what_is_due_behind_the_first_token_is_due_at_the_next_barrier() {
    let mut job = job(3);
    job.give(0, Input::Arrive(Collective::Barrier));
    job.calm();
    job.give(0, Input::CheckpointDue);
    (1..3).for_each(|rank| job.give(rank, Input::Arrive(Collective::Barrier)));
    assert_eq!(job.told(), vec![Outcome::Done; 3]);
    job.ranks().for_each(|rank| job.give(rank, Input::Arrive(Collective::Barrier)));
    job.calm();
    assert!(job.ranks().all(|rank| job.is_staging(rank)));
}

#[test]
fn the_last_meeting_of_a_job_is_no_checkpoint() {
    let mut job = job(3);
    job.give(0, Input::CheckpointDue);
    assert_eq!(job.all(Collective::Finalize), vec![Outcome::Done; 3]);
}

#[test]
fn every_call_with_a_memory_barrier_can_be_a_checkpoint_and_its_outcome_is_told_behind_it() {
    let mut job = with(3, 4, at(1, Protocol::Update));
    let area = Pages { first: 0, count: 4 };
    let lock = ObjectKind::Lock;
    let calls = [
        (Collective::Publish(0), Outcome::Done),
        (Collective::Divide { page: 0, digest: [1, 2] }, Outcome::Done),
        (Collective::Broadcast(area), Outcome::Done),
        (Collective::Make(lock, 2), Outcome::Made(0)),
        (Collective::Destroy { kind: lock, first: 0, count: 2 }, Outcome::Done),
        (Collective::Alloc(1, AllocOptions::default()), Outcome::Allocated(one(4))),
        (Collective::Free(0), Outcome::Done),
    ];
    for (call, outcome) in calls {
        job.come_to_stage(call);
        let images = job.nodes.clone();
        assert_eq!(job.staged(), vec![outcome.clone(); 3], "{call:?}");
        job.come_back(&images);
        assert_eq!(job.staged(), vec![outcome; 3], "{call:?}");
    }
}

#[test]
fn the_destruction_of_an_object_in_use_is_no_checkpoint() {
    let mut job = job(2);
    job.all(Collective::Make(ObjectKind::Lock, 1));
    job.give(1, Input::Acquire { lock: 0, who: 7 });
    job.calm();
    job.give(0, Input::CheckpointDue);
    let outcomes = job.all(Collective::Destroy { kind: ObjectKind::Lock, first: 0, count: 1 });
    assert!(matches!(outcomes[..], [Outcome::InUse(_), Outcome::InUse(_)]), "{outcomes:?}");
    job.come_to_stage(Collective::Barrier);
}

#[test]
fn who_comes_back_knows_all_homes_and_of_no_copy() {
    let mut job = with(3, 6, AllocOptions { protocol: Protocol::Update, ..AllocOptions::default() });
    for page in 0..5 {
        job.write(page % 3, page);
    }
    job.barrier();
    for _ in 0..2 {
        (0..3).for_each(|rank| (0..5).for_each(|page| job.touch(rank, page, Access::Read)));
        (0..3).for_each(|page| job.write(page, page));
        job.write(2, 4);
        job.barrier();
    }
    job.come_to_stage(Collective::Barrier);
    assert!(job.nodes.iter().all(|node| node.directory_entries() > 0));
    let (images, epoch) = (job.nodes.clone(), job.nodes[0].epoch());
    job.come_back(&images);
    for rank in 0..3 {
        let node = &job.nodes[rank as usize];
        assert_eq!((node.directory_entries(), node.epoch()), (0, epoch));
        for page in 0..5 {
            let home = Rank(page % 3);
            assert_eq!(node.home(page), Some(home));
            let access = if home == Rank(rank) { Access::Write } else { Access::None };
            assert_eq!((node.access(page), node.keeps(page)), (access, home == Rank(rank)));
        }
        assert_eq!((node.home(5), node.keeps(5)), (None, false));
    }
    assert_eq!(job.ordered(0), [0, 3].map(|page| Output::Map(one(page), Access::Write)));
    assert_eq!(job.staged(), vec![Outcome::Done; 3]);
    job.touch(1, 0, Access::Read);
    assert_eq!(job.barrier(), vec![Outcome::Done; 3]);
}

#[test]
fn a_page_that_its_home_has_never_touched_is_opened_when_it_is_touched() {
    let mut job = with(2, 4, at(1, Protocol::Adaptive));
    job.write(0, 2);
    job.write(1, 1);
    job.come_to_stage(Collective::Barrier);
    let images = job.nodes.clone();
    job.come_back(&images);
    assert_eq!(job.ordered(0), []);
    assert_eq!(job.ordered(1), [Output::Map(one(1), Access::Write)]);
    assert!((0..4).all(|page| job.nodes[1].keeps(page)), "others may have written it");
    job.staged();
    assert_eq!(job.fault(1, 2, Access::Write), [Output::MapZero(one(2), Access::Write)]);
}

#[test]
fn ranks_that_share_frames_open_all_that_is_allocated_and_each_keeps_its_part() {
    let mut job = Job::of(3, Sharing::Frames, 1);
    allocate(&mut job, 6, AllocOptions::default());
    allocate(&mut job, 2, at(1, Protocol::Adaptive));
    job.come_to_stage(Collective::Barrier);
    let images = job.nodes.clone();
    job.come_back(&images);
    for rank in job.ranks() {
        assert_eq!(job.ordered(rank), [Output::Map(Pages { first: 0, count: 8 }, Access::Write)]);
        let kept: Vec<u32> = (0..10).filter(|&page| job.nodes[rank as usize].keeps(page)).collect();
        assert_eq!(kept, [vec![0, 3], vec![1, 4, 6, 7], vec![2, 5]][rank as usize]);
    }
    assert_eq!(job.staged(), vec![Outcome::Done; 3]);
}

#[test]
fn a_token_that_came_before_the_image_was_taken_comes_again() {
    let mut job = job(3);
    job.come_to_stage(Collective::Barrier);
    job.give(0, Input::Staged);
    job.give(1, Input::Staged);
    job.calm();
    let mut images = job.nodes.clone();
    // Theirs were taken before they said so.
    let mut before = self::job(3);
    before.come_to_stage(Collective::Barrier);
    images[..2].clone_from_slice(&before.nodes[..2]);
    job.come_back(&images);
    assert_eq!(job.staged(), vec![Outcome::Done; 3]);
}

#[test]
fn locks_are_where_they_were_and_so_is_who_is_last_in_their_queues() {
    let mut job = job(3);
    job.all(Collective::Make(ObjectKind::Lock, 3));
    job.all(Collective::Make(ObjectKind::Semaphore(0), 1));
    job.give(1, Input::Acquire { lock: 0, who: 7 });
    job.calm();
    // It leaves a signpost behind.
    job.give(2, Input::TryAcquire { lock: 0, who: 8 });
    job.give(0, Input::Signal { object: 3, who: 9, signal: Signal::Post(1) });
    job.calm();
    job.come_to_stage(Collective::Barrier);
    let images = job.nodes.clone();
    assert_eq!(job.staged(), vec![Outcome::Done; 3]);
    job.give(1, Input::Release(0));
    job.give(0, Input::Acquire { lock: 0, who: 5 });
    job.calm();
    assert_eq!(job.nodes[0].holder(0), Some(5));
    job.come_back(&images);
    assert_eq!(job.staged(), vec![Outcome::Done; 3]);
    assert_eq!((job.nodes[1].holder(0), job.nodes[0].holder(0)), (Some(7), None));
    job.give(0, Input::Acquire { lock: 0, who: 6 });
    job.calm();
    assert_eq!(job.nodes[0].holder(0), None);
    job.give(1, Input::Release(0));
    job.calm();
    assert_eq!(job.nodes[0].holder(0), Some(6));
}
