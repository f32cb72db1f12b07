//! Two numberings of ranks: the job's, and the one within a host, in which shared memory knows them. Both are
//! in the same order.

use crate::{Error, Exchange, Result, Secret};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Which ranks are on this rank's host, and their numbers there.
pub(super) struct Numbering {
    rank: u32,
    /// The job's numbers of this host's ranks: the place is the number within the host.
    here: Box<[u32]>,
    /// By the job's number: the one within the host, if the rank is there.
    within: Box<[Option<u32>]>,
}

impl Numbering {
    /// As the exchange has it.
    pub(super) fn new(exchange: &dyn Exchange) -> Self {
        let rank = exchange.rank();
        let host = exchange.host(rank);
        let here: Box<[u32]> = (0..exchange.size()).filter(|&rank| exchange.host(rank) == host).collect();
        let mut within = vec![None; exchange.size() as usize];
        (0u32..).zip(&here).for_each(|(number, &rank)| within[rank as usize] = Some(number));
        Self { rank, here, within: within.into() }
    }

    /// This rank.
    pub(super) fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of ranks of the job.
    pub(super) fn size(&self) -> u32 {
        // An exchange counts them in a `u32`.
        u32::try_from(self.within.len()).unwrap_or(u32::MAX)
    }

    /// Number of ranks of this host.
    pub(super) fn size_here(&self) -> u32 {
        // No more than the job has.
        u32::try_from(self.here.len()).unwrap_or(u32::MAX)
    }

    /// Whether all ranks are on this host.
    pub(super) fn is_one_host(&self) -> bool {
        self.here.len() == self.within.len()
    }

    /// The number of a rank within this host; none if it is on another.
    #[inline]
    pub(super) fn within(&self, rank: u32) -> Result<Option<u32>> {
        self.within.get(rank as usize).copied().ok_or_else(|| {
            Error::Invalid(format!("there is no rank {rank}: the job has {}", self.within.len()))
        })
    }

    /// The job's number of a rank of this host.
    pub(super) fn job(&self, within: u32) -> u32 {
        self.here[within as usize]
    }

    /// What went wrong within the host, as the job numbers ranks.
    pub(super) fn translate(&self, error: Error) -> Error {
        match error {
            Error::Down { rank, why } => Error::Down { rank: self.job(rank), why },
            Error::OutOfReach { rank, why } => Error::OutOfReach { rank: self.job(rank), why },
            Error::Protocol { rank, why } => Error::Protocol { rank: self.job(rank), why },
            Error::Full { rank, held, bound } => Error::Full { rank: self.job(rank), held, bound },
            error @ (Error::Invalid(_) | Error::TooLong { .. } | Error::Io { .. }) => error,
        }
    }

    /// What `join` makes of the exchange as this host's ranks see it; errors as the job numbers ranks.
    pub(super) fn within_host<T>(
        &self,
        whole: &mut dyn Exchange,
        join: impl FnOnce(&mut HostExchange<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut exchange = HostExchange { whole, numbering: self, failure: None };
        let joined = join(&mut exchange);
        // The whole exchange has the job's numbers, and may name a rank of another host.
        let failure = exchange.failure;
        joined.map_err(|error| failure.unwrap_or_else(|| self.translate(error)))
    }
}

/// The exchange of a host's ranks, carried by that of the job: all ranks of the job must exchange at the same
/// time.
pub(super) struct HostExchange<'a> {
    whole: &'a mut dyn Exchange,
    numbering: &'a Numbering,
    /// Why the whole exchange failed.
    failure: Option<Error>,
}

// SAFETY: what the whole exchange gives, of this host's ranks in their order.
unsafe impl Exchange for HostExchange<'_> {
    fn rank(&self) -> u32 {
        self.numbering.within[self.numbering.rank as usize].expect("a rank is on its own host")
    }

    fn size(&self) -> u32 {
        self.numbering.size_here()
    }

    fn secret(&self) -> &Secret {
        self.whole.secret()
    }

    fn host(&self, _: u32) -> u32 {
        0
    }

    fn all_gather(&mut self, blob: &[u8], fds: &[BorrowedFd<'_>]) -> Result<Vec<(Vec<u8>, Vec<OwnedFd>)>> {
        let all = self.whole.all_gather(blob, fds).map_err(|error| {
            self.failure = Some(error);
            Error::Invalid("the exchange of the whole job has failed".to_owned())
        })?;
        let here = all.into_iter().zip(&self.numbering.within).filter(|(_, within)| within.is_some());
        Ok(here.map(|(contribution, _)| contribution).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem_exchange::MemExchange;
    use std::thread;

    #[test]
    fn ranks_keep_their_order_within_their_host() {
        let exchange = &MemExchange::ranks_on(&[7, 3, 7, 3, 7])[2];
        let numbering = Numbering::new(exchange);
        assert_eq!((numbering.rank(), numbering.size(), numbering.is_one_host()), (2, 5, false));
        let within: Vec<_> = (0..5).map(|rank| numbering.within(rank).unwrap()).collect();
        assert_eq!(within, [Some(0), None, Some(1), None, Some(2)]);
        assert_eq!([0, 1, 2].map(|number| numbering.job(number)), [0, 2, 4]);
        assert!(matches!(numbering.within(5), Err(Error::Invalid(_))));
        let down = numbering.translate(Error::Down { rank: 2, why: String::new() });
        assert!(matches!(down, Error::Down { rank: 4, .. }));
    }

    #[test]
    fn an_exchange_within_the_host_has_that_hosts_ranks_only() {
        let ranks = MemExchange::ranks_on(&[0, 1, 0]).into_iter().map(|mut exchange| {
            thread::spawn(move || {
                let numbering = Numbering::new(&exchange);
                let me = u8::try_from(exchange.rank()).unwrap();
                let look = |within: &mut HostExchange<'_>| {
                    let all = within.all_gather(&[me], &[])?;
                    let blobs: Vec<_> = all.into_iter().flat_map(|(blob, _)| blob).collect();
                    Ok((within.rank(), within.size(), blobs))
                };
                numbering.within_host(&mut exchange, look).unwrap()
            })
        });
        let seen: Vec<_> = ranks.collect::<Vec<_>>().into_iter().map(|rank| rank.join().unwrap()).collect();
        assert_eq!(seen, [(0, 2, vec![0, 2]), (0, 1, vec![1]), (1, 2, vec![0, 2])]);
    }
    #[test]
    fn a_rank_that_leaves_the_whole_exchange_keeps_its_number_on_every_host() {
        let mut ends = MemExchange::ranks_on(&[0, 0, 1, 1]);
        for gone in [3, 0] {
            drop(ends.remove(gone as usize));
            for exchange in &mut ends {
                let numbering = Numbering::new(exchange);
                let error =
                    numbering.within_host(exchange, |within| within.all_gather(&[], &[])).unwrap_err();
                assert!(matches!(error, Error::Down { rank, .. } if rank == gone), "{error}");
            }
            ends = MemExchange::ranks_on(&[0, 0, 1, 1]);
        }
    }

    #[test]
    fn what_a_rank_of_the_host_does_wrong_is_told_by_its_number_in_the_job() {
        let exchange = &mut MemExchange::ranks_on(&[0, 1, 1]).remove(1);
        let numbering = Numbering::new(exchange);
        let wrong = |_: &mut HostExchange<'_>| Err::<(), _>(Error::Down { rank: 1, why: String::new() });
        let error = numbering.within_host(exchange, wrong).unwrap_err();
        assert!(matches!(error, Error::Down { rank: 2, .. }), "{error}");
    }
}
