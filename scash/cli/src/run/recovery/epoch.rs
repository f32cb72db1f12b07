//! Which epoch all ranks have: the one from which they go on, and up to which their output is printed.

use crate::run::output::Lengths;
use scash_ft::recovery::{
    KnownRestart, RankStores, RecoveryAction, RecoveryPlan, Survivor, Unrecoverable, plan,
};
use scash_ft::store::Store;
use scash_ft::{Base, Epoch, Mark};
use std::collections::BTreeMap;
use std::io;

/// The only host.
const HERE: u32 = 0;

/// What the store of a rank says, whose process has ended: all that it takes to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) struct StoreState {
    pub(in crate::run) rank: u32,
    /// The newest restart that it knows of.
    pub(in crate::run) base: Base,
    /// What it has, at most two epochs.
    pub(in crate::run) marks: [Option<MarkedEpoch>; 2],
}

/// An epoch that a store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) struct MarkedEpoch {
    pub(in crate::run) mark: Mark,
    /// The memory barrier at which it was taken.
    pub(in crate::run) barrier: u64,
    /// How much the rank had printed then.
    pub(in crate::run) output: Lengths,
    /// From where on the store has that.
    pub(in crate::run) kept: Lengths,
}

/// What a rank is taken back to, as the record in its store and the length of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) struct Rewound {
    pub(in crate::run) rank: u32,
    pub(in crate::run) base: Base,
    pub(in crate::run) output: Lengths,
    /// From where on that is to be printed, and what comes behind it, by a rank that comes: more may be out.
    pub(in crate::run) shown: Lengths,
    pub(in crate::run) place: RewoundPlace,
}

/// What the store is, and whoever writes the record, to the rank that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum RewoundPlace {
    /// It goes on where it was.
    Stays,
    /// It comes from a host that was lost.
    Comes,
    /// It goes on elsewhere: this is a copy.
    Elsewhere,
}

impl StoreState {
    pub(super) fn of(store: &Store) -> StoreState {
        let marked = |mark: Mark| {
            let (barrier, output) = (store.barrier(mark.epoch)?, store.outputs(mark.epoch)?);
            Some(MarkedEpoch { mark, barrier, output, kept: output })
        };
        let marks = store.marks().map(|mark| mark.and_then(marked));
        StoreState { rank: store.rank(), base: store.base(), marks }
    }

    /// Says, too, from where on the store has what the rank had printed.
    pub(super) fn with_output(mut self, store: &Store) -> StoreState {
        for marked in self.marks.iter_mut().flatten() {
            // If it cannot be read, it has nothing.
            marked.kept = store.printed_from(marked.mark.epoch).unwrap_or(marked.output);
        }
        self
    }

    /// As plans have it, for a store on that host.
    pub(in crate::run) fn survivor(&self, host: u32) -> Survivor {
        let marks = self.marks.map(|marked| marked.map(|marked| marked.mark));
        Survivor { host, marks, base: self.base }
    }

    pub(in crate::run) fn at(&self, epoch: Epoch) -> Option<&MarkedEpoch> {
        self.marks.iter().flatten().find(|marked| marked.mark.epoch == epoch)
    }
}

/// What to do to start all ranks again that were started from `base`, by what their stores say, which are
/// here.
pub(super) fn find(base: Base, states: &[StoreState]) -> Result<RecoveryPlan, Unrecoverable> {
    plan(&read(states), KnownRestart::Started(base))
}

fn read(states: &[StoreState]) -> Vec<RankStores> {
    let of = |state: &StoreState| RankStores { survivors: vec![state.survivor(HERE)], holders: vec![HERE] };
    states.iter().map(of).collect()
}

/// The memory barrier at which an epoch was taken; 0: the job's beginning.
pub(in crate::run) fn barrier(states: &[StoreState], epoch: Epoch) -> u64 {
    states.iter().find_map(|state| state.at(epoch)).map_or(0, |marked| marked.barrier)
}

