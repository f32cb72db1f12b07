//! How stores of ranks that move are copied from one host to another, as a value: what agents say goes in,
//! what they are told comes out. No rank runs meanwhile. The launcher passes on what comes, one store after
//! the other:
//!
//! ```text
//!  launcher to `from`   Read      Read      Read …                          Read, of the header
//!  `from`               Piece, Piece, HasRead   Piece, Piece, HasRead …
//!  launcher to `to`     Empty  Piece, Piece, Store   Piece, Piece, Store …
//!  `to`                                  Stored               Stored …
//! ```
//!
//! So much is on its way at a time, and no more, as two Reads bring. The header comes when all else has been
//! stored: until then the copy says that it has nothing.

use super::frames::{Down, MOST_PIECE, StoreChunk};
use scash_ft::recovery::{RecoveryAction, RecoveryPlan};
use scash_ft::store::HEADER;
use std::collections::VecDeque;
use std::ops::Range;

/// What has been read and not been stored yet, in Reads.
const WINDOW: u32 = 2;

/// A frame for the agent of a host.
pub(super) type Order = (u32, Down);

/// Stores that are to be copied.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    left: VecDeque<Transfer>,
    now: Option<Current>,
}

/// The store of a rank, from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transfer {
    rank: u32,
    from: u32,
    to: u32,
}

/// The one that is being copied.
#[derive(Debug)]
struct Current {
    of: Transfer,
    /// What is to be read yet, if anything.
    left: Option<Range<u64>>,
    /// Whether it is the header, and so the last.
    is_last: bool,
    is_reading: bool,
    unstored: u32,
}

impl Transfers {
    /// Those that a plan asks for.
    pub(super) fn of(plan: &RecoveryPlan) -> Transfers {
        let copy = |step: &RecoveryAction| match *step {
            RecoveryAction::Copy { rank, from, to, .. } => Some(Transfer { rank, from, to }),
            _ => None,
        };
        Transfers { left: plan.steps.iter().filter_map(copy).collect(), now: None }
    }

    /// Whether all is copied.
    pub(super) fn are_over(&self) -> bool {
        self.left.is_empty() && self.now.is_none()
    }

    /// Whether a host has been told something of these that it may not have answered.
    pub(super) fn concern(&self, host: u32) -> bool {
        self.now.as_ref().is_some_and(|now| [now.of.from, now.of.to].contains(&host))
    }

    /// What agents are told now.
    pub(super) fn turn(&mut self) -> Vec<Order> {
        let mut orders = Vec::new();
        loop {
            let Some(now) = &mut self.now else {
                let Some(of) = self.left.pop_front() else { return orders };
                orders.push((of.to, Down::Empty(of.rank)));
                let left = Some(HEADER..u64::MAX);
                self.now = Some(Current { of, left, is_last: false, is_reading: false, unstored: 0 });
                continue;
            };
            if now.is_reading || now.unstored >= WINDOW {
                return orders;
            }
            match now.left.take() {
                Some(range) => {
                    now.is_reading = true;
                    now.left = Some(range.clone());
                    orders.push((now.of.from, Down::Read { rank: now.of.rank, range }));
                    return orders;
                }
                None if now.unstored > 0 => return orders,
                None if now.is_last => self.now = None,
                None => (now.left, now.is_last) = (Some(0..HEADER), true),
            }
        }
    }

    /// An agent has sent bytes of a store: they go on. The error says why no agent sends them.
    pub(super) fn piece(&mut self, host: u32, piece: StoreChunk) -> Result<Order, String> {
        let rank = piece.rank;
        let now = self.reading(host, rank)?;
        let range = now.left.clone().unwrap_or(0..0);
        let end = piece.at.checked_add(piece.bytes.len() as u64);
        if piece.bytes.len() > MOST_PIECE || piece.at < range.start || end.is_none_or(|end| end > range.end) {
            return Err(format!("bytes of the store of rank {rank} that nobody has asked for"));
        }
        Ok((now.of.to, Down::Piece(piece)))
    }

    /// An agent has sent what it was asked for.
    pub(super) fn has_read(&mut self, host: u32, rank: u32, next: Option<u64>) -> Result<Order, String> {
        let now = self.reading(host, rank)?;
        let range = now.left.take().unwrap_or(0..0);
        if next.is_some_and(|next| next <= range.start || next >= range.end) {
            return Err(format!("to go on elsewhere in the store of rank {rank}"));
        }
        now.left = next.map(|next| next..range.end);
        now.is_reading = false;
        now.unstored += 1;
        Ok((now.of.to, Down::Store(rank)))
    }

    /// An agent has written what came.
    pub(super) fn stored(&mut self, host: u32, rank: u32) -> Result<(), String> {
        let now = self.now.as_mut().filter(|now| (now.of.to, now.of.rank) == (host, rank));
        match now.filter(|now| now.unstored > 0) {
            Some(now) => now.unstored -= 1,
            None => {
                return Err(format!("that it has written the store of rank {rank}, which it has not got"));
            }
        }
        Ok(())
    }

