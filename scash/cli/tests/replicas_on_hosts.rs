//! Jobs on several hosts whose ranks die, and that go on (`--replicas`): hosts are this machine, under
//! several names, as ranks that only count need no network.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
mod walker;

use common::{Ended, LIMIT, Scash, children_of, command, kill, start_reading};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use walker::{DEATHS, FILE, PACE, POINTS, STEPS, are_complete, said, words_of};

const ROLE: &str = "SCASH_TEST_ROLE";
/// Ranks of the hosts below.
const RANKS: u32 = 3;

#[test]
fn plays_its_part_if_it_is_a_rank() {
    if std::env::var_os(ROLE).is_some() {
        walker::walk();
    }
}

/// A directory with a remote shell that leads to this machine.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        fs::write(place.file("rsh"), "#!/bin/sh\nshift\nexec \"$@\"\n").unwrap();
        fs::set_permissions(place.file("rsh"), fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// A job of walkers that die so, on two hosts.
    fn walkers(&self, options: &str, deaths: &str) -> Command {
        let this = std::env::current_exe().unwrap();
        let rsh = self.file("rsh").display().to_string();
        // Walkers write no copies of their stores, without which no epoch is whole.
        let words = ["run", "--replicas", "1", "--on-loss", "fail"];
        let words = words.into_iter().chain(["--host", "127.0.0.1,127.0.0.2:2", "--rsh", &rsh]);
        let mut command = command(words.chain(options.split_whitespace()));
        command.arg(this).args(["--exact", "plays_its_part_if_it_is_a_rank", "--nocapture"]);
        command.env(ROLE, "walker").env(DEATHS, deaths).env(FILE, self.file("hangs"));
        command
    }
}

fn start(command: Command) -> Scash {
    start_reading(Stdio::null(), command)
}

fn run(command: Command) -> Ended {
    let ended = start(command).end();
    assert!(ended.left.is_empty(), "{:?}", ended.left);
    ended
}

#[test]
fn a_job_that_loses_nobody_ends_without_a_word() {
    let ended = run(Place::new().walkers("", ""));
    are_complete(&ended, RANKS, "no death");
    assert!(said(&ended).is_empty(), "{}", ended.stderr);
}

#[test]
fn hosts_that_are_one_machine_are_named_where_copies_are_kept() {
    let place = Place::new();
    let rsh = place.file("rsh").display().to_string();
    let three = ["run", "--host", "127.0.0.1,127.0.0.2,127.0.0.3:spare", "--rsh", &rsh];
    let ended = run(command(three.into_iter().chain(["--replicas", "1", "true"])));
    let mut lines = said(&ended);
    lines.sort_unstable();
    let are_one = |one, other| format!("hosts 127.0.0.{one} and 127.0.0.{other} are one machine, ");
    assert!(lines.len() == 2 && lines[0].contains(&are_one(1, 2)), "{lines:?}");
    assert!(lines[1].contains("and 127.0.0.3 are one machine, "), "{lines:?}");
    let file = place.file("hosts");
    fs::write(&file, "127.0.0.1 rack=a\n127.0.0.2 rack=a\n").unwrap();
    let file = file.display().to_string();
    let racked = ["run", "--hostfile", &file, "--rsh", &rsh, "--replicas", "1", "true"];
    assert!(said(&run(command(racked.into_iter()))).is_empty());
    let two = ["run", "--host", "127.0.0.1,127.0.0.2", "--rsh", &rsh, "true"];
    assert!(said(&run(command(two.into_iter()))).is_empty());
}

#[test]
fn a_rank_of_any_host_that_dies_at_any_point_comes_back_and_nothing_is_printed_twice_or_lost() {
    let place = Place::new();
    for rank in ["0", "1", "2", "*"] {
        for point in POINTS {
            for step in [1, 2, 3, STEPS] {
                let deaths = format!("0 {rank} {point} {step} 9");
                let ended = run(place.walkers("", &deaths));
                are_complete(&ended, RANKS, &deaths);
                let said = said(&ended);
                assert_eq!(said.len(), 1, "{deaths}: {said:?}");
                assert!(
                    said[0].contains(" on host 127.0.0.") && said[0].contains("all 3 ranks go on from"),
                    "{said:?}"
                );
            }
        }
    }
}

#[test]
fn ranks_go_on_from_the_newest_epoch_that_all_have() {
    let place = Place::new();
    // Rank 1 dies before it has marked epoch 4, and after; rank 2 is beside it, and rank 0 elsewhere.
    for (point, whence) in [("staged", "barrier 3"), ("met", "barrier 4")] {
        let ended = run(place.walkers("", &format!("0 1 {point} 4 9")));
        are_complete(&ended, RANKS, point);
        assert!(said(&ended)[0].contains(&format!("go on from {whence} (")), "{}", ended.stderr);
    }
    let ended = run(place.walkers("", "0 1 printed 1 9"));
    assert!(said(&ended)[0].contains("go on from the beginning ("), "{}", ended.stderr);
}