/// What is to be done before a plan's start, by host, in rounds: each must be done when the next one begins.
///
/// # Errors
/// A store does not say how much its rank had printed.
pub(in crate::run) fn rounds(
    plan: &RecoveryPlan,
    states: &[StoreState],
) -> Result<Vec<Vec<(u32, Rewound)>>, String> {
    let epoch = plan.base.epoch;
    let printed = |state: &StoreState| match epoch {
        Epoch(0) => Some((state.rank, [[0; 2]; 2])),
        _ => state.at(epoch).map(|marked| (state.rank, [marked.output, marked.kept])),
    };
    let printed: BTreeMap<u32, [Lengths; 2]> = states.iter().filter_map(printed).collect();
    let mut rounds: Vec<Vec<(u32, Rewound)>> = Vec::new();
    for step in &plan.steps {
        let RecoveryAction::WriteBase { rank, host, base } = *step else { continue };
        let output = printed.get(&rank).copied();
        let [output, kept] =
            output.ok_or_else(|| format!("what ranks had printed at epoch {epoch} is not known"))?;
        let rewound = (host, Rewound { rank, base, output, shown: kept, place: RewoundPlace::Stays });
        match rounds.last_mut() {
            Some(round) if round[0].1.base == base => round.push(rewound),
            _ => rounds.push(vec![rewound]),
        }
    }
    Ok(rounds)
}

/// Does what a plan says but for the start.
pub(super) fn carry_out(plan: &RecoveryPlan, stores: &[Store]) -> io::Result<()> {
    for step in &plan.steps {
        if let RecoveryAction::WriteBase { rank, base, .. } = step {
            let store = &stores[*rank as usize];
            store.set_base(*base);
            store.sync()?;
        }
    }
    Ok(())
}

/// What a launcher goes on from that has begun anew.
#[derive(Debug)]
pub(super) struct ResumePoint {
    pub(super) plan: RecoveryPlan,
    /// Why it is not the newest epoch, for people.
    pub(super) instead: Option<String>,
}

/// The newest epoch that all stores have and that a disk has not damaged, of two at most.
///
/// # Errors
/// There is none: what is wrong.
pub(super) fn resume(stores: &[Store]) -> Result<ResumePoint, String> {
    let states: Vec<StoreState> = stores.iter().map(StoreState::of).collect();
    let plan = match (plan(&read(&states), KnownRestart::Nothing), unfinished(&states)) {
        (Ok(plan), _) => plan,
        (Err(Unrecoverable::Lost { .. }), Some(base)) if verify(stores, base.epoch).is_ok() => {
            return Ok(ResumePoint { plan: finished(base, &states), instead: None });
        }
        (Err(why), _) => return Err(why.to_string()),
    };
    let newest = plan.base.epoch;
    let Err(why) = verify(stores, newest) else { return Ok(ResumePoint { plan, instead: None }) };
    // A job that has begun anew from the beginning would lose what the user knows to be there.
    let before = Epoch(newest.0 - 1);
    if before == Epoch(0) || verify(stores, before).is_err() {
        return Err(format!("{why}; and there is no other epoch to go on from"));
    }
    Ok(ResumePoint { plan: earlier(plan, before), instead: Some(why) })
}

/// The restart whose base record some stores have, and all others that of the incarnation before: a
/// launcher was killed as it wrote them. No rank has run since it had begun, and it took the epoch before a
/// damaged one if by their marks, which may be of any incarnation, the stores do not hold it.
fn unfinished(states: &[StoreState]) -> Option<Base> {
    let newest = states.iter().map(|state| state.base).max()?;
    let before = newest.incarnation.before()?;
    let mut lack = states.iter().filter(|state| state.base != newest).peekable();
    let is_unfinished = lack.peek().is_some() && lack.all(|state| state.base.incarnation == before);
    (is_unfinished && newest.epoch > Epoch(0)).then_some(newest)
}

/// What is left to do of that restart.
fn finished(base: Base, states: &[StoreState]) -> RecoveryPlan {
    let lacking = states.iter().filter(|state| state.base != base);
    let write = lacking.map(|state| RecoveryAction::WriteBase { rank: state.rank, host: HERE, base });
    RecoveryPlan { base, steps: write.chain([RecoveryAction::Start { base }]).collect() }
}

/// The same plan, from an earlier epoch that all stores have.
fn earlier(plan: RecoveryPlan, epoch: Epoch) -> RecoveryPlan {
    let next = Base { epoch, ..plan.base };
    let step = |step| match step {
        RecoveryAction::WriteBase { base, rank, host } if base == plan.base => {
            RecoveryAction::WriteBase { base: next, rank, host }
        }
        RecoveryAction::Start { .. } => RecoveryAction::Start { base: next },
        first => first,
    };
    RecoveryPlan { base: next, steps: plan.steps.into_iter().map(step).collect() }
}

/// Checks what all stores have of an epoch. Of the beginning they have nothing.
pub(super) fn verify(stores: &[Store], epoch: Epoch) -> Result<(), String> {
    let stores = stores.iter().filter(|_| epoch > Epoch(0));
    for store in stores {
        store.verify(epoch).map_err(|error| format!("the store of rank {}: {error}", store.rank()))?;
    }
    Ok(())
}
