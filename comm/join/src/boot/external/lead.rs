//! The thread of a host's lead that serves the host's ranks: a [`HostRelay`], and at rank 0 the
//! [`LauncherRelay`].
//!
//! It waits for lines, for the ends of the ranks' processes, and for the other leads ([`LeadLink`]); what one
//! of them brings goes the way of `scash run` and its agents. It ends when all ranks of the job have finished
//! in order; in a job that has failed it goes on as long as its process.

use super::discovery::{Root, Standing};
use super::link::LeadLink;
use super::{GRACE, Joined, Service, SharedSpace, io, lock, say, start_thread};
use crate::boot::page::PageWriter;
use crate::boot::{Decision, Exit, HostRelay, LauncherRelay, Layout, RankState, Report, Settings};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use scash_comm::tcp::star;
use scash_comm::{Error, Result, Secret};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// What became readable: the process of a rank by the rank's number, a link by this and its number, or the
/// lines.
const LINKS: u64 = 1 << 32;
const LINES: u64 = 1 << 33;

/// How long a call of one of rank 0's addresses may take.
const CALL: Duration = Duration::from_secs(10);
/// How long what was decided last may take on its way.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How often a link that is full is tried again.
const FULL: Duration = Duration::from_millis(2);

/// The thread of a lead that serves its host.
struct LeadThread {
    layout: Layout,
    host: u32,
    host_relay: HostRelay,
    /// At rank 0.
    launcher_relay: Option<LauncherRelay>,
    /// At rank 0 to the hosts from 1 on, elsewhere to rank 0.
    links: Vec<LeadLink>,
    /// The processes of this host's other ranks, and of this one if it is a child, until they have ended.
    processes: Vec<(u32, OwnedFd)>,
    epoll: Epoll,
    space: SharedSpace,
    /// Tells the rank itself that nobody needs it any more.
    settled: Option<Sender<()>>,
    /// When the launcher is asked to end the job.
    abort_at: Option<Instant>,
}

/// Becomes the lead of this host: connects with the other leads and its ranks, and starts the thread that
/// serves them. `own`: readable when this rank's process has ended, if it is another one than this.
pub(super) fn begin(
    place: Standing,
    settings: &Settings,
    space: SharedSpace,
    own: Option<OwnedFd>,
    deadline: Instant,
) -> Result<Joined> {
    let Standing { rank, layout, socket, root, secret } = place;
    let (host, size) = (layout.host_of(rank), layout.size());
    let Some(secret) = secret else {
        return Err(Error::Invalid("the lead of a host has no secret".to_owned()));
    };
    let streams = connect(root, &layout, rank, &secret, deadline)?;
    let address = streams.first().and_then(|stream| Some(stream.local_addr().ok()?.ip().to_canonical()));
    let page = PageWriter::shared(size).map_err(io("making the job page (a memfd)"))?;
    let mut host_relay = HostRelay::with_page(layout.clone(), host, secret, settings.clone(), page)?;
    let line = host_relay.invite(rank)?.line;
    let others = layout.ranks_of(host).filter(|other| *other != rank).collect();
    let mut processes: Vec<(u32, OwnedFd)> = own.into_iter().map(|own| (rank, own)).collect();
    for arrival in socket.receive(others, address, deadline)? {
        host_relay.admit(arrival.rank, arrival.line)?;
        processes.push((arrival.rank, arrival.process));
    }
    let links: std::io::Result<Vec<LeadLink>> = streams.into_iter().map(LeadLink::new).collect();
    let links = links
        .map_err(|source| Error::Io { what: "preparing a connection to another host".into(), source })?;
    let (settled, receiver) = channel();
    let mut thread = LeadThread {
        launcher_relay: (rank == 0).then(|| LauncherRelay::new(layout.clone())),
        layout,
        host,
        host_relay,
        links,
        processes,
        epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(io("making an epoll"))?,
        space: space.clone(),
        settled: Some(settled),
        abort_at: None,
    };
    thread.watch_all()?;
    start_thread(move || thread.serve())?;
    let service = Service { space, lead: rank, settled: Some(Mutex::new(receiver)), lead_process: None };
    Ok((line, address, service, rank, size))
}

/// Connects with the leads of other hosts: rank 0 with all in the order of their hosts, the others with rank
/// 0.
fn connect(
    root: Option<Root>,
    layout: &Layout,
    rank: u32,
    secret: &Secret,
    deadline: Instant,
) -> Result<Vec<TcpStream>> {
    let size = layout.size();
    match root {
        None => Ok(Vec::new()),
        Some(Root::Here(listener)) => {
            let leads: Vec<u32> = (1..layout.hosts()).filter_map(|host| layout.first_of(host)).collect();
            star::receive(listener, &leads, size, secret, deadline)
        }
        Some(Root::There(addresses)) => {
            let call = |address: SocketAddr| {
                star::call(address, rank, size, secret, deadline.min(Instant::now() + CALL))
            };
            let mut last = None;
            for address in &addresses {
                match call(*address) {
                    Ok(stream) => return Ok(vec![stream]),
                    Err(error) => last = Some(error),
                }
            }
            let why = last.map_or_else(String::new, |error| error.to_string());
            let tried: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
            Err(Error::Invalid(format!(
                "rank 0 is not reached at {}: {why}; if that is not the network which joins the hosts, set SCASH_INTERFACE to it, such as \
                 10.0.0.0/24 or eth0",
                tried.join(", ")
            )))
        }
    }
}

