//! What is on the disk of jobs whose checkpoints are files, whenever the power may fail
//! (`--checkpoint-dir`): a library between program and system (`c/disk.c`) keeps each file as it was when it
//! was last synced.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use scash_ft::store::Store;
use scash_ft::{Epoch, Mark};
use scash_tests::cluster::built::built;
use scash_tests::cluster::{Ended, Job, JobDirectory, run};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const RANKS: u32 = 2;
/// Lines of each rank of `diary`, each with a checkpoint behind it, and bytes of one.
const LINES: u64 = 6;
const LINE: u64 = 17;

/// A job's directory, and a disk that its files are on.
struct Disk {
    place: JobDirectory,
    kept: tempfile::TempDir,
}

impl Disk {
    fn new() -> Disk {
        let disk = Disk { place: JobDirectory::new(), kept: tempfile::tempdir().unwrap() };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/disk.c");
        let mut command = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        command.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]);
        let done = command.arg(disk.library()).arg(source).status().expect("cc is needed, see README");
        assert!(done.success());
        disk
    }

    fn library(&self) -> PathBuf {
        self.kept.path().join("disk.so")
    }

    /// Where the job's directory is, and what its ranks write besides.
    fn watched(&self) -> PathBuf {
        fs::canonicalize(self.place.beside("")).unwrap()
    }

    fn run(&self, mut command: Command) -> Ended {
        command.env("LD_PRELOAD", self.library());
        command.env("DISK_WATCHED", self.watched()).env("DISK_KEPT", self.kept.path());
        run(command)
    }

    /// Runs `diary` with these options of `scash run`.
    fn begin(&self, options: &[(&str, &str)]) -> Ended {
        let job = Job::plain(RANKS).option("--checkpoint-dir", self.place.path().to_str().unwrap());
        let job = options.iter().fold(job, |job, (name, value)| job.option(name, value));
        let job = job.option("--checkpoint", "every=1000000");
        let diary = Path::new(env!("CARGO_BIN_EXE_diary"));
        self.run(job.command(diary, &[self.watched().to_str().unwrap()]))
    }

    fn resume(&self) -> Ended {
        let mut command = Command::new(built("scash"));
        command.arg("resume").arg(self.place.path());
        self.run(command)
    }

    fn copy(&self, number: u32) -> PathBuf {
        self.kept.path().join(number.to_string())
    }

    /// Looks at all that has happened.
    fn history(&self) -> History<'_> {
        let mut history = History {
            disk: self,
            job: self.watched().join("job"),
            synced: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            directories: BTreeSet::new(),
            marks: BTreeSet::new(),
            starts: BTreeMap::new(),
        };
        for line in fs::read_to_string(self.kept.path().join("log")).unwrap().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let path = Path::new(words[1]);
            match words[..] {
                ["start", incarnation] => history.starts(incarnation.parse().unwrap()),
                ["write", _, length] => history.writes(path, length.parse().unwrap()),
                ["sync", _, copy] => history.syncs(path, copy.parse().unwrap()),
                ["directory", _] => _ = history.directories.insert(path.to_owned()),
                ["rename", _, to] => history.renames(path, Path::new(to)),
                _ => panic!("{line}"),
            }
        }
        history
    }
}

/// What the disk has at some instant.
struct History<'a> {
    disk: &'a Disk,
    job: PathBuf,
    /// By file, the number of its newest copy.
    synced: BTreeMap<PathBuf, u32>,
    /// Files that were written to since they were synced.
    unsynced: BTreeSet<PathBuf>,
    /// Directories whose names are on the disk.
    directories: BTreeSet<PathBuf>,
    /// Marks that have come to the disk, with their ranks.
    marks: BTreeSet<(u32, u64, u64)>,
    /// How many ranks began in which incarnation.
    starts: BTreeMap<u64, u32>,
}

