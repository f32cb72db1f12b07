//! Boot lines across hosts: the same conversation, with the lines of each host at an agent ([`HostRelay`])
//! and the decisions at the launcher ([`LauncherRelay`]). What goes between the two are values ([`Report`],
//! [`Decision`]); how they travel is their owners' affair.
//!
//! ```text
//!   rank ── line ── HostRelay ──Report──▶ LauncherRelay (Roster)      one of these a job,
//!                     ▲ ◀──Decision─────────┘                         one of those a host
//!                  job page of the host
//! ```
//!
//! Messages travel as the packets of the line, so that no frame is long and both ends check them as they
//! check any line. Descriptors do not travel: a host's relay keeps what its ranks give to a gather, and
//! adds it to the result.

use super::frame::{
    Assembler, Limits, LineKind, Message, Rubbish, Share, decode_gathered, encode_gathered, rubbish,
};
use super::invitation::{Invitation, Settings};
use super::io;
use super::layout::Layout;
use super::page::{PageWriter, RankState};
use super::rank_lines::{LineInput, RankLines};
use super::roster::{self, Accusation, Exit, JobFailure, Output, Reason, Roster};
use scash_comm::{Result, Secret};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

mod wire;

/// What the agent of a host tells the launcher about a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// It sent this packet (of a whole message, without descriptors).
    Packet(u32, Vec<u8>),
    /// It sent what is no message, as the text says.
    Malformed(u32, String),
    /// Its process ended, and all that it ever sent has been reported.
    Exited(u32, Exit),
}

/// What the launcher has decided, for the agent of every host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A packet of a message for all ranks.
    Packet(Vec<u8>),
    /// What became of a rank, for the job page.
    Mark(u32, RankState),
}

/// The packets of a message whose descriptors stay here.
fn packets(message: &Message) -> impl Iterator<Item = Vec<u8>> + '_ {
    (0..).map_while(|index| {
        let packet = message.packet(index)?;
        Some([&packet.header[..], packet.payload].concat())
    })
}

/// The launcher's part: no lines, but the word of agents.
#[derive(Debug)]
pub struct LauncherRelay {
    layout: Layout,
    roster: Roster,
    /// Joins each rank's packets.
    assemblers: Vec<Assembler>,
    decisions: VecDeque<Decision>,
    failures: VecDeque<JobFailure>,
    accusations: VecDeque<Accusation>,
}

impl LauncherRelay {
    /// The part of a job's launcher.
    pub fn new(layout: Layout) -> LauncherRelay {
        let size = layout.size();
        LauncherRelay {
            roster: Roster::new(size),
            assemblers: (0..size).map(|_| Assembler::new(Limits::FROM_RANK)).collect(),
            layout,
            decisions: VecDeque::new(),
            failures: VecDeque::new(),
            accusations: VecDeque::new(),
        }
    }

    /// Takes a report of the agent of `host`. The error says why it cannot be a report of that agent.
    pub fn take(&mut self, host: u32, report: Report) -> std::result::Result<(), String> {
        let (Report::Packet(rank, _) | Report::Malformed(rank, _) | Report::Exited(rank, _)) = report;
        if !self.layout.is_on(rank, host) {
            return Err(format!("a report about rank {rank}, which runs elsewhere"));
        }
        match report {
            Report::Packet(_, bytes) => match self.assemblers[rank as usize].push(&bytes, Vec::new()) {
                Ok(Some(message)) => self.roster.message(rank, message),
                Ok(None) => {}
                Err(rubbish) => return Err(rubbish.0),
            },
            Report::Malformed(_, what) => self.roster.sent_malformed(rank, &what),
            Report::Exited(_, exit) => self.roster.exited(rank, exit),
        }
        self.act();
        Ok(())
    }

    /// A host is out of reach, as `why` says: these ranks of it are taken for dead, and the job ends with
    /// `status`.
    pub fn lost(&mut self, ranks: &[u32], why: &str, status: u8) {
        self.roster.lost(ranks, JobFailure { rank: None, why: why.to_owned(), status });
        self.act();
    }

    /// The job ends for a reason that is no rank's doing: calls of ranks that wait for others return `why` as
    /// an error.
    pub fn abandon(&mut self, why: &str) {
        self.roster.abandon(why);
        self.act();
    }

    /// Whether all ranks have joined: each has said who it is, and they agree.
    pub fn have_all_joined(&self) -> bool {
        self.roster.have_all_joined()
    }

    /// The next thing for every agent, oldest first.
    pub fn decision(&mut self) -> Option<Decision> {
        self.decisions.pop_front()
    }

    /// The next thing that went wrong, oldest first.
    pub fn failure(&mut self) -> Option<JobFailure> {
        self.failures.pop_front()
    }

    /// The next rank that cannot reach another one, and waits until all are started again; oldest first.
    pub fn accusation(&mut self) -> Option<Accusation> {
        self.accusations.pop_front()
    }

    /// They will not be: the job ends by that.
    pub fn believe(&mut self, accusation: &Accusation) {
        self.roster.believe(accusation);
        self.act();
    }

    fn act(&mut self) {
        for output in self.roster.take_outputs() {
            match output {
                Output::Accuse(accusation) => self.accusations.push_back(accusation),
                Output::Tell(message) => self.decisions.extend(packets(&message).map(Decision::Packet)),
                Output::Mark(rank, state) => self.decisions.push_back(Decision::Mark(rank, state)),
                Output::Fail(failure) => self.failures.push_back(failure),
            }
        }
    }
}

