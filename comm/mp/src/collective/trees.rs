//! Barrier and broadcast: trees, within groups that share memory and between them.

use super::ring_position::RingPosition;
use super::schedule::{AreaRange, Round, Schedule, output, receive, send, temporary, transfers};
use crate::barrier::Groups;
use scash_comm::Mark;

/// Bytes of the pieces that are passed along a chain.
const LINK: usize = 64 << 10;
/// Children of a rank in a barrier of ranks that compete for cores.
const CHILDREN: usize = 15;

/// Those who share memory meet on their board, and the heads of groups meet for them; see [`Groups`].
pub(super) fn barrier(ring: RingPosition, groups: &Groups) -> Schedule {
    let post = |mark| Round { post: Some(mark), ..Round::default() };
    let arrive = |awaits| Round { awaits: Some(awaits), ..post(Mark::Arrived) };
    let is_alone = groups.mine().len() == 1;
    let is_head = groups.head_of(ring.me) == ring.me;
    let mut rounds = Vec::new();
    if !is_head {
        rounds.push(arrive(if groups.is_flat() { Mark::Arrived } else { Mark::Released }));
    } else {
        rounds.extend((!is_alone).then(|| arrive(Mark::Arrived)));
        if groups.share_cores() {
            rounds.extend(come_and_go(ring, groups.heads()));
        } else {
            rounds.extend(disseminate(ring, groups.heads()));
        }
        rounds.extend((!is_alone && !groups.is_flat()).then(|| post(Mark::Released)));
    }
    Schedule { rounds, ..Schedule::default() }
}

/// In round k each of them tells the one that is 2ᵏ ahead.
fn disseminate(ring: RingPosition, ranks: &[u32]) -> impl Iterator<Item = Round> {
    let ring = among(ranks, ring.me);
    (0..ring.doublings()).map(move |k| {
        let (to, from) = (ring.ahead(1 << k), ring.behind(1 << k));
        let nothing = temporary(0..0);
        transfers(vec![send(ranks[to as usize], nothing), receive(ranks[from as usize], nothing)])
    })
}

/// They tell up a tree that they have come, and down the tree that all have. That takes far fewer messages in
/// all than dissemination, and the fewer ranks wait in between the fewer are given a core in vain: so the
/// tree is as flat as can be, and up to 16 ranks have one parent.
fn come_and_go(ring: RingPosition, ranks: &[u32]) -> [Round; 3] {
    let nothing = temporary(0..0);
    let place = among(ranks, ring.me).me as usize;
    let parent = place.checked_sub(1).map(|before| ranks[before / CHILDREN]);
    let children = ranks.iter().skip(place * CHILDREN + 1).take(CHILDREN);
    let come = children.clone().map(|&child| receive(child, nothing)).collect();
    let through = parent.map(|parent| vec![send(parent, nothing), receive(parent, nothing)]);
    let go = children.map(|&child| send(child, nothing)).collect();
    [come, through.unwrap_or_default(), go].map(transfers)
}

/// The position of one of these ranks among them.
fn among(ranks: &[u32], rank: u32) -> RingPosition {
    // No more than the job has.
    let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    RingPosition { me: place(ranks.partition_point(|&other| other < rank)), n: place(ranks.len()) }
}

pub(super) fn broadcast(ring: RingPosition, groups: &Groups, root: u32, len: usize) -> Schedule {
    if ring.n > 2 && len >= 2 * LINK * ring.n as usize {
        return broadcast_along_a_chain(ring, root, len);
    }
    let whole = output(0..len);
    let mut rounds = Vec::new();
    let (parent, children) = tree_of_groups(ring, groups, root);
    rounds.extend(parent.map(|parent| transfers(vec![receive(parent, whole)])));
    rounds.push(transfers(children.into_iter().map(|child| send(child, whole)).collect()));
    Schedule { rounds, ..Schedule::default() }
}

/// Each rank passes a piece on while it receives the next one.
fn broadcast_along_a_chain(ring: RingPosition, root: u32, len: usize) -> Schedule {
    let place = RingPosition { me: ring.me, n: ring.n }.behind(root);
    let pieces: Vec<AreaRange> =
        (0..len).step_by(LINK).map(|start| output(start..len.min(start + LINK))).collect();
    let round = |number: usize| {
        let mut now = Vec::new();
        if place > 0 {
            now.extend(pieces.get(number).map(|&piece| receive(ring.behind(1), piece)));
        }
        if place < ring.n - 1 {
            // The root has all pieces from the beginning.
            let had = if place == 0 { Some(number) } else { number.checked_sub(1) };
            now.extend(had.and_then(|had| pieces.get(had)).map(|&piece| send(ring.ahead(1), piece)));
        }
        transfers(now)
    };
    Schedule { rounds: (0..=pieces.len()).map(round).collect(), ..Schedule::default() }
}

/// A rank's parent and children in a binomial tree; the child with the largest subtree first.
pub(super) fn tree(ring: RingPosition, root: u32) -> (Option<u32>, Vec<u32>) {
    let place = ring.behind(root);
    let absolute = |place: u32| RingPosition { me: root, n: ring.n }.ahead(place);
    // The root's children are at all powers of two, others' at those below the lowest bit of their place.
    let below = if place == 0 { ring.doublings() } else { place.trailing_zeros() };
    let parent = (place > 0).then(|| absolute(place & (place - 1)));
    let children = (0..below).rev().map(|k| place + (1 << k)).filter(|&child| child < ring.n);
    (parent, children.map(absolute).collect())
}

/// A rank's parent and children in a tree of trees: one of the groups' heads, and one within each group. In
/// its own group, the root is the head. Children of other groups come first: it is farther there.
fn tree_of_groups(ring: RingPosition, groups: &Groups, root: u32) -> (Option<u32>, Vec<u32>) {
    let acting = |head: u32| if head == groups.head_of(root) { root } else { head };
    let within = |ranks: &[u32], me: u32, top: u32| {
        let (parent, children) = tree(among(ranks, me), among(ranks, top).me);
        let named = |place: u32| ranks[place as usize];
        (parent.map(named), children.into_iter().map(named).collect::<Vec<u32>>())
    };
    let head = groups.head_of(ring.me);
    let (parent, near) = within(groups.mine(), ring.me, acting(head));
    if parent.is_some() {
        return (parent, near);
    }
    let (parent, far) = within(groups.heads(), head, groups.head_of(root));
    (parent.map(acting), far.into_iter().map(acting).chain(near).collect())
}