    fn reading(&mut self, host: u32, rank: u32) -> Result<&mut Current, String> {
        let is_asked = |now: &&mut Current| (now.of.from, now.of.rank) == (host, rank) && now.is_reading;
        self.now
            .as_mut()
            .filter(is_asked)
            .ok_or_else(|| format!("the store of rank {rank}, which nobody has asked for"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use scash_ft::{Base, Epoch, Mark};
    use std::collections::BTreeMap;

    /// A store, as the bytes at each place of those that were written.
    type Bytes = BTreeMap<u64, u8>;

    fn transfers(all: &[(u32, u32, u32)]) -> Transfers {
        let mark = Mark { incarnation: Default::default(), epoch: Epoch(1) };
        let steps = all.iter().map(|(rank, from, to)| RecoveryAction::Copy {
            rank: *rank,
            from: *from,
            to: *to,
            mark,
        });
        Transfers::of(&RecoveryPlan { base: Base::default(), steps: steps.collect() })
    }

    /// An agent that has these stores does as it is told.
    fn obey(stores: &mut BTreeMap<u32, Bytes>, down: Down, enough: usize) -> Vec<super::super::frames::Up> {
        use super::super::frames::Up;
        match down {
            Down::Empty(rank) => drop(stores.insert(rank, Bytes::new())),
            Down::Piece(StoreChunk { rank, at, bytes }) => {
                stores.get_mut(&rank).unwrap().extend((at..).zip(bytes))
            }
            Down::Store(rank) => return vec![Up::Stored(rank)],
            Down::Read { rank, range } => {
                let mut left = stores[&rank].range(range).map(|(at, byte)| (*at, *byte));
                let piece = |(at, byte)| Up::Piece(StoreChunk { rank, at, bytes: vec![byte] });
                let mut ups: Vec<Up> = left.by_ref().take(enough).map(piece).collect();
                ups.push(Up::HasRead { rank, next: left.next().map(|(at, _)| at) });
                return ups;
            }
            other => panic!("{other:?}"),
        }
        Vec::new()
    }

    proptest! {
        #[test]
        fn stores_come_to_their_new_hosts_whole_and_the_header_last(
            stores in prop::collection::vec(prop::collection::btree_map(0u64..9000, any::<u8>(), 1..60), 2),
            enough in 1usize..20,
            order in prop::collection::vec(any::<bool>(), 4000)
        ) {
            use super::super::frames::Up;
            let mut hosts = [BTreeMap::from([(4, stores[0].clone()), (5, stores[1].clone())]), BTreeMap::new()];
            let mut transfers = transfers(&[(4, 0, 1), (5, 0, 1)]);
            let mut down = [VecDeque::new(), VecDeque::new()];
            let mut up = [VecDeque::new(), VecDeque::new()];
            for first in order {
                for (host, order) in transfers.turn() {
                    down[host as usize].push_back(order);
                }
                let (host, from) = (usize::from(first), u32::from(first));
                let said: Option<Up> = up[host].pop_front();
                let order = match said {
                    Some(Up::Piece(piece)) => Some(transfers.piece(from, piece).unwrap()),
                    Some(Up::HasRead { rank, next }) => Some(transfers.has_read(from, rank, next).unwrap()),
                    Some(Up::Stored(rank)) => transfers.stored(from, rank).map(|()| None).unwrap(),
                    _ => {
                        let heard = down[host].pop_front().map(|order| obey(&mut hosts[host], order, enough));
                        up[host].extend(heard.into_iter().flatten());
                        None
                    }
                };
                if let Some((host, order)) = order {
                    down[host as usize].push_back(order);
                }
                for rank in [4, 5] {
                    let copy = hosts[1].get(&rank).cloned().unwrap_or_default();
                    let rest = |store: &Bytes| store.range(HEADER..).count();
                    prop_assert!(copy.range(..HEADER).next().is_none() || rest(&copy) == rest(&hosts[0][&rank]));
                }
            }
            prop_assume!(transfers.are_over());
            prop_assert_eq!(&hosts[0], &hosts[1]);
        }
    }

    #[test]
    fn what_nobody_has_asked_for_is_refused() {
        let mut transfers = transfers(&[(4, 0, 1)]);
        let piece = |at: u64| StoreChunk { rank: 4, at, bytes: vec![1; 10] };
        assert!(transfers.piece(0, piece(5000)).is_err());
        assert_eq!(transfers.turn().len(), 2);
        assert!(transfers.piece(1, piece(5000)).is_err());
        assert!(transfers.piece(0, piece(0)).unwrap_err().contains("nobody has asked for"));
        assert!(transfers.piece(0, piece(u64::MAX - 3)).is_err());
        assert!(transfers.piece(0, piece(5000)).is_ok());
        assert!(transfers.has_read(0, 4, Some(HEADER)).is_err());
        assert!(transfers.stored(1, 4).is_err());
    }
}
