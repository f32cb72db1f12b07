//! What carries the messages that are measured.

use crate::hosts::Hosts;
use crate::runner::{Job, On};

/// A provider, or two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Transport {
    /// Shared memory
    Shm,
    /// TCP through the loopback interface
    Tcp,
    /// Two network namespaces: TCP between them, shared memory within
    Hosts,
    /// libfabric
    Ofi,
}

impl Transport {
    pub(super) const ALL: [Transport; 4] = [Transport::Shm, Transport::Tcp, Transport::Hosts, Transport::Ofi];

    /// Its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Transport::Shm => "shm",
            Transport::Tcp => "tcp",
            Transport::Hosts => "two hosts",
            Transport::Ofi => "ofi",
        }
    }

    fn on(self, ranks: u32) -> On {
        match self {
            Transport::Shm => On::Ranks(ranks, "shm"),
            Transport::Tcp => On::Ranks(ranks, "tcp"),
            Transport::Hosts => On::Hosts(ranks, 2),
            Transport::Ofi => On::Ranks(ranks, "ofi"),
        }
    }
}

/// The places that there are here.
#[derive(Debug)]
pub(super) struct Transports {
    all: Vec<Transport>,
    missing: Vec<String>,
    hosts: Option<Hosts>,
}

impl Transports {
    /// Those of `asked` that work here; all that do, if none is asked for.
    ///
    /// # Errors
    /// One that was asked for does not work.
    pub(super) fn find(asked: &[Transport]) -> Result<Transports, String> {
        let wanted = if asked.is_empty() { &Transport::ALL[..] } else { asked };
        let mut places = Transports { all: Vec::new(), missing: Vec::new(), hosts: None };
        for &place in Transport::ALL.iter().filter(|place| wanted.contains(place)) {
            match places.prepare(place) {
                Ok(()) => places.all.push(place),
                Err(why) if asked.is_empty() => places.missing.push(format!("{}: {why}", place.name())),
                Err(why) => return Err(format!("{}: {why}", place.name())),
            }
        }
        Ok(places)
    }

    fn prepare(&mut self, place: Transport) -> Result<(), String> {
        match place {
            Transport::Shm | Transport::Tcp => Ok(()),
            Transport::Ofi => ofi(),
            Transport::Hosts => {
                self.hosts = Some(Hosts::new(2)?);
                Ok(())
            }
        }
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Transport] {
        &self.all
    }

    /// Those that nobody asked for and that do not work here, with why.
    pub(super) fn missing(&self) -> &[String] {
        &self.missing
    }

    /// A job of `scash-comm-bench` on one of them.
    pub(super) fn job(&self, place: Transport, ranks: u32, words: &str) -> Job {
        let job = Job::new("scash-comm-bench", place.on(ranks), words.split_whitespace());
        match (&self.hosts, place) {
            (Some(hosts), Transport::Hosts) => hosts.reached_by(job),
            // What works on every machine, if the user says nothing else.
            (_, Transport::Ofi) => {
                job.with("SCASH_OFI", std::env::var("SCASH_OFI").unwrap_or("tcp".to_owned()))
            }
            _ => job,
        }
    }
}

#[cfg(feature = "ofi")]
fn ofi() -> Result<(), String> {
    scash_ofi::providers().map(drop).map_err(|why| why.to_string())
}

#[cfg(not(feature = "ofi"))]
fn ofi() -> Result<(), String> {
    Err("not in this build: build with the cargo feature `ofi`".to_owned())
}
