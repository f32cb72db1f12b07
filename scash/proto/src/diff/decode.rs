//! From a diff that a peer sent to changed bytes. Believes nothing: what parses can be applied.

use super::changes::ones;
use super::pack::unpack;
use super::{Changes, LINE, PageBytes, RUN_BITS, Run, Runs};
use crate::PAGE_SIZE;
use crate::codec::{Malformed, Reader};
use std::fmt;

/// A diff that has been checked.
#[derive(Clone, Debug)]
pub struct Diff<'a> {
    changes: Changes,
    /// The new values of `changes`, as many as it has bytes.
    bytes: &'a [u8],
    /// It came as runs: these are few.
    few_runs: bool,
}

impl<'a> Diff<'a> {
    /// Checks a diff. Every set of changes has the one encoding in each form that the encoder writes; others
    /// are refused.
    pub fn parse(diff: &'a [u8]) -> Result<Self, DiffError> {
        if diff.is_empty() {
            return Ok(Self { changes: Changes::NONE, bytes: diff, few_runs: true });
        }
        let mut r = Reader::new(diff);
        let count = r.u8()?;
        let few_runs = count > 0;
        let changes = if few_runs { parse_runs(count, &mut r)? } else { parse_masks(&mut r)? };
        let bytes = r.bytes(changes.bytes())?;
        r.finish()?;
        Ok(Self { changes, bytes, few_runs })
    }

    /// Which bytes the diff changes.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Merges the diff into a page of the caller's own; see [`apply`](super::apply).
    pub fn apply(&self, page: &mut PageBytes) {
        if self.few_runs {
            self.pieces().for_each(|(run, bytes)| copy(bytes, &mut page[run.range()]));
            return;
        }
        let mut bytes = self.bytes;
        let lines = page.as_chunks_mut::<LINE>().0;
        for (line, mask) in self.changes.lines() {
            let used = match bytes.first_chunk() {
                Some(bytes) => unpack(mask, bytes, &mut lines[line]),
                None => unpack(mask, &padded(bytes), &mut lines[line]),
            };
            bytes = &bytes[used..];
        }
    }

    /// The changed runs with their bytes, in ascending order: for pages that others may be writing, in which
    /// nothing but the changed bytes may be stored.
    pub fn pieces(&self) -> Pieces<'_> {
        Pieces { runs: self.changes.runs(), bytes: self.bytes }
    }
}

/// Iterator over the [pieces](Diff::pieces) of a diff: each run and its new bytes.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    runs: Runs<'a>,
    /// The bytes of the runs to come.
    bytes: &'a [u8],
}

impl<'a> Iterator for Pieces<'a> {
    type Item = (Run, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let run = self.runs.next()?;
        let (bytes, rest) = self.bytes.split_at(usize::from(run.len));
        self.bytes = rest;
        Some((run, bytes))
    }
}

fn parse_runs(count: u8, r: &mut Reader<'_>) -> Result<Changes, DiffError> {
    let mut changes = Changes::NONE;
    let mut free_from = 0;
    for _ in 0..count {
        let [low, middle, high] = r.array()?;
        let bits = u32::from_le_bytes([low, middle, high, 0]);
        let low = |bits: u32| (bits & ((1 << RUN_BITS) - 1)) as u16;
        let run = Run { offset: low(bits), len: low(bits >> RUN_BITS) + 1 };
        if run.range().start < free_from || run.range().end > PAGE_SIZE {
            return Err(DiffError::BadRun(run));
        }
        changes.insert_run(run);
        // Runs that touch would have been one run.
        free_from = run.range().end + 1;
    }
    Ok(changes)
}

fn parse_masks(r: &mut Reader<'_>) -> Result<Changes, DiffError> {
    let (changed, partial) = (r.u64()?, r.u64()?);
    if changed == 0 || partial & !changed != 0 {
        return Err(DiffError::BadLines { changed, partial });
    }
    let mut masks = r.bytes(8 * partial.count_ones() as usize)?.as_chunks().0.iter();
    let mut changes = Changes::NONE;
    for line in ones(changed) {
        let whole = partial >> line & 1 == 0;
        let mask = if whole { u64::MAX } else { masks.next().map_or(0, |mask| u64::from_le_bytes(*mask)) };
        if mask == 0 || mask == u64::MAX && !whole {
            return Err(DiffError::BadMask { line, mask });
        }
        changes.insert(line, mask);
    }
    Ok(changes)
}

/// Copies between slices of one length. Most runs are short, and for these a call would take longer than the
/// copy: two stores, overlapping as needed, do.
fn copy(from: &[u8], to: &mut [u8]) {
    fn ends<const N: usize>(from: &[u8], to: &mut [u8]) -> Option<()> {
        *to.first_chunk_mut::<N>()? = *from.first_chunk()?;
        *to.last_chunk_mut::<N>()? = *from.last_chunk()?;
        Some(())
    }
    let copied = match from.len() {
        2..4 => ends::<2>(from, to),
        4..8 => ends::<4>(from, to),
        8..=16 => ends::<8>(from, to),
        _ => None,
    };
    if copied.is_none() {
        to.copy_from_slice(from);
    }
}

/// The end of a diff, with zeros up to a line's length.
fn padded(bytes: &[u8]) -> [u8; LINE] {
    let mut line = [0; LINE];
    line[..bytes.len()].copy_from_slice(bytes);
    line
}

/// Why a diff was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffError {
    /// Too short or too long for what it says it holds.
    Malformed(Malformed),
    /// A run that overlaps or touches the one before, or leaves the page.
    BadRun(Run),
    /// No changed line, or a partial line that is not changed.
    BadLines {
        /// The changed lines.
        changed: u64,
        /// The partial lines.
        partial: u64,
    },
    /// A partial line in which nothing or everything changed.
    BadMask {
        /// The line's number.
        line: usize,
        /// Its mask.
        mask: u64,
    },
}

impl From<Malformed> for DiffError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl fmt::Display for DiffError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bad diff: ")?;
        match self {
            Self::Malformed(malformed) => return malformed.fmt(f),
            Self::BadRun(Run { offset, len }) => {
                write!(f, "a run of {len} bytes at {offset} has no place there")
            }
            Self::BadLines { changed, partial } => {
                write!(f, "lines {partial:#x} are to be partly changed, among {changed:#x}")
            }
            Self::BadMask { line, mask } => write!(f, "line {line} is to be partly changed, as in {mask:#x}"),
        }?;
        write!(f, "; do all ranks run the same version?")
    }
}

impl std::error::Error for DiffError {}
