//! Jobs of other launchers whose checkpoints are files (`srun … scash rank --checkpoint-dir`) are ended by
//! force, and gone on with (`srun … scash resume`): results and output are what they would have been.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use scash_tests::cluster::built::built;
use scash_tests::cluster::slurm::{Slurm, find};
use scash_tests::cluster::{Ended, Job, JobDirectory, LIMIT, damage, run, run_beside, wait_for};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const LU: [&str; 6] = ["--size", "256", "--block", "16", "--check", "--json"];
const LAPLACE: [&str; 6] = ["--size", "126", "--iterations", "40", "--check", "--json"];
/// What ends a rank behind epoch 6.
const DEATH: &str = "kill rank 1 at barrier 13";
/// What keeps all ranks behind it.
const SLEEP: &str = "delay all ranks by 300s at barrier 13";

/// What starts processes.
#[derive(Clone, Copy)]
enum Launcher<'a> {
    Mpich,
    OpenMpi,
    /// With what it keeps words by.
    Srun(&'a Slurm, &'static str),
}

impl Launcher<'_> {
    /// What users call it.
    fn name(self) -> &'static str {
        match self {
            Launcher::Mpich => "mpiexec",
            Launcher::OpenMpi => "mpirun",
            Launcher::Srun(..) => "srun",
        }
    }

    /// The command that starts so many processes, of this one and its arguments.
    fn command(self, processes: u32, program: &Path) -> Command {
        let number = processes.to_string();
        let mut command = match self {
            Launcher::Mpich => {
                let mut command = Command::new("mpiexec.hydra");
                command.args(["-n", &number]);
                command
            }
            Launcher::OpenMpi => {
                let mut command = Command::new("mpirun.openmpi");
                command.args(["--allow-run-as-root", "--oversubscribe", "-n", &number]);
                command
            }
            Launcher::Srun(slurm, words) => slurm.srun(&["-n", &number, "--nodes=1", words]),
        };
        command.arg(program).env("SCASH_JOIN", "60");
        command
    }
}

/// MPICH's launcher, if it is installed.
fn mpich() -> Option<Launcher<'static>> {
    is_there("mpiexec.hydra", "mpich").then_some(Launcher::Mpich)
}

/// Open MPI's launcher, if it is installed.
fn open_mpi() -> Option<Launcher<'static>> {
    is_there("mpirun.openmpi", "openmpi-bin").then_some(Launcher::OpenMpi)
}

