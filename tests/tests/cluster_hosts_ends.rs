//! Jobs on several hosts lose a host or their launcher when what ranks have printed is not all printed for
//! the user yet, who reads slowly: while ranks compute, and when all have ended. Nothing of it is lost.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use scash_tests::cluster::built::built;
use scash_tests::cluster::{Ended, Hosts, HostsJob, kill_launcher, new_mark, run, wait_until_all_are_gone};
use scash_tests::cluster::{LIMIT, MARK, scash, wait_for_status, wait_for_status_on};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{PipeReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Two hosts of two ranks each.
const TWO: &str = "10.77.0.1:2,10.77.0.2:2";
const TWO_NAMES: &str = "10.77.0.1,10.77.0.2";
const RANKS: u32 = 4;
/// Lines a rank: more bytes than may be on their way.
const LINES: u64 = 15_000;

/// A job of whose output nobody has read anything. Its ranks have all ended, unless it was only started.
struct Unread {
    launcher: Child,
    out: PipeReader,
    mark: String,
}

impl Unread {
    /// Of the program `chatty` on these hosts, with this behind the number of its lines and the directory.
    fn start(hosts: &Hosts, names: &str, words: &[&str]) -> Unread {
        Unread::start_job(hosts, hosts.job(names), words)
    }

    fn start_job(hosts: &Hosts, job: HostsJob, words: &[&str]) -> Unread {
        Unread::start_with(hosts, job, words, None, false)
    }

    /// `on`: the host of the launcher. `is_one_pipe`: for what it prints and what it says.
    fn start_with(
        hosts: &Hosts,
        job: HostsJob,
        words: &[&str],
        on: Option<&str>,
        is_one_pipe: bool,
    ) -> Unread {
        let (lines, directory) = (LINES.to_string(), hosts.file(""));
        let arguments = [&[&lines, directory.to_str().unwrap()], words].concat();
        let job = job.options("--replicas 1 --checkpoint every=2");
        let chatty = Path::new(env!("CARGO_BIN_EXE_chatty"));
        let mut command = match on {
            None => job.command(chatty, &arguments),
            Some(host) => job.command_on(host, chatty, &arguments),
        };
        let mark = new_mark();
        let (out, pipe) = std::io::pipe().unwrap();
        let err = File::create(hosts.file("err")).unwrap();
        let err = if is_one_pipe { pipe.try_clone().unwrap().into() } else { Stdio::from(err) };
        command.env(MARK, &mark).stdin(Stdio::null()).stdout(pipe).stderr(err);
        Unread { launcher: command.spawn().unwrap(), out, mark }
    }

    /// Which ends with this status, on two hosts.
    fn new(hosts: &Hosts, status: i32) -> Unread {
        Unread::ended(hosts, TWO, status)
    }

    fn ended(hosts: &Hosts, names: &str, status: i32) -> Unread {
        Unread::start(hosts, names, &[&status.to_string()]).wait_for_its_ranks(hosts)
    }

    fn wait_for_its_ranks(self, hosts: &Hosts) -> Unread {
        let printed = || (0..RANKS).all(|rank| hosts.file(&format!("printed-{rank}")).exists());
        wait_until("ranks have printed all", || printed() && !any_rank(hosts));
        // Agents are told that all have ended.
        std::thread::sleep(Duration::from_millis(500));
        self
    }

    /// Reads what there is, to the job's end.
    fn ends(mut self, hosts: &Hosts) -> Ended {
        let mut out = String::new();
        self.out.read_to_string(&mut out).unwrap();
        let status = self.launcher.wait().unwrap().code().unwrap_or(-1);
        wait_until_all_are_gone(hosts);
        Ended { what: "scash run".to_owned(), status, out, err: said(hosts) }
    }

    /// Loses the launcher. Returns what it had printed, and the command that goes on with the job.
    fn lose(mut self, hosts: &Hosts) -> (String, Command) {
        let job = self.launcher.id().to_string();
        kill_launcher(&mut self.launcher);
        let mut out = Vec::new();
        self.out.read_to_end(&mut out).unwrap();
        let mut command = Command::new(built("scash"));
        command.args(["resume", &job, "--host", TWO_NAMES]);
        command.env(MARK, &self.mark).env("SCASH_RSH", hosts.file("rsh"));
        (String::from_utf8(out).unwrap(), command)
    }
}

fn said(hosts: &Hosts) -> String {
    std::fs::read_to_string(hosts.file("err")).unwrap()
}

fn any_rank(hosts: &Hosts) -> bool {
    let is_rank = |pid: i32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "chatty")
    };
    (1..=hosts.count()).any(|host| hosts.processes(host).into_iter().any(is_rank))
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What the job must print: the lines of each rank, in their order.
fn expected() -> BTreeMap<u32, Vec<String>> {
    // Rounds write two arrays in turns: this is of the second, fourth and sixth.
    let sum: u64 = (1..=u64::from(RANKS)).sum::<u64>() * (2 + 4 + 6) * 1024;
    let line = |rank: u32, line: u64| {
        format!("rank {rank}, line {line}, sum {sum}, {}", "x".repeat((line % 60) as usize))
    };
    (0..RANKS).map(|rank| (rank, (0..LINES).map(|number| line(rank, number)).collect())).collect()
}

