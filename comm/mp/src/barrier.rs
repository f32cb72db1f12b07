//! Who meets whom at a barrier: ranks that share memory on their board, and one of each such group with those
//! of the others by messages.
//!
//! After MMP (Aoki and others 2006), whose barrier is off the host's path. A board's words are numbers of
//! meetings, so that several may be under way.
//! - **A small group that is the whole job**: each rank posts that it has come, and looks until all have.
//!   Nobody waits for who would tell: where each rank has a core, a barrier takes as long as a cache line
//!   from one to the other.
//! - **Otherwise** the first rank of a group, its *head*, looks until all have come, meets the other heads,
//!   and then posts that the meeting is over, which the group looks for.
//!
//! Who has posted wakes those who may sleep: if all have come then, whoever looks for that. Of several who
//! are the last ones at the same time, one sees so at least.

use scash_comm::{Board, Endpoint, Error, Exchange, Mark, Result};

/// The largest job whose ranks all look at all.
const SMALL: usize = 16;

/// Ranks in groups whose members share memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Groups {
    /// The head of each rank's group.
    head_of: Vec<u32>,
    heads: Vec<u32>,
    /// This rank's group.
    mine: Vec<u32>,
    /// Whether any of these ranks [compete for cores](Endpoint::shares_cores) with others that they only send
    /// messages to.
    share_cores: bool,
}

impl Groups {
    /// As each rank says who is the head of its group.
    ///
    /// # Errors
    /// A rank that says what cannot be.
    fn new(me: u32, head_of: Vec<u32>, share_cores: bool) -> std::result::Result<Self, u32> {
        let is_head = |&(rank, head): &(u32, u32)| rank == head;
        let each = || (0..).zip(head_of.iter().copied());
        let is_sound = |&(rank, head): &(u32, u32)| {
            head <= rank && head_of.get(head as usize).is_some_and(|&its| its == head)
        };
        if let Some((rank, _)) = each().find(|one| !is_sound(one)) {
            return Err(rank);
        }
        let heads = each().filter(is_head).map(|(rank, _)| rank).collect();
        let mine = each().filter(|&(_, head)| head == head_of[me as usize]).map(|(rank, _)| rank).collect();
        Ok(Self { head_of, heads, mine, share_cores })
    }

    /// Ranks that share memory with those of the same host, on which each has a core of its own, or not.
    #[cfg(test)]
    pub(super) fn on(hosts: &[u32], me: u32, share_cores: bool) -> Self {
        let first = |host: &u32| (0..).zip(hosts).find(|(_, theirs)| *theirs == host).map(|(rank, _)| rank);
        Self::new(me, hosts.iter().filter_map(first).collect(), share_cores)
            .expect("the first of a host is its head")
    }

    /// The groups of an endpoint's ranks. Collective.
    pub(super) fn meet(endpoint: &dyn Endpoint, exchange: &mut dyn Exchange) -> Result<Self> {
        let me = endpoint.rank();
        let mine = endpoint.board().map_or_else(|| vec![me], Board::ranks);
        let head = mine.first().copied().unwrap_or(me);
        let broken = |rank| Error::Protocol {
            rank,
            why: "it tells another number than that of a rank it shares memory with".to_owned(),
        };
        let mut head_of = Vec::with_capacity(mine.len());
        let mut share_cores = false;
        let mut card = head.to_le_bytes().to_vec();
        card.push(u8::from(endpoint.shares_cores()));
        for (rank, (told, _)) in (0..).zip(exchange.all_gather(&card, &[])?) {
            let (head, shares_cores) = told.split_first_chunk().ok_or_else(|| broken(rank))?;
            head_of.push(u32::from_le_bytes(*head));
            share_cores |= *shares_cores != [0];
        }
        let groups = Self::new(me, head_of, share_cores).map_err(broken)?;
        if groups.mine == mine { Ok(groups) } else { Err(broken(head)) }
    }

    /// The first rank of each group, in rising order.
    pub(super) fn heads(&self) -> &[u32] {
        &self.heads
    }

    /// The ranks of this rank's group, in rising order.
    pub(super) fn mine(&self) -> &[u32] {
        &self.mine
    }

    /// Whether a rank is of this rank's group.
    pub(super) fn includes(&self, rank: u32) -> bool {
        self.mine.first() == Some(&self.head_of(rank))
    }

    /// The first rank of a rank's group.
    pub(super) fn head_of(&self, rank: u32) -> u32 {
        self.head_of[rank as usize]
    }

    /// Whether ranks that only send messages to each other compete for cores.
    pub(super) fn share_cores(&self) -> bool {
        self.share_cores
    }

    /// Whether all look at all.
    pub(super) fn is_flat(&self) -> bool {
        self.heads.len() == 1 && self.mine.len() <= SMALL
    }

    /// Posts, and wakes those who look for it.
    pub(super) fn post(&self, board: &dyn Board, me: u32, mark: Mark, count: u64) {
        let reached = board.post(mark, count);
        let wakes: &[u32] = match mark {
            Mark::Arrived if reached < count => &[],
            Mark::Arrived if !self.is_flat() => &self.mine[..1],
            Mark::Arrived | Mark::Released => &self.mine,
        };
        (0..).zip(wakes).filter(|&(_, &rank)| rank != me).for_each(|(place, _)| board.wake(place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_known_by_its_first_rank() {
        let groups = Groups::new(3, vec![0, 1, 0, 1, 1], false).unwrap();
        assert_eq!((groups.heads(), groups.mine()), (&[0, 1][..], &[1, 3, 4][..]));
        assert_eq!((groups.head_of(2), groups.is_flat()), (0, false));
        assert!(Groups::new(1, vec![0, 0, 0], false).unwrap().is_flat());
        assert_eq!(Groups::on(&[7, 8, 7], 2, true), Groups::new(2, vec![0, 1, 0], true).unwrap());
    }

    #[test]
    fn a_rank_that_names_a_head_that_is_none_is_named() {
        for (head_of, liar) in
            [(vec![0, 2, 2], 1), (vec![0, 0, 1], 2), (vec![0, 7, 0], 1), (vec![1, 1, 1], 0)]
        {
            assert_eq!(Groups::new(0, head_of, false), Err(liar));
        }
    }
}