fn is_there(name: &str, package: &str) -> bool {
    let is_there = find(name).is_some();
    if !is_there {
        eprintln!("skipped: jobs of {name}: it is not installed (Debian: apt-get install {package})");
    }
    is_there
}

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

    /// The job, with checkpoints at each second barrier.
    fn start(&self, launcher: Launcher<'_>, inject: &str, program: &Path, arguments: &[&str]) -> Command {
        let mut command = launcher.command(2, &built("scash"));
        command.arg("rank").arg("--checkpoint-dir").arg(self.path());
        command.args(["--checkpoint", "every=2", "--inject", inject]).arg(program).args(arguments);
        command
    }

    fn resuming(&self, launcher: Launcher<'_>, processes: u32) -> Command {
        let mut command = launcher.command(processes, &built("scash"));
        command.arg("resume").arg(self.path());
        command
    }

    /// What comes of going on. MPICH's launcher dies of SIGPIPE now and then, without a word of what was
    /// said, if its processes end before it has told them all: then once more.
    fn resume(&self, launcher: Launcher<'_>) -> Ended {
        const TIMES: u32 = 5;
        let once = || run(self.resuming(launcher, 2));
        let is_told = |ended: &Ended| ended.status != 128 + libc::SIGPIPE;
        (1..TIMES).map(|_| once()).find(is_told).unwrap_or_else(once)
    }

    /// Waits until a rank has an epoch.
    fn await_epoch(&self, rank: u32, epoch: u64) {
        let started = Instant::now();
        while self.newest_of(rank, 2) < epoch {
            assert!(started.elapsed() < LIMIT, "there is no epoch {epoch}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The keepers of ranks.
    fn keepers(&self) -> Vec<i32> {
        let path = self.path().into_os_string().into_string().unwrap();
        let is_keeper = |pid: &i32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
            [&b"rank"[..], b"resume"].contains(words.get(1).unwrap_or(&&b""[..]))
                && words.contains(&path.as_bytes())
        };
        let entries = fs::read_dir("/proc").unwrap();
        let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        numbers.filter(is_keeper).collect()
    }

    /// Sends all keepers at once a signal by which they end, and their ranks with them.
    fn kill(&self, signal: i32) {
        for keeper in self.keepers() {
            // SAFETY: sends a signal to a process that this test has started, as its arguments say.
            unsafe { libc::kill(keeper, signal) };
        }
    }

    /// A job that was killed whole at epoch 6, and 5 before that.
    fn killed(launcher: Launcher<'_>, program: &str, arguments: &[&str]) -> Place {
        let place = Place::new();
        let ended = run_beside(place.start(launcher, SLEEP, &built(program), arguments), |_| {
            (0..2).for_each(|rank| place.await_epoch(rank, 6));
            place.kill(libc::SIGKILL);
        });
        assert_ne!(ended.status, 0, "{ended}");
        place
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(self.path()).unwrap().count() == 0
    }
}

fn is_right(ended: &Ended, words: &[&str]) {
    assert_eq!(ended.status, 0, "{ended}");
    let report: serde_json::Value =
        serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended}"));
    assert_eq!((&report["check"], &report["ranks"]), (&"equal".into(), &2.into()), "{ended}");
    ended.said(words);
}

/// Programs that lose a rank, by which the launcher ends them, and are gone on with; then ones that are
/// killed whole.
fn jobs_go_on(launcher: Launcher<'_>) {
    for (program, arguments) in [("lu", LU), ("laplace", LAPLACE)] {
        for death in ["kill rank 0 at barrier 13", DEATH] {
            let place = Place::new();
            let lost = run(place.start(launcher, death, &built(program), &arguments));
            assert_ne!(lost.status, 0, "{lost}");
            let how = format!("`{} -n 2 scash resume {}`", launcher.name(), place.path().display());
            lost.said(&["was killed by signal 9", &how, "goes on from epoch 6"]);
            is_right(&place.resume(launcher), &["the job goes on from epoch 6 (incarnation 1)"]);
            assert!(place.is_empty(), "files are left");
        }
        let place = Place::killed(launcher, program, &arguments);
        is_right(&place.resume(launcher), &["the job goes on from epoch 6 (incarnation 1)"]);
        assert!(place.is_empty(), "files are left");
    }
}

#[test]
fn jobs_of_mpich_go_on_where_they_were_ended() {
    let Some(launcher) = mpich() else { return };
    jobs_go_on(launcher);
}

#[test]
fn jobs_of_open_mpi_go_on_where_they_were_ended() {
    let Some(launcher) = open_mpi() else { return };
    jobs_go_on(launcher);
}

#[test]
fn jobs_of_slurm_go_on_where_they_were_ended() {
    let Some(slurm) = Slurm::start() else { return };
    jobs_go_on(Launcher::Srun(&slurm, "--mpi=pmi2"));
    jobs_go_on(Launcher::Srun(&slurm, "--mpi=pmix"));
    let place = Place::killed(Launcher::Srun(&slurm, "--mpi=pmi2"), "lu", &LU);
    // What keeps the words may change, and who starts the ranks.
    if let Some(mpich) = mpich() {
        is_right(&place.resume(mpich), &["the job goes on from epoch 6"]);
    }
}

