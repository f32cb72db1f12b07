//! Who sends what to whom.

use super::ring_position::RingPosition;
use super::schedule::{
    LocalWork, Round, Schedule, copy, input, output, receive, send, temporary, then, transfers,
};
use super::trees::{barrier, broadcast, tree};
use super::{Collective, Reduction};
use crate::barrier::Groups;
use std::ops::Range;

/// Bytes from which on the long algorithms are worth their rounds.
const LONG: usize = 32 << 10;
/// Pairs that exchange parts at a time.
const PAIRS: u32 = 16;

impl Collective {
    /// What a rank does.
    pub(crate) fn schedule(&self, rank: u32, size: u32, groups: &Groups) -> Schedule {
        let ring = RingPosition { me: rank, n: size };
        match self {
            Self::Barrier => barrier(ring, groups),
            Self::Broadcast { root, len } => broadcast(ring, groups, *root, *len),
            Self::Reduce { root, count, reduction } => reduce(ring, *root, *count, *reduction),
            Self::AllReduce { count, reduction } => all_reduce(ring, *count, *reduction),
            Self::Gather { root, len } => gather(ring, *root, *len),
            Self::AllGather { lens } => all_gather(ring, lens),
            Self::AllToAll { to, from } => all_to_all(ring, to, from),
            Self::ReduceScatter { counts, reduction } => reduce_scatter(ring, counts, *reduction),
        }
    }
}

/// Where the parts of these lengths begin and end.
fn parts(lens: impl IntoIterator<Item = usize>) -> Vec<Range<usize>> {
    let begin = |at: &mut usize, len: usize| {
        let part = *at..*at + len;
        *at = part.end;
        Some(part)
    };
    lens.into_iter().scan(0, begin).collect()
}

/// `count` elements in n parts that differ by one at most.
fn shares(n: u32, count: usize, width: usize) -> Vec<Range<usize>> {
    let n = n as usize;
    parts((0..n).map(|part| (count / n + usize::from(part < count % n)) * width))
}

fn reduce(ring: RingPosition, root: u32, count: usize, reduction: Reduction) -> Schedule {
    let len = count * reduction.width();
    if ring.n > 2 && len >= LONG && count >= ring.n as usize {
        return reduce_by_shares(ring, root, count, reduction);
    }
    // What has been combined so far, and what comes.
    let (sum, next) = (temporary(0..len), temporary(len..2 * len));
    let (parent, children) = tree(ring, root);
    let mut rounds = vec![copy(input(0..len), sum)];
    for child in children.into_iter().rev() {
        let work = vec![LocalWork::Combine { from: next, into: sum }];
        rounds.push(then(vec![receive(child, next)], work));
    }
    rounds.push(match parent {
        Some(parent) => transfers(vec![send(parent, sum)]),
        None => copy(sum, output(0..len)),
    });
    Schedule { rounds, temporary: 2 * len, reduction: Some(reduction) }
}

fn reduce_by_shares(ring: RingPosition, root: u32, count: usize, reduction: Reduction) -> Schedule {
    let shares = shares(ring.n, count, reduction.width());
    let mut schedule = on_a_ring(ring, &shares, reduction);
    let mine = shares[ring.me as usize].clone();
    schedule.rounds.push(if ring.me == root {
        let others = (0..).zip(&shares).filter(|&(rank, _)| rank != root);
        then(
            others.map(|(rank, share)| receive(rank, output(share.clone()))).collect(),
            vec![LocalWork::Copy { from: temporary(mine.clone()), to: output(mine) }],
        )
    } else {
        transfers(vec![send(root, temporary(mine))])
    });
    schedule
}

/// Reduce-scatter of parts that lie one after the other: afterwards, the temporary memory has the rank's own
/// part, combined, at its place. In each round a rank passes on what it has of one part.
fn on_a_ring(ring: RingPosition, shares: &[Range<usize>], reduction: Reduction) -> Schedule {
    let len = shares.last().map_or(0, |last| last.end);
    let longest = shares.iter().map(Range::len).max().unwrap_or(0);
    let share = |rank: u32| shares[rank as usize].clone();
    let mut rounds = vec![copy(input(0..len), temporary(0..len))];
    for distance in 1..ring.n {
        let (gone, coming) = (share(ring.behind(distance)), share(ring.behind(distance + 1)));
        let next = temporary(len..len + coming.len());
        rounds.push(then(
            vec![send(ring.ahead(1), temporary(gone)), receive(ring.behind(1), next)],
            vec![LocalWork::Combine { from: next, into: temporary(coming) }],
        ));
    }
    Schedule { rounds, temporary: len + longest, reduction: Some(reduction) }
}

fn reduce_scatter(ring: RingPosition, counts: &[usize], reduction: Reduction) -> Schedule {
    let shares = parts(counts.iter().map(|count| count * reduction.width()));
    let mut schedule = on_a_ring(ring, &shares, reduction);
    let mine = shares[ring.me as usize].clone();
    let len = mine.len();
    schedule.rounds.push(copy(temporary(mine), output(0..len)));
    schedule
}

