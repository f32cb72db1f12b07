//! What is between hosts: links that are cut and slow; and what will happen to hosts, and when.

use crate::network::Network;
use crate::rng::mix;
use std::collections::BTreeMap;

/// Two ends, the lower one first.
pub(super) type Link = (u32, u32);

/// What will happen.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Heal(Vec<Link>),
    /// The coordinator has not heard of a host for too long.
    Suspect(u32),
    /// The agent of a host that is not in the job any more notices that, and ends its ranks.
    EndGhosts(u32),
    /// A host that was lost is there again.
    Return(u32),
    /// Ranks go to hosts that have come back.
    Move,
}

/// See [the module](self).
pub(super) struct Links {
    seed: u64,
    hosts: u32,
    network: Option<Network>,
    /// How many cuts a link has.
    cut: BTreeMap<Link, u32>,
    /// By step.
    events: Vec<(u64, Event)>,
}

impl Links {
    /// Of a job that begins.
    pub(super) fn new(seed: u64, hosts: u32, network: Option<Network>) -> Links {
        Links { seed, hosts, network, cut: BTreeMap::new(), events: Vec::new() }
    }

    /// The link between two hosts: that of their places, whoever is there now.
    pub(super) fn between(&self, one: u32, other: u32) -> Link {
        let (one, other) = (one % self.hosts, other % self.hosts);
        (one.min(other), one.max(other))
    }

    /// The link between a host and the coordinator, which has the number behind those of all places.
    pub(super) fn upward(&self, host: u32) -> Link {
        (host % self.hosts, self.hosts)
    }

    /// Whether anything passes a link.
    pub(super) fn is_whole(&self, link: Link) -> bool {
        self.cut.is_empty() || !self.cut.contains_key(&link)
    }

    /// How many times slower a link is than others.
    pub(super) fn slowness(&self, (one, other): Link) -> u32 {
        let Some(network) = self.network else { return 1 };
        let name = mix(self.seed ^ mix((1 << 40) + (u64::from(one) << 20) + u64::from(other)));
        let is_slow = one != other && name % 100 < u64::from(network.slow);
        if is_slow { network.slowness } else { 1 }
    }

    pub(super) fn cut(&mut self, links: &[Link]) {
        links.iter().for_each(|link| *self.cut.entry(*link).or_default() += 1);
    }

    pub(super) fn heal(&mut self, links: &[Link]) {
        for link in links {
            if let Some(cuts) = self.cut.get_mut(link) {
                *cuts -= 1;
            }
        }
        self.cut.retain(|_, cuts| *cuts > 0);
    }

    /// Whether any link is cut.
    pub(super) fn any_cut(&self) -> bool {
        !self.cut.is_empty()
    }

    pub(super) fn at(&mut self, step: u64, event: Event) {
        self.events.push((step, event));
    }

    /// Whether something is to happen now.
    pub(super) fn is_due(&self, now: u64) -> bool {
        self.events.iter().any(|(at, _)| *at <= now)
    }

    /// What happens next, if it is now.
    pub(super) fn due(&mut self, now: u64) -> Option<Event> {
        let first = self.first().filter(|at| self.events[*at].0 <= now)?;
        Some(self.events.remove(first).1)
    }

    /// Nothing else can happen: what is next happens now. False if nothing is.
    pub(super) fn hasten(&mut self, now: u64) -> bool {
        let Some(first) = self.first() else { return false };
        self.events[first].0 = now.min(self.events[first].0);
        true
    }

    fn first(&self) -> Option<usize> {
        (0..self.events.len()).min_by_key(|at| (self.events[*at].0, *at))
    }

    /// When a link will be whole, if it is cut and ever heals.
    pub(super) fn heals_at(&self, link: Link) -> Option<u64> {
        let heals = |event: &Event| matches!(event, Event::Heal(links) if links.contains(&link));
        let times: Vec<u64> =
            self.events.iter().filter(|(_, event)| heals(event)).map(|(at, _)| *at).collect();
        let cuts = self.cut.get(&link).copied().unwrap_or(0);
        (times.len() == cuts as usize).then(|| times.into_iter().max()).flatten()
    }

    /// Whether ranks are going to be moved.
    pub(super) fn will_move(&self) -> bool {
        self.events.iter().any(|(_, event)| matches!(event, Event::Move))
    }
}
