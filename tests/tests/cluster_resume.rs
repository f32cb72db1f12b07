//! Jobs whose checkpoints are files (`scash run --checkpoint-dir`) are ended by force, and gone on with
//! (`scash resume`): results and output are what they would have been.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use scash_ft::store::Store;
use scash_ft::{Base, Epoch, Incarnation};
use scash_tests::cluster::built::built;
use scash_tests::cluster::{
    Ended, Job, JobDirectory, LIMIT, all_kinds, damage, kill_ranks, launcher, run, run_beside, wait_for,
    wait_for_death,
};
use std::fs::{self, File, OpenOptions};
use std::ops::Deref;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const LU: [&str; 6] = ["--size", "256", "--block", "16", "--check", "--json"];
const LAPLACE: [&str; 6] = ["--size", "126", "--iterations", "40", "--check", "--json"];

/// A job's directory.
struct Place(JobDirectory);

impl Deref for Place {
    type Target = JobDirectory;

    fn deref(&self) -> &JobDirectory {
        &self.0
    }
}

impl Place {
    fn new() -> Place {
        Place(JobDirectory::new())
    }

    /// The newest epoch that each of so many ranks has; 0 if there is none yet.
    fn newest(&self, ranks: u32) -> u64 {
        (0..ranks).map(|rank| self.newest_of(rank, ranks)).min().unwrap_or(0)
    }

    /// The job, with checkpoints at each `every`-th barrier.
    fn job(&self, job: Job, every: u32) -> Job {
        job.option("--checkpoint-dir", self.path().to_str().unwrap())
            .option("--checkpoint", &format!("every={every}"))
    }

    /// Starts the job, and ends it by force when it has epoch `epoch`. It must hang by itself after that.
    fn run_until(&self, command: Command, ranks: u32, epoch: u64) -> Ended {
        let ended = run_beside(command, |front| {
            let started = Instant::now();
            while self.newest(ranks) < epoch {
                assert!(started.elapsed() < LIMIT, "there is no epoch {epoch}");
                std::thread::sleep(Duration::from_millis(2));
            }
            kill_all(front);
        });
        assert_eq!(ended.status, 128 + 9, "{ended}");
        ended
    }

    fn resume(&self) -> Ended {
        run(self.resuming())
    }

    fn resuming(&self) -> Command {
        let mut command = Command::new(built("scash"));
        command.arg("resume").arg(self.path());
        command
    }
}

/// Kills a command and the launcher below it at once, as a machine does that loses its power; ranks end with
/// the launcher.
fn kill_all(front: i32) {
    let children = fs::read_to_string(format!("/proc/{front}/task/{front}/children")).unwrap();
    let launcher = children.split_whitespace().next().map(|pid| pid.parse::<i32>().unwrap());
    for pid in launcher.into_iter().chain([front]) {
        // SAFETY: the call takes numbers.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

/// A job that hangs at a barrier of its first incarnation.
fn hangs(job: Job, barrier: u32) -> Job {
    job.option("--inject", &format!("delay all ranks by 300s at barrier {barrier}"))
}

fn is_right(ended: &Ended, words: &[&str]) {
    assert_eq!(ended.status, 0, "{ended}");
    let report: serde_json::Value =
        serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended}"));
    assert_eq!(report["check"], "equal", "{ended}");
    ended.said(words);
}

#[test]
fn a_job_goes_on_after_launcher_and_ranks_were_killed_whatever_frames_and_provider_it_has() {
    for kind in all_kinds() {
        for (program, arguments) in [("lu", LU), ("laplace", LAPLACE)] {
            let place = Place::new();
            let job = hangs(place.job(kind.job(2), 2), 13);
            place.run_until(job.command(&built(program), &arguments), 2, 6);
            is_right(&place.resume(), &["the job goes on from epoch ", "(incarnation 1)"]);
            assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "files are left");
        }
    }
}