impl History<'_> {
    fn on_disk(&self, path: &Path) -> Option<PathBuf> {
        self.synced.get(path).map(|number| self.disk.copy(*number))
    }

    fn store(&self, rank: u32) -> Option<Store> {
        let copy = self.on_disk(&self.job.join(format!("rank-{rank}.store")))?;
        Some(Store::open_at(&copy, rank, RANKS).unwrap())
    }

    fn bytes(&self, path: PathBuf) -> Vec<u8> {
        self.on_disk(&path).map(|copy| fs::read(copy).unwrap()).unwrap_or_default()
    }

    /// Ranks may begin if the job can be found after that, and knows that they have begun.
    fn starts(&mut self, incarnation: u64) {
        *self.starts.entry(incarnation).or_default() += 1;
        assert!(self.on_disk(&self.job.join("job.json.new")).is_some(), "there is no job on the disk");
        for directory in [&self.job, self.job.parent().unwrap()] {
            assert!(self.directories.contains(directory), "{} is not synced", directory.display());
        }
        for rank in 0..RANKS {
            let base = self.store(rank).unwrap().base();
            assert!(
                base.incarnation.0 >= incarnation,
                "{base:?} of rank {rank}, whose start is {incarnation}"
            );
        }
    }

    /// A rank writes its next line when all ranks have the checkpoint behind the one before.
    fn writes(&mut self, path: &Path, length: u64) {
        self.unsynced.insert(path.to_owned());
        if path.extension().is_some_and(|end| end == "diary") {
            let marks = |rank| self.store(rank).unwrap().marks();
            let epochs = (0..RANKS).map(|rank| marks(rank).iter().flatten().map(|mark| mark.epoch.0).max());
            let newest = epochs.map(Option::unwrap_or_default).min().unwrap();
            assert!(newest >= length / LINE, "epoch {newest}, and {length} bytes of {}", path.display());
        }
    }

    /// What says that a job is there comes behind all that it consists of.
    fn renames(&mut self, from: &Path, to: &Path) {
        assert_eq!(to, self.job.join("job.json"));
        assert!(!self.unsynced.contains(from), "{} is not synced", from.display());
        let text = String::from_utf8(self.bytes(from.to_owned())).unwrap();
        assert!(text.contains("diary"), "{text}");
        assert!((0..RANKS).all(|rank| self.store(rank).is_some()), "a store is not synced");
        self.directories.remove(&self.job);
    }

    fn syncs(&mut self, path: &Path, number: u32) {
        self.unsynced.remove(path);
        let before = self.on_disk(path);
        self.synced.insert(path.to_owned(), number);
        let rank = path.file_name().unwrap().to_str().unwrap().strip_prefix("rank-");
        let rank = rank.and_then(|name| name.strip_suffix(".store")?.parse().ok());
        if let (Some(rank), Some(before)) = (rank, before) {
            self.is_whole_at_each_mark(rank, &before);
        }
    }

    /// If its newest marks alone had come to the disk, and nothing else since it was synced before, a store
    /// would have all that they vouch for.
    fn is_whole_at_each_mark(&mut self, rank: u32, before: &Path) {
        let known = Store::open_at(before, rank, RANKS).unwrap().marks();
        let store = self.store(rank).unwrap();
        for mark in store.marks().into_iter().flatten().filter(|mark| !known.contains(&Some(*mark))) {
            let path = self.job.join(format!("rank-{rank}.store"));
            let mut header = [0; 4096];
            let now = OpenOptions::new().read(true).open(self.on_disk(&path).unwrap()).unwrap();
            now.read_exact_at(&mut header, 0).unwrap();
            OpenOptions::new().write(true).open(before).unwrap().write_all_at(&header, 0).unwrap();
            let Mark { incarnation, epoch } = mark;
            let whole = Store::open_at(before, rank, RANKS).unwrap().verify(epoch);
            whole.unwrap_or_else(|why| panic!("rank {rank}'s {mark:?} came to the disk too soon: {why}"));
            self.marks.insert((rank, incarnation.0, epoch.0));
            self.has_written(rank, store.outputs(epoch).unwrap()[0], epoch);
        }
    }

    /// What belongs to the epoch of what a rank has printed and written is on the disk.
    fn has_written(&self, rank: u32, printed: u64, epoch: Epoch) {
        assert_eq!(printed, epoch.0 * LINE, "rank {rank}, {epoch:?}");
        for path in
            [self.job.join(format!("rank-{rank}.out")), self.disk.watched().join(format!("{rank}.diary"))]
        {
            let has = self.bytes(path.clone()).len() as u64;
            assert!(has >= printed, "{epoch:?} has {printed} bytes of {}, of which {has}", path.display());
        }
    }
}

/// What the ranks print in the end, whoever was killed.
fn is_all_that_is_printed(ended: &[&Ended]) {
    let mut lines: Vec<&str> = ended.iter().flat_map(|ended| ended.out.lines()).collect();
    lines.sort_unstable();
    let expected =
        (1..=LINES).flat_map(|line| (0..RANKS).map(move |rank| format!("line {line} of rank {rank}")));
    assert_eq!(lines, expected.collect::<Vec<String>>(), "{ended:?}");
}

#[test]
fn what_a_checkpoint_consists_of_is_on_the_disk_before_it_counts() {
    for death in ["kill rank 1 at checkpoint 3 after copy", "kill all ranks at checkpoint 4 after mark"] {
        let disk = Disk::new();
        let ended = disk.begin(&[("--inject", death)]);
        assert_eq!(ended.status, 0, "{ended}");
        ended.said(&["all 2 ranks go on from barrier"]);
        is_all_that_is_printed(&[&ended]);
        let history = disk.history();
        let has = |rank, epoch| history.marks.iter().any(|mark| (mark.0, mark.2) == (rank, epoch));
        assert!((0..RANKS).all(|rank| (1..=LINES).all(|epoch| has(rank, epoch))), "{:?}", history.marks);
        assert_eq!(history.starts, BTreeMap::from([(0, RANKS), (1, RANKS)]));
    }
}

#[test]
fn where_a_job_is_gone_on_with_from_is_on_the_disk_before_its_ranks_begin() {
    let disk = Disk::new();
    let first = disk.begin(&[("--restarts", "0"), ("--inject", "kill rank 1 at checkpoint 4 after mark")]);
    first.failed(128 + 9, &["`scash resume"]);
    let second = disk.resume();
    assert_eq!(second.status, 0, "{second}");
    is_all_that_is_printed(&[&first, &second]);
    assert_eq!(disk.history().starts, BTreeMap::from([(0, RANKS), (1, RANKS)]));
}
