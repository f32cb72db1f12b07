//! Where ranks run and who holds copies of their stores, as a value: as the job begins, and after hosts were
//! lost.
//!
//! A rank's store is on its own host, and a copy of it on each of the next hosts in a ring, as many as the
//! user asks for (`--replicas`). A host that is lost takes its ranks' stores along, and they come back where
//! a copy is.

use crate::run::recovery::{HeldStores, StoreState};
use scash_ft::recovery::{KnownRestart, RankStores, RecoveryPlan, Survivor, Unrecoverable, hosts_with, plan};
use scash_ft::{Base, Epoch, Mark};
use scash_join::boot::Layout;
use std::collections::{BTreeMap, BTreeSet};

/// What each store says that a host has: by host and rank.
pub(super) type States = BTreeMap<(u32, u32), StoreState>;

/// Ranks that are to run elsewhere, and there.
pub(super) type Relocations = BTreeMap<u32, u32>;

/// Where ranks are to run, and where not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wishes<'a> {
    /// Those go there, wherever their stores are.
    pub(super) wanted: &'a Relocations,
    /// Where ranks were when all ran the last time, of those that have moved since: if they cannot go on
    /// where they are, they go back there.
    pub(super) came_from: &'a Relocations,
    /// Ranks that cannot go on at these hosts, which are there: by rank and host.
    pub(super) refused: &'a BTreeSet<(u32, u32)>,
}

impl Wishes<'_> {
    /// None.
    pub(super) const NONE: Wishes<'static> =
        Wishes { wanted: &BTreeMap::new(), came_from: &BTreeMap::new(), refused: &BTreeSet::new() };

    /// Whether a rank that runs on `home` may go on at a host that is there. Where another rank could not,
    /// only those stay that have been there before.
    fn allow(&self, rank: u32, home: u32, host: u32) -> bool {
        let was_there = host == home && !self.came_from.contains_key(&rank);
        let is_open = was_there || !self.refused.iter().any(|(_, of)| *of == host);
        is_open && !self.refused.contains(&(rank, host))
    }
}

/// How many copies there are of each store, and which hosts should not both hold it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CopyRule {
    /// Copies besides the store itself, each on another host.
    pub(super) count: u32,
    /// By host: its rack, whose hosts may all be lost at once; empty if the user has named none.
    pub(super) racks: Vec<u32>,
}

impl CopyRule {
    /// So many copies, wherever.
    #[cfg(test)]
    pub(super) fn of(count: u32) -> CopyRule {
        CopyRule { count, racks: Vec::new() }
    }

    fn rack(&self, host: u32) -> Option<u32> {
        self.racks.get(host as usize).copied()
    }
}

/// The hosts that hold copies of the stores of a host's ranks: the next ones that have ranks, and first those
/// of racks that have no copy yet.
pub(super) fn holders(layout: &Layout, rule: &CopyRule, host: u32) -> impl Iterator<Item = u32> + use<> {
    let hosts = layout.hosts();
    let others = (1..hosts).map(move |distance| (host + distance) % hosts);
    let mut others: Vec<u32> = others.filter(|other| layout.first_of(*other).is_some()).collect();
    let mut all = vec![host];
    while all.len() <= rule.count as usize && !others.is_empty() {
        let has_rack = |other: u32| all.iter().any(|one| rule.rack(*one) == rule.rack(other));
        let next = others.iter().position(|other| rule.racks.is_empty() || !has_rack(*other)).unwrap_or(0);
        all.push(others.remove(next));
    }
    all.into_iter().skip(1)
}

/// The copies that ranks of a host hold, which take turns.
pub(super) fn holdings(layout: &Layout, rule: &CopyRule, host: u32) -> Vec<HeldStores> {
    let here: Vec<u32> = layout.ranks_of(host).collect();
    let holds = |owner: &u32| holders(layout, rule, layout.host_of(*owner)).any(|holder| holder == host);
    let owners = (0..layout.size()).filter(holds);
    owners.zip(here.iter().cycle()).map(|(owner, holder)| HeldStores { owner, holder: *holder }).collect()
}