#[test]
fn a_job_goes_on_whatever_provider_and_frames_it_has_and_with_threads() {
    let Some(launcher) = mpich() else { return };
    for (name, value) in [
        ("SCASH_PROVIDER", "tcp"),
        ("SCASH_SHARE", "off"),
        ("SCASH_FAULT", "mprotect"),
        ("SCASH_THREADS", "2"),
    ] {
        let place = Place::new();
        let mut command = place.start(launcher, DEATH, &built("laplace"), &LAPLACE);
        command.env(name, value);
        let lost = run(command);
        lost.said(&["goes on from epoch 6"]);
        is_right(&place.resume(launcher), &["the job goes on from epoch 6"]);
    }
}

#[test]
fn a_job_that_is_killed_at_any_time_again_and_again_comes_to_its_end() {
    let Some(launcher) = mpich() else { return };
    let place = Place::new();
    let start = || place.start(launcher, "stop rank 1 for 1ms at barrier 3", &built("laplace"), &LAPLACE);
    let mut command = start();
    let mut printed = String::new();
    for milliseconds in 0..60 {
        let ended = run_beside(command, |_| {
            std::thread::sleep(Duration::from_millis(20 + 10 * milliseconds));
            place.kill(libc::SIGKILL);
        });
        printed += &ended.out;
        if ended.status == 0 {
            return is_right_once(&printed, &ended);
        }
        let has_begun = place.path().join("job.json").exists();
        command = if has_begun { place.resuming(launcher, 2) } else { start() };
    }
    let ended = run(command);
    is_right_once(&(printed + &ended.out), &ended);
}

/// A job that was killed again and again has ended well, and has printed its result, in one start or another.
/// What mpiexec had in its hands when it was killed is lost: then the last start prints nothing.
fn is_right_once(printed: &str, ended: &Ended) {
    assert_eq!(ended.status, 0, "{ended}");
    let reports = printed.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let reports: Vec<serde_json::Value> = reports.filter(serde_json::Value::is_object).collect();
    assert!(reports.iter().all(|report| report["check"] == "equal" && report["ranks"] == 2), "{printed}");
    assert!(!reports.is_empty() || ended.err.contains("the job goes on from"), "{printed} {ended}");
}

#[test]
fn what_was_printed_appears_once() {
    let Some(launcher) = mpich() else { return };
    let phoenix = Path::new(env!("CARGO_BIN_EXE_phoenix"));
    let sorted = |texts: &[&str]| {
        let mut lines: Vec<String> = texts.concat().lines().map(str::to_owned).collect();
        // MPICH tells on stdout of ranks that die.
        lines.retain(|line| line.contains("rank"));
        lines.sort();
        lines
    };
    let expected = Job::plain(2).run(phoenix, &["loud"]);
    expected.succeeded();
    let place = Place::new();
    let first = run(place.start(launcher, DEATH, phoenix, &["loud"]));
    first.said(&["goes on from epoch"]);
    let second = place.resume(launcher);
    assert_eq!(second.status, 0, "{second}");
    assert_eq!(sorted(&[&first.out, &second.out]), sorted(&[&expected.out]), "{first}{second}");
}

#[test]
fn another_number_of_ranks_another_launchers_directory_and_a_job_that_is_there_are_refused() {
    let Some(launcher) = mpich() else { return };
    let place = Place::killed(launcher, "lu", &LU);
    let how = format!("`mpiexec -n 2 scash resume {}`", place.path().display());
    let other = run(place.resuming(launcher, 3));
    other.refused(&["this job has 2 ranks, and 3 were started", &how]);
    assert_eq!(other.err.matches("were started").count(), 1, "one says it: {other}");
    run(place.start(launcher, DEATH, &built("lu"), &LU)).refused(&["a job is there", &how]);
    let alone = {
        let mut command = Command::new(built("scash"));
        command.arg("resume").arg(place.path());
        run(command)
    };
    alone.refused(&["none of them has started this process", &how]);
    is_right(&place.resume(launcher), &[]);

    let place = Place::new();
    let job = Job::plain(2).option("--checkpoint-dir", place.path().to_str().unwrap());
    let job = job.option("--checkpoint", "every=2").option("--restarts", "0").option("--inject", DEATH);
    job.run(&built("lu"), &LU).failed(128 + 9, &["goes on from epoch 6"]);
    let how = format!("`scash resume {}`", place.path().display());
    place.resume(launcher).refused(&["`scash run` has started this job", &how]);
}

