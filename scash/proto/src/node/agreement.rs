//! Meetings without a message: ranks that share memory agree that nobody has anything to say.
//!
//! Where ranks share frames ([`shared_frames`](super::shared_frames)), a memory barrier has nothing to bring
//! to anybody, and the token of each rank would say that. Each rank has a word there that all see
//! ([`Config::board`](super::Config::board)). A rank that comes to a call **without words** writes its
//! number, and a digest of what it came for, and looks until one of two things is true:
//!
//! - All have come to this call for the same, and without words, or have left it already: the meeting is
//!   over.
//! - One of them came with words, or for something else: then this rank sends its tokens, as if there were no
//!   board.
//!
//! A rank comes **with words** by writing the number without a digest, before its first message.
//!
//! **Why all decide alike.** Nobody changes its word before it has left the call, and with words is with
//! words until then. If one rank comes with words, or for something else than others, no rank sees all come
//! without: whoever looks sees that word sooner or later, because that rank waits for tokens of all, or of
//! some whose tokens wait for those of all others. If all come without words and for the same, none sees
//! anything else, and all leave; one that is slow may find others at the next call, where nobody gets
//! further without it.
//!
//! **Reductions** are not meetings, but a rank that comes to one where others come to a barrier is to learn
//! it by their tokens ([`reduce`](super::reduce)). So who comes to a reduction has words for the call that
//! is next.

use super::collective::purpose;
use super::{Collective, MeetingStage, Node, Output, Phase, Violation};
use crate::wire::Purpose;
use std::hash::{DefaultHasher, Hash, Hasher};

impl Node {
    /// Comes to the first meeting of a call where ranks have words: whether this one has nothing to say, and
    /// waits for the others.
    pub(super) fn comes_without_words(&mut self) -> bool {
        if !self.cfg.board {
            return false;
        }
        let Some(digest) = self.digest() else {
            self.come_with_words();
            return false;
        };
        self.meetings.now.without_words = true;
        self.out.push_back(Output::Come { call: self.meetings.meeting.into(), digest: Some(digest) });
        true
    }

    /// This rank has something to say before the end of the call that it comes to, or before the next one.
    pub(super) fn come_with_words(&mut self) {
        let call = self.meetings.meeting;
        if self.cfg.board && self.meetings.spoken.replace(call) != Some(call) {
            self.out.push_back(Output::Come { call: call.into(), digest: None });
        }
    }

    /// A digest of what this rank came for, if it has nothing else to say.
    fn digest(&self) -> Option<u64> {
        let now = &self.meetings.now;
        let says = self.meetings.spoken == Some(self.meetings.meeting)
            || now.away
            || now.due
            || now.left_out
            || !now.counts.is_empty()
            || !now.notices.is_empty();
        let collective = self.meetings.collective;
        let is_plain =
            matches!(collective, Collective::Barrier | Collective::Publish(_) | Collective::Divide { .. });
        (is_plain && !says).then(|| digest(purpose(collective)))
    }

    /// What others have come for, after this rank came without words.
    pub(super) fn agreed(&mut self, all: bool) -> Result<(), Violation> {
        if !std::mem::take(&mut self.meetings.now.without_words) {
            return Ok(());
        }
        if !all {
            return self.meet_by_tokens();
        }
        let slot = self.slot();
        if slot.items > 0 || slot.tokens.iter().any(Option::is_some) {
            let what = "something came for a meeting in which nobody had anything to say";
            return Err(Violation { rank: self.cfg.rank, what });
        }
        if self.meetings.phase == Phase::Meeting(MeetingStage::Flush) {
            self.met(MeetingStage::Flush);
        }
        Ok(())
    }

    /// Whether [`Input::Agreed`](super::Input::Agreed) is what this rank waits for.
    pub fn waits_for_agreement(&self) -> bool {
        self.meetings.now.without_words && matches!(self.meetings.phase, Phase::Meeting(_))
    }
}

/// The same at all ranks for the same, and hardly ever for something else: a wrong program is told so by
/// tokens unless two of its purposes happen to agree in some 47 bits.
fn digest(purpose: Purpose) -> u64 {
    if purpose == Purpose([0; 4]) {
        // The plain memory barrier.
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    purpose.0.hash(&mut hasher);
    hasher.finish()
}