/// How the job goes on.
#[derive(Debug)]
pub(super) struct Continuation {
    pub(super) plan: RecoveryPlan,
    /// Where ranks run then.
    pub(super) layout: Layout,
    /// What the store says that each rank comes back from.
    pub(super) states: Vec<StoreState>,
}

/// What is known when all ranks have ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownStores<'a> {
    /// What the stores say of all hosts that are not lost.
    pub(super) states: &'a States,
    pub(super) lost: &'a BTreeSet<u32>,
    /// Hosts that were lost and are there again, with nothing of what they had. What has been copied to them
    /// since counts.
    pub(super) returned: &'a BTreeSet<u32>,
    /// Of restarts.
    pub(super) known: KnownRestart,
    /// Whether ranks may have been started from that, by another launcher, though it is not known.
    pub(super) may_have_run: bool,
    /// An epoch that all ranks are known to have had.
    pub(super) committed: Epoch,
    /// Whether stores count that know of a later restart ([`course`]).
    pub(super) with_later: bool,
}

impl KnownStores<'_> {
    /// Whether a host has the store of a rank, or may have: one that has come back has what was copied to it.
    fn has(&self, host: u32, rank: u32) -> bool {
        let state = self.states.get(&(host, rank));
        let is_new = |state: &StoreState| state.base == Base::default() && state.marks == [None; 2];
        let was_copied = || state.is_some_and(|state| !is_new(state));
        !self.lost.contains(&host) && (!self.returned.contains(&host) || was_copied())
    }

    /// Of those where a rank and its copies are made, the hosts that have its store.
    fn regular_hosts(&self, layout: &Layout, rule: &CopyRule, rank: u32) -> Vec<u32> {
        let host = layout.host_of(rank);
        let all = std::iter::once(host).chain(holders(layout, rule, host));
        all.filter(|host| self.has(*host, rank)).collect()
    }

    /// The hosts that had a rank, or a copy, when ranks were started the last time: they have what all were
    /// started from, and may get no more. What others have is of former incarnations, and says nothing.
    fn current_hosts(&self, layout: &Layout, rank: u32) -> impl Iterator<Item = u32> {
        let start = self.known.base().filter(|base| base.epoch > Epoch(0));
        let is_later =
            |base: Base| self.known.base().is_some_and(|known| base.incarnation > known.incarnation);
        let is_current = move |host: u32| {
            let state = self.states.get(&(host, rank));
            state.is_some_and(|state| Some(state.base) == start || (self.with_later && is_later(state.base)))
        };
        (0..layout.hosts()).filter(move |host| self.has(*host, rank) && is_current(*host))
    }
}

/// How ranks go on that ran as `layout` says.
///
/// Stores that know of a later restart than `found` does are of one that has come to nothing with its
/// launcher; or, if parts of a cluster have each gone on with the job, of another course of it. They count if
/// ranks cannot go on without.
///
/// # Errors
/// A rank has no store any more that it could come back from.
pub(super) fn course(
    found: KnownStores<'_>,
    layout: &Layout,
    rule: &CopyRule,
    wishes: Wishes<'_>,
) -> Result<Continuation, Unrecoverable> {
    match course_by(found, layout, rule, wishes) {
        Err(why @ Unrecoverable::Lost { .. }) => {
            let with_later = KnownStores { with_later: true, ..found };
            course_by(with_later, layout, rule, wishes).map_err(|_| why)
        }
        first => first,
    }
}

