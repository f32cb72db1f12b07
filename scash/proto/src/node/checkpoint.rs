//! Checkpoints: memory barriers at which all ranks save what they have, so that they can come back.
//!
//! 1. **Due.** A rank whose clock or count says that a checkpoint is due tells so in the first meeting of the
//!    next barrier that it comes to. When that meeting is over all ranks know it.
//! 2. **Stage.** The barrier ends as ever, but the call does not: instead of its end the node orders
//!    [`Output::Stage`], and keeps the outcome.
//! 3. **Commit.** When the rank has [staged](super::Input::Staged), it comes to one more meeting, of tokens
//!    alone. When that is over all have, and the checkpoint is [committed](Output::Committed): then calls
//!    return. If a rank [had to leave it out](super::Input::NotStaged), all learn it there, nobody's counts,
//!    and the job goes on.
//!
//! All collective calls that include a memory barrier can be checkpoints, but
//! [`Finalize`](Collective::Finalize): behind that one ranks end each for itself, and there would be no job
//! to come back to. The destruction of objects that are in use is no memory barrier, and a reduction is none.
//!
//! # Why what ranks save fits together
//!
//! Between its `Stage` and its answer a rank saves its image: this node with the interpreter, its threads,
//! and the frames of the pages that it [keeps](Node::keeps). Say that of each rank the image is taken at some
//! time in between. A message would be *lost* by the images if it was sent before its sender's image and
//! taken after its receiver's (then it went by connections that no longer exist when both come back), and
//! *doubled* if it was sent after the one and taken before the other. What can be on its way at all?
//!
//! - **Nothing of the next epoch.** Nobody leaves the call before it knows that all have answered, and until
//!   then its threads use no object and no memory, and come to no reduction.
//! - **Nothing of this barrier's meetings.** A rank ends the barrier when it has all tokens, and all items
//!   that they announce, in all meetings: diffs, controls, parcels, traces of writes, and signals of objects,
//!   which are items of the first meeting. A put is in place when the message behind it has come. Of its own
//!   messages the last tokens may still be on their way, to ranks that cannot have staged without them.
//! - **No word about a lock or other object.** Every such message but a signal belongs to a thread that waits
//!   for its object, or to a lock that was asked for [ahead](super::ahead): somebody asks (`Ask`, `Request`),
//!   is given or refused the place (`Follow`, `Refused`, `Queued`), or the object (`Grant`). Each is sent
//!   because the one before it has come, and the thread goes on because the last one has. (Whoever is
//!   `Follow`ed on behalf of a place that was given up is a waiting thread, too.) A rank with such a thread
//!   does not come to a memory barrier, and one without such an answer to no meeting. So when all have come,
//!   all these messages have arrived, and the queue of each lock is where its places and signposts say. Locks
//!   that are held or idle stay where they are, at ranks that all come back.
//! - **No record of what was written.** At the end of a barrier all know everything, and histories are
//!   empty.
//! - **Tokens of the last meeting** can: of a rank that has staged before this one. They are the only
//!   messages of which an image may miss some and hold others. So [`Node::reborn`] forgets what has come of
//!   them, and all ranks, as all have come back to the same point, send theirs again.
//!
//! [`Node::check`](super::Node::check) looks at a rank that is staging whether this is so, as far as one rank
//! can see.
//!
//! # What survives
//!
//! A page's home does, and with it which pages this rank keeps; all ranks know the homes of all pages that
//! have one, since first touches are told in the first meeting. So the words in which claims are kept can be
//! zero again: nobody asks whose a page is that has a home, and of a page that has none no claim was kept.
//! Marks of operated pages are of an epoch that is over. Copies, and so copysets, tracking, twins,
//! predictions, subscriptions and evictions are gone with the process; each home page that was used is
//! writable, and nobody tracks it. The heap, the objects and who holds which, the numbers of epochs and
//! meetings (all ranks are at the same), wishes for homes at the next barrier, and what is counted, stay.
//!
//! # What the runtime sees to
//!
//! 1. What it has sent before `Stage` leaves, even if nothing else is sent: others wait for the last tokens.
//! 2. From `Stage` until its image is taken no thread gives the node an input: no message is taken, no fault
//!    is served, no fetch, claim or operation is under way, and no object is used. (Messages that wait in the
//!    transport are tokens of the last meeting, which may be lost.) Afterwards messages may be taken.
//! 3. It answers `Staged` only when what it has saved is where it is to be, with a mark.
//! 4. A rank that comes back has new twins, views, claim words, marks and connections, and new frames or
//!    those of its former process. Frames of pages that it keeps hold what was saved; **all other frames hold
//!    zeros**, or are not there ([`Node::refills`]): a page that nobody has touched is read from there. Then
//!    it calls [`Node::reborn`] and carries out what that orders, and answers `Staged`, as if it had just
//!    saved its image.
//! 5. Either all ranks come back to the same checkpoint, or none.

