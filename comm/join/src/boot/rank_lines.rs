//! The launcher's ends of the boot lines of one host's ranks, and the job page that they map: sockets and
//! queues, and no opinion about what is said.
//!
//! Nothing here waits for a rank: sockets do not block, and what does not fit is queued.

use super::frame::{Assembler, Limits, LineKind, Message};
use super::io;
use super::layout::Layout;
use super::line::{self, Blocking, Received};
use super::page::{PageWriter, RankState};
use super::{Invitation, Settings, vars};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use scash_comm::descriptors::out_of_the_way;
use scash_comm::wipe;
use scash_comm::{Error, Result, Secret};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// What a rank has said on its line.
#[derive(Debug)]
pub(super) enum LineInput {
    /// A message.
    Message(Message),
    /// What is no message, and why. Its line is closed.
    Malformed(String),
}

/// The lines of a host's ranks.
#[derive(Debug)]
pub(super) struct RankLines {
    settings: Settings,
    pub(super) secret: Secret,
    layout: Layout,
    /// The ranks whose lines these are, ascending.
    ranks: Vec<u32>,
    /// By rank, as those.
    lines: Vec<RankLine>,
    page: PageWriter,
    /// Tells which lines have something to be read or room to be written.
    epoll: Epoll,
    /// Room for one packet.
    buffer: Vec<u8>,
    /// Sending was refused because too many descriptors are on their way to ranks that have not taken them
    /// yet.
    congested: bool,
}

/// The line of one rank.
#[derive(Debug)]
struct RankLine {
    /// `None` before the rank is invited and after its line was closed.
    line: Option<OwnedFd>,
    assembler: Assembler,
    /// Messages for this rank; most are shared among all ranks.
    outbox: VecDeque<Arc<Message>>,
    /// The packet of the first of them that goes next.
    next_packet: usize,
    /// Whether the epoll also waits for room to write.
    awaits_room: bool,
}

impl RankLines {
    /// The lines of the ranks of host number `host`.
    pub(super) fn new(
        layout: Layout,
        host: u32,
        secret: Secret,
        settings: Settings,
        page: PageWriter,
    ) -> Result<RankLines> {
        let rank_line = |_| RankLine {
            line: None,
            assembler: Assembler::new(Limits::FROM_RANK),
            outbox: VecDeque::new(),
            next_packet: 0,
            awaits_room: false,
        };
        let ranks: Vec<u32> = layout.ranks_of(host).collect();
        Ok(RankLines {
            settings,
            secret,
            lines: ranks.iter().map(rank_line).collect(),
            ranks,
            page,
            layout,
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(io("making an epoll"))?,
            buffer: line::buffer(),
            congested: false,
        })
    }

    pub(super) fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// The place of a rank among these. Panics if it is none of them.
    pub(super) fn index(&self, rank: u32) -> usize {
        let index = self.ranks.binary_search(&rank);
        index.unwrap_or_else(|_| panic!("rank {rank} is none of these: {:?}", self.ranks))
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Makes the line of `rank`. To be called once for each, before its process starts. Panics if it is none
    /// of these ranks, or was invited before.
    pub(super) fn invite(&mut self, rank: u32) -> Result<Invitation> {
        let (ours, theirs) = line::pair().map_err(io("making a socket pair (raise `ulimit -n`)"))?;
        // A rank that comes back from an image opens files of the program under their numbers before it
        // joins.
        let theirs = out_of_the_way(theirs);
        let env = variables(rank, self.layout.size(), theirs.as_fd(), &self.settings)?;
        self.admit(rank, ours)?;
        Ok(Invitation { line: theirs, env })
    }

    /// Takes this end of the line of `rank`, and sends it its Start message. Panics as
    /// [`invite`](Self::invite) does.
    pub(super) fn admit(&mut self, rank: u32, line: OwnedFd) -> Result<()> {
        assert!(self.line(rank).line.is_none(), "rank {rank} has a line already");
        let event = EpollEvent::new(EpollFlags::EPOLLIN, u64::from(rank));
        self.epoll.add(&line, event).map_err(io("watching a rank's line"))?;
        let start = self.start_message(rank)?;
        let rank_line = self.line(rank);
        rank_line.line = Some(line);
        rank_line.outbox.push_back(Arc::new(start));
        self.write(rank);
        Ok(())
    }

    fn start_message(&self, rank: u32) -> Result<Message> {
        let (layout, version) = (self.layout.encode(), env!("CARGO_PKG_VERSION"));
        // All at once: a vector that grows leaves copies of the secret behind.
        let mut bytes = Vec::with_capacity(8 + Secret::LENGTH + layout.len() + version.len());
        bytes.extend_from_slice(&rank.to_le_bytes());
        bytes.extend_from_slice(&self.layout.size().to_le_bytes());
        bytes.extend_from_slice(self.secret.bytes());
        bytes.extend_from_slice(&layout);
        bytes.extend_from_slice(version.as_bytes());
        let page = self.page.fd().try_clone().map_err(|source| Error::Io {
            what: "duplicating the job page's descriptor (raise `ulimit -n`)".into(),
            source,
        })?;
        Ok(Message { kind: LineKind::Start, sequence: 0, bytes, fds: vec![page] })
    }

    /// Takes what ranks have sent, and sends what they can take. `hear` is called with each thing that was
    /// said, and may have all told something in turn.
    pub(super) fn turn(&mut self, mut hear: impl FnMut(&mut RankLines, u32, LineInput)) {
        let mut events = [EpollEvent::empty(); 64];
        let ready = match self.epoll.wait(&mut events, EpollTimeout::ZERO) {
            Ok(count) => &events[..count],
            Err(_) => &[], // a signal; the caller will come again
        };
        for event in ready {
            let rank = u32::try_from(event.data()).expect("epoll returns the rank that it was given");
            if event.events().intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) {
                self.read(rank, &mut hear);
            }
            if event.events().contains(EpollFlags::EPOLLOUT) {
                self.write(rank);
            }
        }
        if self.congested {
            self.congested = false;
            self.each(RankLines::write);
        }
    }