fn all_reduce(ring: RingPosition, count: usize, reduction: Reduction) -> Schedule {
    let len = count * reduction.width();
    if ring.n > 2 && len >= LONG && count >= ring.n as usize {
        let shares = shares(ring.n, count, reduction.width());
        let mut schedule = on_a_ring(ring, &shares, reduction);
        let mine = shares[ring.me as usize].clone();
        schedule.rounds.push(copy(temporary(mine.clone()), output(mine)));
        schedule.rounds.extend(pass_around(ring, &shares));
        return schedule;
    }
    let (sum, next) = (output(0..len), temporary(0..len));
    let mut rounds = vec![copy(input(0..len), sum)];
    let combine = || vec![LocalWork::Combine { from: next, into: sum }];
    // Ranks beyond the largest power of two have a partner among the others act for them.
    let power = 1 << (u32::BITS - 1 - ring.n.leading_zeros());
    let partner = ring.me ^ power;
    if ring.me >= power {
        rounds.push(transfers(vec![send(partner, sum)]));
        rounds.push(transfers(vec![receive(partner, sum)]));
    } else {
        if partner < ring.n {
            rounds.push(then(vec![receive(partner, next)], combine()));
        }
        for k in 0..power.trailing_zeros() {
            let peer = ring.me ^ (1 << k);
            rounds.push(then(vec![send(peer, sum), receive(peer, next)], combine()));
        }
        if partner < ring.n {
            rounds.push(transfers(vec![send(partner, sum)]));
        }
    }
    Schedule { rounds, temporary: len, reduction: Some(reduction) }
}

fn gather(ring: RingPosition, root: u32, len: usize) -> Schedule {
    let round = if ring.me == root {
        let part = |rank: u32| output(rank as usize * len..(rank as usize + 1) * len);
        let others = (0..ring.n).filter(|&rank| rank != root);
        then(
            others.map(|rank| receive(rank, part(rank))).collect(),
            vec![LocalWork::Copy { from: input(0..len), to: part(root) }],
        )
    } else {
        transfers(vec![send(root, input(0..len))])
    };
    Schedule { rounds: vec![round], ..Schedule::default() }
}

fn all_gather(ring: RingPosition, lens: &[usize]) -> Schedule {
    let parts = parts(lens.iter().copied());
    let mine = parts[ring.me as usize].clone();
    let total = parts.last().map_or(0, |last| last.end);
    if total < LONG && lens.iter().all(|&len| len == mine.len()) {
        return all_gather_by_doubling(ring, mine.len());
    }
    let mut rounds = vec![copy(input(0..mine.len()), output(mine))];
    rounds.extend(pass_around(ring, &parts));
    Schedule { rounds, ..Schedule::default() }
}

/// Each rank passes on the part that it has got last, and gets the next one.
fn pass_around(ring: RingPosition, parts: &[Range<usize>]) -> impl Iterator<Item = Round> {
    let part = |rank: u32| output(parts[rank as usize].clone());
    (1..ring.n).map(move |distance| {
        let (gone, coming) = (part(ring.behind(distance - 1)), part(ring.behind(distance)));
        transfers(vec![send(ring.ahead(1), gone), receive(ring.behind(1), coming)])
    })
}

/// Bruck's: what a rank has, beginning with its own part, doubles in each round; at last it is turned to
/// begin with rank 0's.
fn all_gather_by_doubling(ring: RingPosition, len: usize) -> Schedule {
    let has = |parts: u32| parts as usize * len;
    let mut rounds = vec![copy(input(0..len), temporary(0..len))];
    for k in 0..ring.doublings() {
        let had: u32 = 1 << k;
        let more = had.min(ring.n - had);
        rounds.push(transfers(vec![
            send(ring.behind(had), temporary(0..has(more))),
            receive(ring.ahead(had), temporary(has(had)..has(had + more))),
        ]));
    }
    let (all, turned) = (has(ring.n), has(ring.n - ring.me));
    rounds.push(then(
        Vec::new(),
        vec![
            LocalWork::Copy { from: temporary(0..turned), to: output(all - turned..all) },
            LocalWork::Copy { from: temporary(turned..all), to: output(0..all - turned) },
        ],
    ));
    Schedule { rounds, temporary: all, ..Schedule::default() }
}

fn all_to_all(ring: RingPosition, to: &[usize], from: &[usize]) -> Schedule {
    let (gives, gets) = (parts(to.iter().copied()), parts(from.iter().copied()));
    let part = |parts: &[Range<usize>], rank: u32| parts[rank as usize].clone();
    let own = copy(input(part(&gives, ring.me)), output(part(&gets, ring.me)));
    let distances: Vec<u32> = (1..ring.n).collect();
    let round = |distances: &[u32]| {
        let both = |&distance: &u32| {
            let (to, from) = (ring.ahead(distance), ring.behind(distance));
            [receive(from, output(part(&gets, from))), send(to, input(part(&gives, to)))]
        };
        transfers(distances.iter().flat_map(both).collect())
    };
    let rounds = std::iter::once(own).chain(distances.chunks(PAIRS as usize).map(round));
    Schedule { rounds: rounds.collect(), ..Schedule::default() }
}
