//! A rank is killed, stopped or cut off while it does everything that message passing can, with everybody, at
//! the same time: each of the others' operations ends with an error that names it, and those between the
//! others go on.
//!
//! Over libfabric that is so by its `tcp`, not by its `shm`, which lets a rank that goes take others along:
//! see the limits of `scash_ofi`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "mortal/hosts.rs"]
mod hosts;
#[path = "mortal/launcher.rs"]
mod launcher;
#[path = "mortal/operations.rs"]
mod operations;
#[path = "../../join/tests/processes/mod.rs"]
mod processes;

use hosts::Hosts;
use launcher::Launcher;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use operations::{ALL, HANDLER, Side, WINDOW};
use processes::{LIMIT, Rank, command, start};
use scash_comm::{Error, Result};
use scash_join::boot::{Identity, Member, Settings, vars};
use scash_mp::{Communicator, Options, Window};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

const RANKS: u32 = 3;
/// Who goes.
const VICTIM: u32 = 2;
/// How long a rank that is stopped, or cut off, may say nothing.
const SILENCE: &str = "1";

/// How it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Killed,
    Stopped,
    CutOff,
}

/// Where the ranks are, and how they communicate.
#[derive(Clone, Copy, Debug)]
struct Setting {
    /// Ranks of each host.
    hosts: &'static [u32],
    provider: &'static str,
    /// Which of libfabric's providers, if it is over libfabric.
    fabric: Option<&'static str>,
}

const SHM: Setting = Setting { hosts: &[3], provider: "shm", fabric: None };
const TCP: Setting = Setting { provider: "tcp", ..SHM };
const OFI: Setting = Setting { provider: "ofi", fabric: Some("tcp"), ..SHM };
/// The victim shares memory with one of the others, and a network with the other.
const BOTH: Setting = Setting { hosts: &[1, 2], provider: "auto", ..SHM };
/// The victim is alone on its host: the others share memory.
const APART: Setting = Setting { hosts: &[2, 1], provider: "auto", ..SHM };

#[test]
fn a_rank_that_is_killed_is_named_by_all_who_need_it_within_a_host() {
    test("a_rank_that_is_killed_is_named_by_all_who_need_it_within_a_host", Ending::Killed, SHM);
}

#[test]
fn a_rank_that_is_killed_is_named_by_all_who_need_it_over_tcp() {
    test("a_rank_that_is_killed_is_named_by_all_who_need_it_over_tcp", Ending::Killed, TCP);
}

#[test]
fn a_rank_that_is_killed_is_named_by_all_who_need_it_on_its_host_and_on_another() {
    test(
        "a_rank_that_is_killed_is_named_by_all_who_need_it_on_its_host_and_on_another",
        Ending::Killed,
        BOTH,
    );
}

#[test]
fn a_rank_that_is_killed_is_named_by_all_who_need_it_over_the_tcp_of_libfabric() {
    test("a_rank_that_is_killed_is_named_by_all_who_need_it_over_the_tcp_of_libfabric", Ending::Killed, OFI);
}

#[test]
fn a_rank_that_is_stopped_is_named_by_all_who_need_it_within_a_host() {
    test("a_rank_that_is_stopped_is_named_by_all_who_need_it_within_a_host", Ending::Stopped, SHM);
}

#[test]
fn a_rank_that_is_stopped_is_named_by_all_who_need_it_over_tcp() {
    test("a_rank_that_is_stopped_is_named_by_all_who_need_it_over_tcp", Ending::Stopped, TCP);
}

#[test]
fn a_rank_that_is_stopped_is_named_by_all_who_need_it_on_its_host_and_on_another() {
    test(
        "a_rank_that_is_stopped_is_named_by_all_who_need_it_on_its_host_and_on_another",
        Ending::Stopped,
        BOTH,
    );
}

#[test]
fn a_rank_that_is_stopped_is_named_by_all_who_need_it_over_the_tcp_of_libfabric() {
    test(
        "a_rank_that_is_stopped_is_named_by_all_who_need_it_over_the_tcp_of_libfabric",
        Ending::Stopped,
        OFI,
    );
}

#[test]
fn a_rank_whose_host_is_cut_off_is_named_by_all_who_need_it_and_names_them() {
    test(
        "a_rank_whose_host_is_cut_off_is_named_by_all_who_need_it_and_names_them",
        Ending::CutOff,
        Setting { provider: "tcp", ..APART },
    );
}

#[test]
fn a_rank_that_is_cut_off_from_ranks_that_share_memory_is_named_by_them_and_names_them() {
    test(
        "a_rank_that_is_cut_off_from_ranks_that_share_memory_is_named_by_them_and_names_them",
        Ending::CutOff,
        APART,
    );
}

