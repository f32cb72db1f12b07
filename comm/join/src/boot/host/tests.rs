use super::*;
use crate::boot::frame::{self, Limits as FrameLimits, LineKind, Message};
use crate::boot::line::{self, Blocking};
use crate::boot::{Identity, Member, vars};
use scash_comm::{Error, Exchange};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

/// Longest time that a test may take before it counts as hanging.
const LIMIT: Duration = Duration::from_secs(60);

fn settings() -> Settings {
    Settings { threads: 3, provider: "shm".into() }
}

fn identity() -> Identity {
    Identity { path: "/bin/test".into(), build: vec![1, 2, 3, 4], version: "1".into(), abi: 1 }
}

/// The environment of a rank as the launcher makes it; the line stays open for the member to take.
fn environment(invitation: Invitation) -> HashMap<&'static str, OsString> {
    let _ = invitation.line.into_raw_fd();
    invitation.env.into_iter().map(|(name, value)| (name, value.into())).collect()
}

fn member(env: &HashMap<&'static str, OsString>) -> Result<Member> {
    Member::from_vars(&|name| env.get(name).cloned())
}

fn join(host: &mut Host, rank: u32) -> Member {
    member(&environment(host.invite(rank).unwrap())).unwrap()
}

/// Runs `rank` on a thread for each rank of a job, and the host on this one, until all threads have returned.
fn job<T: Send + 'static>(size: u32, rank: impl Fn(Member) -> T + Send + Clone + 'static) -> (Host, Vec<T>) {
    let mut host = Host::new(size, settings()).unwrap();
    let (done, results) = mpsc::channel();
    for number in 0..size {
        let (member, rank, done) = (join(&mut host, number), rank.clone(), done.clone());
        thread::spawn(move || done.send((number, rank(member))).unwrap());
    }
    let mut all = Vec::new();
    let started = Instant::now();
    while all.len() < size as usize {
        assert!(started.elapsed() < LIMIT, "the job hangs; {} ranks are done", all.len());
        host.turn();
        all.extend(results.try_iter());
        thread::sleep(Duration::from_micros(200));
    }
    all.sort_by_key(|(number, _)| *number);
    (host, all.into_iter().map(|(_, result)| result).collect())
}

#[test]
fn a_member_knows_what_the_launcher_told_it() {
    let mut host = Host::new(3, settings()).unwrap();
    let member = join(&mut host, 2);
    assert_eq!((member.rank(), member.size(), member.threads(), member.provider()), (2, 3, 3, "shm"));
    assert_eq!(member.page().size(), 3);
    assert!(member.page().alive(2));
}

#[test]
fn the_ranks_of_a_job_have_one_secret_and_those_of_another_have_another() {
    let (mut host, mut other) = (Host::new(2, settings()).unwrap(), Host::new(1, settings()).unwrap());
    let invitation = host.invite(0).unwrap();
    let secret = host.lines.secret.bytes().map(char::from);
    for (name, value) in &invitation.env {
        assert!(!value.chars().collect::<Vec<_>>().windows(32).any(|part| part == secret), "{name} has it");
    }
    let first = member(&environment(invitation)).unwrap();
    let (second, stranger) = (join(&mut host, 1), join(&mut other, 0));
    assert_eq!(first.secret(), second.secret());
    assert_ne!(first.secret(), stranger.secret());
}

#[test]
fn a_job_joins_exchanges_and_finishes() {
    let (mut host, gathered) = job(4, |mut member| {
        member.hello(&identity()).unwrap();
        let mut rounds = Vec::new();
        for round in 0..3 {
            rounds.push(member.all_gather(format!("{}.{round}", member.rank()).as_bytes(), &[]).unwrap());
        }
        member.finalized().unwrap();
        rounds
    });
    for rounds in gathered {
        for (round, shares) in rounds.iter().enumerate() {
            let blobs: Vec<_> =
                shares.iter().map(|(blob, _)| String::from_utf8_lossy(blob).into_owned()).collect();
            assert_eq!(blobs, (0..4).map(|rank| format!("{rank}.{round}")).collect::<Vec<_>>());
        }
    }
    for rank in 0..4 {
        host.exited(rank, Exit::Status(0));
        assert_eq!(host.state(rank), RankState::Finalized);
    }
    assert_eq!(host.failure(), None);
}

#[test]
fn descriptors_reach_every_rank_and_mean_the_same_file() {
    let (_, contents) = job(3, |mut member| {
        member.hello(&identity()).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        write!(file, "written by {}", member.rank()).unwrap();
        let shares = member.all_gather(b"", &[file.as_fd()]).unwrap();
        let read = |(_, fds): (Vec<u8>, Vec<OwnedFd>)| {
            let mut file = std::fs::File::from(fds.into_iter().next().unwrap());
            let mut text = String::new();
            file.rewind().unwrap();
            file.read_to_string(&mut text).unwrap();
            text
        };
        // One rank reads: the descriptors share one file position.
        if member.rank() == 0 { shares.into_iter().map(read).collect() } else { Vec::new() }
    });
    assert_eq!(contents[0], ["written by 0", "written by 1", "written by 2"]);
}

