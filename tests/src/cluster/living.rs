//! Looking into a job on one host that runs: its processes, and the stores that its launcher keeps.

use super::Ended;
use super::built::built;
use super::job::{Job, LIMIT, children};
use scash_ft::store::Store;
use std::fs::{self, File, OpenOptions};
use std::time::{Duration, Instant};

/// The job, whose ranks come back, with checkpoints at each `every`-th barrier, and these deaths.
pub fn replicas(job: Job, every: u32, deaths: &[&str]) -> Job {
    let job = job.option("--replicas", "1").option("--checkpoint", &format!("every={every}"));
    deaths.iter().fold(job, |job, death| job.option("--inject", death))
}

/// Whether a line says that somebody hung up while it connected, as a rank does that is killed then.
pub fn hung_up(line: &str) -> bool {
    line.contains("it hung up during the handshake")
}

/// How often ranks were started again. Nothing else is on stderr, but that killed ranks have hung up.
pub fn came_back(ended: &Ended) -> usize {
    let times = |line: &str| {
        assert!(line.contains("was killed by SIGKILL; all "), "{ended}");
        let several = line.rsplit_once(" and ").and_then(|(_, times)| times.strip_suffix(" restarts"));
        several.map_or(1, |times| times.parse().unwrap())
    };
    ended.err.lines().filter(|line| !hung_up(line)).map(times).sum()
}

/// Runs an application, wherever its ranks go on if they die.
///
/// # Panics
/// If its result is not bitwise that of the sequential program.
pub fn computes(job: &Job, ranks: u32, program: &str, arguments: &[&str]) -> Ended {
    let ended = job.run(&built(program), &[arguments, &["--check", "--json"]].concat());
    assert_eq!(ended.is_right()["ranks"], ranks, "{ended}");
    ended
}

/// The same. Returns how often ranks came back.
///
/// # Panics
/// Also if they have gone on from the beginning.
pub fn computes_the_same(job: &Job, ranks: u32, program: &str, arguments: &[&str]) -> usize {
    let ended = computes(job, ranks, program, arguments);
    assert!(!ended.err.contains("from the beginning"), "{ended}");
    came_back(&ended)
}

/// The process that a command has started to launch ranks.
pub fn launcher(front: i32) -> Option<i32> {
    children(front).into_iter().min()
}

/// Which rank a process is; none if it has not become one yet.
pub fn rank_of(pid: i32) -> Option<u32> {
    // An injected stop makes a process that ends it: a rank would stay stopped without.
    if fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end() == "scash-waker" {
        return None;
    }
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(b"SCASH_RANK="))?;
    str::from_utf8(value).ok()?.parse().ok()
}

/// Waits until something is there.
///
/// # Panics
/// If it does not come.
pub fn wait_for<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < LIMIT, "there is no {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until a process has died, of whatever.
pub fn wait_for_death(pid: i32) {
    let stat = format!("/proc/{pid}/stat");
    // It may not have been waited for.
    let is_dead = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z"));
    wait_for("death", || is_dead().then_some(()));
}

/// The processes that are a rank of the job that a command has started: one, or none, or two while one ends.
pub fn processes_of_rank(front: i32, rank: u32) -> Vec<i32> {
    let all = launcher(front).map(children).unwrap_or_default();
    all.into_iter().filter(|pid| rank_of(*pid) == Some(rank)).collect()
}

/// Sends a signal to a rank of the job that a command has started.
///
/// # Panics
/// If there is no such rank.
pub fn signal_rank(front: i32, rank: u32, signal: i32) {
    let pid = wait_for("such rank", || processes_of_rank(front, rank).first().copied());
    // SAFETY: the call takes numbers.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// Kills these ranks as they are now: who comes back when the first has died is none of them.
pub fn kill_ranks(front: i32, ranks: &[u32]) {
    let process = |rank: &u32| wait_for("such rank", || processes_of_rank(front, *rank).first().copied());
    for pid in ranks.iter().map(process).collect::<Vec<i32>>() {
        // SAFETY: the call takes numbers. It may have been killed by its launcher meanwhile.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

/// The store of a rank, in memory or on disk, if the launcher has it already.
pub fn open_store(front: i32, rank: u32) -> Option<File> {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", launcher(front)?)).ok()?;
    let paths = descriptors.filter_map(|entry| Some(entry.ok()?.path()));
    let is_store = |path: &std::path::PathBuf| {
        let name = fs::read_link(path).unwrap_or_default();
        name.to_string_lossy().contains("scash-store") || name.extension().is_some_and(|end| end == "store")
    };
    let files = paths.filter(is_store);
    let mut files = files.filter_map(|path| OpenOptions::new().read(true).write(true).open(path).ok());
    files.find(|file| Store::open(file.try_clone().unwrap().into()).is_ok_and(|store| store.rank() == rank))
}

/// The newest epoch of a rank that has a mark.
pub fn newest_epoch(front: i32, rank: u32) -> u64 {
    let store = open_store(front, rank).and_then(|file| Store::open(file.into()).ok());
    let marks = store.map_or([None; 2], |store| store.marks());
    marks.iter().flatten().map(|mark| mark.epoch.0).max().unwrap_or(0)
}