#[test]
fn what_a_full_disk_has_not_taken_is_printed_when_the_job_is_resumed() {
    let place = Place::new();
    let job = place.job(Job::plain(2), 2).command(&built("lu"), &LU);
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" >/dev/full", "sh"]).arg(job.get_program()).args(job.get_args());
    let ended = run(command);
    ended.failed(125, &["No space left on device"]);
    is_right(&place.resume(), &["what it had printed and nobody has seen follows"]);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "files are left");
}

/// What it had printed behind its newest epoch before it failed, for a reason that passes, was shown, and was
/// longer than what it prints instead.
#[test]
fn what_a_job_prints_anew_is_left_out_where_it_was_seen_and_shown_where_it_is_other_text() {
    for is_one in [false, true] {
        let (place, written) = (Place::new(), tempfile::tempdir().unwrap());
        let arguments = ["300", written.path().to_str().unwrap(), "0"];
        fs::write(written.path().join("full"), "").unwrap();
        let job = place.job(Job::plain(2), 2).command(Path::new(env!("CARGO_BIN_EXE_chatty")), &arguments);
        let redirected = |command: &Command| {
            let mut sh = Command::new("sh");
            sh.args(["-c", if is_one { "exec \"$@\" 2>&1" } else { "exec \"$@\"" }, "sh"]);
            sh.arg(command.get_program()).args(command.get_args());
            sh
        };
        let failed = run(redirected(&job));
        assert_eq!(failed.status, 3, "{failed}");
        assert!(failed.out.contains("rank 0: no space left"), "{failed}");
        fs::remove_file(written.path().join("full")).unwrap();
        let resumed = run(redirected(&place.resuming()));
        assert_eq!(resumed.status, 0, "{resumed}");
        let all = failed.out + &resumed.out;
        for line in 0..300 {
            let times = |rank: u32| all.matches(&format!("rank {rank}, line {line}, ")).count();
            assert!(times(0) == 1 && times(1) > 0, "line {line}: {all}");
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "files are left");
    }
}

/// Nobody reads it, and the user does not wait for that.
#[test]
fn what_nobody_has_read_of_a_job_that_had_ended_is_printed_when_it_is_resumed() {
    let (place, written) = (Place::new(), tempfile::tempdir().unwrap());
    let arguments = ["3000", written.path().to_str().unwrap(), "0"];
    let chatty = Path::new(env!("CARGO_BIN_EXE_chatty"));
    let mut command = place.job(Job::plain(2), 2).command(chatty, &arguments);
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut first = command.stdout(writer).spawn().unwrap();
    drop(command);
    wait_for("all that is printed", || written.path().join("printed-1").exists().then_some(()));
    wait_for("the rest of it", || written.path().join("printed-0").exists().then_some(()));
    std::thread::sleep(Duration::from_millis(300));
    // SAFETY: the call takes numbers; the child was not waited for.
    unsafe { libc::kill(i32::try_from(first.id()).unwrap(), libc::SIGINT) };
    first.wait().unwrap();
    let mut seen = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut seen).unwrap();
    let resumed = place.resume();
    let whole = seen.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let text = String::from_utf8(seen[..whole].to_vec()).unwrap() + &resumed.out;
    let lines: std::collections::BTreeSet<&str> = text.lines().collect();
    assert_eq!(lines.len(), 6000, "{} were seen before: {}", seen.len(), resumed.err);
}

