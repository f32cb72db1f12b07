//! Jobs of threads with a key-value space in memory: what joining comes to, without any launcher.

use super::*;
use crate::boot::{Identity, Invitation, Member};
use scash_comm::{Error, Exchange, SecretText};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Condvar;
use std::thread;

/// What a launcher keeps.
#[derive(Debug, Default)]
struct Words {
    words: BTreeMap<String, String>,
    /// Processes that have come to the fence, and fences that are over.
    waiting: u32,
    fences: u32,
    finalized: u32,
    aborted: bool,
}

#[derive(Debug, Default)]
struct Shared {
    words: Mutex<Words>,
    news: Condvar,
}

/// A process's side of it.
#[derive(Debug)]
struct InMemory {
    rank: u32,
    size: u32,
    /// Processes on a host: each such number of them say that they are on one of their own.
    on_a_host: u32,
    job: String,
    shared: Arc<Shared>,
}

impl Space for InMemory {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn job(&self) -> &str {
        &self.job
    }

    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        assert!(value.len() <= space::LONGEST && value.bytes().all(|byte| byte.is_ascii_graphic()));
        let is_card = key == format!("scash.{}", self.rank);
        let host = if is_card { format!(",{}", self.rank / self.on_a_host) } else { String::new() };
        self.shared.words.lock().unwrap().words.insert(key.to_owned(), value.to_owned() + &host);
        Ok(())
    }

    fn fence(&mut self, deadline: Instant) -> Result<bool> {
        let mut words = self.shared.words.lock().unwrap();
        words.waiting += 1;
        if words.waiting == self.size {
            (words.waiting, words.fences) = (0, words.fences + 1);
            self.shared.news.notify_all();
            return Ok(true);
        }
        let before = words.fences;
        let left = deadline.saturating_duration_since(Instant::now());
        let (words, _) =
            self.shared.news.wait_timeout_while(words, left, |words| words.fences == before).unwrap();
        Ok(words.fences > before)
    }

    fn get(&mut self, _owner: u32, key: &str) -> Result<SecretText> {
        let words = self.shared.words.lock().unwrap();
        words.words.get(key).cloned().map(SecretText::from).ok_or_else(|| Error::Invalid(format!("no {key}")))
    }

    fn finalize(&mut self) -> Result<()> {
        self.shared.words.lock().unwrap().finalized += 1;
        Ok(())
    }

    fn abort(&mut self) {
        self.shared.words.lock().unwrap().aborted = true;
    }
}

fn defaults() -> Settings {
    Settings { threads: 1, provider: "auto".to_owned() }
}

/// Joins as process `number` of a job of `size`.
fn join(
    shared: &Arc<Shared>,
    job: &str,
    number: u32,
    (size, on_a_host): (u32, u32),
    timeout: Duration,
) -> Result<Member> {
    let shared = Arc::clone(shared);
    let space = InMemory { rank: number, size, on_a_host, job: job.to_owned(), shared };
    let deadline = Instant::now() + timeout;
    let external = External::join(Box::new(space), &defaults(), Some("127.0.0.1"), deadline)?;
    Member::of_external(external, defaults())
}

/// Plays `rank` on a thread for each process of a job on one host.
fn job<T: Send + 'static>(size: u32, rank: fn(Member) -> T) -> (Arc<Shared>, Vec<T>) {
    job_on_hosts(size, size, rank)
}

/// As [`job`], with so many of the processes on each host.
fn job_on_hosts<T: Send + 'static>(
    size: u32,
    on_a_host: u32,
    rank: fn(Member) -> T,
) -> (Arc<Shared>, Vec<T>) {
    let shared = Arc::new(Shared::default());
    let name = format!("{} {:?}", std::process::id(), thread::current().id());
    let play = |number| {
        let (shared, name) = (Arc::clone(&shared), name.clone());
        thread::spawn(move || rank(join(&shared, &name, number, (size, on_a_host), TIMEOUT).unwrap()))
    };
    let threads: Vec<_> = (0..size).map(play).collect();
    let results = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    (shared, results)
}

fn identity(build: u8) -> Identity {
    Identity { path: "/bin/test".into(), build: vec![build], version: "1".into(), abi: 1 }
}

#[test]
fn processes_become_ranks_that_exchange_and_leave() {
    let (shared, ranks) = job(4, |mut member| {
        member.hello(&identity(1)).unwrap();
        let file = tempfile::tempfile().unwrap();
        let all = member.all_gather(&[u8::try_from(member.rank()).unwrap()], &[file.as_fd()]).unwrap();
        assert!((0..).zip(&all).all(|(rank, (blob, fds))| (blob[..] == [rank], fds.len()) == (true, 1)));
        assert!((0..4).all(|rank| member.host(rank) == 0 && !member.page().died(rank)));
        member.finalized().unwrap();
        member.rank()
    });
    assert_eq!(ranks, [0, 1, 2, 3]);
    let words = shared.words.lock().unwrap();
    assert_eq!((words.finalized, words.aborted), (4, false));
}

#[test]
fn ranks_of_several_hosts_exchange_through_their_leads() {
    let (shared, ranks) = job_on_hosts(5, 2, |mut member| {
        member.hello(&identity(1)).unwrap();
        let file = tempfile::tempfile().unwrap();
        let all = member.all_gather(&vec![7; 200_000], &[file.as_fd()]).unwrap();
        let here = |rank| usize::from(member.host(rank) == member.host(member.rank()));
        assert!((0..).zip(&all).all(|(rank, (blob, fds))| blob.len() == 200_000 && fds.len() == here(rank)));
        assert_eq!(member.address(), Some([127, 0, 0, 1].into()));
        let hosts: Vec<u32> = (0..5).map(|rank| member.host(rank)).collect();
        member.finalized().unwrap();
        hosts
    });
    assert_eq!(ranks, vec![vec![0, 0, 1, 1, 2]; 5]);
    assert_eq!(shared.words.lock().unwrap().finalized, 5);
}