impl LeadThread {
    fn watch_all(&mut self) -> Result<()> {
        let watch = |fd: &dyn AsFd, tag: u64| {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, tag);
            self.epoll.add(fd.as_fd(), event).map_err(io("watching a descriptor"))
        };
        watch(&self.host_relay, LINES)?;
        for (rank, process) in &self.processes {
            watch(process, u64::from(*rank))?;
        }
        (0..).zip(&self.links).try_for_each(|(number, link)| watch(link, LINKS + number))
    }

    fn serve(&mut self) {
        while !self.is_over() {
            let mut events = [EpollEvent::empty(); 64];
            let count = self.epoll.wait(&mut events, self.timeout()).unwrap_or(0);
            for event in &events[..count] {
                match event.data() {
                    LINES => self.host_relay.turn(),
                    tag if tag >= LINKS => self.hear(usize::try_from(tag - LINKS).unwrap_or(usize::MAX)),
                    rank => self.ended(u32::try_from(rank).unwrap_or(u32::MAX)),
                }
                self.settle();
            }
            if self.host_relay.timeout().is_some() {
                self.host_relay.turn();
                self.settle();
            }
            self.links.iter_mut().for_each(LeadLink::flush);
            if self.abort_at.take_if(|at| *at <= Instant::now()).is_some() {
                lock(&self.space).abort();
            }
        }
        self.links.iter_mut().for_each(|link| link.drain(Instant::now() + LAST_WORDS));
    }

    /// Whether all ranks of the job are done.
    fn is_over(&self) -> bool {
        (0..self.layout.size()).all(|rank| self.host_relay.state(rank) == RankState::Finalized)
    }

    fn timeout(&self) -> EpollTimeout {
        let full = self.links.iter().any(LeadLink::is_full).then_some(FULL);
        let abort = self.abort_at.map(|at| at.saturating_duration_since(Instant::now()));
        let due = [full, abort, self.host_relay.timeout()].into_iter().flatten().min();
        // The kernel counts milliseconds; a fraction more is not too early.
        due.map_or(EpollTimeout::NONE, |due| {
            EpollTimeout::try_from(due + Duration::from_millis(1)).unwrap_or(EpollTimeout::MAX)
        })
    }

    /// The process of a rank of this host has ended.
    fn ended(&mut self, rank: u32) {
        self.processes.retain(|(other, _)| *other != rank); // which takes it out of the epoll
        self.host_relay.exited(rank, Exit::Unseen);
    }

    /// Takes what another lead has said.
    fn hear(&mut self, number: usize) {
        let Some(link) = self.links.get_mut(number) else { return };
        let frames = link.receive();
        let is_open = link.is_open();
        let lie = frames.into_iter().find_map(|frame| self.take(number, &frame).err());
        if !is_open || lie.is_some() {
            let _ = self.epoll.delete(&self.links[number]);
            self.lose(number, lie);
        }
    }

    /// Takes a frame. The error says why no lead sends it.
    fn take(&mut self, number: usize, frame: &[u8]) -> std::result::Result<(), String> {
        match &mut self.launcher_relay {
            Some(launcher_relay) => {
                let host = u32::try_from(number + 1).unwrap_or(u32::MAX);
                launcher_relay.take(host, Report::decode(frame)?)
            }
            None => self.host_relay.take(Decision::decode(frame)?),
        }
    }

    /// Nothing comes from another lead any more. If it was done, that is in order.
    fn lose(&mut self, number: usize, lie: Option<String>) {
        let lead = match &self.launcher_relay {
            Some(_) => self.layout.first_of(u32::try_from(number + 1).unwrap_or(0)).unwrap_or(0),
            None => 0,
        };
        if self.host_relay.state(lead) != RankState::Running {
            return;
        }
        let why = lie.map_or_else(
            || format!("rank {lead} has ended without calling dsm_finalize or scomm_finalize, or its host is out of reach"),
            |lie| format!("rank {lead} says what no rank says: {lie}"),
        );
        match &mut self.launcher_relay {
            Some(launcher_relay) => launcher_relay.lost(&[lead], &why, 1),
            None => {
                self.host_relay.cut_off(lead, &why);
                self.fail();
            }
        }
        self.settle();
    }

    /// Passes on what there is to tell.
    fn settle(&mut self) {
        let reports: Vec<Report> = std::iter::from_fn(|| self.host_relay.report()).collect();
        for report in reports {
            match &mut self.launcher_relay {
                // Its host's relay reports of its own ranks.
                Some(launcher_relay) => drop(launcher_relay.take(self.host, report)),
                None => self.links.iter_mut().for_each(|link| link.send(&report.encode())),
            }
        }
        while let Some(decision) = self.launcher_relay.as_mut().and_then(LauncherRelay::decision) {
            self.links.iter_mut().for_each(|link| link.send(&decision.encode()));
            // The launcher's relay decides about ranks that there are.
            drop(self.host_relay.take(decision));
        }
        while let Some(failure) = self.launcher_relay.as_mut().and_then(LauncherRelay::failure) {
            if self.abort_at.is_none() && self.settled.is_some() {
                let rank = failure.rank.map_or_else(String::new, |rank| format!("rank {rank} "));
                say(format_args!("{rank}{}; ending the job", failure.why));
            }
            self.fail();
        }
        if self.host_relay.is_aborted() || self.is_over() {
            self.settled = None;
        }
    }

    /// The job has failed: its ranks have been told, and have a while to end by themselves.
    fn fail(&mut self) {
        if self.settled.take().is_some() {
            self.abort_at = Some(Instant::now() + GRACE);
        }
    }
}
