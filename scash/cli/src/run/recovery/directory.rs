//! The directory of a job whose checkpoints are files (`--checkpoint-dir`).
//!
//! | file | what it is |
//! |---|---|
//! | `job.json` | the job's [`Description`]; written last, so that a directory which has it has the rest |
//! | `rank-N.store` | the store of a rank |
//! | `rank-N.out`, `rank-N.err` | what a rank has printed; without the second where both streams are one |
//! | `rank-N.out.seen`, `rank-N.err.seen` | what has been printed of that behind the epoch that the job goes on from |
//! | `rank-N.ended` | under another launcher: the rank has ended well |
//! | `told` | likewise: it was said how the job can be gone on with |
//! | `printed` | how much of that has been printed for the user: a 64-bit number for each stream of each rank |

use super::describe::{Description, JOB, how_a_job_goes_on};
use nix::fcntl::{FallocateFlags, Flock, FlockArg, fallocate};
use scash_comm::descriptors::out_of_the_way;
use scash_ft::store::Store;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const NEW_JOB: &str = "job.json.new";
const PRINTED: &str = "printed";
const TOLD: &str = "told";
/// Bytes for which each file of output has room.
const OUTPUT: i64 = 64 << 10;
/// How long processes of an earlier start, which were killed, may take to be gone.
pub(super) const LINGERING: Duration = Duration::from_secs(5);
/// How names of files of ranks begin and may end.
const RANK: &str = "rank-";
const ENDS: [&str; 6] = [STORE, ".out", ".err", ".out.seen", ".err.seen", ENDED];
const STORE: &str = ".store";
const ENDED: &str = ".ended";

/// The name of the file of what a rank prints.
pub(in crate::run) fn output_name(rank: u32, stream: usize) -> String {
    format!("{RANK}{rank}{}", ENDS[1 + stream.min(1)])
}

/// The name of the file of what the user has seen of that.
pub(in crate::run) fn seen_name(rank: u32, stream: usize) -> String {
    format!("{RANK}{rank}{}", ENDS[3 + stream.min(1)])
}

/// The directory of a job. That no other launcher uses it is the launcher's care, or under another launcher
/// that of rank 0's keeper.
#[derive(Debug)]
pub(in crate::run) struct Directory {
    path: PathBuf,
    /// The directory itself, locked by who takes care.
    _lock: Option<Flock<File>>,
}

impl Directory {
    /// Makes the directory of a new job, if it is not there, and takes it.
    pub(super) fn create(path: &Path) -> io::Result<Directory> {
        make(path)?;
        let directory = Directory::take(path)?;
        if directory.file(JOB).exists() {
            let how = how_a_job_goes_on(path);
            return Err(io::Error::other(format!(
                "a job is there: go on with it by `{how}`, or remove its files"
            )));
        }
        directory.clear()?;
        Ok(directory)
    }

    /// Takes the directory of a job that is there.
    pub(super) fn open(path: &Path) -> io::Result<(Directory, Description)> {
        let description = Description::read(&path.join(JOB))?;
        Ok((Directory::take(path)?, description))
    }

    fn take(path: &Path) -> io::Result<Directory> {
        let path = fs::canonicalize(path)?;
        let lock = lock(File::open(&path)?, "another launcher runs this job now")?;
        Ok(Directory { path, _lock: Some(lock) })
    }

    /// The directory of a job of which another process takes care.
    pub(super) fn visit(path: &Path) -> io::Result<Directory> {
        Ok(Directory { path: fs::canonicalize(path)?, _lock: None })
    }