use super::atomics::Operated;
use super::cache::Cache;
use super::collective::union;
use super::intervals::Intervals;
use super::{Collective, MeetingStage, Node, Outcome, Output, Phase, Violation, runs};
use crate::heap::RESERVED;
use crate::page::{Access, List, Page};
use crate::{Pages, Rank};

/// The checkpoint that is due, or under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Checkpoint {
    /// This rank has one due, and none was ordered since.
    due: bool,
    /// This barrier is to be one: all ranks know it.
    agreed: bool,
    /// How the call has ended that waits for all to have staged.
    outcome: Option<Outcome>,
}

impl Node {
    /// This rank's clock or count says that a checkpoint is due.
    pub(super) fn checkpoint_due(&mut self) {
        self.checkpoint.due = self.cfg.replicas > 0;
    }

    /// Whether this rank tells, in a first meeting that begins, that a checkpoint is due.
    pub(super) fn wants_checkpoint(&self) -> bool {
        self.checkpoint.due && self.meetings.collective != Collective::Finalize
    }

    /// The first meeting is over: whether anybody has told so.
    pub(super) fn agree_on_checkpoint(&mut self, due: bool) {
        self.checkpoint.agreed = due && self.meetings.collective != Collective::Finalize;
    }

    /// Whether the barrier that ends is a checkpoint.
    pub(super) fn is_checkpoint(&self) -> bool {
        self.checkpoint.agreed
    }

    /// Whether this rank has ended a memory barrier, but not left the call, because ranks are staging.
    pub(super) fn is_committing(&self) -> bool {
        use Phase::{Flushing, Meeting, Staging};
        matches!(
            self.meetings.phase,
            Staging | Flushing(MeetingStage::Commit) | Meeting(MeetingStage::Commit)
        )
    }

    /// The barrier has ended in all but the end of the call.
    pub(super) fn stage(&mut self, outcome: Outcome) {
        self.checkpoint = Checkpoint { due: false, agreed: false, outcome: Some(outcome) };
        self.meetings.phase = Phase::Staging;
        self.out.push_back(Output::Stage);
    }

    /// This rank has staged, or could not: comes to the last meeting.
    pub(super) fn answer_stage(&mut self, staged: bool) -> Result<(), Violation> {
        if self.meetings.phase != Phase::Staging {
            return Ok(());
        }
        self.meetings.phase = Phase::Flushing(MeetingStage::Commit);
        self.meetings.now = self.meetings.now.next();
        self.meetings.now.left_out = !staged;
        self.flushed()
    }

    /// All have staged, or are known not to have.
    pub(super) fn commit(&mut self) {
        self.close_slot();
        self.meetings.kept.clear();
        self.sync.reductions.catch_up();
        self.out.push_back(Output::Committed(!self.meetings.now.left_out));
        let outcome = self.checkpoint.outcome.take().unwrap_or(Outcome::Done);
        self.leave_call(outcome);
    }