/// An agent's part: the lines of one host's ranks. As [`Host`](super::Host), it waits for nobody.
#[derive(Debug)]
pub struct HostRelay {
    lines: RankLines,
    queue: ReportQueue,
    /// Joins the launcher's packets.
    assembler: Assembler,
    /// Whether its ranks were told that the job ends.
    aborted: bool,
}

/// What is to be reported, and what stays.
#[derive(Debug)]
struct ReportQueue {
    reports: VecDeque<Report>,
    /// The descriptors that each rank of this host gave to the gather that is under way.
    kept: BTreeMap<u32, Vec<OwnedFd>>,
}

impl HostRelay {
    /// The part of the agent of host number `host`.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn new(layout: Layout, host: u32, secret: Secret, settings: Settings) -> Result<HostRelay> {
        let page = PageWriter::new(layout.size()).map_err(io("making the job page (a memfd)"))?;
        HostRelay::with_page(layout, host, secret, settings, page)
    }

    /// As [`new`](Self::new), with this job page.
    pub(super) fn with_page(
        layout: Layout,
        host: u32,
        secret: Secret,
        settings: Settings,
        page: PageWriter,
    ) -> Result<HostRelay> {
        let kept = layout.ranks_of(host).map(|rank| (rank, Vec::new())).collect();
        Ok(HostRelay {
            lines: RankLines::new(layout, host, secret, settings, page)?,
            queue: ReportQueue { reports: VecDeque::new(), kept },
            assembler: Assembler::new(Limits::FROM_LAUNCHER),
            aborted: false,
        })
    }

    /// This host's ranks, ascending.
    pub fn ranks(&self) -> &[u32] {
        self.lines.ranks()
    }

    /// Makes the line of `rank`, as [`Host::invite`](super::Host::invite) does.
    ///
    /// # Panics
    /// If this host has no such rank, or it has been invited before.
    pub fn invite(&mut self, rank: u32) -> Result<Invitation> {
        self.lines.invite(rank)
    }

    /// Takes this end of the line of `rank`, whose process has come by itself.
    pub(super) fn admit(&mut self, rank: u32, line: OwnedFd) -> Result<()> {
        self.lines.admit(rank, line)
    }

    /// What the job page says about `rank`.
    pub(super) fn state(&self, rank: u32) -> RankState {
        self.lines.state(rank)
    }

    /// Whether the ranks were told that the job ends.
    pub(super) fn is_aborted(&self) -> bool {
        self.aborted
    }

    /// The launcher's part is gone with `rank`: the job ends here.
    pub(super) fn cut_off(&mut self, rank: u32, why: &str) {
        self.lines.mark(rank, RankState::Gone);
        self.aborted = true;
        self.lines.tell(roster::abort(Reason::Gone, rank, why));
    }

    /// Takes what ranks have sent, and sends what they can take. Never waits.
    pub fn turn(&mut self) {
        self.lines.turn(|_, rank, heard| self.queue.hear(rank, heard));
    }

    /// After how long [`turn`](Self::turn) should be called although nothing is readable.
    pub fn timeout(&self) -> Option<Duration> {
        self.lines.timeout()
    }

    /// The process of `rank` has ended. Takes what it sent before.
    ///
    /// # Panics
    /// If this host has no such rank.
    pub fn exited(&mut self, rank: u32, exit: Exit) {
        self.lines.ended(rank, |_, rank, heard| self.queue.hear(rank, heard));
        self.queue.reports.push_back(Report::Exited(rank, exit));
    }

    /// The next thing for the launcher, oldest first.
    pub fn report(&mut self) -> Option<Report> {
        self.queue.reports.pop_front()
    }

    /// Takes a decision of the launcher. The error says why it cannot be one.
    pub fn take(&mut self, decision: Decision) -> std::result::Result<(), String> {
        match decision {
            Decision::Mark(rank, state) if rank < self.lines.layout().size() => self.lines.mark(rank, state),
            Decision::Mark(rank, _) => return Err(format!("news of rank {rank}, which there is not")),
            Decision::Packet(bytes) => self.take_packet(&bytes).map_err(|rubbish| rubbish.0)?,
        }
        Ok(())
    }

    fn take_packet(&mut self, bytes: &[u8]) -> std::result::Result<(), Rubbish> {
        let Some(mut message) = self.assembler.push(bytes, Vec::new())? else { return Ok(()) };
        match message.kind {
            LineKind::Gathered => message = self.with_descriptors(message)?,
            LineKind::Abort => self.aborted = true,
            LineKind::Welcome => {}
            kind => return rubbish(format!("a {kind:?} message, which is not for ranks to hear now")),
        }
        self.lines.tell(message);
        Ok(())
    }

    /// The result of a gather with the descriptors of this host's ranks.
    fn with_descriptors(&mut self, message: Message) -> std::result::Result<Message, Rubbish> {
        let sequence = message.sequence;
        let mut shares: Vec<Share> = decode_gathered(self.lines.layout().size(), message)?;
        for (rank, kept) in &mut self.queue.kept {
            shares[*rank as usize].1 = std::mem::take(kept);
        }
        Ok(encode_gathered(sequence, shares))
    }
}

impl ReportQueue {
    fn hear(&mut self, rank: u32, heard: LineInput) {
        match heard {
            LineInput::Malformed(complaint) => self.reports.push_back(Report::Malformed(rank, complaint)),
            LineInput::Message(mut message) => {
                let fds = std::mem::take(&mut message.fds);
                if message.kind == LineKind::Gather {
                    self.kept.insert(rank, fds);
                }
                self.reports.extend(packets(&message).map(|packet| Report::Packet(rank, packet)));
            }
        }
    }
}

impl AsFd for HostRelay {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.lines.as_fd()
    }
}

#[cfg(test)]
mod tests;
