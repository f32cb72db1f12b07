//! A rank's part in checkpoints: drives the real `Commit` and `Slots`, a step at a time.
//!
//! What it writes to a holder is under way until a later step lands it, in any order. A fence is answered
//! when nothing is under way to its holder.

use super::store::{Content, Index, Key, Saved, Write};
use crate::deaths::Mistake;
use crate::rng::Rng;
use scash_ft::commit::{Commit, Input, Output};
use scash_ft::slots::{Slots, words};
use scash_ft::{Base, Epoch, Mark};
use std::rc::Rc;

/// A rank of one incarnation, as it takes checkpoints.
pub(in crate::world) struct Saver {
    commit: Commit,
    used: [Vec<u64>; 2],
    count: u32,
    /// The pages of the committed epoch.
    committed: Saved,
    staged: Saved,
    /// What is written of the staged epoch.
    changed: Vec<(u32, Content)>,
    /// Writes under way, each to a holder.
    pending: Vec<(u8, Write)>,
    /// What a holder has not answered.
    asked: Vec<Output>,
    mistake: Option<Mistake>,
    /// It has staged, and does not wait for others to, which is a mistake.
    leaves: bool,
    /// By holder, whether this rank does not wait for it, which is a mistake.
    pub(super) left_out: Vec<bool>,
}

/// What a step of a rank that takes a checkpoint came to.
pub(super) enum Turn {
    /// It waits for a holder that is gone.
    Waits,
    Went,
    /// It begins to write to a holder: its memory is to be copied, if it was not yet.
    Writes(u8),
    /// This arrives at a holder.
    Lands(u8, Write),
    /// This was decided.
    Says(Output),
}

impl Saver {
    /// A rank that goes on from a checkpoint, of which its own store has this.
    pub(super) fn new(
        base: Base,
        holders: u32,
        slots: u32,
        restored: Saved,
        mistake: Option<Mistake>,
    ) -> Result<Self, String> {
        let commit = u8::try_from(holders).ok().and_then(|n| Commit::new(base.incarnation, base.epoch, n));
        let mut this = Saver {
            commit: commit.expect("a store has few holders"),
            used: [vec![0; words(slots)], vec![0; words(slots)]],
            count: slots,
            committed: restored,
            staged: Saved::new(),
            changed: Vec::new(),
            pending: Vec::new(),
            asked: Vec::new(),
            mistake,
            leaves: false,
            left_out: Vec::new(),
        };
        let loaded: Vec<u32> = this.committed.iter().map(|(_, slot, _)| *slot).collect();
        this.slots().load(loaded).map_err(|wrong| wrong.to_string())?;
        Ok(this)
    }

