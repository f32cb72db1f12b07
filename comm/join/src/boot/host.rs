//! The launcher's end of all boot lines of a job on one host: the lines ([`RankLines`]), and the [`Roster`]
//! that decides.
//!
//! A host waits for nobody. Its owner polls [`Host::as_fd`], and calls [`Host::turn`] when that is readable.

use super::invitation::{Invitation, Settings};
use super::io;
use super::layout::Layout;
use super::page::{PageWriter, RankState};
use super::rank_lines::{LineInput, RankLines};
use super::roster::{Exit, JobFailure, Output, Roster};
use scash_comm::{Result, Secret};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// The launcher's end of all lines of a job.
#[derive(Debug)]
pub struct Host {
    lines: RankLines,
    state: JobState,
}

/// Who decides, and what is wrong so far.
#[derive(Debug)]
struct JobState {
    roster: Roster,
    failures: VecDeque<JobFailure>,
}

impl Host {
    /// The host of a job of `size` ranks.
    pub fn new(size: u32, settings: Settings) -> Result<Host> {
        let page = PageWriter::new(size).map_err(io("making the job page (a memfd)"))?;
        let lines = RankLines::new(Layout::one_host(size), 0, Secret::random()?, settings, page)?;
        Ok(Host { lines, state: JobState { roster: Roster::new(size), failures: VecDeque::new() } })
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.lines.layout().size()
    }

    /// Makes the line of `rank`. To be called once for each, before its process starts.
    ///
    /// # Panics
    /// If there is no such rank, or it has been invited before.
    pub fn invite(&mut self, rank: u32) -> Result<Invitation> {
        self.lines.invite(rank)
    }

    /// Takes what ranks have sent, and sends what they can take. Never waits.
    pub fn turn(&mut self) {
        self.lines.turn(|lines, rank, heard| self.state.hear(lines, rank, heard));
    }

    /// After how long [`turn`](Self::turn) should be called although nothing is readable.
    pub fn timeout(&self) -> Option<Duration> {
        self.lines.timeout()
    }

    /// The process of `rank` has ended. Takes what it sent before.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn exited(&mut self, rank: u32, exit: Exit) {
        self.lines.ended(rank, |lines, rank, heard| self.state.hear(lines, rank, heard));
        self.state.roster.exited(rank, exit);
        self.state.act(&mut self.lines);
    }

    /// The next thing that went wrong, oldest first.
    pub fn failure(&mut self) -> Option<JobFailure> {
        self.state.failures.pop_front()
    }

    /// The job ends for a reason that is no rank's doing: calls of ranks that wait for others return `why` as
    /// an error.
    pub fn abandon(&mut self, why: &str) {
        self.state.roster.abandon(why);
        self.state.act(&mut self.lines);
    }

    /// Whether all ranks have joined: each has said who it is, and they agree.
    pub fn have_all_joined(&self) -> bool {
        self.state.roster.have_all_joined()
    }

    /// What the job page says about `rank`.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn state(&self, rank: u32) -> RankState {
        self.lines.state(rank)
    }
}

impl JobState {
    fn hear(&mut self, lines: &mut RankLines, rank: u32, heard: LineInput) {
        match heard {
            LineInput::Message(message) => self.roster.message(rank, message),
            LineInput::Malformed(complaint) => self.roster.sent_malformed(rank, &complaint),
        }
        self.act(lines);
    }

    /// Does what the roster asks for.
    fn act(&mut self, lines: &mut RankLines) {
        for output in self.roster.take_outputs() {
            match output {
                Output::Tell(message) => lines.tell(message),
                Output::Mark(rank, state) => lines.mark(rank, state),
                Output::Fail(failure) => self.failures.push_back(failure),
                // There is no other host for it. When the rank has waited in vain, it ends the job.
                Output::Accuse(_) => {}
            }
        }
    }
}

impl AsFd for Host {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.lines.as_fd()
    }
}

#[cfg(test)]
mod tests;
