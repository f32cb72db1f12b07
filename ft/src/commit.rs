//! What a rank does at a checkpoint, as a value: inputs in, outputs polled out.
//!
//! A rank's store lies at 1 to 8 *holders*: number 0 is on its own host, the others on other hosts. At each
//! of them, a checkpoint first writes what changed, then *fences*: waits until all of it has arrived. Only
//! when it has arrived everywhere does the rank write the *mark*, at each holder, and fence again. So a mark
//! never stands beside data that is still on its way. The rank has *staged* then, and meets the others. Only
//! after that meeting is the epoch committed, and only then does the rank run on and use the slots of the
//! epoch before again: whoever runs on knows that all marks of all ranks are at all holders.
//!
//! | phase | input | outputs | next phase |
//! |---|---|---|---|
//! | running | `Stage` | `Write` to each holder | writing |
//! | running | `CannotStage` | `NotStaged` | meeting |
//! | writing | `Copied`, `Fenced` | `Fence`; after the last `Mark` at each holder | marking |
//! | writing | `NoRoom` | after the last fence `NotStaged` | meeting |
//! | marking | `Marked` | after the last `Staged` | meeting |
//! | meeting | `Met { committed: true }` | `Free`, `Done` | running |
//! | meeting | `Met { committed: false }` | `Clear` each mark that was written; if none, as below | clearing |
//! | clearing | `Cleared` | after the last `Discard`, `Done` | running |
//! | any | `Failed` | `Park` | parked |
//!
//! A checkpoint that one rank had to leave out is committed by nobody. The others have marked it, though, and
//! the next one has the same epoch and incarnation: a mark that stayed would vouch for data that the next
//! checkpoint overwrites. So each rank clears its marks before it runs on.
//!
//! Nothing here allocates: a checkpoint is taken while the memory of the process is copied.

#![forbid(unsafe_code)]

use crate::{Epoch, Incarnation, Mark};
use std::fmt;

#[cfg(test)]
mod tests;

/// The most holders that a rank's store has.
pub const MOST_HOLDERS: u8 = 8;

/// A set of holders, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Holders(u8);

impl Holders {
    fn first(count: u8) -> Holders {
        Holders((1u16 << count).wrapping_sub(1).to_le_bytes()[0])
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn add(&mut self, holder: u8) {
        self.0 |= Holders::bit(holder);
    }

    /// Takes a holder out; false if it is not in the set.
    fn remove(&mut self, holder: u8) -> bool {
        let was_in = self.contains(holder);
        self.0 &= !Holders::bit(holder);
        was_in
    }

    fn contains(self, holder: u8) -> bool {
        self.0 & Holders::bit(holder) != 0
    }

    /// No bit for a number that no holder has.
    fn bit(holder: u8) -> u8 {
        1u8.checked_shl(u32::from(holder)).unwrap_or(0)
    }

    fn pop(&mut self) -> Option<u8> {
        let lowest = u8::try_from(self.0.trailing_zeros()).ok().filter(|_| self.0 != 0)?;
        self.0 &= self.0 - 1;
        Some(lowest)
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// The barrier has ended but for `Done`, and the image can be taken.
    Stage,
    /// The barrier has ended but for `Done`, and no image can be taken: this rank leaves the checkpoint out.
    CannotStage,
    /// All that changed is on its way to a holder.
    Copied(u8),
    /// A holder has no room for what changed. Nothing more is on its way there.
    NoRoom(u8),
    /// All that was written to a holder has arrived.
    Fenced(u8),
    /// The mark has arrived at a holder.
    Marked(u8),
    /// The mark is gone at a holder.
    Cleared(u8),
    /// The last meeting is over.
    Met {
        /// Whether all ranks had staged.
        committed: bool,
    },
    /// A holder cannot be reached any more.
    Failed(u8),
}

/// What the rank has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Output {
    /// Write the changed slots and the index of the epoch that is staged to a holder; then say `Copied` or
    /// `NoRoom`.
    Write {
        /// The holder.
        holder: u8,
    },
    /// Wait until all that was written to a holder has arrived there; then say `Fenced`.
    Fence {
        /// The holder.
        holder: u8,
    },
    /// Write the mark to a holder, wait until it has arrived; then say `Marked`.
    Mark {
        /// The holder.
        holder: u8,
        /// The mark.
        mark: Mark,
    },
    /// Erase the mark of a checkpoint that was left out, wait until that has arrived; then say `Cleared`.
    Clear {
        /// The holder.
        holder: u8,
        /// The mark that was written.
        mark: Mark,
    },
    /// Tell the protocol that this rank has staged.
    Staged,
    /// Tell the protocol that this rank has left the checkpoint out.
    NotStaged,
    /// The epoch after this one is committed: this one's slots may be used again.
    Free {
        /// The epoch whose slots are free.
        epoch: Epoch,
    },
    /// The checkpoint of this epoch was left out: its slots may be used again.
    Discard {
        /// The epoch that is not committed.
        epoch: Epoch,
    },
    /// The rank runs on.
    Done,
    /// The rank must never run on: it waits to be killed. What a holder that failed has got is unknown, and
    /// the coordinator starts all ranks again.
    Park,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Running,
    Writing { uncopied: Holders, unfenced: Holders, full: bool },
    Marking { unmarked: Holders },
    Meeting { marked: bool },
    Clearing { uncleared: Holders },
    Parked,
}

/// Outputs that were not polled yet: at most one of each kind for each holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Queue {
    write: Holders,
    fence: Holders,
    mark: Holders,
    clear: Holders,
    /// Of the whole rank, in their order.
    rank: [Option<Output>; 2],
}