    fn slots(&mut self) -> Slots<'_> {
        let [committed, staged] = &mut self.used;
        Slots::over(committed, staged, self.count, words(self.count)).expect("the maps are as long as that")
    }

    fn commit_slots(&mut self) {
        self.slots().commit();
        self.used.swap(0, 1);
    }

    pub(super) fn mark(&self) -> Mark {
        self.commit.mark()
    }

    /// The barrier has ended but for `Done`.
    pub(super) fn begin(&mut self, can: bool) -> Result<(), String> {
        (self.staged, self.changed) = (Saved::new(), Vec::new());
        self.tell(if can { Input::Stage } else { Input::CannotStage })
    }

    pub(super) fn tell(&mut self, input: Input) -> Result<(), String> {
        self.leaves = false;
        self.commit.take(input).map_err(|unexpected| unexpected.to_string())
    }

    /// Gives a page its slot in the staged epoch. `false` if there is none.
    pub(super) fn save(&mut self, key: Key, content: Content) -> bool {
        if self.mistake == Some(Mistake::EarlyReuse) && self.staged.is_empty() {
            self.slots().commit();
            self.used.swap(0, 1);
        }
        let at = self.committed.binary_search_by_key(&key, |&(key, ..)| key).ok();
        let before = at.map(|at| (self.committed[at].1, self.committed[at].2 == content));
        let slot = match before {
            Some((slot, is_same)) if is_same || self.mistake == Some(Mistake::InPlace) => {
                let kept = self.slots().keep(slot);
                assert!(kept.is_ok() || self.mistake.is_some(), "a kept slot is a committed one");
                if !is_same {
                    self.changed.push((slot, content.clone()));
                }
                slot
            }
            _ => {
                let Some(slot) = self.slots().take() else { return false };
                self.changed.push((slot, content.clone()));
                slot
            }
        };
        self.staged.push((key, slot, content));
        true
    }

    /// All that changed is on its way to a holder; or there was no room.
    pub(super) fn saved(&mut self, holder: u8, has_room: bool) -> Result<(), String> {
        if !has_room {
            return self.tell(Input::NoRoom(holder));
        }
        let index: Index = self.staged.iter().map(|&(key, slot, _)| (key, slot)).collect();
        let index = Write::Index(self.mark().epoch, Rc::new(index));
        let slots = self.changed.iter().map(|(slot, content)| Write::Slot(*slot, content.clone()));
        self.pending.extend(slots.chain([index]).map(|write| (holder, write)));
        self.tell(Input::Copied(holder))
    }

    /// The next step. `is_there`: whether a holder has not died.
    pub(super) fn turn(&mut self, rng: &mut Rng, is_there: impl Fn(u8) -> bool) -> Result<Turn, String> {
        if rng.chance(50)
            && let Some(turn) = self.land(rng, &is_there)
        {
            return Ok(turn);
        }
        if let Some(output) = self.commit.poll() {
            return Ok(self.carry_out(output));
        }
        let answered = (0..self.asked.len()).find(|&at| self.is_answered(self.asked[at], &is_there));
        if let Some(at) = answered {
            let input = match self.asked.swap_remove(at) {
                Output::Fence { holder } => Input::Fenced(holder),
                Output::Mark { holder, .. } => Input::Marked(holder),
                Output::Clear { holder, .. } => Input::Cleared(holder),
                other => return Err(format!("nobody answers {other:?}")),
            };
            self.tell(input)?;
            return Ok(Turn::Went);
        }
        Ok(self.land(rng, &is_there).unwrap_or(Turn::Waits))
    }

    /// Whether [`turn`](Self::turn) would do something.
    pub(super) fn is_able(&self, is_there: impl Fn(u8) -> bool) -> bool {
        let mut commit = self.commit.clone();
        commit.poll().is_some()
            || self.pending.iter().any(|(holder, _)| is_there(*holder))
            || self.asked.iter().any(|&asked| self.is_answered(asked, &is_there))
    }

    fn land(&mut self, rng: &mut Rng, is_there: &impl Fn(u8) -> bool) -> Option<Turn> {
        let n = u32::try_from(self.pending.len()).ok().filter(|&n| n > 0)?;
        let from = rng.below(n) as usize;
        let mut places = (from..self.pending.len()).chain(0..from);
        let at = places.find(|&at| is_there(self.pending[at].0))?;
        let (holder, write) = self.pending.swap_remove(at);
        Some(Turn::Lands(holder, write))
    }

    fn is_answered(&self, asked: Output, is_there: &impl Fn(u8) -> bool) -> bool {
        let (holder, is_careless) = match asked {
            Output::Fence { holder } => (holder, self.mistake == Some(Mistake::NoFenceBeforeTheMark)),
            Output::Mark { holder, .. } => (holder, self.mistake == Some(Mistake::MeetingBeforeTheMarks)),
            Output::Clear { holder, .. } => (holder, false),
            _ => return false,
        };
        let is_left_out = self.left_out.get(usize::from(holder)) == Some(&true);
        is_left_out || is_there(holder) && (is_careless || self.pending.iter().all(|(to, _)| *to != holder))
    }

    /// Whether the tokens that this rank sends now count as those that it waits for.
    pub(in crate::world) fn leaves(&self) -> bool {
        self.leaves
    }

    fn carry_out(&mut self, output: Output) -> Turn {
        self.leaves = output == Output::Staged && self.mistake == Some(Mistake::LeavingEarly);
        match output {
            Output::Write { holder } => return Turn::Writes(holder),
            Output::Fence { .. } => self.asked.push(output),
            Output::Mark { holder, mark } => {
                self.pending.push((holder, Write::Mark(mark.epoch, Some(mark))));
                self.asked.push(output);
            }
            Output::Clear { holder, mark } => {
                if self.mistake != Some(Mistake::MarksStay) {
                    self.pending.push((holder, Write::Mark(mark.epoch, None)));
                }
                self.asked.push(output);
            }
            Output::Free { .. } => {
                self.commit_slots();
                self.committed = std::mem::take(&mut self.staged);
            }
            Output::Discard { .. } => self.slots().abandon(),
            Output::Staged | Output::NotStaged | Output::Done | Output::Park => return Turn::Says(output),
        }
        Turn::Went
    }

    /// This rank dies, or a holder does: what was under way there.
    pub(super) fn under_way(&mut self, to: u8) -> Vec<Write> {
        let all = std::mem::take(&mut self.pending).into_iter();
        let (gone, left): (Vec<_>, Vec<_>) = all.partition(|(holder, _)| *holder == to);
        self.pending = left;
        gone.into_iter().map(|(_, write)| write).collect()
    }

    /// The newest epoch that this rank knows to be committed.
    pub(super) fn committed(&self) -> Epoch {
        self.commit.committed()
    }
}