/// The launcher ends the other ranks, to start all again, when it misses the command.
#[test]
fn a_command_that_dies_just_behind_a_rank_leaves_its_checkpoints() {
    for milliseconds in [0, 1, 3] {
        let place = Place::new();
        let job = hangs(place.job(Job::plain(2), 2), 13);
        let ended = run_beside(job.command(&built("lu"), &LU), |front| {
            wait_for("epoch 6", || (place.newest(2) == 6).then_some(()));
            let launcher = launcher(front).unwrap();
            kill_ranks(front, &[0]);
            std::thread::sleep(Duration::from_millis(milliseconds));
            // SAFETY: the call takes numbers.
            unsafe { libc::kill(front, libc::SIGKILL) };
            wait_for_death(launcher);
        });
        if ended.status == 0 {
            eprintln!(
                "a busy machine: the ranks had come back, and all was over, when the command was killed"
            );
            is_right(&ended, &[]);
            continue;
        }
        assert_eq!(ended.status, 128 + 9, "{ended}");
        is_right(&place.resume(), &["the job goes on from epoch "]);
    }
}

#[test]
fn a_job_that_is_killed_at_any_time_again_and_again_comes_to_its_end() {
    let place = Place::new();
    let begin = || place.job(Job::plain(2), 1).option("--threads", "2").command(&built("laplace"), &LAPLACE);
    let has_begun = || place.path().join("job.json").exists();
    // A launcher may be killed when it has printed all: then there is nothing left to print, or even to
    // resume.
    let mut printed = String::new();
    let mut milliseconds = 5;
    let last = loop {
        let command = if has_begun() { place.resuming() } else { begin() };
        let ended = run_beside(command, |front| {
            std::thread::sleep(Duration::from_millis(milliseconds));
            kill_all(front);
        });
        printed += &ended.out;
        if ended.status == 0 || !has_begun() && !printed.is_empty() {
            break ended;
        }
        assert_eq!(ended.status, 128 + 9, "{ended}");
        milliseconds += 7;
    };
    is_right(&Ended { status: 0, out: printed, ..last }, &[]);
}

#[test]
fn ranks_that_die_come_back_from_disk_too() {
    for death in ["kill rank 1 at checkpoint 3 after copy", "kill all ranks at checkpoint 2 after mark"] {
        let place = Place::new();
        let job = place.job(Job::plain(2), 2).option("--inject", death);
        is_right(&job.run(&built("lu"), &LU), &["was killed by SIGKILL; all 2 ranks go on from barrier"]);
    }
}

#[test]
fn a_launcher_that_is_to_die_at_a_checkpoint_does_and_others_go_on_without_it() {
    let place = Place::new();
    let job = |death| place.job(Job::plain(2), 2).option("--inject", death);
    let ended = job("kill launcher at checkpoint 3").run(&built("lu"), &LU);
    assert_eq!(ended.status, 128 + 9, "{ended}");
    is_right(&place.resume(), &["the job goes on from epoch "]);
    for other in ["kill launcher after 2s", "kill host b at checkpoint 3"] {
        job(other).run(&built("lu"), &LU).refused(&["several hosts", "--checkpoint-dir"]);
    }
    let without = Job::plain(2).option("--replicas", "1").option("--inject", "kill launcher at checkpoint 3");
    without.run(&built("lu"), &LU).refused(&["--checkpoint-dir"]);
}

/// Stores may have been told from which epoch ranks go on, or one of them, or ranks were started, or one.
#[test]
fn a_launcher_that_dies_as_it_brings_ranks_back_leaves_files_that_the_job_goes_on_from() {
    for kind in all_kinds() {
        for moment in
            ["", "after ended", "after rewound", "2 after rewound", "after started", "2 after started"]
        {
            for (program, arguments) in [("lu", LU), ("laplace", LAPLACE)] {
                let place = Place::new();
                let job = place.job(kind.job(2), 2).option("--inject", "kill rank 1 at barrier 7");
                let job = job.option("--inject", &format!("kill launcher at recovery {moment}"));
                let ended = job.run(&built(program), &arguments);
                assert_eq!(ended.status, 128 + 9, "{moment} {ended}");
                is_right(&place.resume(), &["the job goes on from epoch 3 "]);
                assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "files are left");
            }
        }
    }
}