/// Plays with each choice of protocols for long messages.
fn test(name: &str, ending: Ending, place: Setting) {
    if std::env::var_os(vars::RANK).is_some() {
        return rank();
    }
    if let Some(why) = place.fabric.and_then(obstacle) {
        return eprintln!("skipped: {why}");
    }
    let link = if ending == Ending::CutOff { Hosts::new() } else { None };
    let all = ["auto", "push", "rendezvous"];
    // A link is cut once.
    let tried = match ending {
        Ending::Killed => 3,
        Ending::Stopped => 2,
        Ending::CutOff => usize::from(link.is_some()),
    };
    for large in &all[..tried] {
        let known = Job::start(name, place, large, link.as_ref()).play(ending, link.as_ref());
        let [first, last] = known.map(|time| time.as_secs_f64() * 1e3);
        eprintln!(
            "{ending:?}, {place:?}, {large}: known after {first:.1} ms, in all operations after {last:.1} ms"
        );
    }
}

/// Why nothing goes over one of libfabric's providers here.
#[cfg(feature = "ofi")]
fn obstacle(fabric: &str) -> Option<String> {
    match scash_ofi::providers() {
        Err(error) => Some(error.to_string()),
        // What runs over `tcp` may be called `tcp;ofi_rxm`.
        Ok(names) if names.iter().any(|name| name.split(';').any(|part| part == fabric)) => None,
        Ok(names) => Some(format!("libfabric has no provider {fabric}, only {names:?}")),
    }
}

#[cfg(not(feature = "ofi"))]
fn obstacle(_: &str) -> Option<String> {
    Some("built without the provider ofi".to_owned())
}

/// A job under way.
struct Job {
    launcher: Launcher,
    /// Whether the launcher tells ranks who has ended. Some find out themselves; libfabric may try for ever
    /// to connect to a process that is gone.
    tells: bool,
    ranks: Vec<Rank>,
    words: Receiver<(usize, String)>,
}

impl Job {
    fn start(name: &str, place: Setting, large: &str, link: Option<&Hosts>) -> Job {
        // As many threads as there are operations: who waits yields.
        let threads = u32::try_from(ALL.len()).unwrap();
        let settings = Settings { threads, provider: place.provider.to_owned() };
        let mut launcher = Launcher::new(place.hosts, &settings);
        let (say, words) = mpsc::channel();
        let ranks = (0..RANKS).map(|rank| {
            let at = link.map(|link| link.place(launcher.host_of(rank)));
            let before = at.as_ref().map_or(Vec::new(), |(before, _)| before.clone());
            let mut command = command(&before, name);
            command.env("SCASH_MP_SILENCE", SILENCE).env("SCASH_MP_LARGE", large).stdout(Stdio::piped());
            if let Some(fabric) = place.fabric {
                command.env("SCASH_OFI", fabric).env("SCASH_INTERFACE", "127.0.0.1");
            }
            if let Some((_, address)) = at {
                command.env("SCASH_INTERFACE", address);
            }
            let mut process = start(launcher.invite(rank), command);
            let (lines, say) = (BufReader::new(process.0.stdout.take().unwrap()).lines(), say.clone());
            thread::spawn(move || {
                lines.map_while(std::io::Result::ok).for_each(|line| _ = say.send((rank as usize, line)));
            });
            process
        });
        let ranks = ranks.collect();
        Job { launcher, tells: place.fabric.is_some(), ranks, words }
    }

    /// Waits for `what` of each of these ranks.
    fn hear(&mut self, what: &str, from: &[usize]) -> Vec<Vec<u64>> {
        let deadline = Instant::now() + LIMIT;
        let mut heard = vec![None; RANKS as usize];
        while from.iter().any(|&rank| heard[rank].is_none()) {
            self.launcher.turn();
            if let Ok((rank, line)) = self.words.recv_timeout(Duration::from_millis(1))
                && let Some((_, numbers)) = line.split_once(what)
            {
                heard[rank] =
                    Some(numbers.split_whitespace().map(|number| number.parse().unwrap()).collect());
            }
            let ends: Vec<_> = self.ranks.iter_mut().map(|rank| rank.0.try_wait().unwrap()).collect();
            for (rank, end) in (0..).zip(&ends).filter(|_| self.tells) {
                if let Some(signal) = end.and_then(|end| end.signal()) {
                    self.launcher.killed(rank, signal);
                }
            }
            let is_wrong =
                |&rank: &usize| heard[rank].is_none() && ends[rank].is_some_and(|end| !end.success());
            assert!(!from.iter().any(is_wrong), "a rank has failed: {ends:?}");
            assert!(Instant::now() < deadline, "no {what} of all: {heard:?}");
        }
        heard.into_iter().flatten().collect()
    }

