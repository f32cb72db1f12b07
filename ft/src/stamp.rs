//! Epochs, and the stamp that every message carries.

use crate::ViewNumber;

/// Number of a committed memory barrier. Epoch 0 is the beginning of the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch that the next memory barrier commits.
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

/// In which view, and on the way to which epoch, a message was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// The sender's view.
    pub view: ViewNumber,
    /// The sender's newest committed epoch.
    pub epoch: Epoch,
}

/// What is to be done with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It belongs to this view.
    Take,
    /// It is of a view that is over: its sender may be one that was given up.
    Reject,
    /// It is of a view that this rank does not know yet: to be looked at again when it does.
    Keep,
}

/// The oldest view that a rank still takes messages of. It only ever rises: to *seal* is to promise never to
/// go back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seal {
    from: ViewNumber,
}

impl Seal {
    /// From now on, messages of views before `view` are rejected. Sealing an older view than before changes
    /// nothing.
    pub fn raise(&mut self, view: ViewNumber) {
        self.from = self.from.max(view);
    }

    /// What to do with a message that carries `stamp`, at a rank that is in view `now`.
    pub fn judge(self, now: ViewNumber, stamp: Stamp) -> Verdict {
        match stamp.view {
            view if view < self.from || view < now => Verdict::Reject,
            view if view > now => Verdict::Keep,
            _ => Verdict::Take,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(view: u64) -> Stamp {
        Stamp { view: ViewNumber(view), epoch: Epoch(3) }
    }

    #[test]
    fn a_sealed_view_stays_sealed() {
        let mut seal = Seal::default();
        seal.raise(ViewNumber(5));
        seal.raise(ViewNumber(2));
        assert_eq!(seal.judge(ViewNumber(4), stamp(4)), Verdict::Reject);
        assert_eq!(seal.judge(ViewNumber(5), stamp(5)), Verdict::Take);
    }

    #[test]
    fn a_message_of_a_view_to_come_is_kept() {
        let seal = Seal::default();
        assert_eq!(seal.judge(ViewNumber(1), stamp(2)), Verdict::Keep);
        assert_eq!(seal.judge(ViewNumber(2), stamp(1)), Verdict::Reject);
    }
}