    /// This rank comes back: its node is what an image has of it, that was taken between
    /// [`Output::Stage`] and the answer. Nothing is left of peers' copies, nor of copies here. Orders access
    /// to the pages that this rank keeps and has used; when that is carried out, [`Input::Staged`] is due.
    ///
    /// # Panics
    /// If the node was not ordered to stage, or has answered.
    ///
    /// [`Input::Staged`]: super::Input::Staged
    pub fn reborn(&mut self) {
        assert_eq!(self.meetings.phase, Phase::Staging, "an image is taken while a rank stages");
        self.out.clear();
        self.meetings.forget_messages();
        self.sync.intervals = Intervals::default();
        self.sync.operated = Operated::default();
        self.sync.reductions.reborn();
        self.cache = Cache::new(self.cfg.cache, self.cfg.pages, self.cfg.eviction);
        self.learning.reborn(&self.cfg);
        self.forget_copies();
        self.open_again();
    }

    /// Of all pages only their homes are known, and which of those at home here are used.
    fn forget_copies(&mut self) {
        for list in [List::Touched, List::Open, List::Leased] {
            self.table.clear(list);
        }
        let mut writable = 0;
        let used: Vec<u32> = self.heap.iter().flat_map(|a| self.table.used(a.range())).collect();
        for page in used {
            let word = self.table.get(page);
            if !word.is_blank() {
                let page_now = word.page().reborn();
                self.table.put(page, page_now);
                writable += u64::from(matches!(page_now, Page::Home(home) if home.is_free()));
            }
        }
        self.homes.reborn(writable);
    }

    /// Orders that the pages be opened that are writable.
    fn open_again(&mut self) {
        if self.shares_frames() {
            // The reservation is opened by whoever has made it.
            let runs = self.heap.iter().filter(|a| a.id != RESERVED);
            let runs = union(runs.map(|a| Pages { first: a.first, count: a.pages }).collect());
            self.out.extend(runs.into_iter().map(|run| Output::Map(run, Access::Write)));
            return;
        }
        let all = self.heap.iter().flat_map(|a| self.table.used(a.range()));
        let writable: Vec<u32> = all.filter(|&page| self.access(page) == Access::Write).collect();
        runs(&writable, |run| self.out.push_back(Output::Map(run, Access::Write)));
    }

    /// Whether this rank saves a page at a checkpoint. At the end of a barrier that is exactly one rank for
    /// every page that has contents: its home; where ranks share frames, the home that the program is told
    /// of, or one by the page's number.
    pub fn keeps(&self, page: u32) -> bool {
        if !self.shares_frames() {
            return self.is_home(page);
        }
        let by_number = || Rank(page % self.cfg.size);
        self.heap.find(page).is_some() && self.told_home(page).unwrap_or_else(by_number) == self.cfg.rank
    }

    /// Whether this rank sees to it, as ranks come back, that a frame that is still there holds what it held
    /// at the checkpoint: what was saved, or zeros if nothing was. Of ranks that share frames, exactly one
    /// does for each page that could be allocated.
    pub fn refills(&self, page: u32) -> bool {
        let is_nobodys = || self.cfg.rank == Rank(0) && self.heap.find(page).is_none();
        !self.shares_frames() || self.keeps(page) || is_nobodys()
    }

    /// The runs of pages that are allocated, in ascending order.
    pub fn allocations(&self) -> impl Iterator<Item = Pages> {
        self.heap.iter().map(|a| Pages { first: a.first, count: a.pages })
    }

    /// The first rule that the image of a rank would break that is staging.
    pub(super) fn broken_image(&self) -> Option<&'static str> {
        let rules = [
            ("no thread waits for an object while its rank stages", self.awaited().is_none()),
            ("no message of the next epoch comes while ranks stage", !self.has_early()),
            ("no signal is on its way while ranks stage", !self.sync.objects.owes_signals()),
            ("no interval ends while ranks stage", self.sync.intervals.are_at_rest(self.keeps_back())),
            ("no lock that was asked for ahead is unanswered", self.sync.ahead.is_answered()),
            ("no reduction is under way while ranks stage", self.sync.reductions.are_at_rest()),
        ];
        rules.iter().find(|rule| !rule.1).map(|rule| rule.0)
    }
}
