//! A shared array of which each session owns some ranges for an interval, and what nobody owns is read by
//! all.
//!
//! The array exists once. Who owns what is a [`Division`]; with a barrier, [`Dsm::turn`], it becomes another
//! one. Ranks compare what they turn to in the barrier itself, so none goes on that means something else. A
//! program in which each writes its own and then all read the whole turns between two divisions:
//!
//! | interval | division | a session writes | and reads |
//! |---|---|---|---|
//! | 1 | [`Division::even`] | its part | its part |
//! | 2 | [`Division::read_by_all`] | nothing | everything |
//!
//! **Why this is sound.** Ranges of a division are disjoint, so no two sessions get a mutable slice of one
//! element, and a shared one leads only to what no other session owns. Handles of an array are made together,
//! one a session, and none is copied. All of a rank see the array's *phase*, a number that a turn raises: one
//! that has missed a turn, say because it was given to a thread that did not come with it, leads to the
//! memory no more. Slices are borrowed from sessions, of which a turn takes all
//! ([`session`](crate::api::session)).

use crate::api::division::Division;
use crate::api::dsm::Dsm;
use crate::api::session::{self, Session};
use crate::api::shared::{Plain, SharedSlice};
use crate::api::team::Outcome;
use crate::error::{Error, Result};
use crate::runtime::alike::digest;
use scash_proto::AllocOptions;
use scash_proto::node::Collective;
use std::marker::PhantomData;
use std::ops::Range;

/// An array of `T` of which each session, a rank or a [`Worker`](crate::Worker), owns ranges from one barrier
/// to the next.
///
/// ```no_run
/// use scash::Division;
///
/// fn main() -> scash::Result<()> {
///     let mut dsm = scash::Dsm::init()?;
///     let own = Division::even(1000, dsm.size());
///     let read = Division::read_by_all(1000, dsm.size());
///     let mut counts = dsm.split::<u64>(&own)?;
///     for round in 0..10 {
///         for mine in counts.view(&dsm).mine {
///             mine.fill(round);
///         }
///         dsm.turn([counts.to(&read)])?; // a barrier
///         let sum: u64 = counts.get(&dsm, 0..1000).iter().sum();
///         assert_eq!(sum, 1000 * round);
///         dsm.turn([counts.to(&own)])?; // a barrier
///     }
///     counts.free(&mut dsm)?;
///     dsm.finalize()
/// }
/// ```
///
/// Slices end before the owners change:
///
/// ```compile_fail,E0499
/// # use scash::{Division, Dsm, Result, Split};
/// # fn f(dsm: &mut Dsm, counts: &mut Split<u64>, read: &Division) -> Result<()> {
/// let view = counts.view(dsm);
/// dsm.turn([counts.to(read)])?; // error: `view` still borrows both
/// drop(view.mine);
/// # Ok(()) }
/// ```
///
/// After a turn that has failed, and may have succeeded at other ranks, the array leads to its memory no
/// more: calls that return a [`Result`] say so, the others panic.
#[derive(Debug)]
pub struct Split<T: Plain> {
    values: SharedSlice<T>,
    division: Division,
    /// The session whose handle this is.
    owner: usize,
    /// When `division` began to hold.
    phase: u64,
}

/// What a session may use of a [`Split`] in an interval.
#[derive(Debug)]
pub struct View<'a, T> {
    /// Its ranges, as the [`Division`] names them, to read and write.
    pub mine: Vec<&'a mut [T]>,
    /// What nobody owns, to read.
    pub shared: Unowned<'a, T>,
}

/// The elements of a [`Split`] that nobody owns in an interval.
pub struct Unowned<'a, T> {
    values: SharedSlice<T>,
    division: &'a Division,
    _interval: PhantomData<&'a [T]>,
}

impl<T> Clone for Unowned<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Unowned<'_, T> {}

impl<T> std::fmt::Debug for Unowned<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Unowned").field(&self.values).finish()
    }
}

impl<'a, T: Plain> Unowned<'a, T> {
    /// Elements that nobody owns.
    ///
    /// # Panics
    /// Somebody owns one of them, or there are no such elements.
    pub fn get(&self, range: Range<usize>) -> &'a [T] {
        let owned = self.division.touched(&range).next();
        assert!(
            owned.is_none(),
            "elements {range:?} are to be read, and session {} owns {:?}",
            owned.map_or(0, |o| o.1),
            owned.map(|o| &o.0)
        );
        // SAFETY: a range in which no session has a mutable slice before the next turn; the lifetime is that
        // of a borrow from a session, which a turn ends.
        unsafe { self.values.part(range) }
    }
}