/// An input that does not fit the phase: the runtime told something that cannot have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnexpectedInput {
    /// What was told.
    pub input: Input,
    phase: Phase,
}

impl fmt::Display for UnexpectedInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a checkpoint cannot take {:?} while it is {:?}", self.input, self.phase)
    }
}

impl std::error::Error for UnexpectedInput {}

/// A rank's side of all checkpoints of one incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Commit {
    incarnation: Incarnation,
    committed: Epoch,
    /// From 1 to [`MOST_HOLDERS`].
    holders: u8,
    phase: Phase,
    queue: Queue,
}

impl Commit {
    /// A rank of `incarnation`, which went on from `epoch`, and whose store has so many holders: from 1 to
    /// [`MOST_HOLDERS`].
    pub fn new(incarnation: Incarnation, epoch: Epoch, holders: u8) -> Option<Commit> {
        let queue = Queue::default();
        (1..=MOST_HOLDERS).contains(&holders).then_some(Commit {
            incarnation,
            committed: epoch,
            holders,
            phase: Phase::Running,
            queue,
        })
    }

    /// The newest epoch that this rank knows to be committed.
    pub fn committed(&self) -> Epoch {
        self.committed
    }

    /// The mark of the checkpoint that is taken now, or will be taken next.
    pub fn mark(&self) -> Mark {
        Mark { incarnation: self.incarnation, epoch: self.committed.next() }
    }

    /// Takes an input. One that does not fit changes nothing.
    pub fn take(&mut self, input: Input) -> Result<(), UnexpectedInput> {
        let phase = match (self.phase, input) {
            (Phase::Parked, _) => Some(Phase::Parked),
            (_, Input::Failed(holder)) => (holder < self.holders).then(|| self.park()),
            (Phase::Running, Input::Stage) => Some(self.write()),
            (Phase::Running, Input::CannotStage) => Some(self.leave_out()),
            (Phase::Writing { uncopied, unfenced, full }, input) => {
                self.writing(uncopied, unfenced, full, input)
            }
            (Phase::Marking { mut unmarked }, Input::Marked(holder)) => {
                unmarked.remove(holder).then(|| self.marking(unmarked))
            }
            (Phase::Meeting { marked: true }, Input::Met { committed: true }) => Some(self.end(true)),
            (Phase::Meeting { marked }, Input::Met { committed: false }) => Some(self.clear(marked)),
            (Phase::Clearing { mut uncleared }, Input::Cleared(holder)) => {
                uncleared.remove(holder).then(|| self.clearing(uncleared))
            }
            _ => None,
        };
        self.phase = phase.ok_or(UnexpectedInput { input, phase: self.phase })?;
        Ok(())
    }