#[test]
fn ranks_may_die_again_while_they_start() {
    let place = Place::new();
    for deaths in [
        "0 * printed 4 9; 1 1 started 0 9; 2 0 joined 0 11; 3 * marked 5 9",
        "0 2 printed 4 9; 1 0 started 0 9; 2 2 started 0 9; 3 * joined 0 9",
        "0 0 finalized 0 9; 1 * joined 0 9",
        "0 * finalized 0 9; 1 2 finalized 0 9",
    ] {
        let ended = run(place.walkers("", deaths));
        are_complete(&ended, RANKS, deaths);
    }
}

#[test]
fn a_rank_that_dies_at_one_place_again_and_again_ends_the_job() {
    let ended = run(Place::new().walkers("--restarts 2", "* 1 printed 3 11"));
    assert_eq!(ended.status, 128 + 11);
    let said = said(&ended);
    let last = said.last().unwrap();
    assert!(last.starts_with("rank 1 (pid ") && last.contains(" on host 127.0.0.2)"), "{said:?}");
    let why = ") was killed by signal 11 (SIGSEGV), after 2 restarts from epoch 2 without a new checkpoint (--restarts)";
    assert!(last.ends_with(why), "{said:?}");
    // What no checkpoint has is printed all the same, as of a job that is over.
    for rank in 0..RANKS {
        let words = words_of(&ended.stdout, rank);
        assert_eq!(words[..2], [format!("{rank}:1"), format!("{rank}:2")]);
        assert!(words.len() <= 3, "{words:?}");
    }
    assert_eq!(words_of(&ended.stdout, 1).len(), 3);
}

#[test]
fn deaths_at_ever_new_places_do_not() {
    let deaths: Vec<String> =
        (1..=STEPS).map(|step| format!("{} {} printed {step} 9", step - 1, step % 3)).collect();
    are_complete(&run(Place::new().walkers("--restarts 1", &deaths.join(";"))), RANKS, "a death each step");
}

#[test]
fn a_program_that_fails_by_itself_is_not_started_again() {
    let ended = run(Place::new().walkers("", "0 1 committed 2 exit"));
    assert_eq!(ended.status, 3);
    let said = said(&ended);
    assert!(said.len() == 1 && said[0].contains("exited with status 3; ending the other ranks"), "{said:?}");
    assert_eq!(words_of(&ended.stdout, 1), ["1:1", "1:2"]);
}

/// The agents of a job, or what will be.
fn agents(scash: &Scash) -> Vec<i32> {
    let fronts = children_of(scash.pid()).into_iter().flat_map(children_of);
    fronts.flat_map(children_of).collect()
}

#[test]
fn ranks_that_are_killed_from_outside_at_any_instant_print_everything_once() {
    let place = Place::new();
    // Not random, but not in step with anything either.
    let (mut pause, mut all_kills) = (7, 0);
    for round in 0..12 {
        let mut command = place.walkers("--restarts 1000", "");
        command.env(PACE, "4");
        let scash = start(command);
        let mut kills = 0;
        for turn in 0..15 {
            std::thread::sleep(Duration::from_millis(pause % 37));
            pause = pause * 31 % 1009;
            let ranks: Vec<i32> = agents(&scash).into_iter().flat_map(children_of).collect();
            if let Some(rank) = ranks.get((round + turn) % 3) {
                // It may be gone by now; no number is used again so soon.
                let killed =
                    Command::new("kill").args(["-9", &rank.to_string()]).stderr(Stdio::null()).status();
                kills += usize::from(killed.unwrap().success());
            }
        }
        let ended = scash.end();
        are_complete(&ended, RANKS, &format!("round {round}, {kills} kills"));
        assert!(said(&ended).len() <= kills, "a restart without a death: {}", ended.stderr);
        assert!(ended.left.is_empty(), "{:?}", ended.left);
        all_kills += kills;
    }
    assert!(all_kills > 12, "only {all_kills} ranks were killed");
}

/// A job in whose first restart rank 1 hangs, when it does.
fn hanging(place: &Place, options: &str, point: &str) -> Scash {
    let hangs = place.file("hangs.1");
    let _ = fs::remove_file(&hangs);
    let scash = start(place.walkers(options, &format!("0 0 printed 3 9; 1 1 {point} 0 hang")));
    let started = Instant::now();
    while !hangs.exists() {
        assert!(started.elapsed() < LIMIT, "it does not come so far: {:?}", scash.processes());
        std::thread::sleep(Duration::from_millis(1));
    }
    scash
}