fn course_by(
    found: KnownStores<'_>,
    layout: &Layout,
    rule: &CopyRule,
    wishes: Wishes<'_>,
) -> Result<Continuation, Unrecoverable> {
    let KnownStores { states, lost, known, may_have_run, committed, .. } = found;
    let regular = |rank: u32| found.regular_hosts(layout, rule, rank);
    let hosts_of = |rank: u32| {
        let mut all = regular(rank);
        let former = found.current_hosts(layout, rank).filter(|host| !all.contains(host));
        let former: Vec<u32> = former.collect();
        all.extend(former);
        // What a rank cannot go on from may be damaged.
        all.sort_by_key(|host| wishes.refused.contains(&(rank, *host)));
        all
    };
    let survivors = |rank: u32| {
        let of = |host: u32| states.get(&(host, rank)).map(|state| state.survivor(host));
        RankStores { survivors: hosts_of(rank).into_iter().filter_map(of).collect(), holders: Vec::new() }
    };
    let mut all: Vec<RankStores> = (0..layout.size()).map(survivors).collect();
    if let Some(base) = beginning(&all, known, may_have_run) {
        let hosts = layout.hosts();
        for (rank, stores) in (0..).zip(&mut all).filter(|(_, stores)| stores.survivors.is_empty()) {
            let home = layout.host_of(rank);
            // Its own host may be back, with nothing.
            let left = (0..hosts).map(|distance| (home + distance) % hosts).find(|host| !lost.contains(host));
            stores.survivors.extend(left.map(|host| Survivor { host, marks: [None; 2], base }));
        }
    }
    // Whoever has more is out of reach.
    let behind = |why| match why {
        Unrecoverable::Lost { rank, epoch } if epoch < committed => {
            Unrecoverable::Lost { rank, epoch: committed }
        }
        why => why,
    };
    let all = whole(all, known, &regular, committed).map_err(behind)?;
    let stores = |holders: &dyn Fn(u32) -> Vec<u32>| -> Vec<RankStores> {
        let with =
            |(rank, stores): (u32, &RankStores)| RankStores { holders: holders(rank), ..stores.clone() };
        (0..).zip(&all).map(with).collect()
    };
    let epoch = plan(&all, known)?.base.epoch;
    if epoch < committed {
        let with_more = hosts_with(&all, known, committed)?;
        let rank = (0..).zip(&with_more).find(|(_, hosts)| hosts.is_empty()).map_or(0, |(rank, _)| rank);
        return Err(Unrecoverable::Lost { rank, epoch: committed });
    }
    let with_epoch = hosts_with(&all, known, epoch)?;
    let with_epoch = |rank: u32| with_epoch[rank as usize].as_slice();
    if let Some(rank) = (0..layout.size()).find(|rank| with_epoch(*rank).is_empty()) {
        return Err(Unrecoverable::Lost { rank, epoch });
    }
    let places = places(layout, wishes, lost, with_epoch)?;
    let next = layout.moved(|rank| places[rank as usize]);
    let next = next.ok_or(Unrecoverable::Lost { rank: 0, epoch })?;
    // New copies have nothing yet: they get all with the next checkpoint. Until then those count that have
    // it.
    let keeps = |rank: u32| {
        let host = next.host_of(rank);
        let has = |copy: &u32| epoch == Epoch(0) || with_epoch(rank).contains(copy);
        let mut all = vec![host];
        all.extend(holders(&next, rule, host).filter(has));
        let former: Vec<u32> = with_epoch(rank).iter().copied().filter(|host| !all.contains(host)).collect();
        all.extend(former);
        all
    };
    let plan = plan(&stores(&keeps), known)?;
    // If a rank goes elsewhere, of the store that is copied there.
    let states =
        (0..layout.size()).filter_map(|rank| states.get(&(*with_epoch(rank).first()?, rank)).copied());
    Ok(Continuation { plan, states: states.collect(), layout: next })
}

/// Where each rank goes. `stores`: the hosts that have its store.
fn places<'a>(
    layout: &Layout,
    wishes: Wishes<'_>,
    lost: &BTreeSet<u32>,
    stores: impl Fn(u32) -> &'a [u32],
) -> Result<Vec<u32>, Unrecoverable> {
    let place = |rank| place(layout, rank, wishes, lost, stores(rank)).ok_or(Unrecoverable::Unfit { rank });
    (0..layout.size()).map(place).collect()
}

