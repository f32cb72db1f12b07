//! A rank that drives the real `Commit` and `Slots`.
//!
//! It takes as few steps as can be told apart after its death. Between two of them, writes are on their way;
//! which of those have arrived is decided when the rank dies. So a rank that wrote to no holder yet, to one,
//! or to all, is one rank that has written to all, and whose writes may or may not arrive.

use crate::Mutant;
use crate::store::{Content, Index, Memory, PAGES, SLOTS, Write};
use scash_ft::commit::{Commit, Input, Output};
use scash_ft::slots::Slots;
use scash_ft::{Base, Epoch};

/// Where a rank is in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum At {
    /// Its barrier has ended but for `Done`.
    Ready,
    /// It has asked its holders for something.
    Busy,
    Staged,
    LeftOut,
    /// It has run on, and waits in the next barrier.
    Waiting,
}

/// How a checkpoint begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Begin {
    Stage,
    CannotStage,
    NoRoom(u8),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rank {
    commit: Commit,
    committed_slots: [u64; 1],
    staged_slots: [u64; 1],
    /// Of the committed epoch: the slot of each page, and what is in it.
    committed: Option<(Index, Memory)>,
    staged: Index,
    pub(crate) memory: Memory,
    pub(crate) at: At,
    asked: Vec<Output>,
    /// Writes that were not fenced, each to a holder.
    pub(crate) pending: Vec<(u8, Write)>,
}

/// What a page holds before anything is written.
pub(crate) fn beginning(rank: u8) -> Memory {
    [0, 1].map(|page| Content { rank, page, incarnation: 0, interval: 0 })
}

impl Rank {
    /// A rank that goes on from a checkpoint, of which its own store has this.
    pub(crate) fn new(rank: u8, base: Base, holders: u8, restored: Option<(Index, Memory)>) -> Rank {
        let mut used = ([0], [0]);
        let mut slots = Slots::over(&mut used.0, &mut used.1, SLOTS, scash_ft::slots::words(SLOTS)).unwrap();
        slots.load(restored.iter().flat_map(|(index, _)| *index)).unwrap();
        Rank {
            commit: Commit::new(base.incarnation, base.epoch, holders).unwrap(),
            committed_slots: used.0,
            staged_slots: used.1,
            committed: restored,
            staged: [0; PAGES],
            memory: restored.map_or(beginning(rank), |(_, memory)| memory),
            at: At::Waiting,
            asked: Vec::new(),
            pending: Vec::new(),
        }
    }

    pub(crate) fn committed(&self) -> Epoch {
        self.commit.committed()
    }

    /// The application runs until the next barrier.
    pub(crate) fn run(&mut self, incarnation: u64, interval: u8) {
        let pages = if interval.is_multiple_of(2) { 1 } else { PAGES };
        for content in &mut self.memory[..pages] {
            (content.incarnation, content.interval) = (incarnation, interval);
        }
        self.at = At::Ready;
    }

    /// The barrier has ended but for `Done`.
    pub(crate) fn begin(&mut self, begin: Begin, mutant: Option<Mutant>) {
        self.at = At::Busy;
        if begin == Begin::CannotStage {
            return self.take(Input::CannotStage, begin, mutant);
        }
        self.choose_slots(mutant);
        self.take(Input::Stage, begin, mutant);
    }

    /// The holders answer.
    pub(crate) fn advance(&mut self, mutant: Option<Mutant>, mut land: impl FnMut(u8, Write)) {
        for output in std::mem::take(&mut self.asked) {
            let (holder, input, arrived) = match output {
                Output::Fence { holder } => {
                    (holder, Input::Fenced(holder), mutant != Some(Mutant::NoFenceBeforeTheMark))
                }
                Output::Mark { holder, .. } => {
                    (holder, Input::Marked(holder), mutant != Some(Mutant::MeetingBeforeTheMarks))
                }
                Output::Clear { holder, .. } => (holder, Input::Cleared(holder), true),
                other => panic!("nothing answers {other:?}"),
            };
            if arrived {
                self.pending
                    .iter()
                    .filter(|(to, _)| *to == holder)
                    .for_each(|(_, write)| land(holder, *write));
                self.pending.retain(|(to, _)| *to != holder);
            }
            self.take(input, Begin::Stage, mutant);
        }
    }