#[test]
fn blobs_larger_than_any_socket_buffer_arrive_whole() {
    let (_, ok) = job(3, |mut member| {
        member.hello(&identity()).unwrap();
        let fill = |rank: u32| vec![u8::try_from(rank).unwrap(); 3_000_000 + rank as usize];
        let shares = member.all_gather(&fill(member.rank()), &[]).unwrap();
        (0..).zip(shares).all(|(rank, (blob, _))| blob == fill(rank))
    });
    assert_eq!(ok, [true; 3]);
}

#[test]
fn more_descriptors_than_one_packet_holds_arrive_in_order() {
    let (_, counts) = job(2, |mut member| {
        member.hello(&identity()).unwrap();
        let file = tempfile::tempfile().unwrap();
        let fds = vec![file.as_fd(); 300];
        let shares = member.all_gather(b"x", &fds).unwrap();
        shares.into_iter().map(|(_, fds)| fds.len()).collect::<Vec<_>>()
    });
    assert_eq!(counts, [[300, 300], [300, 300]]);
}

#[test]
fn too_large_a_blob_is_refused_before_it_leaves() {
    let mut host = Host::new(1, settings()).unwrap();
    let mut member = join(&mut host, 0);
    let blob = vec![0; FrameLimits::FROM_RANK.bytes + 1];
    assert!(matches!(member.all_gather(&blob, &[]), Err(Error::Invalid(_))));
}

#[test]
fn different_programs_get_an_error_that_names_both() {
    let (mut host, errors) = job(2, |mut member| {
        let build = vec![u8::try_from(member.rank()).unwrap(); 20];
        let path = format!("/bin/program{}", member.rank());
        member.hello(&Identity { build, path, ..identity() }).unwrap_err().to_string()
    });
    for error in &errors {
        assert!(error.starts_with("two different programs or versions in one job"), "{error}");
        assert!(error.contains("/bin/program0") && error.contains("/bin/program1"), "{error}");
    }
    assert_eq!(host.failure().unwrap().why, errors[0]);
}

#[test]
fn a_death_ends_the_waiting_of_the_others_and_shows_in_the_job_page() {
    let mut host = Host::new(2, settings()).unwrap();
    let mut survivor = join(&mut host, 0);
    let victim = join(&mut host, 1);
    let page = survivor.page().clone();
    let waiter = thread::spawn(move || survivor.hello(&identity()));
    drop(victim);
    host.exited(1, Exit::Signal(9));
    match waiter.join().unwrap() {
        Err(Error::Down { rank: 1, why }) => assert_eq!(why, "was killed by signal 9 (SIGKILL)"),
        other => panic!("{other:?}"),
    }
    assert_eq!(page.state(1), RankState::Killed(9));
    assert!(page.alive(0));
    assert_eq!(page.changes(), 1);
}

#[test]
fn what_a_rank_said_before_it_exited_counts() {
    let mut host = Host::new(1, settings()).unwrap();
    let mut member = join(&mut host, 0);
    let hello = thread::spawn(move || {
        member.hello(&identity()).unwrap();
        member.finalized().unwrap();
        // Exits with the launcher's last words unread, which makes the kernel report a reset connection.
    });
    let started = Instant::now();
    while !hello.is_finished() {
        assert!(started.elapsed() < LIMIT, "the rank hangs");
        host.turn();
    }
    hello.join().unwrap();
    host.exited(0, Exit::Status(0));
    assert_eq!(host.failure(), None);
    assert_eq!(host.state(0), RankState::Finalized);
}

#[test]
fn last_words_survive_although_the_launchers_were_not_read() {
    let mut host = Host::new(2, settings()).unwrap();
    let invitation = host.invite(0).unwrap(); // Start is never read
    let hello = Message::plain(LineKind::Hello, identity().encode());
    line::send(invitation.line.as_fd(), &hello.packet(0).unwrap(), Blocking::No).unwrap();
    drop(invitation);
    host.exited(0, Exit::Status(0));
    assert_eq!(
        host.failure().unwrap().why,
        "exited with status 0 without calling dsm_finalize or scomm_finalize"
    );
}

