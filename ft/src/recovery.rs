//! What the coordinator decides and does after ranks were lost, as a value.
//!
//! All ranks are dead when this begins: nothing more arrives at a store. The coordinator reads the marks and
//! the base record of each store that it can reach, and makes a [`plan`]: the epoch that all ranks go on
//! from, and the steps until they do. It carries the steps out in their order. If it dies on the way, or a
//! holder does, whoever coordinates next reads the stores anew and makes a plan anew; it comes to the same
//! epoch.
//!
//! **Which stores count.** The newest base record says which incarnation I ran last, and the epoch B that it
//! went on from. A store holds an epoch if
//! - it has a mark of incarnation I for it; or
//! - the epoch is B, and the store's base record says (I, B); or
//! - the epoch is B, the store says so of I-1, by a mark or by its base record, and the coordinator does not
//!   know that I was started: the coordinator before may have died when it had written the base records of I
//!   at some stores only.
//!
//! Marks of other incarnations count for nothing: they stand for other runs of the program. So does a store
//! of a host that was left out and came back. Only a coordinator that began anew, and that reaches nothing
//! but such hosts, cannot know that they are old: it goes on from the past.
//!
//! **The rule.** Let M be the newest epoch that any store of any rank holds. Some rank staged M, so all ranks
//! had run on from M-1, which is committed. M is the answer if *every* rank has a store that holds M, else it
//! is M-1. A rank runs on in M only when each of its stores has the mark, so the rule is never behind a rank.
//! A rank that has no store with the answer is lost, and with it the job.
//!
//! **The steps.** First copies, until each holder has the epoch; then base records of I where they are
//! missing, so that no store ever is two incarnations behind one that counts; then base records of I+1; then
//! the start. A base record of I+1 thus exists only where each holder has the epoch.

#![forbid(unsafe_code)]

use crate::{Base, Epoch, Mark};
use std::fmt;

mod restarts;
#[cfg(test)]
mod tests;

pub use restarts::{NoProgress, Restarts};

/// A store that outlived its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Survivor {
    /// The host, or whatever the coordinator numbers holders by.
    pub host: u32,
    /// The marks of both indices.
    pub marks: [Option<Mark>; 2],
    /// The newest restart that the store knows of.
    pub base: Base,
}

/// The stores of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RankStores {
    /// Stores that can be read. Those that no holder of `holders` has are only copied from.
    pub survivors: Vec<Survivor>,
    /// Where a store is from now on; first where the rank will run. A holder that is not among the survivors
    /// has a new, empty store.
    pub holders: Vec<u32>,
}

/// One thing for the coordinator to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecoveryAction {
    /// Copy an epoch of a rank's store from one holder to another: the slots that its index names, each to
    /// the slot of the same number, and the index. When these have arrived, write the mark.
    Copy {
        /// The rank.
        rank: u32,
        /// The host that holds the epoch.
        from: u32,
        /// The host that does not.
        to: u32,
        /// The mark to be written at last. It names the epoch.
        mark: Mark,
    },
    /// Write a base record, and wait until it has arrived.
    WriteBase {
        /// The rank.
        rank: u32,
        /// The holder.
        host: u32,
        /// The record.
        base: Base,
    },
    /// Start all ranks. Each restores the epoch of its own host's store.
    Start {
        /// Their incarnation, and the epoch to restore.
        base: Base,
    },
}

/// What the coordinator found, and what it does about it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecoveryPlan {
    /// The incarnation to begin, and the epoch that it goes on from.
    pub base: Base,
    /// To be done in this order; the last is the start.
    pub steps: Vec<RecoveryAction>,
}

/// The job cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unrecoverable {
    /// No store of this rank that can be reached holds the epoch to go on from.
    Lost {
        /// The first such rank.
        rank: u32,
        /// The epoch.
        epoch: Epoch,
    },
    /// This rank could not go on from its checkpoint on any host that is left.
    Unfit {
        /// The first such rank.
        rank: u32,
    },
    /// Two stores name different epochs for the restart of one incarnation. No coordinator writes that.
    Contradiction {
        /// What one store says.
        one: Base,
        /// What another says.
        other: Base,
    },
}

impl fmt::Display for Unrecoverable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unrecoverable::Lost { rank, epoch: Epoch(0) } => {
                write!(f, "rank {rank} is lost: no store that is left has a checkpoint of it")
            }
            Unrecoverable::Lost { rank, epoch } => {
                write!(f, "rank {rank} is lost: no store that is left has its checkpoint of epoch {epoch}")
            }
            Unrecoverable::Unfit { rank } => {
                write!(f, "rank {rank} can go on from its checkpoint on no host that is left")
            }
            Unrecoverable::Contradiction { one, other } => write!(
                f,
                "the stores are damaged: incarnation {} began from epoch {} by one, from {} by another",
                one.incarnation, one.epoch, other.epoch
            ),
        }
    }
}

impl std::error::Error for Unrecoverable {}

/// What a coordinator knows of restarts by itself. Without this, it could take the stores of a host that was
/// left out for the newest there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KnownRestart {
    /// It has just begun, and knows what the stores say.
    #[default]
    Nothing,
    /// It has begun to write this base record.
    Begun(Base),
    /// It has started the ranks of this incarnation: all their stores had the base record.
    Started(Base),
}

impl KnownRestart {
    /// The coordinator is about to carry out a step.
    pub fn begin(&mut self, step: &RecoveryAction) {
        match step {
            RecoveryAction::WriteBase { base, .. } if self.base() < Some(*base) => {
                *self = KnownRestart::Begun(*base)
            }
            RecoveryAction::Start { base } => *self = KnownRestart::Started(*base),
            _ => {}
        }
    }