#[test]
fn ranks_that_still_run_keep_a_job_from_being_gone_on_with() {
    let Some(launcher) = mpich() else { return };
    let place = Place::new();
    run_beside(place.start(launcher, SLEEP, &built("lu"), &LU), |_| {
        (0..2).for_each(|rank| place.await_epoch(rank, 6));
        place.resume(launcher).refused(&["another launcher runs this job now"]);
        place.kill(libc::SIGKILL);
    });
    // One that has outlived the keeper of rank 0. (Those that were killed may still be closing their files.)
    let store = File::open(place.store(1)).unwrap();
    let lock = nix::fcntl::Flock::lock(store, nix::fcntl::FlockArg::LockExclusive).unwrap();
    let refused = place.resume(launcher);
    refused.refused(&["rank 1 of an earlier start of this job still runs"]);
    assert_eq!(refused.err.lines().filter(|line| line.starts_with("scash: ")).count(), 1, "{refused}");
    drop(lock);
    is_right(&place.resume(launcher), &["the job goes on from epoch 6"]);
}

#[test]
fn a_job_that_its_user_ends_says_once_how_it_goes_on() {
    let Some(launcher) = mpich() else { return };
    let place = Place::new();
    let ended = run_beside(place.start(launcher, SLEEP, &built("lu"), &LU), |_| {
        (0..2).for_each(|rank| place.await_epoch(rank, 6));
        place.kill(libc::SIGTERM);
    });
    assert_ne!(ended.status, 0, "{ended}");
    assert_eq!(ended.err.matches("ended by SIGTERM; `mpiexec -n 2 scash resume").count(), 1, "{ended}");
    is_right(&place.resume(launcher), &["the job goes on from epoch 6"]);
}

#[test]
fn what_a_disk_has_lost_is_named() {
    let Some(launcher) = mpich() else { return };
    let place = Place::killed(launcher, "lu", &LU);
    damage(&place.store(1), 1, &[6]);
    is_right(&place.resume(launcher), &["rank 1", "epoch 6 is damaged", "the job goes on from epoch 5"]);
    let place = Place::killed(launcher, "lu", &LU);
    damage(&place.store(0), 0, &[5, 6]);
    place.resume(launcher).refused(&["rank 0", "epoch 6 is damaged", "no other epoch"]);
    fs::remove_file(place.store(1)).unwrap();
    place.resume(launcher).refused(&["rank-1.store", "No such file"]);
    fs::write(place.path().join("job.json"), "{}").unwrap();
    place.resume(launcher).refused(&["job.json", "describes no job"]);
}

#[test]
fn a_program_that_knows_nothing_of_scash_is_kept_and_its_failure_told() {
    let Some(launcher) = mpich() else { return };
    let place = Place::new();
    let ended = run(place.start(launcher, DEATH, Path::new("/bin/sh"), &["-c", "exit 7"]));
    assert_ne!(ended.status, 0, "{ended}");
    ended.said(&["exited with status 7"]);
    let place = Place::new();
    let ended = run(place.start(launcher, DEATH, Path::new("/bin/echo"), &["said"]));
    assert_eq!((ended.status, ended.out.as_str()), (0, "said\nsaid\n"), "{ended}");
    assert!(place.is_empty(), "files are left");
    let missing = Path::new("./no-such-program");
    run(place.start(launcher, DEATH, missing, &[])).said(&["there is no such program"]);
}

/// MPICH's mpiexec kills all processes of a job, and forgets what they have written, when one of their
/// sockets ends that has not said goodbye. So it must not end before the process does.
#[test]
fn a_process_whose_rank_fails_has_its_launchers_socket_until_it_ends() {
    let place = Place::new();
    let server = PmiServer::default();
    thread::scope(|scope| {
        let (_first, socket) = keeper(&place, 0, "sleep 300");
        scope.spawn(|| server.serve(socket));
        let (mut second, socket) = keeper(&place, 1, "exit 3");
        server.serve(socket);
        let stderr = format!("/proc/{}/fd/2", second.0.id());
        assert!(fs::symlink_metadata(stderr).is_err(), "the process lives on without the socket");
        let mut words = String::new();
        second.0.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        assert!(words.contains("rank 1") && words.contains("exited with status 3"), "{words}");
        assert_eq!(second.0.wait().unwrap().code(), Some(3));
    });
}

