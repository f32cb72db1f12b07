//! Which epoch all ranks have: the one from which they go on, and up to which their output is printed.

use scash_ft::Base;
use scash_ft::recovery::{Known, Plan, RankStores, Survivor, Unrecoverable, plan};
use scash_ft::store::Store;

/// The only host.
const HERE: u32 = 0;

/// What to do to start all ranks again that were started from `base`, by what their stores say.
pub(super) fn find(base: Base, stores: &[Store]) -> Result<Plan, Unrecoverable> {
    let of = |store: &Store| RankStores {
        survivors: vec![Survivor { host: HERE, marks: store.marks(), base: store.base() }],
        holders: vec![HERE],
    };
    plan(&stores.iter().map(of).collect::<Vec<_>>(), Known::Started(base))
}
