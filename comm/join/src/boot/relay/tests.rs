use super::*;
use crate::boot::{Identity, Member};
use proptest::prelude::*;
use scash_comm::Exchange;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{Read, Seek, Write};
use std::os::fd::IntoRawFd;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

/// Longest time that a test may take before it counts as hanging.
const LIMIT: Duration = Duration::from_secs(60);

/// A job whose hosts are in this process: the launcher's relay, and the hosts', whose reports it takes.
struct Job {
    launcher_relay: LauncherRelay,
    host_relays: Vec<HostRelay>,
}

impl Job {
    fn new(ranks: &[u32]) -> Job {
        let layout = Layout::new(ranks).unwrap();
        let secret = Secret::random().unwrap();
        let settings = Settings { threads: 1, provider: "tcp".into() };
        let host_relay =
            |host| HostRelay::new(layout.clone(), host, secret.clone(), settings.clone()).unwrap();
        Job {
            host_relays: (0..layout.hosts()).map(host_relay).collect(),
            launcher_relay: LauncherRelay::new(layout),
        }
    }

    fn join(&mut self, host: u32, rank: u32) -> Member {
        let Invitation { line, env } = self.host_relays[host as usize].invite(rank).unwrap();
        let _ = line.into_raw_fd(); // the member takes it by its number
        let env: HashMap<_, OsString> = env.into_iter().map(|(name, value)| (name, value.into())).collect();
        Member::from_vars(&|name| env.get(name).cloned()).unwrap()
    }

    fn turn(&mut self) {
        for (host, host_relay) in (0..).zip(&mut self.host_relays) {
            host_relay.turn();
            while let Some(report) = host_relay.report() {
                self.launcher_relay.take(host, report).unwrap();
            }
        }
        while let Some(decision) = self.launcher_relay.decision() {
            for host_relay in &mut self.host_relays {
                host_relay.take(decision.clone()).unwrap();
            }
        }
    }

    /// Runs `rank` on a thread for each rank until all have returned.
    fn run<T: Send + 'static>(&mut self, rank: impl Fn(Member) -> T + Send + Clone + 'static) -> Vec<T> {
        let (done, results) = mpsc::channel();
        let layout = self.launcher_relay.layout.clone();
        for number in 0..layout.size() {
            let (member, rank, done) =
                (self.join(layout.host_of(number), number), rank.clone(), done.clone());
            thread::spawn(move || done.send((number, rank(member))).unwrap());
        }
        let mut all = Vec::new();
        let started = Instant::now();
        while all.len() < layout.size() as usize {
            assert!(started.elapsed() < LIMIT, "the job hangs; {} ranks are done", all.len());
            self.turn();
            all.extend(results.try_iter());
            thread::sleep(Duration::from_micros(200));
        }
        self.turn();
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, result)| result).collect()
    }
}

fn identity() -> Identity {
    Identity { path: "/bin/test".into(), build: vec![1, 2, 3, 4], version: "1".into(), abi: 1 }
}

#[test]
fn blobs_reach_all_ranks_and_descriptors_those_of_their_host() {
    let mut job = Job::new(&[2, 1]);
    let gathered = job.run(|mut member| {
        member.hello(&identity()).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        write!(file, "file of {}", member.rank()).unwrap();
        // Longer than a packet, so that it is cut and joined on both ways.
        let blob = vec![u8::try_from(member.rank()).unwrap(); 100_000];
        let shares = member.all_gather(&blob, &[file.as_fd()]).unwrap();
        let here = member.host(member.rank());
        let hosts = [0, 1, 2].map(|rank| member.host(rank));
        (here, hosts, shares)
    });
    for (here, hosts, shares) in gathered {
        assert_eq!(hosts, [0, 0, 1]);
        for (rank, (blob, fds)) in shares.into_iter().enumerate() {
            assert_eq!((blob.len(), usize::from(blob[0])), (100_000, rank));
            assert_eq!(fds.len(), usize::from(hosts[rank] == here), "rank {rank} at host {here}");
            for fd in fds {
                let (mut file, mut text) = (std::fs::File::from(fd), String::new());
                file.rewind().unwrap();
                file.read_to_string(&mut text).unwrap();
                assert_eq!(text, format!("file of {rank}"));
            }
        }
    }
    assert_eq!(job.launcher_relay.failure(), None);
}

