//! Stores that are files on disk: made, opened again, and checked, by whoever keeps them.

use super::geometry::{DESCRIPTION, ENTRY, Geometry, PAGE};
use super::header::{Header, Marked};
use super::{Store, map_header};
use crate::Epoch;
use nix::errno::Errno;
use nix::fcntl::posix_fallocate;
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{fdatasync, ftruncate};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

impl Store {
    /// Makes the empty store of a rank as a file that nobody else may read, which must not be there yet.
    /// `job`: a number that all stores of the job have, and those of no other job.
    ///
    /// # Errors
    /// The file is there, or the disk has no room for it.
    pub fn create_at(path: &Path, rank: u32, size: u32, job: u64) -> io::Result<Store> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let file = OwnedFd::from(file);
        let geometry = stretch(&file)?;
        // Header and bit maps are written through a mapping, which must not come upon a full disk.
        posix_fallocate(&file, 0, length(geometry.map_at(2)))?;
        let header = Header::new(map_header(&file)?);
        header.set_up(rank, size, geometry, Some(job));
        let store = Store { file, header };
        store.sync()?;
        Ok(store)
    }

    /// Opens the store of a rank, in a job of so many, that is a file.
    ///
    /// # Errors
    /// It is not there, is no store or not this one, or was cut short.
    pub fn open_at(path: &Path, rank: u32, size: u32) -> io::Result<Store> {
        let store = Store::open(OpenOptions::new().read(true).write(true).open(path)?.into())?;
        let (is_rank, is_size) = (store.rank(), store.size());
        if (is_rank, is_size) != (rank, size) {
            return Err(io::Error::other(format!(
                "it is the store of rank {is_rank} of {is_size}, and not of rank {rank} of {size}"
            )));
        }
        if !store.header.is_durable() {
            return Err(io::Error::other("it is no store that was made on disk"));
        }
        Ok(store)
    }

    /// What was written so far, by whomever, is on the disk, if the store is.
    ///
    /// # Errors
    /// The disk has not taken it.
    pub fn sync(&self) -> io::Result<()> {
        if self.header.is_durable() { fdatasync(&self.file).map_err(io::Error::from) } else { Ok(()) }
    }

    /// Reads all of an epoch, and checks that it is what was written.
    ///
    /// # Errors
    /// It is not there, cannot be read, or has changed.
    pub fn verify(&self, epoch: Epoch) -> io::Result<()> {
        let damaged = |what: String| io::Error::other(format!("epoch {epoch} is damaged: {what}"));
        let geometry = self.header.check(u64::MAX).map_err(io::Error::other)?;
        let number = epoch.0 % 2;
        let Some(marked) = self.header.mark(number).filter(|marked| marked.mark.epoch == epoch) else {
            return Err(io::Error::other(format!("it has no epoch {epoch}")));
        };
        let Marked { described, entries, sum, .. } = marked;
        if described > DESCRIPTION || entries > geometry.slots() {
            return Err(damaged("its mark says what no mark says".to_owned()));
        }
        let (index, file) = (geometry.index_at(number), std::fs::File::from(self.file.try_clone()?));
        let description = read(&file, index, described)?;
        let entries = read(&file, index + DESCRIPTION, entries * ENTRY)?;
        let mut crc = crc32fast::Hasher::new();
        crc.update(&description);
        crc.update(&entries);
        if crc.finalize() != sum {
            return Err(damaged("its index does not have the sum that its mark says".to_owned()));
        }
        let mut page = [0; PAGE];
        for entry in entries.chunks_exact(16) {
            let word = |at: usize| entry[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            let (slot, sum) = (u64::from(word(8)), word(12));
            if slot >= geometry.slots() {
                return Err(damaged(format!("it has no slot {slot}")));
            }
            file.read_exact_at(&mut page, geometry.slots_at() + slot * PAGE as u64)?;
            if crc32fast::hash(&page) != sum {
                return Err(damaged(format!(
                    "the page in slot {slot} does not have the sum that was written"
                )));
            }
        }
        Ok(())
    }
}

/// Makes a file as long as a store may be here.
fn stretch(file: &OwnedFd) -> io::Result<Geometry> {
    let mut most = getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(most, _)| most);
    loop {
        let geometry = Geometry::within(most)?;
        match ftruncate(file, length(geometry.len())) {
            // This file system has shorter files.
            Err(Errno::EFBIG | Errno::EINVAL) => most = geometry.len() - 1,
            done => return Ok(done.map(|()| geometry)?),
        }
    }
}

fn length(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn read(file: &std::fs::File, at: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}
