//! Who owns which elements of an array: disjoint ranges, checked once.

use crate::api::session::{self, Seal, Session, part};
use crate::api::shared::SharedSlice;
use crate::error::{Error, Result};
use crate::runtime::alike::digest;
use std::ops::Range;
use std::sync::Arc;

/// Who owns which elements of an array in an interval: for each session (rank or worker) ranges that are
/// disjoint from all others. What has no owner is read by all.
///
/// A value that each session makes for itself, the same everywhere; sessions compare theirs where a
/// [`Split`](crate::Split) takes it. Copying it is cheap. What cannot be computed by all alike is gathered
/// ([`Dsm::divide`](crate::Dsm::divide)).
///
/// ```
/// use scash::Division;
///
/// // Ten elements, two owners: the even ones and the odd ones among the first eight.
/// let two = Division::new(10, 2, |owner| (owner..8).step_by(2).map(|at| at..at + 1))?;
/// assert_eq!(two.of(1), [1..2, 3..4, 5..6, 7..8]);
/// assert_eq!((two.owner(6), two.owner(9)), (Some(0), None));
///
/// let wrong = Division::new(10, 2, |owner| [owner * 3..owner * 3 + 4]);
/// assert_eq!(
///     wrong.unwrap_err().to_string(),
///     "owner 0 names elements 0..4 and owner 1 elements 3..7: both would own 3..4"
/// );
/// # scash::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Division(Arc<Ranges>);

#[derive(Debug)]
struct Ranges {
    len: usize,
    /// As they were named, owner by owner.
    named: Vec<Range<usize>>,
    /// Where the ranges of each owner begin in `named`, and where all end.
    starts: Vec<usize>,
    /// Those that have elements, ascending, and their owners. They are disjoint.
    sorted: Vec<(Range<usize>, usize)>,
    /// What stands for all of this.
    digest: [u64; 2],
}

impl Division {
    /// Of `len` elements, `ranges(owner)` belong to each of `owners` sessions.
    ///
    /// # Errors
    /// Two ranges have an element in common; a range lies outside of the array.
    pub fn new<R: IntoIterator<Item = Range<usize>>>(
        len: usize,
        owners: usize,
        ranges: impl Fn(usize) -> R,
    ) -> Result<Division> {
        Self::of_named(len, (0..owners).map(ranges), &|owner| format!("owner {owner}"))
    }

    /// No element has an owner: all sessions read all of them.
    pub fn read_by_all(len: usize, owners: usize) -> Division {
        Self::checked(len, vec![0; owners + 1], Vec::new())
    }

    /// Each session owns one run of neighbouring elements, as equal as can be: [`Session::part`] of the
    /// length.
    pub fn even(len: usize, owners: usize) -> Division {
        Self::rows(len, 1, owners)
    }