#[test]
fn a_death_on_one_host_is_known_on_all_and_ends_their_waits() {
    let mut job = Job::new(&[1, 1]);
    let mut survivor = job.join(0, 0);
    let waiting = thread::spawn(move || {
        survivor.hello(&identity()).unwrap_err();
        survivor
    });
    job.join(1, 1);
    job.host_relays[1].exited(1, Exit::Signal(9));
    job.turn();
    let started = Instant::now();
    while !waiting.is_finished() {
        assert!(started.elapsed() < LIMIT);
        job.turn();
    }
    assert_eq!(waiting.join().unwrap().page().state(1), RankState::Killed(9));
    let failure = job.launcher_relay.failure().unwrap();
    assert_eq!((failure.rank, failure.status), (Some(1), 137));
}

#[test]
fn the_ranks_of_a_lost_host_are_dead_to_the_others_but_for_those_that_had_finished() {
    let mut job = Job::new(&[1, 2]);
    let mut members = job.run(|mut member| {
        member.hello(&identity()).unwrap();
        if member.rank() == 1 {
            member.finalized().unwrap();
        }
        member
    });
    job.launcher_relay.lost(&[1, 2], "host b is gone", 125);
    job.turn();
    let page = members[0].page();
    assert_eq!(
        [0, 1, 2].map(|rank| page.state(rank)),
        [RankState::Running, RankState::Finalized, RankState::Killed(9)]
    );
    let why = JobFailure { rank: None, why: "host b is gone".into(), status: 125 };
    assert_eq!(job.launcher_relay.failure(), Some(why));
    let error = members[0].all_gather(&[], &[]).unwrap_err().to_string();
    assert!(error.contains("host b is gone"), "{error}");
}

#[test]
fn an_agent_speaks_for_its_own_ranks_only() {
    let mut job = Job::new(&[1, 1]);
    let foreign = Report::Exited(1, Exit::Status(0));
    assert!(job.launcher_relay.take(0, foreign.clone()).unwrap_err().contains("rank 1"));
    assert!(job.launcher_relay.take(1, Report::Exited(7, Exit::Status(0))).is_err());
    job.launcher_relay.take(1, foreign).unwrap();
    job.launcher_relay.take(0, Report::Packet(0, vec![1, 2, 3])).unwrap_err();
}

#[test]
fn what_no_launcher_decides_is_refused() {
    let mut job = Job::new(&[1, 1]);
    let host_relay = &mut job.host_relays[0];
    let hello = packets(&Message::plain(LineKind::Hello, identity().encode())).next().unwrap();
    let short = packets(&Message::plain(LineKind::Gathered, vec![0; 3])).next().unwrap();
    let nonsense = [Decision::Mark(2, RankState::Finalized), Decision::Packet(vec![9; 20])];
    for decision in nonsense.into_iter().chain([hello, short].map(Decision::Packet)) {
        host_relay.take(decision.clone()).expect_err(&format!("{decision:?}"));
    }
}

/// A packet that may be one of a message, or not.
fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    let kinds = [
        LineKind::Start,
        LineKind::Hello,
        LineKind::Welcome,
        LineKind::Gather,
        LineKind::Gathered,
        LineKind::Finalized,
        LineKind::Abort,
    ];
    let sound = (prop::sample::select(kinds.to_vec()), prop::collection::vec(0_u8..3, 0..60), 0_u32..2);
    let sound = sound.prop_map(|(kind, bytes, sequence)| {
        let message = Message { kind, sequence, bytes, fds: Vec::new() };
        packets(&message).next().unwrap()
    });
    prop_oneof![4 => sound, 1 => prop::collection::vec(any::<u8>(), 0..40)]
}

fn any_report() -> impl Strategy<Value = Report> {
    prop_oneof![
        4 => (0_u32..4, any_packet()).prop_map(|(rank, packet)| Report::Packet(rank, packet)),
        1 => (0_u32..4).prop_map(|rank| Report::Malformed(rank, "rubbish".into())),
        1 => (0_u32..4, any::<u8>()).prop_map(|(rank, status)| Report::Exited(rank, Exit::Status(status))),
    ]
}

proptest! {
    #[test]
    fn whatever_agents_and_launchers_say_is_taken_or_refused(
        reports in prop::collection::vec((0_u32..2, any_report()), 0..20),
        packets in prop::collection::vec(any_packet(), 0..10),
    ) {
        let mut job = Job::new(&[2, 1]);
        for (host, report) in reports {
            let _ = job.launcher_relay.take(host, report);
        }
        // What it decided is sound, whatever it was told.
        while let Some(decision) = job.launcher_relay.decision() {
            prop_assert_eq!(job.host_relays[0].take(decision), Ok(()));
        }
        for packet in packets {
            let _ = job.host_relays[1].take(Decision::Packet(packet));
        }
    }
}