    /// The last meeting is over.
    pub(crate) fn met(&mut self, committed: bool, mutant: Option<Mutant>) {
        self.at = At::Busy;
        self.take(Input::Met { committed }, Begin::Stage, mutant);
    }

    /// The maps change places, as those of a store do by the parity of its epoch.
    fn commit_slots(&mut self) {
        self.slots().commit();
        std::mem::swap(&mut self.committed_slots, &mut self.staged_slots);
    }

    fn slots(&mut self) -> Slots<'_> {
        Slots::over(&mut self.committed_slots, &mut self.staged_slots, SLOTS, scash_ft::slots::words(SLOTS))
            .unwrap()
    }

    fn changed(&self, page: usize) -> bool {
        self.committed.is_none_or(|(_, memory)| memory[page] != self.memory[page])
    }

    fn choose_slots(&mut self, mutant: Option<Mutant>) {
        if mutant == Some(Mutant::EarlyReuse) {
            self.commit_slots();
        }
        let in_place = mutant == Some(Mutant::InPlace);
        for page in 0..PAGES {
            let before = self.committed.map(|(index, _)| index[page]);
            self.staged[page] = match before {
                Some(slot) if in_place || !self.changed(page) => {
                    let kept = self.slots().keep(slot);
                    assert!(
                        kept.is_ok() || mutant == Some(Mutant::EarlyReuse),
                        "a kept slot is not committed"
                    );
                    slot
                }
                _ => self.slots().take().unwrap(),
            };
        }
    }

    /// Gives the commit an input, and does what it asks for.
    fn take(&mut self, input: Input, begin: Begin, mutant: Option<Mutant>) {
        self.commit.take(input).unwrap();
        while let Some(output) = self.commit.poll() {
            match output {
                Output::Write { holder } if begin == Begin::NoRoom(holder) => {
                    self.commit.take(Input::NoRoom(holder)).unwrap();
                }
                Output::Write { holder } => {
                    self.write(holder);
                    self.commit.take(Input::Copied(holder)).unwrap();
                }
                Output::Fence { .. } => self.asked.push(output),
                Output::Mark { holder, mark } => {
                    self.pending.push((holder, Write::Mark(mark.epoch, Some(mark))));
                    self.asked.push(output);
                }
                Output::Clear { holder, mark } => {
                    if mutant != Some(Mutant::MarksStay) {
                        self.pending.push((holder, Write::Mark(mark.epoch, None)));
                    }
                    self.asked.push(output);
                }
                Output::Staged if mutant == Some(Mutant::LeavingEarly) => {
                    self.commit.take(Input::Met { committed: true }).unwrap();
                }
                Output::Staged => self.at = At::Staged,
                Output::NotStaged => self.at = At::LeftOut,
                Output::Free { .. } => {
                    self.commit_slots();
                    self.committed = Some((self.staged, self.memory));
                }
                Output::Discard { .. } => self.slots().abandon(),
                Output::Done => self.at = At::Waiting,
                Output::Park => panic!("no holder fails but with its host, and then all ranks are killed"),
            }
        }
    }

    fn write(&mut self, holder: u8) {
        let changed = (0..PAGES).filter(|page| self.changed(*page));
        let slots: Vec<_> = changed.map(|page| Write::Slot(self.staged[page], self.memory[page])).collect();
        self.pending.extend(slots.into_iter().map(|write| (holder, write)));
        self.pending.push((holder, Write::Index(self.commit.mark().epoch, self.staged)));
    }
}
