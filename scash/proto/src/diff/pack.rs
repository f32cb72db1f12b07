//! Packing the changed bytes of a line together, and unpacking them.
//!
//! Taking byte after byte would be slow, and taking run after run no better: in floating-point data each
//! number is a run. But their runs begin where numbers begin. If all the runs of a line begin at multiples of
//! `U` bytes, each *unit* of `U` bytes can be moved as a whole, the next one to where its last changed byte
//! was: no branch depends on the data.
//!
//! ```text
//!   U = 4      unit 0       unit 1       unit 2
//!   line     [ a b c . ]  [ d e . . ]  [ f g h i ] …       .: not changed
//!   stored     a b c .                                     then 3 further
//!                    d e . .                               then 2 further
//!                        f g h i
//!   packed     a b c d e f g h i …
//! ```
//!
//! Eight-byte units do for `double`s and pointers, four-byte units for `float`s and `int`s; one-byte units do
//! for all.

use super::LINE;

/// Stores the bytes of `line` that `mask` names at the beginning of `out` and returns how many they are. What
/// is behind them in `out` has no meaning.
pub(super) fn pack(mask: u64, line: &[u8; LINE], out: &mut [u8; LINE]) -> usize {
    if mask == u64::MAX {
        *out = *line;
        return LINE;
    }
    let units = Units::of(mask);
    match units.size {
        8 => pack_units::<8>(units.counts, line, out),
        4 => pack_units::<4>(units.counts, line, out),
        2 => pack_units::<2>(units.counts, line, out),
        _ => pack_units::<1>(units.counts, line, out),
    }
}

fn pack_units<const U: usize>(mut counts: u64, line: &[u8; LINE], out: &mut [u8; LINE]) -> usize {
    let mut at = 0;
    for unit in line.as_chunks::<U>().0 {
        // Units before this one have at most U bytes each: there is room for a whole one.
        out[at..at + U].copy_from_slice(unit);
        at += low_bits(counts, U);
        counts >>= U;
    }
    at
}

/// Gives the bytes of `line` that `mask` names the values at the beginning of `bytes`, and returns how many
/// they are.
pub(super) fn unpack(mask: u64, bytes: &[u8; LINE], line: &mut [u8; LINE]) -> usize {
    if mask == u64::MAX {
        *line = *bytes;
        return LINE;
    }
    let mut spread = [0; LINE];
    let units = Units::of(mask);
    let len = match units.size {
        8 => spread_units::<8>(units.counts, bytes, &mut spread),
        4 => spread_units::<4>(units.counts, bytes, &mut spread),
        2 => spread_units::<2>(units.counts, bytes, &mut spread),
        _ => spread_units::<1>(units.counts, bytes, &mut spread),
    };
    let words = line.as_chunks_mut::<8>().0.iter_mut().zip(spread.as_chunks().0);
    for ((word, new), mask) in words.zip(mask.to_le_bytes()) {
        let (old, new) = (u64::from_le_bytes(*word), u64::from_le_bytes(*new));
        *word = (old ^ (old ^ new) & WHOLE_BYTES[usize::from(mask)]).to_le_bytes();
    }
    len
}

/// The reverse of [`pack_units`], but for bytes that did not change: they get any value.
fn spread_units<const U: usize>(mut counts: u64, bytes: &[u8; LINE], spread: &mut [u8; LINE]) -> usize {
    let mut at = 0;
    for unit in spread.as_chunks_mut::<U>().0 {
        unit.copy_from_slice(&bytes[at..at + U]);
        at += low_bits(counts, U);
        counts >>= U;
    }
    at
}

#[allow(clippy::cast_possible_truncation, reason = "at most eight bits are left")]
fn low_bits(counts: u64, bits: usize) -> usize {
    (counts & ((1 << bits) - 1)) as usize
}

/// For each mask of eight bits a word whose byte i is 255 if the mask's bit i is set, and else 0.
static WHOLE_BYTES: [u64; 256] = {
    let (mut words, mut bit) = ([0; 256], 0);
    while bit < 8 {
        let mut mask = 0;
        while mask < 256 {
            words[mask] |= ((mask as u64 >> bit & 1) * 0xff) << (8 * bit);
            mask += 1;
        }
        bit += 1;
    }
    words
};

/// How to move the changed bytes of a line: the largest units at whose beginnings all runs begin.
struct Units {
    /// 1, 2, 4 or 8 bytes.
    size: usize,
    /// How many bytes changed in each unit: the first unit's number in the low `size` bits, then the next.
    counts: u64,
}

impl Units {
    fn of(mask: u64) -> Self {
        let starts = mask & !(mask << 1);
        let begin_at_multiples = |units: u64| starts & !units == 0;
        if !begin_at_multiples(0x5555_5555_5555_5555) {
            return Self { size: 1, counts: mask };
        }
        let twos = mask - (mask >> 1 & 0x5555_5555_5555_5555);
        if !begin_at_multiples(0x1111_1111_1111_1111) {
            return Self { size: 2, counts: twos };
        }
        let fours = (twos & 0x3333_3333_3333_3333) + (twos >> 2 & 0x3333_3333_3333_3333);
        if !begin_at_multiples(0x0101_0101_0101_0101) {
            return Self { size: 4, counts: fours };
        }
        let eights = (fours & 0x0f0f_0f0f_0f0f_0f0f) + (fours >> 4 & 0x0f0f_0f0f_0f0f_0f0f);
        Self { size: 8, counts: eights }
    }
}
