//! How areas are used: cut in which pieces, by whom, and when.

use super::RandomProgram;
use crate::rng::Rng;

/// Who writes a piece.
#[derive(Clone, Copy, Debug)]
pub(super) enum Writers {
    /// The rank whose part of the area it is.
    Owner,
    /// One rank all of it.
    One(u32),
    /// A rank for each piece.
    Fixed,
    /// The next rank every few intervals.
    Rotating(u32),
    /// Anybody.
    Chaos,
}

/// Who reads a piece.
#[derive(Clone, Copy, Debug)]
pub(super) enum Readers {
    /// Ranks next to the writer.
    Neighbours,
    /// All ranks.
    All,
    /// Some ranks, for each piece the same.
    Fixed(u32),
    /// Each rank at times.
    Chaos(u32),
}

/// When something is done.
#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    Always,
    /// Every k-th interval, in turns.
    Every(u32),
    /// Now and then.
    Often(u32),
    /// For so many intervals on, and so many off.
    Phases(u32, u32),
}

/// How an area is used for a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Character {
    pub(super) salt: u64,
    pub(super) pieces: u32,
    pub(super) writers: Writers,
    pub(super) readers: Readers,
    pub(super) write: When,
    pub(super) read: When,
    /// How many, in a hundred, of the writes change nothing.
    pub(super) silent: u32,
    /// How many, in a hundred, are undone before the interval's end.
    pub(super) flickers: u32,
    /// How many, in a hundred, of the ranks use the area in an interval, in critical sections; 0: locks are
    /// not for this area.
    pub(super) locked: u32,
    /// How many, in a hundred, of the intervals use the area for batons, and not at all else.
    pub(super) batons: u32,
    /// How many, in a hundred, of the critical sections are left out if their lock is not free.
    pub(super) tried: u32,
    /// How many, in a hundred, of the pieces have a word that is operated on in an interval.
    pub(super) operated: u32,
    /// Interval in which it ends.
    pub(super) until: u32,
}

impl RandomProgram {
    pub(super) fn character(&mut self) -> Character {
        let rng = &mut self.rng;
        let n = self.size;
        let whens = |rng: &mut Rng| match rng.below(8) {
            0..3 => When::Always,
            3 => When::Every(rng.between(2, 4)),
            4 | 5 => When::Often(rng.between(5, 80)),
            _ => When::Phases(rng.between(1, 10), rng.between(1, 25)),
        };
        let until = self.next + if rng.chance(50) { 1000 } else { rng.between(1, 25) };
        Character {
            salt: rng.bits(),
            pieces: rng.pick(&[1, 1, 1, 2, 3, 5, 16]),
            writers: match rng.below(8) {
                0..3 => Writers::Owner,
                3 => Writers::One(rng.below(n)),
                4 | 5 => Writers::Fixed,
                6 => Writers::Rotating(rng.between(1, 5)),
                _ => Writers::Chaos,
            },
            readers: match rng.below(6) {
                0 | 1 => Readers::Neighbours,
                2 => Readers::All,
                3 | 4 => Readers::Fixed(rng.between(1, 60)),
                _ => Readers::Chaos(rng.between(1, 60)),
            },
            write: whens(rng),
            read: whens(rng),
            silent: rng.pick(&[0, 0, 10, 100]),
            flickers: rng.pick(&[0, 0, 30]),
            locked: if self.objects.guards() > 0 { rng.pick(&[0, 20, 60, 100]) } else { 0 },
            batons: if self.objects.has_batons() { rng.pick(&[0, 0, 50, 100]) } else { 0 },
            tried: rng.pick(&[0, 0, 30, 100]),
            operated: rng.pick(&[0, 0, 10, 50]),
            until,
        }
    }
}
