//! The directory of a job whose checkpoints are files.

use scash_ft::store::Store;
use std::path::PathBuf;

/// A job's directory, which is not there yet, in one that is removed in the end.
#[derive(Debug)]
pub struct JobDirectory {
    parent: tempfile::TempDir,
}

impl JobDirectory {
    /// A name that nothing has.
    #[expect(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> JobDirectory {
        JobDirectory { parent: tempfile::tempdir().unwrap() }
    }

    /// Where it is, or will be.
    pub fn path(&self) -> PathBuf {
        self.beside("job")
    }

    /// Where a test puts what belongs to it.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.parent.path().join(name)
    }

    /// The file with the checkpoints of a rank.
    pub fn store(&self, rank: u32) -> PathBuf {
        self.path().join(format!("rank-{rank}.store"))
    }

    /// The newest epoch that a rank of so many has; 0 if there is none yet.
    pub fn newest_of(&self, rank: u32, ranks: u32) -> u64 {
        let store = Store::open_at(&self.store(rank), rank, ranks);
        let marks = store.map_or([None; 2], |store| store.marks());
        marks.iter().flatten().map(|mark| mark.epoch.0).max().unwrap_or(0)
    }
}