    /// Of a matrix whose rows follow one another, each session owns neighbouring rows: [`Session::part`] of
    /// their number.
    ///
    /// # Panics
    /// No address space holds as many elements.
    pub fn rows(rows: usize, columns: usize, owners: usize) -> Division {
        let len = rows.checked_mul(columns).expect("rows and columns of an array that there can be");
        let run = |owner| {
            let own = part(rows, owner, owners);
            own.start * columns..own.end * columns
        };
        Self::checked(len, (0..=owners).collect(), (0..owners).map(run).collect())
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// How many sessions it is for.
    pub fn owners(&self) -> usize {
        self.0.starts.len() - 1
    }

    /// The ranges of a session, as they were named.
    ///
    /// # Panics
    /// There is no such session.
    pub fn of(&self, owner: usize) -> &[Range<usize>] {
        &self.0.named[self.0.starts[owner]..self.0.starts[owner + 1]]
    }

    /// Who owns an element.
    pub fn owner(&self, element: usize) -> Option<usize> {
        self.touched(&(element..element.checked_add(1)?)).next().map(|(_, owner)| *owner)
    }

    /// The ranges that have elements in this one, and their owners.
    pub(crate) fn touched(&self, range: &Range<usize>) -> impl Iterator<Item = &(Range<usize>, usize)> {
        let (start, end) = (range.start, range.end);
        let first = self.0.sorted.partition_point(|(owned, _)| owned.end <= start);
        self.0.sorted[first..].iter().take_while(move |(owned, _)| owned.start < end && start < end)
    }

    /// Whether no element of the range has an owner.
    pub fn is_unowned(&self, range: &Range<usize>) -> bool {
        self.touched(range).next().is_none()
    }

    /// Numbers that stand for it: those of another division are others.
    pub fn digest(&self) -> [u64; 2] {
        self.0.digest
    }

    /// The ranges that each session of the job names for itself. Collective, and includes memory barriers.
    pub(crate) fn gather<S: Session + ?Sized>(
        session: &mut S,
        len: usize,
        mine: &[Range<usize>],
    ) -> Result<Division> {
        let (me, owners) = (session.index(), session.count());
        let counts: SharedSlice<u64> = session::alloc(session, owners, Default::default())?;
        counts.set(session, me, mine.len() as u64);
        session::barrier(session)?;
        let counted: Vec<usize> = (0..owners).map(|owner| whole(counts.get(session, owner))).collect();
        session::free(session, counts)?;
        let all = counted.iter().sum::<usize>();
        let lens: SharedSlice<[u64; 2]> = session::alloc(session, all + 1, Default::default())?;
        let first = counted[..me].iter().sum::<usize>();
        for (at, range) in (first..).zip(mine) {
            lens.set(session, at, [range.start as u64, range.end as u64]);
        }
        // Ranks that disagree on the length would judge the ranges differently.
        session::agree(session, lens, digest(&("divide", len)))?;
        let range = |at| {
            let [start, end] = lens.get(session, at);
            whole(start)..whole(end)
        };
        let mut next = 0;
        let mut named = Vec::with_capacity(owners);
        for count in counted {
            named.push((next..next + count).map(range).collect::<Vec<_>>());
            next += count;
        }
        session::free(session, lens)?;
        Self::of_named(len, named, &|owner| session.name(owner, Seal(())))
    }

    fn of_named<R: IntoIterator<Item = Range<usize>>>(
        len: usize,
        ranges: impl IntoIterator<Item = R>,
        name: &dyn Fn(usize) -> String,
    ) -> Result<Division> {
        let (mut named, mut starts) = (Vec::new(), vec![0]);
        for (owner, ranges) in ranges.into_iter().enumerate() {
            named.extend(ranges);
            let first: usize = starts[owner];
            if let Some(range) =
                named[first..].iter().find(|range| range.start > range.end || range.end > len)
            {
                return Err(Error::Argument(format!(
                    "{} names elements {range:?} of an array of {len}",
                    name(owner)
                )));
            }
            starts.push(named.len());
        }
        let division = Self::checked(len, starts, named);
        let clash = division.0.sorted.windows(2).find(|two| two[1].0.start < two[0].0.end);
        let Some([(a, first), (b, second)]) = clash else { return Ok(division) };
        Err(Error::Argument(format!(
            "{} names elements {a:?} and {} elements {b:?}: both would own {:?}",
            name(*first),
            name(*second),
            b.start..a.end.min(b.end)
        )))
    }

    /// The division of ranges that are known to be within the array and disjoint.
    fn checked(len: usize, starts: Vec<usize>, named: Vec<Range<usize>>) -> Division {
        let mut sorted = Vec::with_capacity(named.len());
        for owner in 0..starts.len() - 1 {
            let ranges = &named[starts[owner]..starts[owner + 1]];
            sorted
                .extend(ranges.iter().filter(|range| !range.is_empty()).map(|range| (range.clone(), owner)));
        }
        sorted.sort_unstable_by_key(|(range, owner)| (range.start, range.end, *owner));
        let digest = digest(&(len, &starts, &named));
        Division(Arc::new(Ranges { len, named, starts, sorted, digest }))
    }
}

/// A number that was written as one of this size.
fn whole(word: u64) -> usize {
    usize::try_from(word).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_are_divided_as_parts_are() {
        let division = Division::rows(7, 10, 3);
        assert_eq!((division.len(), division.owners(), division.is_empty()), (70, 3, false));
        let ranges: Vec<_> = (0..3).flat_map(|owner| division.of(owner).to_vec()).collect();
        assert_eq!(ranges, [0..30, 30..50, 50..70]);
        assert_eq!(
            division.digest(),
            Division::new(70, 3, |owner| [ranges[owner].clone()]).unwrap().digest()
        );
        assert_ne!(division.digest(), Division::even(70, 3).digest());
    }

    #[test]
    fn what_is_read_by_all_has_no_owner() {
        let division = Division::read_by_all(10, 4);
        assert_eq!(division.owners(), 4);
        assert!((0..4).all(|owner| division.of(owner).is_empty()));
        assert!((0..10).all(|element| division.owner(element).is_none()));
    }

    #[test]
    fn ranges_outside_of_the_array_and_those_that_go_backwards_are_refused() {
        #[expect(clippy::reversed_empty_ranges, reason = "that is the mistake")]
        for range in [0..11, 11..11, usize::MAX..usize::MAX, 5..4] {
            let told = Division::new(10, 2, |owner| (owner == 1).then(|| range.clone())).unwrap_err();
            assert!(told.to_string().starts_with("owner 1 names elements"), "{told}");
        }
    }

    proptest! {
        #[test]
        fn a_division_is_made_of_ranges_exactly_if_no_two_have_an_element_in_common(
            ranges in proptest::collection::vec((0usize..3, 0usize..12, 0usize..4), 0..6)
        ) {
            let of = |owner| {
                let own = ranges.iter().filter(move |(of, ..)| *of == owner);
                own.map(|&(_, start, len)| start..start + len)
            };
            let owners = |element: usize| -> Vec<usize> {
                let has = |owner| of(owner).filter(|range| range.contains(&element)).map(move |_| owner);
                (0..3).flat_map(has).collect()
            };
            let disjoint = (0..16).all(|element| owners(element).len() <= 1);
            let division = Division::new(16, 3, of);
            prop_assert_eq!(division.is_ok(), disjoint);
            if let Ok(division) = division {
                for element in 0..16 {
                    prop_assert_eq!(division.owner(element), owners(element).first().copied());
                }
                for (start, end) in (0..16).flat_map(|start| (start..=16).map(move |end| (start, end))) {
                    let touched = (start..end).any(|element| !owners(element).is_empty());
                    prop_assert_eq!(division.touched(&(start..end)).next().is_some(), touched);
                }
            }
        }
    }
}