/// A change of owners that [`Dsm::turn`] is to bring about: [`Split::to`].
pub struct Turn<'a> {
    array: &'a mut dyn Array,
    division: &'a Division,
}

impl std::fmt::Debug for Turn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn").field("phase", &self.array.phase()).finish_non_exhaustive()
    }
}

/// An array of any type.
trait Array {
    /// Its memory, if this handle still leads there.
    fn memory(&self) -> Result<SharedSlice<u8>>;
    fn phase(&self) -> u64;
    fn check(&self, division: &Division) -> Result<()>;
    fn now(&mut self, division: &Division);
}

impl<T: Plain> Split<T> {
    pub(crate) fn new<S: Session + ?Sized>(session: &mut S, division: &Division) -> Result<Split<T>> {
        check_owners(division, session.count())?;
        let values = session::alloc(session, division.len(), AllocOptions::default())?;
        // Ranks may think differently of what lies there, and of whose it is.
        session::agree(session, values, digest(&("split", size_of::<T>(), division.digest())))?;
        Ok(Split { values, division: division.clone(), owner: session.index(), phase: 0 })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Who owns what now.
    pub fn division(&self) -> &Division {
        &self.division
    }

    /// This session's ranges to write, and what nobody owns to read, in this interval.
    ///
    /// # Panics
    /// The handle has missed a turn, or one has failed; the array was freed.
    pub fn view<'a, S: Session + ?Sized>(&'a mut self, _session: &'a S) -> View<'a, T> {
        self.expect_current();
        // SAFETY: these ranges are this handle's alone until the next turn, and disjoint; the handle is
        // borrowed mutably, and a session, which a turn ends.
        let slice = |range: &Range<usize>| unsafe { self.values.part_mut(range.clone()) };
        let mine = self.division.of(self.owner).iter().map(slice).collect();
        View {
            mine,
            shared: Unowned { values: self.values, division: &self.division, _interval: PhantomData },
        }
    }

    /// The one range that this session owns, to read and write in this interval; nothing if it owns none.
    ///
    /// # Panics
    /// It owns several. As [`view`](Self::view).
    pub fn mine<'a, S: Session + ?Sized>(&'a mut self, session: &'a S) -> &'a mut [T] {
        let mut mine = self.view(session).mine;
        assert!(mine.len() <= 1, "{} ranges of this session: use Split::view", mine.len());
        mine.pop().unwrap_or_default()
    }

    /// Elements that no other session owns, to read.
    ///
    /// # Panics
    /// Another session owns one of them; there are no such elements. As [`view`](Self::view).
    pub fn get<'a, S: Session + ?Sized>(&'a self, _session: &'a S, range: Range<usize>) -> &'a [T] {
        self.expect_current();
        let other = self.division.touched(&range).find(|(_, owner)| *owner != self.owner);
        assert!(
            other.is_none(),
            "elements {range:?} are to be read, and session {} owns {:?}",
            other.map_or(0, |o| o.1),
            other.map(|o| &o.0)
        );
        // SAFETY: no other session has a mutable slice of it before the next turn, and this one has none
        // while the handle is borrowed; a session is borrowed, which a turn ends.
        unsafe { self.values.part(range) }
    }

    /// The change to other owners, for [`Dsm::turn`].
    pub fn to<'a>(&'a mut self, division: &'a Division) -> Turn<'a> {
        Turn { array: self, division }
    }

    /// Frees the array. Collective.
    ///
    /// # Errors
    /// As those of [`Dsm::free`]; the handle has missed a turn.
    pub fn free<S: Session + ?Sized>(self, session: &mut S) -> Result<()> {
        self.values.allocation()?;
        session::free(session, self.values)
    }

    fn expect_current(&self) {
        if let Err(error) = self.memory() {
            panic!("{error}");
        }
    }
}

impl<T: Plain> Array for Split<T> {
    fn memory(&self) -> Result<SharedSlice<u8>> {
        self.values.allocation()?;
        match self.values.generation().phase() {
            Some(phase) if phase == self.phase => Ok(self.values.bytes()),
            Some(_) => Err(Error::Argument(
                "this handle of a split array has missed a turn: \
                 all sessions turn with the handles that they have made"
                    .to_owned(),
            )),
            None => Err(Error::Broken(
                "a turn of this array has failed, and ranks may not agree on its owners: \
                 end the job as the error of Dsm::turn says"
                    .to_owned(),
            )),
        }
    }