/// Each rank's lines are there, once, in their order.
fn is_all_there(out: &str) {
    let expected = expected();
    let mut lines: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for line in out.lines() {
        let rank = line.split([' ', ',']).nth(1).and_then(|rank| rank.parse().ok());
        lines.entry(rank.unwrap_or_else(|| panic!("a line of no rank: {line:?}"))).or_default().push(line);
    }
    for (rank, expected) in expected {
        let lines = lines.remove(&rank).unwrap_or_default();
        let wrong = lines.iter().zip(&expected).position(|(line, expected)| line != expected);
        assert!(wrong.is_none() && lines.len() == expected.len(), "rank {rank}: {wrong:?}, {}", lines.len());
    }
    assert!(lines.is_empty(), "{:?}", lines.keys());
}

/// Each line is there, and what a launcher had printed that was lost may be there twice.
fn is_nothing_missing(before: &str, after: &str) {
    let lines: std::collections::BTreeSet<&str> = before.lines().chain(after.lines()).collect();
    // The line that was cut off may go on behind that.
    let joined: Vec<String> = (before.to_owned() + after).lines().map(str::to_owned).collect();
    let joined: std::collections::BTreeSet<&str> = joined.iter().map(String::as_str).collect();
    for line in expected().values().flatten() {
        assert!(lines.contains(line.as_str()) || joined.contains(line.as_str()), "it is missing: {line}");
    }
}

#[test]
fn a_host_is_lost_when_ranks_have_ended_whose_output_has_not_all_come() {
    let Some(hosts) = Hosts::new(2) else { return };
    let unread = Unread::new(&hosts, 0);
    hosts.kill(2);
    wait_until("the host is missed", || said(&hosts).contains("go on from"));
    let ended = unread.ends(&hosts);
    assert_eq!(ended.status, 0, "{}", ended.err);
    for words in ["not all that its ranks had printed had come from host 10.77.0.2", "all 4 ranks go on"] {
        assert!(ended.err.contains(words), "{words}: {}", ended.err);
    }
    is_all_there(&ended.out);
}

#[test]
fn one_host_after_the_other_is_lost_when_ranks_have_ended() {
    let Some(hosts) = Hosts::new(3) else { return };
    let unread = Unread::ended(&hosts, &format!("{TWO},10.77.0.3:spare"), 0);
    // This one has printed nothing, and is missed by nobody.
    hosts.kill(3);
    std::thread::sleep(Duration::from_millis(500));
    hosts.kill(2);
    wait_until("the host is missed", || said(&hosts).contains("go on from"));
    let ended = unread.ends(&hosts);
    assert_eq!(ended.status, 0, "{}", ended.err);
    is_all_there(&ended.out);
}

#[test]
fn ranks_that_are_to_print_again_do_so_on_the_host_that_is_left_and_on_their_own() {
    let Some(hosts) = Hosts::new(2) else { return };
    let mut unread = Unread::new(&hosts, 0);
    // Some has been read when the host is lost, and all ranks come to their end again before more is.
    let mut first = vec![0; 700_000];
    unread.out.read_exact(&mut first).unwrap();
    for rank in 0..RANKS {
        std::fs::remove_file(hosts.file(&format!("printed-{rank}"))).unwrap();
    }
    hosts.kill(1);
    let printed = || (0..RANKS).all(|rank| hosts.file(&format!("printed-{rank}")).exists());
    wait_until("ranks have printed all again", || printed() && !any_rank(&hosts));
    let ended = unread.ends(&hosts);
    assert_eq!(ended.status, 0, "{}", ended.err);
    is_all_there(&(String::from_utf8(first).unwrap() + &ended.out));
}

#[test]
fn a_launcher_is_lost_when_all_ranks_have_ended_and_the_next_one_prints_the_rest() {
    let Some(hosts) = Hosts::new(2) else { return };
    for status in [0, 3] {
        let (before, command) = Unread::new(&hosts, status).lose(&hosts);
        let ended = run(command);
        assert_eq!(ended.status, status, "{}", ended.err);
        assert!(ended.err.contains("the job had ended: what it had printed"), "{}", ended.err);
        assert!(!ended.err.contains("go on from"), "{}", ended.err);
        is_nothing_missing(&before, &ended.out);
        wait_until_all_are_gone(&hosts);
        for rank in 0..RANKS {
            std::fs::remove_file(hosts.file(&format!("printed-{rank}"))).unwrap();
        }
    }
}

#[test]
fn a_launcher_and_a_host_are_lost_when_all_ranks_have_ended() {
    let Some(hosts) = Hosts::new(2) else { return };
    let (before, command) = Unread::new(&hosts, 0).lose(&hosts);
    hosts.kill(2);
    let ended = run(command);
    assert_eq!(ended.status, 0, "{}", ended.err);
    assert!(ended.err.contains("all 4 ranks go on from"), "{}", ended.err);
    is_nothing_missing(&before, &ended.out);
}

