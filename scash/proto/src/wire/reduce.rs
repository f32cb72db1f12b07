//! Messages of reductions: up a tree of ranks, and down again.
//!
//! | direction | from → to | carries |
//! |---|---|---|
//! | [`Up`](Direction::Up) | rank → its parent | what it and all ranks below it came for, and their values as one |
//! | [`Down`](Direction::Down) | rank → each of its children | what all ranks came for, and the result |
//! | [`Disagree`](Direction::Disagree) | who found it out → all others | what two ranks came for, one of them not for a reduction |

use super::{Attendance, Malformed, Purpose, Reader, Why, Writer, list, put_span, span};
use crate::Rank;

/// What becomes of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// Their sum; that of whole numbers wraps around.
    Sum,
    /// The lesser. Of a number and what is none (NaN), the number.
    Min,
    /// The greater, likewise.
    Max,
    /// The bits that both have. Of whole numbers only.
    And,
    /// The bits that one of them has. Of whole numbers only.
    Or,
}

/// What values are. Each takes 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// Whole numbers without a sign.
    U64,
    /// Whole numbers with a sign.
    I64,
    /// Floating-point numbers.
    F64,
}

/// A call that all ranks make together and that is no memory barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// All ranks' values become one, element by element.
    All(Combine, NumberKind),
    /// All get the values of one rank; those of the others are not looked at.
    From(Rank),
}

impl Reduction {
    /// The numbers by which ranks compare what they came for, where each has so many values.
    pub fn purpose(self, values: usize) -> Purpose {
        let values = values as u64;
        Purpose(match self {
            Reduction::All(combine, number) => [16, combine as u64, number as u64, values],
            Reduction::From(rank) => [17, u64::from(rank.0), values, 0],
        })
    }

    /// What becomes of a value `a` of rank `at` (and of the ranks below it in the tree) and a value `b` from
    /// a child.
    pub fn combine(self, a: u64, b: u64) -> u64 {
        let Reduction::All(combine, number) = self else { return a | b };
        match (combine, number) {
            (Combine::And, _) => a & b,
            (Combine::Or, _) => a | b,
            (Combine::Sum, NumberKind::U64 | NumberKind::I64) => a.wrapping_add(b),
            (Combine::Min, NumberKind::U64) => a.min(b),
            (Combine::Max, NumberKind::U64) => a.max(b),
            (Combine::Min, NumberKind::I64) => a.cast_signed().min(b.cast_signed()).cast_unsigned(),
            (Combine::Max, NumberKind::I64) => a.cast_signed().max(b.cast_signed()).cast_unsigned(),
            (_, NumberKind::F64) => {
                let (a, b) = (f64::from_bits(a), f64::from_bits(b));
                let second = match combine {
                    Combine::Min => b < a || a.is_nan(),
                    Combine::Max => b > a || a.is_nan(),
                    _ => return (a + b).to_bits(),
                };
                if second { b.to_bits() } else { a.to_bits() }
            }
        }
    }
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the parent.
    Up,
    /// To a child.
    Down,
    /// To everybody.
    Disagree,
}

/// A message of a reduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReduceMessage {
    /// Memory barriers that the sender has passed.
    pub epoch: u32,
    /// Reductions since then that it has passed.
    pub number: u64,
    /// Which way.
    pub direction: Direction,
    /// Least and greatest attendance that the sender knows.
    pub span: [Attendance; 2],
    /// Nothing where ranks disagree.
    pub values: Vec<u64>,
}

impl ReduceMessage {
    /// The message's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32 + 8 * self.values.len());
        let mut w = Writer::new(&mut out);
        w.u32(self.epoch);
        w.varint(self.number);
        w.u8(match self.direction {
            Direction::Up => 0,
            Direction::Down => 1,
            Direction::Disagree => 2,
        });
        put_span(&mut w, self.span);
        w.varint(self.values.len() as u64);
        self.values.iter().for_each(|&value| w.u64(value));
        out
    }

    /// Reads a message.
    pub fn decode(bytes: &[u8]) -> Result<ReduceMessage, Malformed> {
        let mut r = Reader::new(bytes);
        let (epoch, number) = (r.u32()?, r.varint()?);
        let at = r.position();
        let direction = match r.u8()? {
            0 => Direction::Up,
            1 => Direction::Down,
            2 => Direction::Disagree,
            tag => return Err(Malformed { at, why: Why::UnknownTag { tag } }),
        };
        let span = span(&mut r)?;
        let values = list(&mut r, 8, |r| r.u64())?;
        r.finish()?;
        Ok(ReduceMessage { epoch, number, direction, span, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were_sent_and_every_prefix_is_refused() {
        let a = |rank, n| Attendance { purpose: Purpose([n, 2, 3, 4]), rank: Rank(rank) };
        for (direction, span) in [
            (Direction::Up, [a(1, 1), a(9, 1)]),
            (Direction::Down, [a(1, 1), a(70_000, 5)]),
            (Direction::Disagree, [a(0, 0); 2]),
        ] {
            let message = ReduceMessage { epoch: 7, number: 300, direction, span, values: vec![0, u64::MAX] };
            let bytes = message.encode();
            let back = ReduceMessage::decode(&bytes).unwrap();
            assert_eq!((back.direction, back.number, back.values), (direction, 300, message.values));
            assert!((0..bytes.len()).all(|n| ReduceMessage::decode(&bytes[..n]).is_err()));
        }
    }

    #[test]
    fn values_are_combined_as_what_they_are() {
        let all = |combine, number, a, b| Reduction::All(combine, number).combine(a, b);
        let float =
            |combine, a: f64, b: f64| f64::from_bits(all(combine, NumberKind::F64, a.to_bits(), b.to_bits()));
        let minus = u64::MAX;
        assert_eq!(all(Combine::Sum, NumberKind::I64, minus, 1), 0);
        assert_eq!(all(Combine::Min, NumberKind::I64, minus, 1), minus);
        assert_eq!(all(Combine::Max, NumberKind::I64, minus, 1), 1);
        assert_eq!(all(Combine::Min, NumberKind::U64, minus, 1), 1);
        assert_eq!(all(Combine::Max, NumberKind::U64, minus, 1), minus);
        assert_eq!(all(Combine::And, NumberKind::U64, 6, 3), 2);
        assert_eq!(all(Combine::Or, NumberKind::I64, 6, 3), 7);
        assert_eq!(float(Combine::Sum, 0.5, 0.25), 0.75);
        assert_eq!((float(Combine::Min, -1.0, 2.0), float(Combine::Max, -1.0, 2.0)), (-1.0, 2.0));
        assert_eq!((float(Combine::Min, f64::NAN, 2.0), float(Combine::Max, 2.0, f64::NAN)), (2.0, 2.0));
    }
}
