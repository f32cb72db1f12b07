//! The points that injections name.

use crate::Incarnation;

/// Where a rank is when something goes wrong. The step that is named has just been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Point {
    /// The rank enters a memory barrier.
    BarrierEnter,
    /// Its changes have been sent to the homes.
    BarrierFlush,
    /// It waits for others in the barrier's second meeting, which only some barriers have.
    BarrierMeet,
    /// The rank leaves the barrier.
    BarrierDone,
    /// The rank knows that this barrier is a checkpoint.
    CheckpointDue,
    /// Its threads have stopped.
    CheckpointStop,
    /// What changed has been written to its own store. Copies on other hosts follow.
    CheckpointCopy,
    /// It has arrived there.
    CheckpointFence,
    /// Its own store has the mark; copies may not have it.
    CheckpointMark,
    /// The last meeting is over.
    CheckpointMeet,
    /// The rank runs on.
    CheckpointDone,
    /// The rank has asked for a lock.
    LockAsked,
    /// It holds the lock.
    LockGot,
    /// It has released the lock.
    LockReleased,
    /// The rank has fetched a page.
    Fetch,
    /// A restarted rank has its private memory back.
    ImageRestored,
    /// A rank that saves itself has asked one more of its threads to stop: some may have, and others run.
    ImageThread,
    /// It has described its threads, files and mappings; its other threads stand still.
    ImageDescribed,
    /// It has looked at one more page of its private memory that may have changed. What has is copied some
    /// pages later.
    ImagePage,
    /// It has looked at one more page of shared memory that it answers for.
    ImageShared,
    /// A restarted rank has joined the others.
    RecoveryJoined,
    /// It has the contents of some more shared pages back: of up to 64, one behind the other.
    RecoveryFilled,
    /// It has those of all.
    RecoveryCopied,
    /// It runs on.
    RecoveryResumed,
}

/// All points: what each is about, and its moment. The first one about a thing is meant where no moment is
/// named.
pub(super) const POINTS: [(Point, &str, &str); 24] = [
    (Point::BarrierEnter, "barrier", "enter"),
    (Point::BarrierFlush, "barrier", "flush"),
    (Point::BarrierMeet, "barrier", "meet"),
    (Point::BarrierDone, "barrier", "done"),
    (Point::CheckpointDue, "checkpoint", "due"),
    (Point::CheckpointStop, "checkpoint", "stop"),
    (Point::CheckpointCopy, "checkpoint", "copy"),
    (Point::CheckpointFence, "checkpoint", "fence"),
    (Point::CheckpointMark, "checkpoint", "mark"),
    (Point::CheckpointMeet, "checkpoint", "meet"),
    (Point::CheckpointDone, "checkpoint", "done"),
    (Point::LockAsked, "lock", "asked"),
    (Point::LockGot, "lock", "got"),
    (Point::LockReleased, "lock", "released"),
    (Point::Fetch, "fetch", "fetched"),
    (Point::ImageRestored, "image", "restored"),
    (Point::ImageThread, "image", "thread"),
    (Point::ImageDescribed, "image", "described"),
    (Point::ImagePage, "image", "page"),
    (Point::ImageShared, "image", "shared"),
    (Point::RecoveryJoined, "recovery", "joined"),
    (Point::RecoveryFilled, "recovery", "filled"),
    (Point::RecoveryCopied, "recovery", "copied"),
    (Point::RecoveryResumed, "recovery", "resumed"),
];

impl Point {
    fn texts(self) -> (&'static str, &'static str) {
        let of = POINTS.iter().find(|(point, ..)| *point == self);
        of.map_or(("", ""), |(_, what, moment)| (what, moment))
    }

    pub(super) fn what(self) -> &'static str {
        self.texts().0
    }

    pub(super) fn moment(self) -> &'static str {
        self.texts().1
    }

    pub(super) fn is_first_moment(self) -> bool {
        let first = POINTS.iter().find(|(_, what, _)| *what == self.what());
        first.is_some_and(|(point, ..)| *point == self)
    }

    /// The first incarnation that reaches the point.
    pub(super) fn first_incarnation(self) -> Incarnation {
        match self {
            Point::ImageRestored
            | Point::RecoveryJoined
            | Point::RecoveryFilled
            | Point::RecoveryCopied
            | Point::RecoveryResumed => Incarnation(1),
            _ => Incarnation(0),
        }
    }
}