#[test]
fn an_interrupt_ends_a_job_that_is_being_started_again() {
    let place = Place::new();
    for (point, signal, status) in [("started", "INT", 130), ("joined", "INT", 130), ("started", "TERM", 143)]
    {
        let scash = hanging(&place, "", point);
        scash.signal(signal);
        let ended = scash.end();
        assert_eq!(ended.status, status, "{}", ended.stderr);
        assert!(point == "joined" || !ended.stderr.contains("go on"), "{}", ended.stderr);
        assert!(ended.left.is_empty(), "{:?}", ended.left);
    }
}

#[test]
fn an_agent_or_a_launcher_that_dies_in_a_restart_ends_the_job() {
    let place = Place::new();
    for host in 0..2 {
        let scash = hanging(&place, "", "started");
        kill("KILL", agents(&scash)[host]);
        let ended = scash.end();
        assert_eq!(ended.status, 125, "{}", ended.stderr);
        assert!(ended.stderr.contains("its agent is gone, and its ranks with it"), "{}", ended.stderr);
        assert!(ended.left.is_empty(), "{:?}", ended.left);
    }
    // Without its front, agents wait for another launcher.
    for is_front in [true, false] {
        let scash = hanging(&place, "--linger 1s", "started");
        kill("KILL", if is_front { scash.pid() } else { common::child_of(scash.pid()) });
        let left = scash.processes_left();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(scash.end().status, 128 + 9);
    }
}

/// All is stopped, and goes on when the user continues the job.
#[test]
fn a_job_that_is_stopped_while_ranks_die_starts_none_until_it_is_continued() {
    let place = Place::new();
    let mut command = place.walkers("", "");
    command.env(PACE, "100");
    let scash = start(command);
    let ranks = || -> Vec<i32> { agents(&scash).into_iter().flat_map(children_of).collect() };
    let started = Instant::now();
    while ranks().len() < 3 {
        assert!(started.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(150));
    let launcher = common::child_of(scash.pid());
    scash.signal("TSTP");
    std::thread::sleep(Duration::from_millis(100));
    kill("KILL", ranks()[1]);
    std::thread::sleep(Duration::from_millis(300));
    assert!(ranks().is_empty(), "{:?}", scash.processes());
    assert!(Path::new(&format!("/proc/{launcher}")).exists());
    scash.signal("CONT");
    let ended = scash.end();
    are_complete(&ended, RANKS, "stopped");
    assert_eq!(said(&ended).len(), 1, "{}", ended.stderr);
}

#[test]
fn what_is_committed_is_printed_while_ranks_run() {
    let place = Place::new();
    let mut scash = start(place.walkers("", "0 * printed 5 hang"));
    // The line of three steps is whole at step 3.
    let started = Instant::now();
    while !scash.line().starts_with("2:1 2:2 2:3") {
        assert!(started.elapsed() < LIMIT);
    }
    while !(0..RANKS).all(|rank| place.file(&format!("hangs.{rank}")).exists()) {
        assert!(started.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(5));
    }
    scash.signal("INT");
    let ended = scash.end();
    assert_eq!(ended.status, 130);
    assert_eq!(words_of(&ended.stdout, 2).len(), 5, "the rest comes in the end: {ended:?}");
}

#[test]
fn what_a_rank_says_to_its_user_is_said_at_once_and_once_only() {
    let place = Place::new();
    // No rank has an epoch yet, so that nothing is printed.
    let mut scash = start(place.walkers("", "* 1 printed 1 say; 0 1 printed 1 hang"));
    assert_eq!(scash.error_line(), "scash: rank 1 says so at step 1");
    scash.signal("INT");
    assert_eq!(scash.end().status, 130);

    // Rank 1 comes to the third step three times, and to the fourth twice.
    let deaths = "* 1 printed 3 say; 0 1 staged 3 9; 1 0 marked 3 9; * 1 staged 4 say; 2 1 staged 4 9";
    let ended = run(place.walkers("--label", deaths));
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let own = |step: u64| {
        said(&ended).iter().filter(|line| **line == format!("rank 1 says so at step {step}")).count()
    };
    assert_eq!((own(3), own(4), said(&ended).len()), (1, 1, 5), "{}", ended.stderr);
}

#[test]
fn a_job_whose_output_nobody_reads_ends_as_in_any_pipeline() {
    let place = Place::new();
    let mut command = place.walkers("", "0 1 printed 6 hang");
    let (read, write) = nix::unistd::pipe().unwrap();
    drop(read);
    command.stdin(Stdio::null()).stdout(write).stderr(Stdio::piped());
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 13));
}