    /// The newest base record that it knows of.
    pub fn base(self) -> Option<Base> {
        match self {
            KnownRestart::Nothing => None,
            KnownRestart::Begun(base) | KnownRestart::Started(base) => Some(base),
        }
    }
}

/// The newest restart.
#[derive(Clone, Copy, Debug)]
struct Newest {
    base: Base,
    /// Whether each store that counts has its base record.
    is_everywhere: bool,
}

/// What to do, from the stores of all ranks and what the coordinator knows by itself.
pub fn plan(ranks: &[RankStores], known: KnownRestart) -> Result<RecoveryPlan, Unrecoverable> {
    let newest = newest(ranks, known)?;
    let (base, epoch) = (newest.base, decide(ranks, newest)?);
    let mark = Mark { incarnation: base.incarnation, epoch };
    let next = Base { incarnation: base.incarnation.next(), epoch };
    let mut steps = Vec::new();
    for (number, rank) in (0..).zip(ranks) {
        steps.extend(copies(number, rank, newest, mark));
    }
    if epoch == base.epoch {
        steps.extend(base_records(ranks, base));
    }
    steps.extend(base_records(ranks, next));
    steps.push(RecoveryAction::Start { base: next });
    Ok(RecoveryPlan { base: next, steps })
}

/// By rank, the hosts whose stores hold an epoch: those among which the coordinator chooses where a rank will
/// run.
pub fn hosts_with(
    ranks: &[RankStores],
    known: KnownRestart,
    epoch: Epoch,
) -> Result<Vec<Vec<u32>>, Unrecoverable> {
    let newest = newest(ranks, known)?;
    let holds = |store: &&Survivor| newest.is_held(store, epoch);
    let hosts = |rank: &RankStores| rank.survivors.iter().filter(holds).map(|store| store.host).collect();
    Ok(ranks.iter().map(hosts).collect())
}

fn newest(ranks: &[RankStores], known: KnownRestart) -> Result<Newest, Unrecoverable> {
    let base = newest_base(ranks, known)?;
    Ok(Newest { base, is_everywhere: known == KnownRestart::Started(base) })
}

fn newest_base(ranks: &[RankStores], known: KnownRestart) -> Result<Base, Unrecoverable> {
    let stores = ranks.iter().flat_map(|rank| &rank.survivors).map(|store| store.base);
    let bases = stores.chain(known.base());
    let newest = bases.clone().max().unwrap_or_default();
    let differs = |base: &Base| base.incarnation == newest.incarnation && *base != newest;
    match bases.clone().find(differs) {
        Some(other) => Err(Unrecoverable::Contradiction { one: newest, other }),
        None => Ok(newest),
    }
}

/// The epoch to go on from.
fn decide(ranks: &[RankStores], newest: Newest) -> Result<Epoch, Unrecoverable> {
    let base = newest.base;
    let stores = ranks.iter().flat_map(|rank| &rank.survivors);
    let marked = stores.filter_map(|store| newest_mark(store, base)).max();
    let staged = marked.map_or(base.epoch, |epoch| epoch.max(base.epoch));
    if first_without(ranks, newest, staged).is_none() {
        return Ok(staged);
    }
    let committed = Epoch(staged.0.saturating_sub(1)).max(base.epoch);
    match first_without(ranks, newest, committed) {
        Some(rank) => Err(Unrecoverable::Lost { rank, epoch: committed }),
        None => Ok(committed),
    }
}

/// The first rank that no store holds an epoch of.
fn first_without(ranks: &[RankStores], newest: Newest, epoch: Epoch) -> Option<u32> {
    let held = |rank: &RankStores| rank.survivors.iter().any(|store| newest.is_held(store, epoch));
    (0..).zip(ranks).find(|(_, rank)| !held(rank)).map(|(number, _)| number)
}

fn newest_mark(store: &Survivor, base: Base) -> Option<Epoch> {
    let own = store.marks.iter().flatten().filter(|mark| mark.incarnation == base.incarnation);
    own.map(|mark| mark.epoch).max()
}

impl Newest {
    /// Whether a store holds an epoch: the rule above.
    fn is_held(self, store: &Survivor, epoch: Epoch) -> bool {
        let Base { incarnation, .. } = self.base;
        let marked = |incarnation| store.marks.contains(&Some(Mark { incarnation, epoch }));
        let says = |incarnation| marked(incarnation) || store.base == Base { incarnation, epoch };
        let before = incarnation.before().filter(|_| !self.is_everywhere);
        marked(incarnation) || epoch == self.base.epoch && (says(incarnation) || before.is_some_and(says))
    }
}

/// Copies that give each holder of a rank the epoch. Nothing is stored of the beginning.
fn copies(number: u32, rank: &RankStores, newest: Newest, mark: Mark) -> Vec<RecoveryAction> {
    let holds = |store: &&Survivor| newest.is_held(store, mark.epoch);
    let source = rank.survivors.iter().find(holds).filter(|_| mark.epoch > Epoch(0));
    let Some(source) = source else { return Vec::new() };
    let has = |host: u32| rank.survivors.iter().filter(holds).any(|store| store.host == host);
    let lacking = rank.holders.iter().filter(|host| !has(**host));
    lacking.map(|to| RecoveryAction::Copy { rank: number, from: source.host, to: *to, mark }).collect()
}

/// Base records for all holders that have another one.
fn base_records(ranks: &[RankStores], base: Base) -> Vec<RecoveryAction> {
    let mut steps = Vec::new();
    for (number, rank) in (0..).zip(ranks) {
        let has = |host: u32| rank.survivors.iter().any(|store| store.host == host && store.base == base);
        let lacking = rank.holders.iter().filter(|host| !has(**host));
        steps.extend(lacking.map(|host| RecoveryAction::WriteBase { rank: number, host: *host, base }));
    }
    steps
}