    /// What is to be done next, if anything. Outputs for different holders may be carried out at a time.
    pub fn poll(&mut self) -> Option<Output> {
        let mark = self.mark();
        let queue = &mut self.queue;
        if let Some(holder) = queue.write.pop() {
            return Some(Output::Write { holder });
        }
        if let Some(holder) = queue.fence.pop() {
            return Some(Output::Fence { holder });
        }
        if let Some(holder) = queue.mark.pop() {
            return Some(Output::Mark { holder, mark });
        }
        if let Some(holder) = queue.clear.pop() {
            return Some(Output::Clear { holder, mark });
        }
        let first = queue.rank[0].take();
        queue.rank.swap(0, 1);
        first
    }

    fn all(&self) -> Holders {
        Holders::first(self.holders)
    }

    fn write(&mut self) -> Phase {
        self.queue.write = self.all();
        Phase::Writing { uncopied: self.all(), unfenced: self.all(), full: false }
    }

    fn leave_out(&mut self) -> Phase {
        self.queue.rank = [Some(Output::NotStaged), None];
        Phase::Meeting { marked: false }
    }

    /// An input while the changed slots go to the holders. A holder without room is done with: nothing is
    /// fenced there. What goes to the others is fenced all the same, or it could arrive when the next
    /// checkpoint uses the same slots.
    fn writing(
        &mut self,
        mut uncopied: Holders,
        mut unfenced: Holders,
        mut full: bool,
        input: Input,
    ) -> Option<Phase> {
        let fits = match input {
            Input::Copied(holder) => uncopied.remove(holder),
            Input::NoRoom(holder) => uncopied.remove(holder) && unfenced.remove(holder),
            Input::Fenced(holder) => !uncopied.contains(holder) && unfenced.remove(holder),
            _ => false,
        };
        if !fits {
            return None;
        }
        match input {
            Input::Copied(holder) => self.queue.fence.add(holder),
            Input::NoRoom(_) => full = true,
            _ => {}
        }
        if !unfenced.is_empty() {
            return Some(Phase::Writing { uncopied, unfenced, full });
        }
        if full {
            return Some(self.leave_out());
        }
        self.queue.mark = self.all();
        Some(Phase::Marking { unmarked: self.all() })
    }

    fn marking(&mut self, unmarked: Holders) -> Phase {
        if !unmarked.is_empty() {
            return Phase::Marking { unmarked };
        }
        self.queue.rank = [Some(Output::Staged), None];
        Phase::Meeting { marked: true }
    }

    fn clear(&mut self, marked: bool) -> Phase {
        if !marked {
            return self.end(false);
        }
        self.queue.clear = self.all();
        Phase::Clearing { uncleared: self.all() }
    }

    fn clearing(&mut self, uncleared: Holders) -> Phase {
        if uncleared.is_empty() { self.end(false) } else { Phase::Clearing { uncleared } }
    }

    fn end(&mut self, committed: bool) -> Phase {
        let slots = if committed {
            let epoch = self.committed;
            self.committed = epoch.next();
            Output::Free { epoch }
        } else {
            Output::Discard { epoch: self.committed.next() }
        };
        self.queue.rank = [Some(slots), Some(Output::Done)];
        Phase::Running
    }

    fn park(&mut self) -> Phase {
        self.queue = Queue::default();
        self.queue.rank = [Some(Output::Park), None];
        Phase::Parked
    }
}