/// Its launcher reads no more, and ends it.
#[test]
fn a_rank_that_has_ended_well_leaves_what_nobody_has_read() {
    let (place, other) = (Place::new(), tempfile::tempdir().unwrap());
    let server = PmiServer::default();
    thread::scope(|scope| {
        let (_first, socket) = keeper(&place, 0, "sleep 300");
        scope.spawn(|| server.serve(socket));
        let script = format!("seq 100000; touch {}/ended", other.path().display());
        let (mut second, socket) = keeper(&place, 1, &script);
        scope.spawn(|| server.serve(socket));
        wait_for("the end of the rank", || other.path().join("ended").exists().then_some(()));
        thread::sleep(Duration::from_millis(300));
        // SAFETY: the call takes numbers; the child was not waited for.
        unsafe { libc::kill(i32::try_from(second.0.id()).unwrap(), libc::SIGTERM) };
        assert_eq!(second.0.wait().unwrap().code(), Some(128 + libc::SIGTERM));
        assert!(!place.path().join("rank-1.ended").exists());
        assert!(fs::read_to_string(place.path().join("rank-1.out")).unwrap().ends_with("\n100000\n"));
    });
}

/// A process that is killed at the latest when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process of a rank of two, whose program is this script, and the launcher's end of its socket.
fn keeper(place: &Place, rank: u32, script: &str) -> (Killed, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    // No other process that is started meanwhile gets the socket.
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" 9<&0 </dev/null"]).stdin(OwnedFd::from(theirs));
    command.arg(built("scash")).arg("rank").arg("--checkpoint-dir").arg(place.path());
    command.args(["sh", "-c", script]).env("PMI_RANK", rank.to_string());
    command.envs([("PMI_FD", "9"), ("PMI_SIZE", "2"), ("SCASH_JOIN", "60")]);
    (Killed(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()), ours)
}

/// What MPICH's mpiexec is to two processes.
#[derive(Default)]
struct PmiServer {
    values: Mutex<HashMap<String, String>>,
    /// How often one has come to a barrier.
    arrivals: Mutex<u32>,
    arrived: Condvar,
}

impl PmiServer {
    /// Waits until both are there, or one has not come for long.
    fn meet(&self) {
        let mut arrivals = self.arrivals.lock().unwrap();
        *arrivals += 1;
        let all = arrivals.next_multiple_of(2);
        self.arrived.notify_all();
        drop(self.arrived.wait_timeout_while(arrivals, LIMIT, |arrivals| *arrivals < all).unwrap());
    }

    /// Answers a process until its socket ends.
    fn serve(&self, mut socket: UnixStream) {
        for line in BufReader::new(socket.try_clone().unwrap()).lines() {
            let line = line.unwrap();
            let words: HashMap<&str, &str> =
                line.split(' ').filter_map(|word| word.split_once('=')).collect();
            let answer = match words["cmd"] {
                "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_owned(),
                "get_my_kvsname" => "cmd=my_kvsname kvsname=job".to_owned(),
                "put" => {
                    self.values.lock().unwrap().insert(words["key"].to_owned(), words["value"].to_owned());
                    "cmd=put_result rc=0".to_owned()
                }
                "barrier_in" => {
                    self.meet();
                    "cmd=barrier_out".to_owned()
                }
                "get" => {
                    format!("cmd=get_result rc=0 value={}", self.values.lock().unwrap()[words["key"]])
                }
                "finalize" => "cmd=finalize_ack".to_owned(),
                _ => continue,
            };
            socket.write_all((answer + "\n").as_bytes()).unwrap();
        }
    }
}
