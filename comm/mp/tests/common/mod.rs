//! What tests of message passing share: ranks as threads, on each provider.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking; ranks are few"
)]
#![allow(dead_code, reason = "each test uses a part of it")]

use scash_comm::composite::CompositeEndpoint;
use scash_comm::mem_exchange::MemExchange;
use scash_comm::shm::{ShmEndpoint, ShmOptions};
use scash_comm::tcp::{TcpEndpoint, TcpOptions};
use scash_comm::{Endpoint, Exchange, Result};
use scash_mp::{Communicator, Options};
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

/// How long a test may last.
pub(crate) const LIMIT: Duration = Duration::from_secs(100);

/// A provider, and how its ranks lie on hosts.
#[derive(Clone, Copy)]
pub(crate) struct Make {
    pub(crate) endpoint: fn(&mut MemExchange) -> Result<Box<dyn Endpoint>>,
    ranks_a_host: u32,
}

pub(crate) const SHM: Make = Make { endpoint: shm, ranks_a_host: u32::MAX };
pub(crate) const TCP: Make = Make { endpoint: tcp, ranks_a_host: u32::MAX };
pub(crate) const COMPOSITE: Make = Make { endpoint: composite, ranks_a_host: 2 };

/// libfabric's own providers that need no network card.
#[cfg(feature = "ofi")]
pub(crate) const OFI_TCP: Make = Make { endpoint: ofi::over_tcp, ranks_a_host: u32::MAX };
#[cfg(feature = "ofi")]
pub(crate) const OFI_SHM: Make = Make { endpoint: ofi::over_shm, ranks_a_host: u32::MAX };

impl Make {
    /// The endpoint of a job of one rank.
    pub(crate) fn solo(self) -> Box<dyn Endpoint> {
        (self.endpoint)(&mut self.ranks(1).remove(0)).unwrap()
    }

    pub(crate) fn ranks(self, n: u32) -> Vec<MemExchange> {
        MemExchange::ranks_on(&(0..n).map(|rank| self.host(rank)).collect::<Vec<_>>())
    }

    /// The host of a rank.
    pub(crate) fn host(self, rank: u32) -> u32 {
        rank / self.ranks_a_host
    }
}

fn composite(exchange: &mut MemExchange) -> Result<Box<dyn Endpoint>> {
    let options = TcpOptions { ranks_here: exchange.size(), ..TcpOptions::default() };
    let between = |exchange: &mut dyn Exchange| TcpEndpoint::between_hosts(exchange, &options);
    Ok(Box::new(CompositeEndpoint::new(exchange, &ShmOptions::default(), between)?))
}

fn shm(exchange: &mut MemExchange) -> Result<Box<dyn Endpoint>> {
    Ok(Box::new(ShmEndpoint::new(exchange, &ShmOptions::default())?))
}

fn tcp(exchange: &mut MemExchange) -> Result<Box<dyn Endpoint>> {
    let options = TcpOptions { ranks_here: exchange.size(), ..TcpOptions::default() };
    Ok(Box::new(TcpEndpoint::new(exchange, &options)?))
}

/// Endpoints of libfabric, where it is installed.
#[cfg(feature = "ofi")]
pub(crate) mod ofi {
    use super::{Endpoint, Exchange, Make, MemExchange, Result};
    use scash_ofi::{OfiEndpoint, OfiOptions, providers};

    pub(crate) fn over_tcp(exchange: &mut MemExchange) -> Result<Box<dyn Endpoint>> {
        endpoint(exchange, "tcp")
    }

    pub(crate) fn over_shm(exchange: &mut MemExchange) -> Result<Box<dyn Endpoint>> {
        endpoint(exchange, "shm")
    }

    fn endpoint(exchange: &mut MemExchange, provider: &str) -> Result<Box<dyn Endpoint>> {
        let options = OfiOptions {
            provider: Some(provider.into()),
            interface: Some("127.0.0.1".into()),
            ranks_here: exchange.size(),
            ..OfiOptions::default()
        };
        Ok(Box::new(OfiEndpoint::new(exchange, &options)?))
    }

    /// Plays a test over one of libfabric's providers, unless it is not here.
    pub(crate) fn play(provider: &str, make: Make, test: fn(Make)) {
        match providers() {
            Err(error) => eprintln!("skipped: {error}"),
            // What runs over `tcp` may be called `tcp;ofi_rxm`.
            Ok(names) if names.iter().any(|name| name.split(';').any(|part| part == provider)) => test(make),
            Ok(names) => eprintln!("skipped: libfabric has no provider {provider}, only {names:?}"),
        }
    }
}

/// One rank of a test.
pub(crate) struct Rank {
    pub(crate) communicator: Communicator,
    pub(crate) meeting: Arc<Barrier>,
}

impl std::ops::Deref for Rank {
    type Target = Communicator;

    fn deref(&self) -> &Communicator {
        &self.communicator
    }
}

impl Rank {
    /// All ranks come here, out of the communicator's sight.
    pub(crate) fn meet(&self) {
        self.meeting.wait();
    }
}

/// Plays `body` at `n` ranks, within the time limit.
pub(crate) fn play(make: Make, n: u32, options: Options, body: impl Fn(Rank) + Send + Sync + 'static) {
    let (body, meeting) = (Arc::new(body), Arc::new(Barrier::new(n as usize)));
    let (done, verdicts) = mpsc::channel();
    for mut exchange in make.ranks(n) {
        let (body, meeting, done) = (Arc::clone(&body), Arc::clone(&meeting), done.clone());
        thread::spawn(move || {
            let verdict = panic::catch_unwind(AssertUnwindSafe(|| {
                let endpoint = (make.endpoint)(&mut exchange).unwrap();
                let communicator = Communicator::new(endpoint, &mut exchange, options).unwrap();
                body(Rank { communicator, meeting });
            }));
            // The receiver is gone if another rank has failed.
            let _ = done.send(verdict);
        });
    }
    for _ in 0..n {
        let verdict = verdicts.recv_timeout(LIMIT).expect("the ranks hang");
        verdict.unwrap_or_else(|panic| panic::resume_unwind(panic));
    }
}

/// `len` bytes that belong to nobody else.
pub(crate) fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) ^ seed.wrapping_mul(97) ^ (at >> 8)) as u8).collect()
}

/// Makes each function of a provider a test on each of them.
macro_rules! on_each_provider {
    ($($test:ident)*) => {
        mod on_shm {
            $(#[test] fn $test() { super::$test(super::common::SHM) })*
        }
        mod on_tcp {
            $(#[test] fn $test() { super::$test(super::common::TCP) })*
        }
        mod on_several_hosts {
            $(#[test] fn $test() { super::$test(super::common::COMPOSITE) })*
        }
        #[cfg(feature = "ofi")]
        mod on_ofi_tcp {
            use super::common::{OFI_TCP, ofi};
            $(#[test] fn $test() { ofi::play("tcp", OFI_TCP, super::$test) })*
        }
        #[cfg(feature = "ofi")]
        mod on_ofi_shm {
            use super::common::{OFI_SHM, ofi};
            $(#[test] fn $test() { ofi::play("shm", OFI_SHM, super::$test) })*
        }
    };
}
pub(crate) use on_each_provider;
