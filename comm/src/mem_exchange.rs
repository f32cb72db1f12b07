//! An [`Exchange`] among the threads of one process: the table in memory that tests and benchmarks start
//! their ranks with.
//!
//! Every rank puts its contribution into its slot; the last one to arrive turns the slots into the round's
//! table, and every rank takes a copy. A round cannot start before all ranks have taken the last one's table,
//! because a rank contributes to a round only after it has taken what the round before it gave.

use crate::{Error, Exchange, Result, Secret};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a rank waits for the others before it gives up.
const TIMEOUT: Duration = Duration::from_secs(60);

type Contribution = (Vec<u8>, Vec<OwnedFd>);

/// One rank's end of an exchange in memory.
#[derive(Debug)]
pub struct MemExchange {
    rank: u32,
    secret: Secret,
    hub: Arc<Hub>,
}

#[derive(Debug)]
struct Hub {
    state: Mutex<State>,
    changed: Condvar,
    /// Where each rank runs.
    hosts: Vec<u32>,
}

#[derive(Debug)]
struct State {
    /// Rounds completed so far.
    round: u64,
    /// What each rank has contributed to the round under way.
    slots: Vec<Option<Contribution>>,
    /// Ranks whose ends were dropped.
    left: Vec<bool>,
    /// The table of the last completed round.
    table: Arc<Vec<Contribution>>,
}

impl MemExchange {
    /// The ends of an exchange among `n` ranks, in rank order. Each goes to its rank's thread.
    ///
    /// # Panics
    /// If the system gives no random numbers.
    pub fn ranks(n: u32) -> Vec<Self> {
        Self::ranks_on(&vec![0; n as usize])
    }

    /// As [`ranks`](Self::ranks), for ranks that are to behave as if each ran on the host of that number.
    ///
    /// # Panics
    /// If the system gives no random numbers, or there are more ranks than a `u32` counts.
    pub fn ranks_on(hosts: &[u32]) -> Vec<Self> {
        let n = u32::try_from(hosts.len()).expect("ranks are counted by a u32");
        let secret = Secret::random().expect("the system gives random numbers");
        let state = State {
            round: 0,
            slots: (0..n).map(|_| None).collect(),
            left: vec![false; n as usize],
            table: Arc::default(),
        };
        let hub = Arc::new(Hub { state: Mutex::new(state), changed: Condvar::new(), hosts: hosts.to_vec() });
        (0..n).map(|rank| Self { rank, secret: secret.clone(), hub: Arc::clone(&hub) }).collect()
    }
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements that can panic, so a poisoned lock is still
        // good.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a contribution and returns the table of the round that it belongs to.
    fn meet(&self, rank: u32, mine: Contribution) -> Result<Arc<Vec<Contribution>>> {
        let mut state = self.lock();
        let round = state.round;
        state.slots[rank as usize] = Some(mine);
        if state.slots.iter().all(Option::is_some) {
            let table = state.slots.iter_mut().filter_map(Option::take).collect();
            state.table = Arc::new(table);
            state.round += 1;
            self.changed.notify_all();
            return Ok(Arc::clone(&state.table));
        }
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if state.round > round {
                return Ok(Arc::clone(&state.table));
            }
            let missing = (0u32..).zip(&state.slots).filter(|(_, slot)| slot.is_none()).map(|(rank, _)| rank);
            let late = Instant::now() >= deadline;
            for absent in missing {
                if state.left[absent as usize] || late {
                    let why = if late { "did not come to an exchange" } else { "left before an exchange" };
                    return Err(Error::Down { rank: absent, why: why.to_owned() });
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            (state, _) = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

// SAFETY: each rank's contribution lies in its own slot until all have taken it, and the secret is this
// process's.
unsafe impl Exchange for MemExchange {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        // A hub is made for a `u32` number of ranks.
        u32::try_from(self.hub.hosts.len()).unwrap_or(u32::MAX)
    }

    fn secret(&self) -> &Secret {
        &self.secret
    }

    fn all_gather(&mut self, blob: &[u8], fds: &[BorrowedFd<'_>]) -> Result<Vec<(Vec<u8>, Vec<OwnedFd>)>> {
        let table = self.hub.meet(self.rank, (blob.to_vec(), duplicates(fds.iter().copied())?))?;
        let here = self.host(self.rank);
        let from = |(rank, (blob, fds)): (u32, &Contribution)| {
            let fds = if self.host(rank) == here { &fds[..] } else { &[] };
            Ok((blob.clone(), duplicates(fds.iter().map(std::os::fd::AsFd::as_fd))?))
        };
        (0..).zip(table.iter()).map(from).collect()
    }

    fn host(&self, rank: u32) -> u32 {
        self.hub.hosts[rank as usize]
    }
}

impl Drop for MemExchange {
    fn drop(&mut self) {
        self.hub.lock().left[self.rank as usize] = true;
        self.hub.changed.notify_all();
    }
}

/// Descriptors of their own for the same open files.
fn duplicates<'a>(fds: impl Iterator<Item = BorrowedFd<'a>>) -> Result<Vec<OwnedFd>> {
    fds.map(|fd| fd.try_clone_to_owned()).collect::<std::io::Result<_>>().map_err(|source| Error::Io {
        what: "cannot duplicate a descriptor of an exchange".to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;
    use std::thread;

    #[test]
    fn every_rank_gets_every_blob_and_descriptor_in_rank_order() {
        let threads: Vec<_> = MemExchange::ranks(3)
            .into_iter()
            .map(|mut exchange| {
                thread::spawn(move || {
                    for round in 0..10u8 {
                        let rank = u8::try_from(exchange.rank()).unwrap();
                        let mut file = tempfile();
                        file.write_all(&[rank]).unwrap();
                        let all = exchange.all_gather(&[rank, round], &[file.as_fd()]).unwrap();
                        assert_eq!(all.len(), 3);
                        for (from, (blob, fds)) in (0u8..).zip(all) {
                            assert_eq!(blob, [from, round]);
                            let mut theirs = File::from(fds.into_iter().next().unwrap());
                            // Offsets are shared by duplicates: one reader at a time may move them.
                            if from == rank {
                                let mut byte = [0];
                                theirs.rewind().unwrap();
                                theirs.read_exact(&mut byte).unwrap();
                                assert_eq!(byte, [from]);
                            }
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
    }

    #[test]
    fn descriptors_do_not_leave_their_host() {
        let threads = MemExchange::ranks_on(&[0, 1, 0]).into_iter().map(|mut exchange| {
            thread::spawn(move || {
                let all = exchange.all_gather(&[7], &[tempfile().as_fd()]).unwrap();
                assert!(all.iter().all(|(blob, _)| *blob == [7]));
                let given: Vec<usize> = all.iter().map(|(_, fds)| fds.len()).collect();
                assert_eq!(given, if exchange.rank() == 1 { [0, 1, 0] } else { [1, 0, 1] });
            })
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|t| t.join().unwrap());
    }

    #[test]
    fn a_rank_that_left_is_named_to_those_who_wait_for_it() {
        let mut ends = MemExchange::ranks(2);
        drop(ends.pop());
        let error = ends[0].all_gather(&[], &[]).unwrap_err();
        assert!(matches!(error, Error::Down { rank: 1, .. }), "{error}");
    }

    fn tempfile() -> File {
        memfd_create(c"exchange-test", MFdFlags::MFD_CLOEXEC).unwrap().into()
    }
}
