//! What the ranks do, as every one of them computes it for itself from the seed.

use scash::{AllocOptions, Placement, Protocol};
use scash_sim::rng::{Rng, mix};
use std::num::NonZeroU32;
use std::ops::Range;

/// Most allocations at a time.
const MOST_AREAS: usize = 6;

/// How one allocation is used.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    /// Gives its draws.
    pub(crate) name: u64,
    pub(crate) bytes: usize,
    pub(crate) options: AllocOptions,
    /// Intervals after which other ranks write other pieces.
    phase: u32,
    /// In how many of a hundred cases a rank reads a piece that nobody writes.
    pub(crate) readers: u32,
    /// In how many of a hundred intervals it is used at all.
    busy: u32,
}

impl Use {
    pub(crate) fn draw(rng: &mut Rng, ranks: u32) -> Use {
        let run = NonZeroU32::MIN.saturating_add(rng.below(3));
        let rank = rng.below(ranks);
        let placement = rng.pick(&[
            Placement::FirstTouch,
            Placement::FirstTouch,
            Placement::Block,
            Placement::Cyclic { pages: run, first: rank },
            Placement::Rank(rank),
        ]);
        let protocol = rng.pick(&[Protocol::Adaptive, Protocol::Update, Protocol::Invalidate]);
        let block = rng.pick(&[1, 1, 2, 5]);
        Use {
            name: rng.bits(),
            bytes: rng.between(1, 12 * 4096) as usize,
            options: AllocOptions { placement, protocol, block },
            phase: rng.pick(&[1, 5, 20]),
            readers: rng.pick(&[10, 50, 100]),
            busy: rng.pick(&[30, 90, 100]),
        }
    }

    /// What happens to each byte in an interval: pieces that cover the allocation.
    pub(crate) fn pieces(&self, interval: u32, ranks: u32) -> Vec<Piece> {
        let mut now = Rng::part(self.name, u64::from(interval) << 1 | 1);
        let idle = !now.chance(self.busy);
        let mut cut = Rng::part(self.name, u64::from(interval / self.phase) << 1);
        let (mut pieces, mut start) = (Vec::new(), 0);
        while start < self.bytes {
            let longest = cut.pick(&[1, 3, 8, 64, 700, 4096, 9000]);
            let end = self.bytes.min(start + cut.between(1, longest) as usize);
            let writer = cut.chance(60).then(|| cut.below(ranks)).filter(|_| !idle);
            let edit = now.pick(&[Edit::Bytes, Edit::Copy, Edit::Copy, Edit::Rewrite]);
            pieces.push(Piece { range: start..end, writer, edit, seed: now.bits() });
            start = end;
        }
        now.shuffle(&mut pieces);
        pieces
    }

    /// Some of its bytes.
    pub(crate) fn some(&self, rng: &mut Rng) -> Range<usize> {
        let bytes = u32::try_from(self.bytes).expect("a few pages");
        let start = rng.below(bytes);
        start as usize..rng.between(start + 1, bytes) as usize
    }
}

/// Bytes that have at most one writer in an interval.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) range: Range<usize>,
    pub(crate) writer: Option<u32>,
    pub(crate) edit: Edit,
    seed: u64,
}

/// How a writer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    /// One by one.
    Bytes,
    /// As memcpy does it.
    Copy,
    /// What was there.
    Rewrite,
}

impl Piece {
    /// The values that the piece has after the interval, where `old` are those before it.
    pub(crate) fn new_values(&self, old: &[u8]) -> Vec<u8> {
        match self.edit {
            _ if self.writer.is_none() => old.to_vec(),
            Edit::Rewrite => old.to_vec(),
            Edit::Bytes | Edit::Copy => {
                (0..old.len() as u64).map(|i| mix(self.seed ^ i).to_le_bytes()[0]).collect()
            }
        }
    }

    /// Whether a rank that has nothing to write here looks.
    pub(crate) fn is_read_by(&self, rank: u32, percent: u32) -> bool {
        self.writer.is_none() && mix(self.seed ^ u64::from(rank)) % 100 < u64::from(percent)
    }
}

/// A call that a rank makes in an interval, when it has written.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    SetHome(Range<usize>, u32),
    SetProtocol(Protocol),
    WriteBack(Range<usize>),
    ReadHome(Range<usize>),
}

/// The calls of an interval: which allocation, which rank (`None`: all), and what.
pub(crate) fn calls(rng: &mut Rng, uses: &[&Use], ranks: u32) -> Vec<(usize, Option<u32>, Call)> {
    let mut calls = Vec::new();
    for (area, used) in uses.iter().enumerate() {
        let (some, rank) = (used.some(rng), rng.below(ranks));
        match rng.below(24) {
            0 => calls.push((area, Some(rank), Call::SetHome(some, rng.below(ranks)))),
            1 => {
                let protocol = rng.pick(&[Protocol::Adaptive, Protocol::Update, Protocol::Invalidate]);
                calls.push((area, None, Call::SetProtocol(protocol)));
            }
            2 | 3 => calls.push((area, Some(rank), Call::WriteBack(some))),
            4 | 5 => calls.push((area, Some(rank), Call::ReadHome(some))),
            _ => {}
        }
    }
    calls
}

/// How an interval ends.
#[derive(Clone, Debug)]
pub(crate) enum End {
    Barrier,
    Broadcast(usize, Range<usize>),
    Alloc(Use),
    Free(usize),
}

pub(crate) fn end(rng: &mut Rng, uses: &[&Use], ranks: u32) -> End {
    let areas = u32::try_from(uses.len()).expect("a few");
    match rng.below(20) {
        0 | 1 if uses.len() < MOST_AREAS => End::Alloc(Use::draw(rng, ranks)),
        2 if uses.len() > 1 => End::Free(rng.below(areas) as usize),
        3 => {
            let area = rng.below(areas) as usize;
            End::Broadcast(area, uses[area].some(rng))
        }
        _ => End::Barrier,
    }
}
