//! Reductions, and values of one rank for all: calls that all ranks make together, and that are no memory
//! barrier.

use super::Runtime;
use crate::error::{Error, Result};
use scash_proto::Rank;
use scash_proto::wire::reduce::{Combine, NumberKind, Reduction};

/// Most values of one call: they travel in one message.
const MOST: usize = 4096;
/// Bytes of a value.
const WORD: usize = size_of::<u64>();

impl Runtime {
    /// All ranks' values become one, element by element, at every rank. Collective: all ranks come with as
    /// many values, and for the same. No memory barrier.
    ///
    /// Values are combined along a tree of ranks, in an order that depends on the number of ranks alone:
    /// floating-point sums have the same bits at every rank, and in every run on as many ranks.
    ///
    /// # Errors
    /// More than 4096 values; bits of floating-point numbers; ranks made different collective calls; a rank
    /// is gone.
    pub fn all_reduce(&self, combine: Combine, number: NumberKind, values: Vec<u64>) -> Result<Vec<u64>> {
        self.check_reduction(combine, number, values.len())?;
        self.reduce_together(Reduction::All(combine, number), values)
    }

    /// Waits until all ranks have come. Collective, and no memory barrier.
    ///
    /// # Errors
    /// Ranks made different collective calls; a rank is gone.
    pub fn await_all(&self) -> Result<()> {
        self.all_reduce(Combine::Sum, NumberKind::U64, Vec::new()).map(drop)
    }

    /// Whether so many numbers can be reduced so: what [`all_reduce`](Self::all_reduce) looks at before it
    /// does anything.
    ///
    /// # Errors
    /// More than 4096 values; bits of floating-point numbers.
    pub fn check_reduction(&self, combine: Combine, number: NumberKind, count: usize) -> Result<()> {
        if count > MOST {
            return Err(Error::Argument(format!(
                "a reduction of {count} values: at most {MOST} go at once; make several calls, or use shared memory and a barrier"
            )));
        }
        if number == NumberKind::F64 && matches!(combine, Combine::And | Combine::Or) {
            let text = "floating-point numbers have no and, no or: reduce whole numbers";
            return Err(Error::Argument(text.to_owned()));
        }
        Ok(())
    }

    /// Whether a value of so many bytes can come from that rank: what
    /// [`broadcast_value`](Self::broadcast_value) looks at before it does anything.
    ///
    /// # Errors
    /// More than 32 KiB; there is no such rank.
    pub fn check_value(&self, bytes: usize, from: u32) -> Result<()> {
        if bytes > MOST * WORD {
            return Err(Error::Argument(format!(
                "a broadcast of a value of {bytes} bytes: at most {} go at once; put it into shared memory and broadcast that",
                MOST * WORD
            )));
        }
        if from >= self.size {
            let last = self.size - 1;
            return Err(Error::Argument(format!("a value of rank {from}: there are ranks 0 to {last}")));
        }
        Ok(())
    }

    /// Replaces the bytes at every rank by those of one. Collective: all ranks come with as many bytes, and
    /// name the same rank. No memory barrier. For small values: [`broadcast`](Self::broadcast) is for shared
    /// memory.
    ///
    /// # Errors
    /// More than 32 KiB; there is no such rank; ranks made different collective calls; a rank is gone.
    pub fn broadcast_value(&self, bytes: &mut [u8], from: u32) -> Result<()> {
        self.check_value(bytes.len(), from)?;
        let word = |piece: &[u8]| {
            let mut word = [0; WORD];
            word[..piece.len()].copy_from_slice(piece);
            u64::from_ne_bytes(word)
        };
        // The length goes first: pieces of a word are not the same as a whole one.
        let length = bytes.len() as u64;
        let words = std::iter::once(length).chain(bytes.chunks(WORD).map(word)).collect();
        let words = self.reduce_together(Reduction::From(Rank(from)), words)?;
        if words.first() != Some(&length) {
            return Err(Error::Mismatch(format!(
                "rank {from} broadcasts a value of {} bytes, and this rank takes one of {length}: all ranks must come with as many bytes",
                words.first().copied().unwrap_or(0)
            )));
        }
        for (piece, word) in bytes.chunks_mut(WORD).zip(&words[1..]) {
            piece.copy_from_slice(&word.to_ne_bytes()[..piece.len()]);
        }
        Ok(())
    }
}