/// Where a rank goes whose stores these hosts have; `None`: it can go on nowhere.
fn place(
    layout: &Layout,
    rank: u32,
    wishes: Wishes<'_>,
    lost: &BTreeSet<u32>,
    stores: &[u32],
) -> Option<u32> {
    let (home, hosts) = (layout.host_of(rank), layout.hosts());
    let takes_it = |host: &u32| !lost.contains(host) && wishes.allow(rank, home, *host);
    let wanted = wishes.wanted.get(&rank).copied().filter(takes_it);
    let may_stay = lost.contains(&home) || takes_it(&home);
    let back = || wishes.came_from.get(&rank).copied().filter(|host| !may_stay && takes_it(host));
    let with_store = || stores.iter().copied().find(takes_it);
    // Rather one that has ranks than a spare one.
    let others = (1..hosts).map(|distance| (home + distance) % hosts).filter(takes_it);
    let other = || others.min_by_key(|host| layout.first_of(*host).is_none());
    wanted.or_else(back).or_else(with_store).or_else(other)
}

/// What ranks were started from, if that is the beginning and stores that are left know of no later epoch:
/// then nobody has run on from the beginning, of which nothing is stored, and a rank whose stores are all
/// lost begins anew like the others.
fn beginning(all: &[RankStores], known: KnownRestart, may_have_run: bool) -> Option<Base> {
    let base = known.base().filter(|base| base.epoch == Epoch(0))?;
    let stores = || all.iter().flat_map(|rank| &rank.survivors);
    let has_marked =
        |store: &Survivor| store.marks.iter().flatten().any(|mark| mark.incarnation == base.incarnation);
    // Ranks that were not started have not run on, whoever is left to say so.
    let is_not_started = known == KnownRestart::Begun(base) && !may_have_run;
    let is_told = is_not_started || stores().any(|store| store.base == base);
    (is_told && !stores().any(has_marked)).then_some(base)
}

/// Without the marks of an epoch that some copy lacks, if ranks can do without: nobody has run on in it, and
/// no copy is made until ranks have gone on. If they went on from there, the loss of one more host could be
/// one too many. `regular` says where a rank's copies are made. An epoch that all ranks are known to have had
/// is not done without: then the copy is one of a host that has come back with nothing.
fn whole(
    all: Vec<RankStores>,
    known: KnownRestart,
    regular: &dyn Fn(u32) -> Vec<u32>,
    committed: Epoch,
) -> Result<Vec<RankStores>, Unrecoverable> {
    let epoch = plan(&all, known)?.base.epoch;
    let with_epoch = hosts_with(&all, known, epoch)?;
    let lacks = |(number, (rank, hosts)): (u32, (&RankStores, &Vec<u32>))| {
        let regular = regular(number);
        // Others may be of former incarnations, and say nothing. (A copy that was made since ranks were
        // started knows by its marks alone.)
        let has_part = |store: &&Survivor| {
            let of_these =
                |mark: &Mark| known.base().is_some_and(|base| base.incarnation == mark.incarnation);
            Some(store.base) == known.base() || store.marks.iter().flatten().any(of_these)
        };
        let mut current = rank.survivors.iter().filter(has_part);
        current.any(|store| regular.contains(&store.host) && !hosts.contains(&store.host))
    };
    if epoch <= committed || !(0..).zip(all.iter().zip(&with_epoch)).any(lacks) {
        return Ok(all);
    }
    let mut without = all.clone();
    for store in without.iter_mut().flat_map(|rank| &mut rank.survivors) {
        store.marks = store.marks.map(|mark| mark.filter(|mark| mark.epoch != epoch));
    }
    let is_there = plan(&without, known).is_ok_and(|plan| plan.base.epoch.next() == epoch);
    Ok(if is_there { without } else { all })
}

#[cfg(test)]
mod tests;