#[test]
fn different_programs_on_several_hosts_are_told_to_all() {
    let (_, errors) = job_on_hosts(4, 1, |mut member| {
        let build = u8::from(member.rank() == 2);
        (member.hello(&identity(build)).unwrap_err().to_string(), member)
    });
    assert!(errors.iter().all(|(error, _)| error.contains("rank 2 runs")));
}

#[test]
fn keepers_agree_and_their_ranks_join_by_lines_alone() {
    let shared = Arc::new(Shared::default());
    let name = format!("{} keepers", std::process::id());
    let keep = |number: u32| {
        let (shared, job) = (Arc::clone(&shared), name.clone());
        let space = InMemory { rank: number, size: 3, on_a_host: 3, job, shared };
        thread::spawn(move || {
            let mut gathering = Gathering::meet(Box::new(space), defaults(), None, TIMEOUT).unwrap();
            for round in 0..2 {
                let words = gathering.exchange(&format!("{round}:{number}"), Duration::ZERO).unwrap();
                assert_eq!(words, [0, 1, 2].map(|rank| format!("{round}:{rank}")));
            }
            let mut keeper = gathering.begin().unwrap();
            assert_eq!((keeper.rank(), keeper.size(), keeper.lead().is_some()), (number, 3, number > 0));
            let Invitation { line, env } = keeper.invitation().unwrap();
            assert!(keeper.invitation().is_none());
            let var =
                |asked: &str| env.iter().find(|(name, _)| *name == asked).map(|(_, value)| value.into());
            // `from_vars` takes the descriptor of that number.
            std::mem::forget(line);
            let mut member = Member::from_vars(&var).unwrap();
            member.hello(&identity(1)).unwrap();
            let all = member.all_gather(&[u8::try_from(number).unwrap()], &[]).unwrap();
            assert!((0..).zip(&all).all(|(rank, (blob, _))| blob[..] == [rank]));
            member.finalized().unwrap();
            keeper.ended();
            keeper.leave().unwrap();
        })
    };
    let threads: Vec<_> = (0..3).map(keep).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let words = shared.words.lock().unwrap();
    assert_eq!((words.finalized, words.aborted), (3, false));
}

#[test]
fn a_keepers_rank_that_ends_too_early_is_told_to_the_others() {
    let shared = Arc::new(Shared::default());
    let name = format!("{} early", std::process::id());
    let keep = |number: u32| {
        let (shared, job) = (Arc::clone(&shared), name.clone());
        let space = InMemory { rank: number, size: 2, on_a_host: 2, job, shared };
        thread::spawn(move || {
            let gathering = Gathering::meet(Box::new(space), defaults(), None, TIMEOUT).unwrap();
            let mut keeper = gathering.begin().unwrap();
            let Invitation { line, env } = keeper.invitation().unwrap();
            if number == 0 {
                drop(line);
                keeper.ended();
                return keeper;
            }
            let var =
                |asked: &str| env.iter().find(|(name, _)| *name == asked).map(|(_, value)| value.into());
            std::mem::forget(line);
            let error = Member::from_vars(&var).unwrap().hello(&identity(1)).unwrap_err().to_string();
            assert!(error.contains("rank 0"), "{error}");
            keeper
        })
    };
    let threads = [keep(0), keep(1)];
    let _keepers = threads.map(|thread| thread.join().unwrap());
}

#[test]
fn one_process_is_a_job_too() {
    let (_, ranks) = job(1, |mut member| {
        member.hello(&identity(1)).unwrap();
        member.finalized().unwrap();
        (member.rank(), member.size())
    });
    assert_eq!(ranks, [(0, 1)]);
}

#[test]
fn different_programs_are_told_as_under_scash_run_and_the_job_is_ended() {
    let (shared, errors) = job(3, |mut member| {
        let build = u8::from(member.rank() == 1);
        let error = member.hello(&identity(build)).unwrap_err().to_string();
        (error, member)
    });
    assert!(
        errors
            .iter()
            .all(|(error, _)| error.contains("two different programs") && error.contains("rank 1 runs"))
    );
    let ended = || shared.words.lock().unwrap().aborted;
    let deadline = Instant::now() + TIMEOUT;
    while !ended() {
        assert!(Instant::now() < deadline, "the launcher is not asked to end the job");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_job_that_does_not_begin_is_ended_by_one_that_says_who_is_missing() {
    let shared = Arc::new(Shared::default());
    let name = format!("{} half", std::process::id());
    let play = |number| {
        let (shared, name) = (Arc::clone(&shared), name.clone());
        thread::spawn(move || join(&shared, &name, number, (4, 4), Duration::from_millis(500)).map(drop))
    };
    let threads = [play(1), play(3)];
    for thread in threads {
        let error = thread.join().unwrap().unwrap_err().to_string();
        assert!(error.contains("ranks 1, 3; missing, or on other hosts, ranks 0, 2."), "{error}");
    }
    assert!(shared.words.lock().unwrap().aborted);
}

#[test]
fn settings_that_make_no_sense_are_named() {
    for (name, value) in
        [(JOIN, "soon"), (JOIN, "0"), (JOIN, "18446744073709551615"), (vars::THREADS, "none")]
    {
        let var = |asked: &str| (asked == name).then(|| value.into());
        let read = settings(&var).and_then(|settings| External::from_vars(&var, &settings));
        let error = read.err().unwrap().to_string();
        assert!(error.contains(&format!("{name}={value}")), "{error}");
    }
}
