//! Collective operations that return when they are over, on typed memory.

use super::collective::{Collective, Op, Reducible, Reduction};
use super::communicator::Communicator;
use super::driver::Goal;
use scash_comm::{Error, Result};

impl Communicator {
    /// Returns when all ranks have called it.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn barrier(&self) -> Result<()> {
        self.play::<u8>(&Collective::Barrier, &[], &mut [])
    }

    /// Gives the root's elements to all.
    ///
    /// # Errors
    /// There is no such root, or a rank is gone.
    pub fn broadcast<T: Reducible>(&self, root: u32, data: &mut [T]) -> Result<()> {
        self.play(&Collective::Broadcast { root, len: size_of_val(data) }, &[], data)
    }

    /// Combines the elements of all ranks, one by one, into `result` at the root; elsewhere that is not used
    /// and may be empty.
    ///
    /// # Errors
    /// An operation that the elements do not have, no such root, memory of another length, or a rank that is
    /// gone.
    pub fn reduce<T: Reducible>(&self, root: u32, op: Op, mine: &[T], result: &mut [T]) -> Result<()> {
        let collective = Collective::Reduce { root, count: mine.len(), reduction: reduction::<T>(op)? };
        self.play_at(root, &collective, mine, result, mine.len())
    }

    /// Combines the elements of all ranks, one by one, into `result` at every rank.
    ///
    /// # Errors
    /// An operation that the elements do not have, memory of another length, or a rank that is gone.
    pub fn all_reduce<T: Reducible>(&self, op: Op, mine: &[T], result: &mut [T]) -> Result<()> {
        same(mine.len(), result.len())?;
        self.play(&Collective::AllReduce { count: mine.len(), reduction: reduction::<T>(op)? }, mine, result)
    }

    /// Gathers the elements of all ranks, in their order, in `all` at the root; elsewhere that is not used
    /// and may be empty.
    ///
    /// # Errors
    /// There is no such root, memory of another length, or a rank that is gone.
    pub fn gather<T: Reducible>(&self, root: u32, mine: &[T], all: &mut [T]) -> Result<()> {
        let total = mine.len().saturating_mul(self.size() as usize);
        self.play_at(root, &Collective::Gather { root, len: size_of_val(mine) }, mine, all, total)
    }

    /// Gathers as many elements of each rank, in their order, in `all` at every rank.
    ///
    /// # Errors
    /// Memory of another length, or a rank that is gone.
    pub fn all_gather<T: Reducible>(&self, mine: &[T], all: &mut [T]) -> Result<()> {
        same(mine.len().saturating_mul(self.size() as usize), all.len())?;
        self.play(&Collective::AllGather { lens: vec![size_of_val(mine); self.size() as usize] }, mine, all)
    }

    /// Gathers `counts[r]` elements of each rank r, in their order, in `all` at every rank.
    ///
    /// # Errors
    /// Not as many counts as ranks, memory of another length, or a rank that is gone.
    pub fn all_gather_v<T: Reducible>(&self, mine: &[T], counts: &[usize], all: &mut [T]) -> Result<()> {
        let collective = Collective::AllGather { lens: bytes::<T>(counts) };
        collective.check(self.size()).map_err(Error::Invalid)?;
        same(counts[self.rank() as usize], mine.len())?;
        same(total(counts), all.len())?;
        self.play(&collective, mine, all)
    }

    /// Gives part r of each rank's elements to rank r, in the order of ranks; all parts are equally long.
    ///
    /// # Errors
    /// Memory whose length is no multiple of the number of ranks, or differs, or a rank that is gone.
    pub fn all_to_all<T: Reducible>(&self, mine: &[T], theirs: &mut [T]) -> Result<()> {
        let size = self.size() as usize;
        if !mine.len().is_multiple_of(size) {
            return Err(Error::Invalid(format!(
                "{} elements cannot be shared equally by {size} ranks",
                mine.len()
            )));
        }
        let counts = vec![mine.len() / size; size];
        self.all_to_all_v(mine, &counts, theirs, &counts)
    }

    /// Gives the next `to[r]` elements of `mine` to each rank r, and takes the `from[r]` that it has for this
    /// one, in the order of ranks.
    ///
    /// # Errors
    /// Not as many counts as ranks, memory of another length, or a rank that is gone.
    pub fn all_to_all_v<T: Reducible>(
        &self,
        mine: &[T],
        to: &[usize],
        theirs: &mut [T],
        from: &[usize],
    ) -> Result<()> {
        same(total(to), mine.len())?;
        same(total(from), theirs.len())?;
        self.play(&Collective::AllToAll { to: bytes::<T>(to), from: bytes::<T>(from) }, mine, theirs)
    }

    /// Combines the elements of all ranks, one by one, and gives the next `counts[r]` of the result to each
    /// rank r.
    ///
    /// # Errors
    /// Not as many counts as ranks, an operation that the elements do not have, memory of another length, or
    /// a rank that is gone.
    pub fn reduce_scatter<T: Reducible>(
        &self,
        op: Op,
        mine: &[T],
        counts: &[usize],
        result: &mut [T],
    ) -> Result<()> {
        let collective =
            Collective::ReduceScatter { counts: counts.to_vec(), reduction: reduction::<T>(op)? };
        collective.check(self.size()).map_err(Error::Invalid)?;
        same(total(counts), mine.len())?;
        same(counts[self.rank() as usize], result.len())?;
        self.play(&collective, mine, result)
    }

    /// Plays an operation whose result has `len` elements at the root, and none elsewhere.
    fn play_at<T: Reducible>(
        &self,
        root: u32,
        collective: &Collective,
        input: &[T],
        output: &mut [T],
        len: usize,
    ) -> Result<()> {
        if self.rank() != root {
            return self.play(collective, input, &mut []);
        }
        same(len, output.len())?;
        self.play(collective, input, output)
    }

    fn play<T: Reducible>(&self, collective: &Collective, input: &[T], output: &mut [T]) -> Result<()> {
        // SAFETY: the callers have seen to it that the lengths are what the operation says; the memory is
        // borrowed until it is over, and its elements are plain numbers, of any bits.
        let begun = unsafe { self.begun(collective, input.as_ptr().cast(), output.as_mut_ptr().cast()) };
        let (engine, number) = begun?;
        let outcome =
            self.shared.until_from(engine, Goal::Operation(number), |engine| engine.outcome(number));
        self.shared.told(outcome).map(drop)
    }
}

fn reduction<T: Reducible>(op: Op) -> Result<Reduction> {
    Reduction::new(T::ELEMENT, op).ok_or_else(|| {
        Error::Invalid(format!("{op:?} of {:?}: only integers have bits to be combined", T::ELEMENT))
    })
}

fn bytes<T>(counts: &[usize]) -> Vec<usize> {
    counts.iter().map(|count| count.saturating_mul(size_of::<T>())).collect()
}

fn total(counts: &[usize]) -> usize {
    counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
}

fn same(expected: usize, given: usize) -> Result<()> {
    if expected == given {
        return Ok(());
    }
    Err(Error::Invalid(format!("{given} elements where there should be {expected}")))
}
