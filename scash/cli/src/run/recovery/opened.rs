//! Stores of a job's ranks and what belongs to them, as a launcher or a keeper begins with them: new in
//! memory, new on a disk, or found there.

use super::describe::Description;
use super::directory::{Directory, patiently};
use super::kept::go_on;
use crate::run::output::Saved;
use nix::fcntl::Flock;
use scash_comm::descriptors::out_of_the_way;
use scash_ft::Base;
use scash_ft::store::Store;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// Stores and what belongs to them.
pub(super) struct OpenedStores {
    pub(super) stores: Vec<Store>,
    pub(super) output: Saved,
    pub(super) taken: Option<LockedFiles>,
    pub(super) base: Base,
}

/// Files that nobody else has: this process, and the ranks that inherit their stores from it.
#[derive(Debug)]
pub(super) struct LockedFiles {
    pub(super) directory: Directory,
    _claims: Vec<Flock<File>>,
    /// Whether all ranks of the job that was found there have ended well.
    pub(super) has_ended: bool,
    /// Whether they have other bytes than were written.
    pub(super) is_damaged: bool,
}

impl LockedFiles {
    /// Waits for ranks of an earlier start that are ending, as their launcher was killed.
    pub(super) fn new(directory: Directory, stores: &[Store]) -> io::Result<LockedFiles> {
        let claims = stores.iter().map(|store| patiently(|| directory.claim(store)));
        let claims = claims.collect::<io::Result<_>>()?;
        let ranks = stores.first().map_or(0, Store::size);
        let has_ended = directory.have_all_ended(ranks);
        Ok(LockedFiles { has_ended, is_damaged: false, directory, _claims: claims })
    }
}

impl OpenedStores {
    pub(super) fn in_memory(ranks: u32, is_one: bool) -> io::Result<OpenedStores> {
        let output = Saved::new(ranks, is_one)?;
        let stores = stores_in_memory(0..ranks, ranks)?;
        Ok(OpenedStores { stores, output, taken: None, base: Base::default() })
    }

    pub(super) fn new_in(path: &Path, ranks: u32, is_one: bool) -> io::Result<OpenedStores> {
        let directory = patiently(|| Directory::create(path))?;
        let (stores, output) = fill(&directory, ranks, is_one, None)?;
        let taken = Some(LockedFiles::new(directory, &stores)?);
        Ok(OpenedStores { stores, output, taken, base: Base::default() })
    }

    pub(super) fn found_in(path: &Path, ranks: u32) -> io::Result<OpenedStores> {
        let (directory, description) = patiently(|| Directory::open(path))?;
        let stores = open_stores(&directory, ranks)?;
        let output = Saved::on_disk(&directory, 0..ranks, description.is_one, false)?;
        let taken = LockedFiles::new(directory, &stores)?;
        let base = if taken.has_ended { Base::default() } else { go_on(&stores, &output)? };
        Ok(OpenedStores { stores, output, taken: Some(taken), base })
    }
}

/// Empty stores of these ranks, of so many.
pub(super) fn stores_in_memory(ranks: Range<u32>, size: u32) -> io::Result<Vec<Store>> {
    ranks.map(|rank| store_in_memory(rank, size)).collect()
}

pub(super) fn store_in_memory(rank: u32, size: u32) -> io::Result<Store> {
    let store = Store::create(rank, size)?;
    Store::open(out_of_the_way(store.file().try_clone_to_owned()?))
}

/// A number that no other job has whose stores may come to lie beside those of this one.
fn number_of_a_job() -> u64 {
    let now = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
    let low = u64::try_from(now & u128::from(u64::MAX)).unwrap_or(0);
    low ^ u64::from(std::process::id()).rotate_left(40)
}

/// Makes all files of a new job, whose ranks that launcher has started if it is not `scash run`; or none.
pub(super) fn fill(
    directory: &Directory,
    ranks: u32,
    is_one: bool,
    launcher: Option<String>,
) -> io::Result<(Vec<Store>, Saved)> {
    let make = || {
        let job = number_of_a_job();
        let store = |rank| directory.store(rank, ranks, Some(job));
        let stores = (0..ranks).map(store).collect::<io::Result<_>>()?;
        let output = Saved::on_disk(directory, 0..ranks, is_one, true)?;
        directory.describe(&Description::of_this_process(ranks, is_one, launcher)?)?;
        Ok((stores, output))
    };
    make().inspect_err(|_| {
        // Nothing is there that anybody could go on with.
        let _ = directory.remove();
    })
}

/// The stores of a job that is there.
pub(super) fn open_stores(directory: &Directory, ranks: u32) -> io::Result<Vec<Store>> {
    let store = |rank| directory.store(rank, ranks, None);
    let stores: Vec<Store> = (0..ranks).map(store).collect::<io::Result<_>>()?;
    match stores.iter().find(|store| store.job() != stores[0].job()) {
        None => Ok(stores),
        Some(other) => Err(io::Error::other(format!(
            "the stores of ranks 0 and {} are of different jobs: one of the files was put here from elsewhere",
            other.rank()
        ))),
    }
}
