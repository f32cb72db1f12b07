//! What the processes agree on that another launcher has started to keep a rank each (`scash rank`), before
//! their ranks begin: who takes care of the directory, that no rank of an earlier start runs any more, and
//! the epoch that all go on from.
//!
//! ```text
//! rank 0's   takes the directory, makes or opens all stores
//! ───────────────────────────── exchange: all went well, or nobody goes on ─────────────────────────────
//! each       opens the stores, takes its rank's, which only one process and its rank can have
//! ───────────────────────────── exchange: no rank of an earlier start runs ─────────────────────────────
//! rank 0's   decides by the marks of all stores, checks the epoch, cuts output back, writes base records
//! ───────────────────────────── exchange: incarnation and epoch ────────────────────────────────────────
//! ```
//! What was decided goes through the launcher's words, which only this start of it has: an old decision
//! cannot be taken for it. If a process dies behind the decision, the next start decides anew, by the same
//! rules as `scash run` (`scash_ft::recovery`).

use super::describe::how_to_go_on;
use super::directory::{Directory, LINGERING, patiently};
use super::input::Input;
use super::kept::{Kept, go_on};
use super::opened::{fill, open_stores};
use crate::run::output::{self, Saved};
use crate::run::{Refusal, status};
use nix::fcntl::Flock;
use scash_ft::store::{Store, bytes_taken};
use scash_ft::{Base, Epoch, Incarnation};
use scash_join::boot::{Gathering, Keeper};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How slow a disk may be from which rank 0's process reads all stores, in bytes a second.
const SLOW: u64 = 20 << 20;
/// The word of a process for which something went wrong.
const NO: &str = "no";
/// The word of one that has nothing else to say.
const YES: &str = "yes";