    /// The victim goes at some moment. How long it took until the first of the others knew it, and until all
    /// their operations had ended.
    fn play(mut self, ending: Ending, link: Option<&Hosts>) -> [Duration; 2] {
        self.hear("playing", &[0, 1, 2]);
        thread::sleep(Duration::from_millis(30 + u64::from(now().subsec_nanos()) % 170));
        let pid = Pid::from_raw(i32::try_from(self.ranks[VICTIM as usize].0.id()).unwrap());
        let gone = now();
        match ending {
            Ending::Killed => kill(pid, Signal::SIGKILL).unwrap(),
            Ending::Stopped => kill(pid, Signal::SIGSTOP).unwrap(),
            Ending::CutOff => link.unwrap().cut(),
        }
        let witnesses: &[usize] = if ending == Ending::CutOff { &[0, 1, 2] } else { &[0, 1] };
        let times = self.hear("knows", witnesses);
        let since = |time: u64| Duration::from_nanos(time).saturating_sub(gone);
        let first = times.iter().map(|times| since(times[0])).min().unwrap();
        let last = times.iter().map(|times| since(times[1])).max().unwrap();
        for &rank in witnesses {
            let end: ExitStatus = self.ranks[rank].0.wait().unwrap();
            assert!(end.success(), "rank {rank}: {end}");
        }
        [first, last]
    }
}

/// A time that all processes share.
fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) }, 0);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

/// A rank of the job.
fn rank() {
    let mut member = Member::from_env().unwrap();
    member.hello(&Identity::of_this_program("test", 0).unwrap()).unwrap();
    let job = Communicator::of_job(&mut member, Options::from_env().unwrap(), false).unwrap();
    let window = job.window(WINDOW).unwrap();
    job.register_handler(HANDLER, |_, _| {}).unwrap();
    job.barrier().unwrap();
    say("playing");
    let (first, last) = play(&job, &window);
    say(&format!("knows {} {}", first.as_nanos(), last.as_nanos()));
}

/// Says something in one piece. (A harness may have begun the line.)
fn say(what: &str) {
    std::io::stdout().write_all(format!("\n{what}\n").as_bytes()).unwrap();
}

/// Names of operations that go on.
#[derive(Default)]
struct UnderWay(Mutex<Vec<String>>);

impl UnderWay {
    fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn begin(&self, name: String) {
        self.0.lock().unwrap().push(name);
    }

    fn end(&self, name: &str) {
        self.0.lock().unwrap().retain(|other| other != name);
    }

    /// Ends the process if some never end.
    fn watch(&self) {
        let deadline = Instant::now() + LIMIT / 2;
        while !self.names().is_empty() {
            if Instant::now() > deadline {
                eprintln!("process {}: these never end: {:?}", std::process::id(), self.names());
                std::process::exit(9);
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Plays everything until all of it has failed: when the first operation did, and when the last.
fn play(job: &Communicator, window: &Window) -> (Duration, Duration) {
    let me = job.rank();
    let peers = if me == VICTIM { 0..VICTIM } else { VICTIM..VICTIM + 1 };
    let pairs: Vec<_> = peers.flat_map(|peer| (0u64..).zip(ALL).map(move |named| (peer, named))).collect();
    let under_way = &UnderWay::default();
    let until_error = &|name: &str, round: &mut dyn FnMut(usize) -> Result<()>| {
        let error = (0..).find_map(|number| round(number).err()).unwrap();
        let time = now();
        under_way.end(name);
        let is_blamed = |rank: u32| if me == VICTIM { rank != me } else { rank == VICTIM };
        assert!(matches!(error, Error::Down { rank, .. } if is_blamed(rank)), "{name} at {me}: {error}");
        time
    };
    thread::scope(|threads| {
        under_way.begin("collective".to_owned());
        let mut players = vec![
            threads.spawn(move || until_error("collective", &mut |round| operations::collective(job, round))),
        ];
        for (peer, (number, (name, operation))) in pairs {
            let (name, tag) =
                (format!("{name}, with {peer}"), number * u64::from(RANKS) + u64::from(peer.min(me)));
            under_way.begin(name.clone());
            players.push(threads.spawn(move || {
                until_error(&name, &mut |round| operation(Side { job, window, peer, tag, round }))
            }));
        }
        threads.spawn(|| under_way.watch());
        // Who is cut off has nobody to keep company.
        if me != VICTIM {
            threads.spawn(move || keep_company(job, 1 - me, under_way));
        }
        let times: Vec<Duration> = players.into_iter().map(|player| player.join().unwrap()).collect();
        (times.iter().copied().min().unwrap(), times.into_iter().max().unwrap())
    })
}

/// What the two that are left do with each other goes on, until both have seen all other operations fail, and
/// after that.
fn keep_company(job: &Communicator, peer: u32, under_way: &UnderWay) {
    const TAG: u64 = 1 << 20;
    let mut mine = vec![0u8; 100_000];
    loop {
        let is_alone = under_way.names().is_empty();
        mine[0] = u8::from(is_alone);
        let receive = job.start_receive_owned(Some(peer), Some(TAG)).unwrap();
        job.send(peer, TAG, &mine).unwrap();
        let theirs = job.wait(receive).unwrap().bytes;
        if is_alone && theirs[0] == 1 {
            return;
        }
    }
}
