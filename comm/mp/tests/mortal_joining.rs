//! A rank is killed while a job on two hosts joins, before each of its exchanges: all others say that this
//! rank is gone, none names another one, and none panics.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "mortal/launcher.rs"]
mod launcher;
#[path = "../../join/tests/processes/mod.rs"]
mod processes;

use launcher::Launcher;
use nix::sys::signal::{Signal, raise};
use processes::{LIMIT, Rank, command, start};
use scash_comm::composite::CompositeEndpoint;
use scash_comm::shm::{AliveHook, ShmOptions};
use scash_comm::tcp::{TcpEndpoint, TcpOptions};
use scash_comm::{Error, Exchange, Result, Secret};
use scash_join::boot::{Identity, Member, Settings, vars};
use scash_mp::{Communicator, Options};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Ranks of each host.
const HOSTS: [u32; 2] = [2, 2];
const RANKS: u32 = 4;
/// The exchange before which a rank dies.
const DEATH: &str = "SCASH_TEST_DEATH";

/// An exchange whose rank dies before one of them.
struct Mortal {
    member: Member,
    left: Option<u32>,
}

// SAFETY: the member's own.
unsafe impl Exchange for Mortal {
    fn rank(&self) -> u32 {
        self.member.rank()
    }

    fn size(&self) -> u32 {
        self.member.size()
    }

    fn secret(&self) -> &Secret {
        self.member.secret()
    }

    fn host(&self, rank: u32) -> u32 {
        self.member.host(rank)
    }

    fn all_gather(&mut self, blob: &[u8], fds: &[BorrowedFd<'_>]) -> Result<Vec<(Vec<u8>, Vec<OwnedFd>)>> {
        if self.left == Some(0) {
            raise(Signal::SIGKILL).unwrap();
        }
        self.left = self.left.map(|left| left - 1);
        self.member.all_gather(blob, fds)
    }
}

#[test]
fn a_rank_that_dies_while_a_job_on_two_hosts_joins_is_named_by_all_others() {
    if std::env::var_os(vars::RANK).is_some() {
        return rank();
    }
    for victim in 0..RANKS {
        // The last one that a job makes as it joins is followed by none, so a job that joins ends it.
        let deaths = (0..).take_while(|&death| play(victim, death)).count();
        assert!(deaths >= 4, "a job joins in {deaths} exchanges");
    }
}

/// Whether a job has ended by the death of a rank before this exchange.
fn play(victim: u32, death: u32) -> bool {
    let settings = Settings { threads: 1, provider: "auto".to_owned() };
    let mut launcher = Launcher::new(&HOSTS, &settings);
    let (say, words) = mpsc::channel();
    let ranks = (0..RANKS).map(|rank| {
        let name = "a_rank_that_dies_while_a_job_on_two_hosts_joins_is_named_by_all_others";
        let mut command = command(&[], name);
        command.stdout(Stdio::piped()).stdin(Stdio::piped());
        if rank == victim {
            command.env(DEATH, death.to_string());
        }
        let mut process = start(launcher.invite(rank), command);
        let (lines, say) = (BufReader::new(process.0.stdout.take().unwrap()).lines(), say.clone());
        thread::spawn(move || {
            lines.map_while(std::io::Result::ok).for_each(|line| _ = say.send((rank, line)));
        });
        process
    });
    let mut ranks: Vec<Rank> = ranks.collect();
    let deadline = Instant::now() + LIMIT;
    let mut verdicts = vec![None; RANKS as usize];
    while (0..RANKS).any(|rank| verdicts[rank as usize].is_none()) {
        assert!(Instant::now() < deadline, "rank {victim}, exchange {death}: {verdicts:?}");
        launcher.turn();
        while let Ok((rank, line)) = words.recv_timeout(Duration::from_millis(1)) {
            if let Some((_, verdict)) = line.split_once("verdict: ") {
                verdicts[rank as usize] = Some(verdict.to_owned());
            }
        }
        for (rank, process) in (0..).zip(&mut ranks) {
            let Some(end) = process.0.try_wait().unwrap() else { continue };
            assert!(rank == victim && end.signal() == Some(9), "rank {rank} of {victim}: {end}");
            launcher.killed(rank, 9);
            verdicts[rank as usize] = Some("dead".to_owned());
        }
    }
    if verdicts.iter().flatten().all(|verdict| verdict == "joined") {
        return false;
    }
    for (rank, verdict) in (0..).zip(verdicts.into_iter().flatten()).filter(|(rank, _)| *rank != victim) {
        assert_eq!(verdict, format!("down {victim}"), "rank {rank}, exchange {death}");
    }
    true
}

/// A rank of the job.
fn rank() {
    let mut member = Member::from_env().unwrap();
    member.hello(&Identity::of_this_program("test", 0).unwrap()).unwrap();
    let left = std::env::var(DEATH).ok().map(|death| death.parse().unwrap());
    let mut exchange = Mortal { member, left };
    let joined = join(&mut exchange);
    let verdict = match &joined {
        Ok(_) => "joined".to_owned(),
        Err(Error::Down { rank, .. }) => format!("down {rank}"),
        Err(other) => other.to_string(),
    };
    std::io::stdout().write_all(format!("\nverdict: {verdict}\n").as_bytes()).unwrap();
    // Until all have said theirs: who goes before is one more that is gone.
    let _ = std::io::stdin().read(&mut [0]);
}

/// Joins, in the same way as `scash_join::job` does.
fn join(exchange: &mut Mortal) -> Result<Communicator> {
    let options = TcpOptions { ranks_here: HOSTS[0], ..TcpOptions::default() };
    let network = |exchange: &mut dyn Exchange| TcpEndpoint::between_hosts(exchange, &options);
    let page = exchange.member.page().clone();
    let alive: AliveHook = Arc::new(move |rank: u32| !page.died(rank));
    let shm = ShmOptions { alive: Some(alive), ..ShmOptions::default() };
    let endpoint = CompositeEndpoint::new(exchange, &shm, network)?;
    Communicator::new(Box::new(endpoint), exchange, Options::default())
}
