//! What the messages of a collective operation bear, so that ranks that call different ones find out: its
//! number, and what it is.
//!
//! The context and tag of a message have room for both, so that no message is longer for it:
//!
//! | where | bits | what |
//! |---|---|---|
//! | context | 15 | set: it is a message of a collective operation |
//! | context | 12–14 | the operation's kind |
//! | context | 0–11 | bits of a digest of its numbers: root, lengths, type of elements and what becomes of them |
//! | tag | 48–63 | more bits of the digest |
//! | tag | 0–47 | how many operations there were before it |

use super::{Collective, Reduction};
use std::fmt;

const COLLECTIVE: u16 = 1 << 15;
const KIND: u32 = 12;
const NUMBER: u32 = 48;
/// By number.
const KINDS: [&str; 8] =
    ["barrier", "broadcast", "reduce", "all-reduce", "gather", "all-gather", "all-to-all", "reduce-scatter"];

/// Which operation a message is of, and what its sender takes that for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    context: u16,
    tag: u64,
}

impl Stamp {
    /// Of an operation before which there were so many.
    pub(crate) fn new(number: u64, collective: &Collective) -> Self {
        let (kind, digest) = summary(collective);
        let [a, b, c, d, ..] = digest.to_le_bytes();
        let low = u16::from_le_bytes([a, b]) & ((1 << KIND) - 1);
        let context = COLLECTIVE | kind << KIND | low;
        let tag = u64::from(u16::from_le_bytes([c, d])) << NUMBER | number & ((1 << NUMBER) - 1);
        Self { context, tag }
    }

    /// Of a message; `None`: it is of no collective operation.
    pub(crate) fn of(context: u16, tag: u64) -> Option<Self> {
        (context & COLLECTIVE != 0).then_some(Self { context, tag })
    }

    /// How many operations there were before it.
    pub(crate) fn number(self) -> u64 {
        self.tag & ((1 << NUMBER) - 1)
    }

    /// The context of its messages.
    pub(crate) fn context(self) -> u16 {
        self.context
    }

    /// Their tag.
    pub(crate) fn tag(self) -> u64 {
        self.tag
    }
}

/// The name of its kind.
impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(KINDS[usize::from(self.context >> KIND & 7)])
    }
}

/// The number of its kind, and a digest of what all ranks must say alike.
fn summary(collective: &Collective) -> (u16, u64) {
    let reduced =
        |reduction: Reduction| u64::from(reduction.element() as u8) << 8 | u64::from(reduction.op() as u8);
    let of = |head: [u64; 2], lens: &[usize]| {
        let words = head.into_iter().chain(lens.iter().map(|&len| len as u64));
        let mix = |digest: u64, word: u64| {
            (digest.rotate_left(5) ^ word ^ digest >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        };
        let digest = words.fold(0x243F_6A88_85A3_08D3, mix);
        digest >> 32 ^ digest
    };
    match collective {
        Collective::Barrier => (0, 0),
        Collective::Broadcast { root, len } => (1, of([(*root).into(), 0], &[*len])),
        Collective::Reduce { root, count, reduction } => {
            (2, of([(*root).into(), reduced(*reduction)], &[*count]))
        }
        Collective::AllReduce { count, reduction } => (3, of([0, reduced(*reduction)], &[*count])),
        Collective::Gather { root, len } => (4, of([(*root).into(), 0], &[*len])),
        Collective::AllGather { lens } => (5, of([0, 0], lens)),
        // Each rank has its own lengths.
        Collective::AllToAll { .. } => (6, 0),
        Collective::ReduceScatter { counts, reduction } => (7, of([0, reduced(*reduction)], counts)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{Element, Op};
    use std::collections::HashSet;

    #[test]
    fn operations_that_differ_in_anything_that_ranks_must_say_alike_have_other_stamps() {
        let reduction = |element, op| Reduction::new(element, op).unwrap();
        let mut all = vec![Collective::Barrier, Collective::AllToAll { to: vec![1], from: vec![2] }];
        for number in 0..8 {
            let (root, len) = (u32::try_from(number % 4).unwrap(), number / 4 * 8 + 8);
            all.push(Collective::Broadcast { root, len });
            all.push(Collective::Gather { root, len });
            all.push(Collective::AllGather { lens: vec![len, number] });
            for reduction in [
                reduction(Element::U64, Op::Sum),
                reduction(Element::F64, Op::Sum),
                reduction(Element::U64, Op::Max),
            ] {
                all.push(Collective::Reduce { root, count: len, reduction });
                all.push(Collective::AllReduce { count: number, reduction });
                all.push(Collective::ReduceScatter { counts: vec![number, len], reduction });
            }
        }
        let stamps = all.iter().map(|collective| {
            let stamp = Stamp::new(7, collective);
            assert_eq!((stamp.number(), Stamp::of(stamp.context(), stamp.tag())), (7, Some(stamp)));
            (stamp.context(), stamp.tag())
        });
        assert_eq!(stamps.collect::<HashSet<_>>().len(), all.len());
    }

    #[test]
    fn lengths_that_differ_from_rank_to_rank_leave_the_stamp_as_it_is() {
        let stamp = |to, from| Stamp::new(3, &Collective::AllToAll { to, from });
        assert_eq!(stamp(vec![1, 2], vec![3, 4]), stamp(vec![5, 6], vec![7, 8]));
        assert_eq!(stamp(vec![], vec![]).to_string(), "all-to-all");
    }

    #[test]
    fn other_messages_have_none() {
        assert_eq!((Stamp::of(0, u64::MAX), Stamp::of(2, 7)), (None, None));
    }
}