    fn phase(&self) -> u64 {
        self.phase
    }

    fn check(&self, division: &Division) -> Result<()> {
        if division.len() != self.len() {
            let (len, has) = (division.len(), self.len());
            return Err(Error::Argument(format!("a division of {len} elements, and the array has {has}")));
        }
        check_owners(division, self.division.owners())
    }

    fn now(&mut self, division: &Division) {
        self.division = division.clone();
        self.phase += 1;
    }
}

fn check_owners(division: &Division, sessions: usize) -> Result<()> {
    if division.owners() == sessions {
        return Ok(());
    }
    Err(Error::Argument(format!(
        "a division among {} owners, and {sessions} sessions (ranks, or workers of a crew) have the array",
        division.owners()
    )))
}

/// As [`Dsm::turn`].
pub(crate) fn turn<S: Session + ?Sized>(session: &mut S, mut turns: Vec<Turn<'_>>) -> Result<()> {
    let runtime = session::job(session);
    let mut arrays = Vec::with_capacity(turns.len());
    let mut changes: Vec<(u32, u64, [u64; 2])> = Vec::with_capacity(turns.len());
    for Turn { array, division } in &turns {
        array.check(division)?;
        let memory = array.memory()?;
        let page = runtime.first_page(memory.allocation()?)?;
        if changes.iter().any(|&(other, ..)| other == page) {
            return Err(Error::Argument("two turns of one array at once".to_owned()));
        }
        changes.push((page, array.phase(), division.digest()));
        arrays.push(memory.generation());
    }
    let Some(&(page, ..)) = changes.first() else {
        return Err(Error::Argument("a turn of no array: use a barrier".to_owned()));
    };
    let digest = digest(&("turn", &changes));
    session::together(session, Collective::Divide { page, digest }, || {
        let turned = runtime.divide(page, digest);
        for (memory, (_, phase, _)) in arrays.iter().zip(&changes) {
            match &turned {
                Ok(()) => memory.set_phase(Some(phase + 1)),
                // Refused before it began.
                Err(Error::Argument(_)) => {}
                Err(_) => memory.set_phase(None),
            }
        }
        turned.map(|()| Outcome::Done)
    })?;
    for Turn { array, division } in &mut turns {
        array.now(division);
    }
    Ok(())
}

impl Dsm {
    /// Allocates an array of as many values as `division` divides, zeroed, of which each rank owns its
    /// ranges. Collective, with the same division at all ranks.
    ///
    /// # Errors
    /// A division for another number of ranks; no room; ranks made different collective calls, or brought
    /// different divisions; a rank is gone.
    pub fn split<T: Plain>(&mut self, division: &Division) -> Result<Split<T>> {
        Split::new(self, division)
    }

    /// A memory barrier at which elements of one or more arrays come to have other owners. Collective: all
    /// ranks turn the same arrays, in the same order, to the same divisions.
    ///
    /// ```no_run
    /// # use scash::{Dsm, Result, Split};
    /// # fn f(dsm: &mut Dsm, red: &mut Split<f64>, black: &mut Split<f64>) -> Result<()> {
    /// use scash::Division;
    /// let (rows, read) = (Division::rows(100, 50, dsm.size()), Division::read_by_all(5000, dsm.size()));
    /// dsm.turn([red.to(&read), black.to(&rows)])?; // one barrier for both
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`], and nothing has changed: a division of another length or for another number of
    /// sessions, an array twice, a handle that has missed a turn. [`Error::Mismatch`]: ranks made different
    /// collective calls, or turn to different divisions. A rank is gone.
    pub fn turn<'a>(&mut self, turns: impl IntoIterator<Item = Turn<'a>>) -> Result<()> {
        turn(self, turns.into_iter().collect())
    }

    /// The division of `len` elements in which each rank owns the ranges that it names here. Collective, and
    /// includes memory barriers.
    ///
    /// # Errors
    /// Ranks name ranges that have an element in common, or lie outside: all ranks are told whose and which.
    /// Ranks made different collective calls; a rank is gone.
    pub fn divide(&mut self, len: usize, mine: &[Range<usize>]) -> Result<Division> {
        Division::gather(self, len, mine)
    }
}
