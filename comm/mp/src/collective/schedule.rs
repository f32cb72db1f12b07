//! What a rank does in a collective operation: rounds of transfers, and of work on its own memory.

use super::Reduction;
use scash_comm::Mark;
use std::ops::Range;

/// Memory of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    /// What the application gives.
    Input,
    /// What it gets.
    Output,
    /// The operation's own.
    Temporary,
}

/// Some bytes of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AreaRange {
    pub(crate) area: Area,
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

/// What travels in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    Send { to: u32, piece: AreaRange },
    Receive { from: u32, piece: AreaRange },
}

/// What is done when all of a round's transfers are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocalWork {
    Copy { from: AreaRange, to: AreaRange },
    Combine { from: AreaRange, into: AreaRange },
}

/// A round. It begins when the one before it is over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    /// What is posted on the board when it begins.
    pub(crate) post: Option<Mark>,
    /// What is to be seen there before it is over.
    pub(crate) awaits: Option<Mark>,
    pub(crate) transfers: Vec<Transfer>,
    pub(crate) work: Vec<LocalWork>,
}

/// A rank's part of a collective operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Schedule {
    pub(crate) rounds: Vec<Round>,
    /// Bytes of the operation's own memory.
    pub(crate) temporary: usize,
    /// How elements are combined, if they are.
    pub(crate) reduction: Option<Reduction>,
}

fn piece(area: Area, range: Range<usize>) -> AreaRange {
    AreaRange { area, offset: range.start, len: range.len() }
}

pub(super) fn input(range: Range<usize>) -> AreaRange {
    piece(Area::Input, range)
}

pub(super) fn output(range: Range<usize>) -> AreaRange {
    piece(Area::Output, range)
}

pub(super) fn temporary(range: Range<usize>) -> AreaRange {
    piece(Area::Temporary, range)
}

pub(super) fn send(to: u32, piece: AreaRange) -> Transfer {
    Transfer::Send { to, piece }
}

pub(super) fn receive(from: u32, piece: AreaRange) -> Transfer {
    Transfer::Receive { from, piece }
}

pub(super) fn transfers(transfers: Vec<Transfer>) -> Round {
    then(transfers, Vec::new())
}

pub(super) fn then(transfers: Vec<Transfer>, work: Vec<LocalWork>) -> Round {
    Round { transfers, work, ..Round::default() }
}

pub(super) fn copy(from: AreaRange, to: AreaRange) -> Round {
    then(Vec::new(), vec![LocalWork::Copy { from, to }])
}