#[test]
fn a_rank_that_sends_garbage_is_named_and_the_others_are_told() {
    let mut host = Host::new(2, settings()).unwrap();
    let liar = host.invite(0).unwrap().line;
    let mut honest = join(&mut host, 1);
    nix::unistd::write(&liar, b"rubbish that is longer than a header").unwrap();
    let waiter = thread::spawn(move || honest.hello(&identity()).unwrap_err().to_string());
    host.turn();
    let failure = host.failure().unwrap();
    assert_eq!((failure.rank, failure.status), (Some(0), 1));
    assert!(failure.why.starts_with("sent what no rank sends"), "{}", failure.why);
    assert!(waiter.join().unwrap().starts_with("rank 0 sent what no rank sends"));
}

#[test]
fn a_packet_longer_than_any_is_refused() {
    let mut host = Host::new(1, settings()).unwrap();
    let liar = host.invite(0).unwrap().line;
    nix::unistd::write(&liar, &vec![0; frame::HEADER + frame::MAX_PAYLOAD + 1]).unwrap();
    host.turn();
    assert!(host.failure().unwrap().why.contains("too long"));
}

#[test]
fn a_rank_that_never_reads_does_not_hold_up_the_others() {
    let mut host = Host::new(2, settings()).unwrap();
    let mute = host.invite(0).unwrap().line;
    let mut reader = join(&mut host, 1);
    let send = |message: &Message| {
        (0..).map_while(|index| message.packet(index)).for_each(|packet| {
            line::send(mute.as_fd(), &packet, Blocking::Yes).unwrap();
        });
    };
    send(&Message::plain(LineKind::Hello, identity().encode()));
    let other = thread::spawn(move || {
        reader.hello(&identity()).unwrap();
        reader.all_gather(&vec![1; 8 << 20], &[]).unwrap().len()
    });
    send(&Message::plain(LineKind::Gather, b"small".to_vec()));
    let started = Instant::now();
    while !other.is_finished() {
        assert!(started.elapsed() < LIMIT, "the reader hangs");
        host.turn();
    }
    assert_eq!(other.join().unwrap(), 2);
}

#[test]
fn an_abandoned_job_says_why() {
    let mut host = Host::new(2, settings()).unwrap();
    let mut member = join(&mut host, 0);
    let waiter = thread::spawn(move || member.hello(&identity()).unwrap_err().to_string());
    host.abandon("the job was interrupted");
    assert_eq!(waiter.join().unwrap(), "the job was interrupted");
}

#[test]
fn a_launcher_that_is_gone_is_an_error() {
    let mut host = Host::new(2, settings()).unwrap();
    let mut member = join(&mut host, 0);
    drop(host);
    let error = member.hello(&identity()).unwrap_err().to_string();
    assert!(error.contains("the launcher (scash run) is gone"), "{error}");
}

#[test]
fn malformed_variables_are_named() {
    let mut host = Host::new(2, settings()).unwrap();
    let good = environment(host.invite(0).unwrap());
    let cases = [
        (vars::RANK, "one"),
        (vars::RANK, "-1"),
        (vars::RANK, "2"),
        (vars::SIZE, "0"),
        (vars::SIZE, "99999999999"),
        (vars::THREADS, "0"),
        (vars::BOOT_FD, "3"),
        (vars::BOOT_FD, "x:socket:[1]"),
    ];
    for (name, value) in cases {
        let mut env = good.clone();
        env.insert(name, value.into());
        let error = member(&env).unwrap_err().to_string();
        assert!(error.contains(&format!("{name}={value}")), "{error}");
    }
    for name in good.keys() {
        let mut env = good.clone();
        env.remove(name);
        let error = member(&env).unwrap_err().to_string();
        assert!(error.contains(&format!("{name} is missing")), "{error}");
    }
    member(&good).unwrap();
}

#[test]
fn a_strangers_descriptor_is_not_touched() {
    let mut host = Host::new(1, settings()).unwrap();
    let mut env = environment(host.invite(0).unwrap());
    let stranger = tempfile::tempfile().unwrap();
    let name = env[vars::BOOT_FD].to_string_lossy().split_once(':').unwrap().1.to_owned();
    env.insert(vars::BOOT_FD, format!("{}:{name}", stranger.as_raw_fd()).into());
    let error = member(&env).unwrap_err().to_string();
    assert!(error.contains("started by a rank"), "{error}");
    stranger.metadata().expect("it is still open");
}

#[test]
fn a_line_serves_one_program() {
    let mut host = Host::new(1, settings()).unwrap();
    let invitation = host.invite(0).unwrap();
    let spare = invitation.line.try_clone().unwrap();
    let mut env = environment(invitation);
    drop(member(&env).unwrap());
    let name = env[vars::BOOT_FD].to_string_lossy().split_once(':').unwrap().1.to_owned();
    env.insert(vars::BOOT_FD, format!("{}:{name}", spare.into_raw_fd()).into());
    let error = member(&env).unwrap_err().to_string();
    assert!(error.contains("one rank runs one scash program"), "{error}");
}
