//! The launcher's end of all boot lines of a job on one host: the lines ([`Seats`]), and the [`Roster`] that
//! decides.
//!
//! A host waits for nobody. Its owner polls [`Host::as_fd`], and calls [`Host::turn`] when that is readable.

use super::io;
use super::layout::Layout;
use super::page::{PageWriter, RankState};
use super::roster::{Exit, Failure, Output, Roster};
use super::seats::{Heard, Seats};
use scash_comm::{Result, Secret};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// What a job's ranks are told besides their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Application threads a rank.
    pub threads: u32,
    /// The provider that carries their traffic.
    pub provider: String,
}

/// What one rank needs to be started with.
#[derive(Debug)]
pub struct Invitation {
    /// The rank's end of its line. It is closed on exec: whoever starts the process must undo that **in the
    /// child**, and close it here afterwards.
    pub line: OwnedFd,
    /// Environment variables to be set.
    pub env: Vec<(&'static str, String)>,
}

/// The launcher's end of all lines of a job.
#[derive(Debug)]
pub struct Host {
    seats: Seats,
    court: Court,
}

/// Who decides, and what is wrong so far.
#[derive(Debug)]
struct Court {
    roster: Roster,
    failures: VecDeque<Failure>,
}

impl Host {
    /// The host of a job of `size` ranks.
    pub fn new(size: u32, settings: Settings) -> Result<Host> {
        let page = PageWriter::new(size).map_err(io("making the job page (a memfd)"))?;
        let seats = Seats::new(Layout::one_host(size), 0, Secret::random()?, settings, page)?;
        Ok(Host { seats, court: Court { roster: Roster::new(size), failures: VecDeque::new() } })
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.seats.layout().size()
    }

    /// Makes the line of `rank`. To be called once for each, before its process starts.
    ///
    /// # Panics
    /// If there is no such rank, or it has been invited before.
    pub fn invite(&mut self, rank: u32) -> Result<Invitation> {
        self.seats.invite(rank)
    }

    /// Takes what ranks have sent, and sends what they can take. Never waits.
    pub fn turn(&mut self) {
        self.seats.turn(|seats, rank, heard| self.court.hear(seats, rank, heard));
    }

    /// After how long [`turn`](Self::turn) should be called although nothing is readable.
    pub fn patience(&self) -> Option<Duration> {
        self.seats.patience()
    }

    /// The process of `rank` has ended. Takes what it sent before.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn exited(&mut self, rank: u32, exit: Exit) {
        self.seats.ended(rank, |seats, rank, heard| self.court.hear(seats, rank, heard));
        self.court.roster.exited(rank, exit);
        self.court.act(&mut self.seats);
    }

    /// The next thing that went wrong, oldest first.
    pub fn failure(&mut self) -> Option<Failure> {
        self.court.failures.pop_front()
    }

    /// The job ends for a reason that is no rank's doing: calls of ranks that wait for others return `why` as
    /// an error.
    pub fn abandon(&mut self, why: &str) {
        self.court.roster.abandon(why);
        self.court.act(&mut self.seats);
    }

    /// Whether all ranks have joined: each has said who it is, and they agree.
    pub fn have_all_joined(&self) -> bool {
        self.court.roster.have_all_joined()
    }

    /// What the job page says about `rank`.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn state(&self, rank: u32) -> RankState {
        self.seats.state(rank)
    }
}

impl Court {
    fn hear(&mut self, seats: &mut Seats, rank: u32, heard: Heard) {
        match heard {
            Heard::Message(message) => self.roster.message(rank, message),
            Heard::Lie(complaint) => self.roster.lied(rank, &complaint),
        }
        self.act(seats);
    }

    /// Does what the roster asks for.
    fn act(&mut self, seats: &mut Seats) {
        for output in self.roster.take_outputs() {
            match output {
                Output::Tell(message) => seats.tell(message),
                Output::Mark(rank, state) => seats.mark(rank, state),
                Output::Fail(failure) => self.failures.push_back(failure),
                // There is no other host for it. When the rank has waited in vain, it ends the job.
                Output::Accuse(_) => {}
            }
        }
    }
}

impl AsFd for Host {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.seats.as_fd()
    }
}

#[cfg(test)]
mod tests;
