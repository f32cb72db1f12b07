//! Which epoch all ranks have: the one from which they go on, and up to which their output is printed.

use scash_ft::recovery::{Known, Plan, RankStores, Step, Survivor, Unrecoverable, plan};
use scash_ft::store::Store;
use scash_ft::{Base, Epoch};
use std::io;

/// The only host.
const HERE: u32 = 0;

/// What to do to start all ranks again that were started from `base`, by what their stores say.
pub(super) fn find(base: Base, stores: &[Store]) -> Result<Plan, Unrecoverable> {
    plan(&read(stores), Known::Started(base))
}

fn read(stores: &[Store]) -> Vec<RankStores> {
    let of = |store: &Store| RankStores {
        survivors: vec![Survivor { host: HERE, marks: store.marks(), base: store.base() }],
        holders: vec![HERE],
    };
    stores.iter().map(of).collect()
}

/// Does what a plan says but for the start.
pub(super) fn carry_out(plan: &Plan, stores: &[Store]) -> io::Result<()> {
    for step in &plan.steps {
        if let Step::WriteBase { rank, base, .. } = step {
            let store = &stores[*rank as usize];
            store.set_base(*base);
            store.sync()?;
        }
    }
    Ok(())
}

/// What a launcher goes on from that has begun anew.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) plan: Plan,
    /// Why it is not the newest epoch, for people.
    pub(super) instead: Option<String>,
}

/// The newest epoch that all stores have and that a disk has not damaged, of two at most.
///
/// # Errors
/// There is none: what is wrong.
pub(super) fn resume(stores: &[Store]) -> Result<Found, String> {
    let plan = plan(&read(stores), Known::Nothing).map_err(|why| why.to_string())?;
    let newest = plan.base.epoch;
    let Err(why) = verify(stores, newest) else { return Ok(Found { plan, instead: None }) };
    // A job that has begun anew from the beginning would lose what the user knows to be there.
    let before = Epoch(newest.0 - 1);
    if before == Epoch(0) || verify(stores, before).is_err() {
        return Err(format!("{why}; and there is no other epoch to go on from"));
    }
    let base = Base { epoch: before, ..plan.base };
    let write = |rank| Step::WriteBase { rank, host: HERE, base };
    let steps = (0..).take(stores.len()).map(write).chain([Step::Start { base }]).collect();
    Ok(Found { plan: Plan { base, steps }, instead: Some(why) })
}

/// Checks what all stores have of an epoch. Of the beginning they have nothing.
fn verify(stores: &[Store], epoch: Epoch) -> Result<(), String> {
    let stores = stores.iter().filter(|_| epoch > Epoch(0));
    for store in stores {
        store.verify(epoch).map_err(|error| format!("the store of rank {}: {error}", store.rank()))?;
    }
    Ok(())
}