/// The other one may go on with it.
#[test]
fn a_launcher_that_has_lost_most_hosts_does_not_have_ranks_print_again() {
    let Some(hosts) = Hosts::new(3) else { return };
    let job = hosts.job("10.77.0.1:2,10.77.0.2:2,10.77.0.3:spare").options("--no-rejoin");
    let job = job.options("--standby 10.77.0.3 --linger 5s");
    let unread = Unread::start_with(&hosts, job, &["0"], Some("10.77.0.1"), false);
    let unread = unread.wait_for_its_ranks(&hosts);
    hosts.cut(3);
    wait_for_status_on(&hosts, "10.77.0.1", "host 10.77.0.3 is lost");
    hosts.cut(2);
    let left = || said(&hosts).contains(" hosts that have a say are left, and with --standby");
    wait_until("the launcher leaves the job", left);
    let ended = unread.ends(&hosts);
    assert_eq!(ended.status, 125, "{}", ended.err);
    assert!(!ended.err.contains("go on from"), "{}", ended.err);
}

#[test]
fn what_ranks_of_a_lost_host_have_printed_before_a_checkpoint_is_printed_where_they_come_back() {
    let Some(hosts) = Hosts::new(2) else { return };
    let unread = lose_host_2_while_nobody_reads(&hosts, hosts.job(TWO));
    wait_until("the host is missed", || said(&hosts).contains("go on from"));
    all_is_read(&hosts, unread);
}

/// Its ranks could go back to it, and all would wait until what these have printed is read.
#[test]
fn nobody_waits_for_a_slow_reader_when_a_lost_host_is_back() {
    let Some(hosts) = Hosts::new(2) else { return };
    let unread = lose_host_2_while_nobody_reads(&hosts, hosts.job(TWO));
    let front = i32::try_from(unread.launcher.id()).unwrap();
    wait_for_status(front, "host 10.77.0.2 is there, without ranks");
    let epoch = || -> u64 {
        let status = scash(&["status", &front.to_string()]).out;
        let epoch = status.split("last checkpoint: epoch ").nth(1).and_then(|text| text.split(',').next());
        // There is none until ranks that have come back take one.
        epoch.and_then(|epoch| epoch.trim().parse().ok()).unwrap_or(0)
    };
    wait_until("there is a checkpoint", || epoch() > 0);
    let then = epoch();
    wait_until("ranks go on", || epoch() > then + 5);
    all_is_read(&hosts, unread);
}

/// They have brought it along, and could print it, before all other agents have said that they are ready.
#[test]
fn what_ranks_bring_along_is_printed_when_the_launcher_knows_where_they_are() {
    let Some(hosts) = Hosts::new(3) else { return };
    let job = hosts.job_where_late("10.77.0.1,10.77.0.2:2,10.77.0.3", 1, 100);
    let unread = lose_host_2_while_nobody_reads(&hosts, job);
    all_is_read(&hosts, unread);
    assert!(said(&hosts).contains("comes back on host 10.77.0.3"), "{}", said(&hosts));
}

/// What the launcher has to say comes through the pipe that is full. It goes on with the job all the same.
#[test]
fn a_host_is_lost_while_nobody_reads_what_ranks_print_and_the_launcher_says() {
    let Some(hosts) = Hosts::new(2) else { return };
    let job = hosts.job(TWO).options("--no-rejoin");
    let unread = Unread::start_with(&hosts, job, &["0", "early"], None, true);
    let front = i32::try_from(unread.launcher.id()).unwrap();
    let unread = lose_host_2(&hosts, unread);
    wait_for_status(front, "host 10.77.0.1 is there; ranks 0, 1, 2, 3");
    hosts.let_end();
    let ended = unread.ends(&hosts);
    let (said, printed): (Vec<&str>, Vec<&str>) =
        ended.out.lines().partition(|line| line.starts_with("scash: "));
    assert_eq!(ended.status, 0, "{said:?}");
    is_all_there(&printed.join("\n"));
    assert!(said.iter().any(|line| line.contains("rank 2 comes back on host 10.77.0.1")), "{said:?}");
}

/// Ranks have printed all before a checkpoint, of which its reader has read nothing, when a host is lost.
fn lose_host_2_while_nobody_reads(hosts: &Hosts, job: HostsJob) -> Unread {
    lose_host_2(hosts, Unread::start_job(hosts, job, &["0", "early"]))
}

fn lose_host_2(hosts: &Hosts, unread: Unread) -> Unread {
    let printed = || (0..RANKS).all(|rank| hosts.file(&format!("printed-{rank}")).exists());
    wait_until("ranks have printed all", printed);
    let front = i32::try_from(unread.launcher.id()).unwrap();
    wait_for_status(front, "copies of each checkpoint: 1, whole");
    // Two checkpoints later.
    std::thread::sleep(Duration::from_millis(500));
    hosts.kill(2);
    unread
}

fn all_is_read(hosts: &Hosts, unread: Unread) {
    hosts.let_end();
    let ended = unread.ends(hosts);
    assert_eq!(ended.status, 0, "{}", ended.err);
    assert!(!ended.err.contains("lost with"), "{}", ended.err);
    is_all_there(&ended.out);
}