/// What the user asks of these processes.
#[derive(Debug)]
pub(in crate::run) struct KeeperOptions {
    /// Where checkpoints are.
    pub(in crate::run) directory: PathBuf,
    /// Whether a job is there that is to go on.
    pub(in crate::run) resumes: bool,
    /// The launcher's command.
    pub(in crate::run) launcher: &'static str,
    /// Variables that tell ranks of checkpoints.
    pub(in crate::run) env: Vec<(&'static str, String)>,
}

/// What a process has that keeps a rank.
#[derive(Debug)]
pub(in crate::run) struct KeptRank {
    pub(in crate::run) keeper: Keeper,
    pub(in crate::run) kept: Kept,
    pub(in crate::run) base: Base,
    /// Whether the rank reads what this process reads.
    pub(in crate::run) reads: bool,
    directory: Directory,
    launcher: &'static str,
    /// Of the rank's store, which the rank inherits with the descriptor.
    _claim: Flock<File>,
}

/// Why there is nothing to be kept.
#[derive(Debug)]
pub(in crate::run) enum Refused {
    /// This process has found out.
    Here(Refusal),
    /// Another one has, and says it.
    Elsewhere,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Refused {
        Refused::Here(refusal)
    }
}

/// Agrees with the other processes, and makes the lines of ranks.
pub(in crate::run) fn agree(mut gathering: Gathering, options: KeeperOptions) -> Result<KeptRank, Refused> {
    match prepare(&mut gathering, &options) {
        Ok(prepared) => {
            let PreparedRank { directory, stores, claim, base } = prepared;
            let failed = |why: String| Refusal::new(status::LAUNCHER, why);
            let rank = gathering.rank();
            let kept = Kept::of_rank(rank, stores, &directory, options.env);
            let kept = kept.map_err(|error| failed(format!("preparing rank {rank}: {error}")))?;
            let keeper = gathering.begin().map_err(|error| failed(error.to_string()))?;
            let reads = rank == 0 && Input::is_file();
            Ok(KeptRank { keeper, kept, base, reads, directory, launcher: options.launcher, _claim: claim })
        }
        Err(refused) => {
            gathering.leave();
            Err(refused)
        }
    }
}

/// What a process has before there are lines.
struct PreparedRank {
    directory: Directory,
    stores: Vec<Store>,
    claim: Flock<File>,
    base: Base,
}

fn prepare(gathering: &mut Gathering, options: &KeeperOptions) -> Result<PreparedRank, Refused> {
    let (rank, ranks) = (gathering.rank(), gathering.size());
    let path = &options.directory;
    let option = if options.resumes { "resume" } else { "--checkpoint-dir" };
    let named =
        |error: io::Error| Refusal::new(status::LAUNCHER, format!("{option} {}: {error}", path.display()));
    let first = match rank {
        0 => take(gathering, options, option).map(Some),
        _ => Ok(None),
    };
    let (first, _) = together(gathering, first, |_| YES.to_owned(), Duration::ZERO)?;
    let claim = || {
        let (directory, stores) = match first {
            Some(taken) => taken,
            None => visit(path, ranks)?,
        };
        let own = usize::try_from(rank).ok().and_then(|rank| stores.get(rank));
        let own = own.ok_or_else(|| io::Error::other("there is no such rank"))?;
        let claim = patiently(|| directory.claim(own))?;
        Ok((directory, stores, claim))
    };
    let claimed = claim().map_err(named);
    let ((directory, stores, claim), _) = together(gathering, claimed, |_| YES.to_owned(), LINGERING)?;
    let base = match rank {
        0 if options.resumes => decide(&directory, &stores, ranks).map_err(named),
        _ => Ok(Base::default()),
    };
    let (_, words) = together(gathering, base, write, time_to_read(&stores))?;
    let base = words.first().and_then(|word| read(word));
    let base = base.ok_or_else(|| named(io::Error::other("rank 0 names no epoch to go on from")))?;
    Ok(PreparedRank { directory, stores, claim, base })
}

/// Opens what rank 0's process has made or found.
fn visit(path: &Path, ranks: u32) -> io::Result<(Directory, Vec<Store>)> {
    let directory = Directory::visit(path)?;
    let stores = open_stores(&directory, ranks)?;
    Ok((directory, stores))
}

/// Tells all whether something went well here, with the word that then stands for it; an error if it did not
/// somewhere.
fn together<T>(
    gathering: &mut Gathering,
    done: Result<T, Refusal>,
    word: impl Fn(&T) -> String,
    longer: Duration,
) -> Result<(T, Vec<String>), Refused> {
    let said = done.as_ref().map_or_else(|_| NO.to_owned(), word);
    let words = gathering.exchange(&said, longer);
    let done = done?;
    let words = words.map_err(|error| Refusal::new(status::LAUNCHER, error.to_string()))?;
    if words.iter().any(|word| word == NO) { Err(Refused::Elsewhere) } else { Ok((done, words)) }
}

/// Takes the directory, at rank 0.
fn take(
    gathering: &Gathering,
    options: &KeeperOptions,
    option: &str,
) -> Result<(Directory, Vec<Store>), Refusal> {
    let (path, ranks) = (&options.directory, gathering.size());
    let refuse = |why: &dyn std::fmt::Display| {
        Refusal::new(status::USAGE, format!("{option} {}: {why}", path.display()))
    };
    if gathering.hosts() > 1 {
        let why = format!(
            "these {ranks} ranks are on {} hosts, and ranks can be started again on one host only, so far",
            gathering.hosts()
        );
        return Err(refuse(&why));
    }
    if std::env::var_os("SCASH_PROVIDER").is_some_and(|provider| provider == "ofi") {
        return Err(refuse(
            &"what libfabric knows of a rank cannot be saved: SCASH_PROVIDER is auto, shm or tcp",
        ));
    }
    if !options.resumes {
        let launcher = Some(options.launcher.to_owned());
        let make = || {
            let directory = patiently(|| Directory::create(path))?;
            let (stores, _) = fill(&directory, ranks, false, launcher)?;
            Ok((directory, stores))
        };
        return make().map_err(|error: io::Error| refuse(&error));
    }
    let (directory, description) = patiently(|| Directory::open(path)).map_err(|error| refuse(&error))?;
    if description.ranks != ranks {
        let why = format!(
            "this job has {} ranks, and {ranks} were started: `{}`",
            description.ranks,
            how_to_go_on(Some(options.launcher), description.ranks, path)
        );
        return Err(refuse(&why));
    }
    let stores = open_stores(&directory, ranks).map_err(|error| refuse(&error))?;
    Ok((directory, stores))
}

/// Decides where all go on, at rank 0.
fn decide(directory: &Directory, stores: &[Store], ranks: u32) -> io::Result<Base> {
    let base = go_on(stores, &Saved::on_disk(directory, 0..ranks, false, false)?)?;
    directory.forget_end(ranks)?;
    Ok(base)
}

/// How long it may take to read what stores have.
fn time_to_read(stores: &[Store]) -> Duration {
    Duration::from_secs(stores.iter().map(|store| bytes_taken(store.file())).sum::<u64>() / SLOW)
}

/// What a base is as a word.
fn write(base: &Base) -> String {
    format!("{},{}", base.incarnation.0, base.epoch.0)
}

/// The inverse of [`write`].
fn read(word: &str) -> Option<Base> {
    let (incarnation, epoch) = word.split_once(',')?;
    let (incarnation, epoch) = (incarnation.parse().ok()?, epoch.parse().ok()?);
    Some(Base { incarnation: Incarnation(incarnation), epoch: Epoch(epoch) })
}

impl KeptRank {
    /// The rank has ended well. At rank 0's process, which is the last: waits for the others, and removes all
    /// files if they have, too. Returns what there is to say.
    pub(in crate::run) fn ended_well(&self) -> Option<String> {
        let (rank, ranks) = (self.keeper.rank(), self.keeper.size());
        let name = self.directory.path().display();
        if let Err(error) = self.directory.note_end(rank) {
            return Some(format!("noting in {name} that rank {rank} has ended well: {error}"));
        }
        if rank != 0 {
            return None;
        }
        let waited = (1..ranks).try_for_each(|rank| self.directory.await_end(rank));
        if let Err(error) = waited {
            return Some(format!("waiting for the other ranks: {error}"));
        }
        if !self.directory.have_all_ended(ranks) {
            self.say_how_to_go_on(None);
            return None;
        }
        self.directory.remove().err().map(|error| format!("removing the files in {name}: {error}"))
    }