#[test]
fn nothing_that_was_printed_is_lost_or_said_twice() {
    let phoenix = Path::new(env!("CARGO_BIN_EXE_phoenix"));
    let sorted = |texts: &[&str]| {
        let mut lines: Vec<String> = texts.concat().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let expected = Job::plain(2).run(phoenix, &["loud"]);
    expected.succeeded();
    let place = Place::new();
    let job = hangs(place.job(Job::plain(2), 1), 15);
    let first = run_beside(job.command(phoenix, &["loud"]), |front| {
        // A launcher that is killed as it prints may say its newest piece twice. Ranks print no more here.
        let printed = || std::fs::read(place.path().join("printed")).unwrap_or_default();
        let mut last = (printed(), Instant::now());
        while place.newest(2) < 13 || last.1.elapsed() < Duration::from_secs(1) {
            assert!(last.1.elapsed() < LIMIT, "there is no epoch 13");
            std::thread::sleep(Duration::from_millis(2));
            let now = printed();
            if now != last.0 {
                last = (now, Instant::now());
            }
        }
        kill_all(front);
    });
    let second = place.resume();
    assert_eq!((first.status, second.status), (128 + 9, 0), "{first}{second}");
    assert_eq!(sorted(&[&first.out, &second.out]), sorted(&[&expected.out]), "{first}{second}");
}

#[test]
fn a_file_of_what_was_printed_that_was_cut_short_is_named() {
    let phoenix = Path::new(env!("CARGO_BIN_EXE_phoenix"));
    let place = Place::new();
    let job = hangs(place.job(Job::plain(2), 1), 15);
    place.run_until(job.command(phoenix, &["loud"]), 2, 13);
    open(&place.path().join("rank-1.out")).set_len(7).unwrap();
    place.resume().refused(&["rank-1.out: it has 7 bytes, and had "]);
}

/// A job that has been killed at epoch 6, and 5 before that.
fn killed() -> Place {
    let place = Place::new();
    let job = hangs(place.job(Job::plain(2), 2), 13);
    place.run_until(job.command(&built("lu"), &LU), 2, 6);
    place
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn an_epoch_that_is_damaged_is_named_and_the_one_before_taken() {
    let place = killed();
    damage(&place.store(1), 1, &[6]);
    is_right(&place.resume(), &["rank 1", "epoch 6 is damaged", "the job goes on from epoch 5"]);
}

/// It had gone on from epoch 6, and the epoch before is of an earlier incarnation. Whoever resumes it writes
/// the base record of one store after the other.
#[test]
fn a_job_that_goes_on_from_the_epoch_before_does_so_too_if_it_was_killed_on_the_way() {
    for written in 0..3 {
        let place = killed();
        let set_base = |rank, incarnation, epoch| {
            let store = Store::open_at(&place.store(rank), rank, 2).unwrap();
            store.set_base(Base { incarnation: Incarnation(incarnation), epoch: Epoch(epoch) });
        };
        (0..2).for_each(|rank| set_base(rank, 1, 6));
        damage(&place.store(1), 1, &[6]);
        (0..written).for_each(|rank| set_base(rank, 2, 5));
        is_right(&place.resume(), &["the job goes on from epoch 5"]);
    }
}

#[test]
fn what_is_damaged_or_not_there_is_refused_by_name() {
    let both = killed();
    damage(&both.store(0), 0, &[5, 6]);
    both.resume().refused(&["rank 0", "epoch 6 is damaged", "no other epoch"]);
    let short = killed();
    open(&short.store(0)).set_len(1 << 30).unwrap();
    short.resume().refused(&["rank-0.store", "it was cut short"]);
    open(&short.store(0)).set_len(100).unwrap();
    short.resume().refused(&["rank-0.store", "shorter than"]);
    fs::remove_file(short.store(0)).unwrap();
    short.resume().refused(&["rank-0.store", "No such file"]);
    let other = killed();
    fs::rename(other.store(1), other.store(0)).unwrap();
    other.resume().refused(&["rank-0.store", "the store of rank 1"]);
    // Of the same program, and at the same epoch: nothing but the job tells them apart.
    let [mixed, elsewhere] = [killed(), killed()];
    fs::rename(elsewhere.store(1), mixed.store(1)).unwrap();
    mixed.resume().refused(&["the stores of ranks 0 and 1 are of different jobs"]);
    fs::write(other.path().join("job.json"), "{}").unwrap();
    other.resume().refused(&["job.json", "describes no job"]);
    fs::remove_dir_all(other.path()).unwrap();
    other.resume().refused(&["No such file"]);
}

#[test]
fn files_of_others_that_have_names_of_ours_are_left_and_named() {
    let place = Place::new();
    fs::create_dir_all(place.path()).unwrap();
    for name in ["rank-3.err", "printed"] {
        let file = place.path().join(name);
        fs::write(&file, "mine").unwrap();
        place.job(Job::plain(2), 2).run(&built("lu"), &LU).refused(&[name, "another directory"]);
        assert_eq!(fs::read(&file).unwrap(), b"mine");
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn a_directory_has_one_job_at_a_time() {
    let place = killed();
    let again = place.job(Job::plain(2), 2).run(&built("lu"), &LU);
    again.refused(&["a job is there", "scash resume"]);
    let lock = nix::fcntl::Flock::lock(
        File::open(place.path()).unwrap(),
        nix::fcntl::FlockArg::LockExclusiveNonblock,
    );
    place.resume().refused(&["another launcher"]);
    drop(lock);
    is_right(&place.resume(), &[]);
}

#[test]
fn a_job_that_fails_says_how_it_can_be_gone_on_with_and_another_program_is_refused() {
    let place = Place::new();
    let program = place.beside("program");
    fs::copy(built("lu"), &program).unwrap();
    let job = place.job(Job::plain(2), 2).option("--restarts", "0");
    let job = job.option("--inject", "kill rank 1 at barrier 13");
    let ended = job.run(&program, &LU);
    ended.failed(128 + 9, &["`scash resume", "goes on from epoch 6"]);
    fs::remove_file(&program).unwrap();
    fs::copy(built("laplace"), &program).unwrap();
    place.resume().refused(&["program is not what it was", "built or installed anew"]);
}

/// Needs root, to mount a disk that is too small.
#[test]
fn a_disk_that_is_full_is_named_once_and_the_job_goes_on() {
    // SAFETY: the call has no arguments.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: mounting a small disk takes root");
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let text = "mount -t tmpfs -o size=$1 none $2 && shift 2 && exec \"$@\"";
    let run_on = |size: &str, death: Option<&str>| {
        let job = Job::plain(2).option("--checkpoint-dir", parent.path().join("d").to_str().unwrap());
        let job = death.into_iter().fold(job, |job, death| job.option("--inject", death));
        let inner = job.option("--checkpoint", "every=1").command(&built("lu"), &LU);
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", text, "sh", size]).arg(parent.path());
        command.arg(inner.get_program()).args(inner.get_args());
        run(command)
    };
    run_on("8m", None).refused(&["--checkpoint-dir", "rank-1.store", "No space left on device"]);
    const FULL: &str = "cannot be written: No space left on device";
    let ended = run_on("14m", None);
    is_right(&ended, &[FULL]);
    assert!(ended.err.lines().count() <= 2, "a line for each rank at most: {ended}");
    // On one of these disks there is room for a checkpoint, and not for all that come: ranks go on from it.
    let goes_on = |size: u32| {
        let ended = run_on(&format!("{size}m"), Some("kill rank 1 at barrier 13"));
        is_right(&ended, &["all 2 ranks go on"]);
        ended.err.contains(FULL) && ended.err.contains("go on from barrier")
    };
    assert!((14..40).any(goes_on), "no disk had room for some checkpoints only");
}