    /// Where it is, for people.
    pub(in crate::run) fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// All files of the job have been made: says so, and what the job is.
    pub(super) fn describe(&self, description: &Description) -> io::Result<()> {
        let (new, job) = (self.file(NEW_JOB), self.file(JOB));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&description.bytes()?)?;
        file.sync_all()?;
        fs::rename(&new, &job)?;
        File::open(&self.path)?.sync_all()
    }

    /// Takes the store of a rank, which a process has, and who has inherited it from that, until they have
    /// ended.
    pub(super) fn claim(&self, store: &Store) -> io::Result<Flock<File>> {
        let file = File::from(store.file().try_clone_to_owned()?);
        let (rank, path) = (store.rank(), self.path.display());
        lock(
            file,
            &format!("rank {rank} of an earlier start of this job still runs, and has its store in {path}"),
        )
    }

    /// Waits until nobody has the store of a rank any more.
    pub(super) fn await_end(&self, rank: u32) -> io::Result<()> {
        let file = File::open(self.file(&format!("{RANK}{rank}{STORE}")))?;
        Flock::lock(file, FlockArg::LockExclusive).map(drop).map_err(|(_, errno)| errno.into())
    }

    /// Notes that a rank has ended well.
    pub(super) fn note_end(&self, rank: u32) -> io::Result<()> {
        File::create(self.file(&format!("{RANK}{rank}{ENDED}"))).map(drop)
    }

    /// Whether all of so many ranks have ended well.
    pub(super) fn have_all_ended(&self, ranks: u32) -> bool {
        (0..ranks).all(|rank| self.file(&format!("{RANK}{rank}{ENDED}")).exists())
    }

    /// Says how the job can be gone on with, unless another process has. Returns whether this one did. One
    /// that is killed meanwhile leaves it to the next, and so does one whose `say` tells that it is not out.
    pub(super) fn tell_once(&self, say: impl FnOnce() -> bool) -> io::Result<bool> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(self.file(TOLD))?;
        let told = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?;
        if told.metadata()?.len() > 0 {
            return Ok(false);
        }
        if say() {
            // Should the disk be full, the next one says it, too.
            let _ = told.set_len(1);
        }
        Ok(true)
    }

    /// Forgets how the job has ended.
    pub(super) fn forget_end(&self, ranks: u32) -> io::Result<()> {
        gone(fs::remove_file(self.file(TOLD)))?;
        (0..ranks).try_for_each(|rank| gone(fs::remove_file(self.file(&format!("{RANK}{rank}{ENDED}")))))
    }

    /// The store of a rank, whose descriptor has a number that is out of the rank's way.
    /// `new`: the number of a job that begins.
    pub(super) fn store(&self, rank: u32, ranks: u32, new: Option<u64>) -> io::Result<Store> {
        let path = self.file(&format!("{RANK}{rank}{STORE}"));
        let store = match new {
            Some(job) => Store::create_at(&path, rank, ranks, job),
            None => Store::open_at(&path, rank, ranks),
        };
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let file = store.map_err(named)?.file().try_clone_to_owned()?;
        Store::open(out_of_the_way(file))
    }

    /// The file that a rank prints to, `stream` 0 or 1. Whoever writes appends.
    pub(in crate::run) fn output(&self, rank: u32, stream: usize, is_new: bool) -> io::Result<File> {
        let path = self.file(&output_name(rank, stream));
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(is_new).mode(0o600);
        let file = options.open(&path).map_err(named)?;
        // A program that says little can say it when the disk is full.
        let _ = fallocate(&file, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, OUTPUT);
        Ok(file)
    }

    /// The record of what was printed.
    pub(in crate::run) fn printed(&self) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.file(PRINTED))
    }

    /// Removes what a launcher has left that did not come to the end of making the files of a job, or of
    /// removing them.
    ///
    /// # Errors
    /// There are files of such names, and no such launcher has left them.
    fn clear(&self) -> io::Result<()> {
        let names = self.names()?;
        let is_sign = |name: &String| name == NEW_JOB || is_of_a_rank(name, &[STORE]);
        match names.first() {
            Some(name) if !names.iter().any(is_sign) => Err(io::Error::other(format!(
                "{name} is there, and of no job: a file of the job would have that name; remove it, or name \
                 another directory"
            ))),
            _ => self.remove(),
        }
    }

    /// Removes all files of the job; first that which says that it is there, and stores, which are the sign
    /// of a job, last.
    pub(super) fn remove(&self) -> io::Result<()> {
        gone(fs::remove_file(self.file(JOB)))?;
        let mut names = self.names()?;
        names.sort_by_key(|name| is_of_a_rank(name, &[STORE]));
        names.iter().try_for_each(|name| gone(fs::remove_file(self.file(name))))
    }

    /// The names of the files of a job that are there, without that which says so.
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            if is_of_a_rank(&name, &ENDS) || [PRINTED, NEW_JOB, TOLD].contains(&name.as_str()) {
                names.push(name);
            }
        }
        Ok(names)
    }
}

/// Locks a file that nobody else may have, or says what is wrong if somebody has: a `WouldBlock`.
fn lock(file: File, taken: &str) -> io::Result<Flock<File>> {
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
        nix::errno::Errno::EWOULDBLOCK => io::Error::new(ErrorKind::WouldBlock, taken),
        errno => errno.into(),
    })
}

/// Tries for a while what processes prevent that are ending.
pub(super) fn patiently<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let deadline = Instant::now() + LINGERING;
    loop {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            done => return done,
        }
    }
}

/// Makes a directory and those that it lies in, as far as they are not there, and has their names on the
/// disk.
fn make(path: &Path) -> io::Result<()> {
    let is_new = |path: &&Path| *path != Path::new("") && !path.exists();
    let new: Vec<&Path> = path.ancestors().take_while(is_new).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    for made in new {
        if let Some(parent) = fs::canonicalize(made)?.parent() {
            File::open(parent)?.sync_all()?;
        }
    }
    Ok(())
}

/// A file that is not there is gone.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

fn is_of_a_rank(name: &str, ends: &[&str]) -> bool {
    let number = |end: &&str| name.strip_prefix(RANK)?.strip_suffix(*end)?.parse::<u32>().ok();
    ends.iter().any(|end| number(end).is_some())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_directory_has_one_job_and_one_launcher_and_loses_nothing_but_the_jobs_files() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("deep/er");
        let directory = Directory::create(&path).unwrap();
        fs::write(path.join("rank-notes.out"), "the user's").unwrap();
        directory.store(0, 1, Some(7)).unwrap();
        directory.output(0, 0, true).unwrap();
        directory.printed().unwrap();
        assert!(Directory::create(&path).unwrap_err().to_string().contains("another launcher"));
        directory.describe(&Description::of_this_process(1, false, None).unwrap()).unwrap();
        drop(directory);
        let error = Directory::create(&path).unwrap_err().to_string();
        assert!(error.contains("scash resume"), "{error}");
        let (directory, description) = Directory::open(&path).unwrap();
        assert_eq!((description.ranks, description.is_one), (1, false));
        assert!(
            directory.store(0, 2, None).unwrap_err().to_string().contains("rank-0.store: it is the store")
        );
        directory.remove().unwrap();
        let left: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["rank-notes.out"]);
    }
}