    /// After how long [`turn`](Self::turn) should be called although nothing is readable.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.congested.then_some(Duration::from_millis(2))
    }

    /// The process of `rank` has ended: takes what it sent before, and closes its line.
    pub(super) fn ended(&mut self, rank: u32, mut hear: impl FnMut(&mut RankLines, u32, LineInput)) {
        self.read(rank, &mut hear);
        self.close(rank);
    }

    /// Writes into the job page.
    pub(super) fn mark(&self, rank: u32, state: RankState) {
        self.page.mark(rank, state);
    }

    pub(super) fn state(&self, rank: u32) -> RankState {
        self.page.state(rank)
    }

    /// Sends a message to all these ranks.
    pub(super) fn tell(&mut self, message: Message) {
        let message = Arc::new(message);
        self.each(|lines, rank| {
            let rank_line = lines.line(rank);
            if rank_line.line.is_some() {
                rank_line.outbox.push_back(Arc::clone(&message));
                lines.write(rank);
            }
        });
    }

    fn each(&mut self, mut act: impl FnMut(&mut RankLines, u32)) {
        for index in 0..self.ranks.len() {
            act(self, self.ranks[index]);
        }
    }

    fn line(&mut self, rank: u32) -> &mut RankLine {
        let index = self.index(rank);
        &mut self.lines[index]
    }

    /// Reads all that is there.
    fn read(&mut self, rank: u32, hear: &mut impl FnMut(&mut RankLines, u32, LineInput)) {
        loop {
            let index = self.index(rank);
            let rank_line = &mut self.lines[index];
            let Some(line) = &rank_line.line else { return };
            let complaint = match line::receive(line.as_fd(), &mut self.buffer, Blocking::No) {
                Err(Errno::EAGAIN) => return,
                Ok(Received::Closed) | Err(_) => return self.close(rank),
                Ok(Received::TooLong) => "a packet that is too long".to_owned(),
                Ok(Received::DescriptorsLost) => {
                    "more file descriptors than the launcher may open (raise `ulimit -n`)".to_owned()
                }
                Ok(Received::Packet(length, fds)) => {
                    match rank_line.assembler.push(&self.buffer[..length], fds) {
                        Ok(None) => continue,
                        Ok(Some(message)) => {
                            hear(self, rank, LineInput::Message(message));
                            continue;
                        }
                        Err(rubbish) => rubbish.0,
                    }
                }
            };
            hear(self, rank, LineInput::Malformed(complaint));
            return self.close(rank);
        }
    }

    /// Closes a line. Why a rank closed its end shows when its process ends.
    fn close(&mut self, rank: u32) {
        let rank_line = self.line(rank);
        rank_line.outbox.clear();
        rank_line.line = None; // which takes it out of the epoll
    }

    /// Sends as much as the line takes.
    fn write(&mut self, rank: u32) {
        let index = self.index(rank);
        let rank_line = &mut self.lines[index];
        while let Some(line) = &rank_line.line {
            let Some(message) = rank_line.outbox.front() else {
                rank_line.next_packet = 0;
                break;
            };
            let Some(packet) = message.packet(rank_line.next_packet) else {
                let message = rank_line.outbox.pop_front().and_then(Arc::into_inner);
                if let Some(mut start) = message.filter(|message| message.kind == LineKind::Start) {
                    wipe(&mut start.bytes);
                }
                rank_line.next_packet = 0;
                continue;
            };
            match line::send(line.as_fd(), &packet, Blocking::No) {
                Ok(()) => rank_line.next_packet += 1,
                Err(Errno::EAGAIN) => break,
                // "Too many references": more descriptors are in flight than this user may have open. They
                // land when ranks take them.
                Err(Errno::ETOOMANYREFS) => {
                    self.congested = true;
                    return;
                }
                // It hears no more, but what it said before may still be waiting here.
                Err(_) => rank_line.outbox.clear(),
            }
        }
        self.await_room(rank);
    }

    /// Asks the epoll for room to write exactly while there is something to be written.
    fn await_room(&mut self, rank: u32) {
        let index = self.index(rank);
        let rank_line = &mut self.lines[index];
        let wanted = !rank_line.outbox.is_empty();
        let Some(line) = &rank_line.line else { return };
        if wanted != rank_line.awaits_room {
            let room = if wanted { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
            let mut event = EpollEvent::new(EpollFlags::EPOLLIN | room, u64::from(rank));
            if self.epoll.modify(line, &mut event).is_ok() {
                rank_line.awaits_room = wanted;
            }
        }
    }
}

impl AsFd for RankLines {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

/// What the kernel calls an open file, such as `socket:[4711]`.
/// What the environment tells a rank that has this line.
pub(super) fn variables(
    rank: u32,
    size: u32,
    line: BorrowedFd<'_>,
    settings: &Settings,
) -> Result<Vec<(&'static str, String)>> {
    let name = name_of(line)
        .map_err(|source| Error::Io { what: "reading /proc/self/fd (is /proc mounted?)".into(), source })?;
    Ok(vec![
        (vars::RANK, rank.to_string()),
        (vars::SIZE, size.to_string()),
        (vars::BOOT_FD, format!("{}:{name}", line.as_raw_fd())),
        (vars::THREADS, settings.threads.to_string()),
        (vars::PROVIDER, settings.provider.clone()),
    ])
}

fn name_of(fd: BorrowedFd<'_>) -> std::io::Result<String> {
    let name = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
    Ok(name.to_string_lossy().into_owned())
}