    /// Says how the job can be gone on with, behind why it has ended. Returns `false` if it cannot, or if
    /// another process has said so.
    pub(in crate::run) fn say_how_to_go_on(&self, why: Option<&str>) -> bool {
        let epoch = self.kept.epoch(self.base);
        if epoch == Epoch(0) {
            return false;
        }
        let how = how_to_go_on(Some(self.launcher), self.keeper.size(), self.directory.path());
        let before = why.map_or_else(String::new, |why| format!("{why}; "));
        let say = || {
            crate::say(&format!("{before}`{how}` goes on from epoch {epoch}"));
            output::is_soon_said()
        };
        // A disk that fails takes nothing away from what there is to say, but this.
        self.directory.tell_once(say).unwrap_or(false)
    }

    /// The launcher need not wonder at the end of this process.
    pub(in crate::run) fn leave(self) -> Result<(), Refusal> {
        self.keeper.leave().map_err(|error| Refusal::new(status::LAUNCHER, error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn what_rank_0_decides_is_read_as_it_was_written() {
        let base = Base { incarnation: Incarnation(3), epoch: Epoch(17) };
        assert_eq!(read(&write(&base)), Some(base));
        for wrong in [NO, YES, "", "1", "1,", ",2", "1,x", "1,2,3"] {
            assert_eq!(read(wrong), None);
        }
    }

    #[test]
    fn a_store_is_taken_by_one_process_until_that_and_who_has_inherited_it_are_gone() {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("job")).unwrap();
        let open = |is_new| directory.store(0, 1, is_new).unwrap();
        let store = open(Some(1));
        let inherited = store.file().try_clone_to_owned().unwrap();
        std::mem::forget(directory.claim(&store).unwrap()); // as a process does that is killed
        let why = directory.claim(&open(None)).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::WouldBlock);
        assert!(why.to_string().contains("rank 0 of an earlier start"), "{why}");
        drop((store, inherited));
    }

    #[test]
    fn files_go_when_all_ranks_have_ended_well_and_who_tells_is_the_first() {
        let parent = tempfile::tempdir().unwrap();
        let path: &Path = parent.path();
        let directory = Directory::create(path).unwrap();
        directory.note_end(0).unwrap();
        assert!(!directory.have_all_ended(2));
        directory.note_end(1).unwrap();
        assert!(directory.have_all_ended(2));
        assert!(directory.tell_once(|| false).unwrap() && directory.tell_once(|| true).unwrap());
        assert!(!directory.tell_once(|| true).unwrap());
        directory.forget_end(2).unwrap();
        assert!(!directory.have_all_ended(2) && directory.tell_once(|| true).unwrap());
        directory.remove().unwrap();
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 0);
    }
}
