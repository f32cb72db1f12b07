//! A rank's end of the boot line.

use super::alone::{self, Alone};
use super::claim::claim;
use super::external::{self, External, Service};
use super::frame::{self, Assembler, Limits, LineKind, Message, Packet, Reader, Share, decode_gathered};
use super::identity::{Identity, text};
use super::io;
use super::layout::Layout;
use super::line::{self, Blocking, Received};
use super::page::JobPage;
use super::roster::{self, AfterCut, Reason};
use super::{Settings, vars};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use scash_comm::descriptors::out_of_the_way;
use scash_comm::say;
use scash_comm::wipe;
use scash_comm::{Error, Exchange, Result, Secret};
use std::ffi::OsString;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long to wait until other ranks have taken the descriptors that are on their way to them.
const CONGESTION: Duration = Duration::from_secs(30);
/// How long a rank that cannot connect to another one waits until its launcher has decided about that.
const PATIENCE_SECONDS: u32 = 30;

/// A rank as a member of its job: who it is, and its connection to the others.
#[derive(Debug)]
pub struct Member {
    rank: u32,
    size: u32,
    settings: Settings,
    secret: Secret,
    layout: Layout,
    connection: Connection,
    page: Arc<JobPage>,
    /// An address of this host that other hosts reach, if it is known.
    address: Option<IpAddr>,
    /// See [`Member::starts_again`].
    starts_again: bool,
}

/// How a rank reaches the others, before it has an endpoint.
#[derive(Debug)]
enum Connection {
    /// By its launcher, or by the rank that does a launcher's work.
    Line(BootLine),
    /// There are no others, and no launcher.
    Alone(Alone),
}

/// A rank's line.
#[derive(Debug)]
struct BootLine {
    socket: OwnedFd,
    assembler: Assembler,
    buffer: Vec<u8>,
    /// Number of the next exchange.
    sequence: u32,
    /// What serves this rank where another launcher than `scash run` has started it.
    service: Option<Service>,
}

impl Member {
    /// Joins the job that the environment tells of; a process that no launcher has started is a job of one
    /// rank. Succeeds once in a process.
    pub fn from_env() -> Result<Member> {
        // The descriptor must not get two owners.
        static JOINED: AtomicBool = AtomicBool::new(false);
        let var = |name: &str| std::env::var_os(name);
        if JOINED.swap(true, Ordering::Relaxed) {
            return Err(invalid(
                "this process has joined its job already: that is done once (a program that uses both calls dsm_init first, then scomm_init)",
            ));
        }
        let member = Member::from_vars(&var);
        if member.is_err() {
            JOINED.store(false, Ordering::Relaxed);
        }
        member
    }

    /// Joins the job that `var` tells of, which looks up environment variables. The descriptor that is named
    /// there becomes this member's. For a process that has not joined a job yet, or that has come back from
    /// an image of one that had.
    pub fn from_vars(var: &dyn Fn(&str) -> Option<OsString>) -> Result<Member> {
        if [vars::RANK, vars::SIZE, vars::BOOT_FD].iter().all(|name| var(name).is_none()) {
            let settings = external::settings(var)?;
            return match External::from_vars(var, &settings)? {
                Some(external) => Member::of_external(external, settings),
                None => alone::check_launcher(var).and_then(|()| Member::alone(settings)),
            };
        }
        if let Some(place) = var(vars::SAYS) {
            say::to_launcher(&place);
        }
        let lookup = Lookup { var };
        let rank = lookup.number(vars::RANK, 0)?;
        let size = lookup.number(vars::SIZE, 1)?;
        let threads = lookup.number(vars::THREADS, 1)?;
        let provider = lookup.text(vars::PROVIDER)?;
        if rank >= size {
            return Err(invalid(format!(
                "{}={rank} in a job of {}={size} ranks: ranks count from 0",
                vars::RANK,
                vars::SIZE
            )));
        }
        let member = Member::at(lookup.line()?, rank, size, Settings { threads, provider }, None)?;
        Ok(Member { starts_again: var(vars::SAYS).is_some(), ..member })
    }

    /// A rank of another launcher's job.
    pub(super) fn of_external(external: External, settings: Settings) -> Result<Member> {
        let External { rank, size, line, address, service } = external;
        let member = Member::at(line, rank, size, settings, Some(service))?;
        Ok(Member { address, ..member })
    }

    /// The only rank of a job without a launcher.
    fn alone(settings: Settings) -> Result<Member> {
        let alone = Alone::new()?;
        let page = Arc::new(alone.job_page()?);
        let (secret, layout) = (Secret::random()?, Layout::one_host(1));
        Ok(Member {
            rank: 0,
            size: 1,
            settings,
            secret,
            layout,
            connection: Connection::Alone(alone),
            page,
            address: None,
            starts_again: false,
        })
    }

    /// The member at the end of this line, where the first message waits.
    fn at(
        socket: OwnedFd,
        rank: u32,
        size: u32,
        settings: Settings,
        mut service: Option<Service>,
    ) -> Result<Member> {
        let mut buffer = line::buffer();
        let started = start(socket.as_fd(), &mut buffer, rank, size);
        wipe(&mut buffer);
        let Start { secret, layout, page } = started?;
        if let Some(service) = &mut service {
            service.watch(&page, size)?;
        }
        let page = JobPage::open(page.as_fd(), size).map_err(io("mapping the job page"))?;
        let assembler = Assembler::new(Limits::FROM_LAUNCHER);
        let connection = Connection::Line(BootLine { socket, assembler, buffer, sequence: 0, service });
        Ok(Member {
            rank,
            size,
            settings,
            secret,
            layout,
            connection,
            page: Arc::new(page),
            address: None,
            starts_again: false,
        })
    }

    /// Forgets the job's secret: this member makes no endpoint more. One that it tried to make would find
    /// that others take it for a stranger.
    ///
    /// # Errors
    /// The system gives no random numbers, to take its place.
    pub fn forget_secret(&mut self) -> Result<()> {
        self.secret = Secret::random()?;
        Ok(())
    }

    /// Whether the job has several hosts, though all ranks may be on one of them: as others have none yet, or
    /// are lost. Ranks may come back on the others.
    pub fn has_several_hosts(&self) -> bool {
        self.layout.hosts() > 1
    }

    /// Application threads that this rank should run.
    pub fn threads(&self) -> u32 {
        self.settings.threads
    }

    /// Whether the launcher starts all ranks again when one dies (`scash run --replicas`).
    pub fn starts_again(&self) -> bool {
        self.starts_again
    }

    /// The provider that was chosen for the job.
    pub fn provider(&self) -> &str {
        &self.settings.provider
    }

    /// An address of this host that other hosts of the job reach, if joining has shown one.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The job page: which ranks are still there.
    pub fn page(&self) -> &Arc<JobPage> {
        &self.page
    }

    /// Ends a member that has come here in an image of another process: its line and its page are not there
    /// any more, and are not closed. Its memory is given back where there is much of it.
    pub fn abandon(mut self) {
        if let Connection::Line(line) = &mut self.connection {
            line.buffer = Vec::new();
        }
        std::mem::forget(self);
    }

    /// Introduces this rank. Returns when all ranks have said hello, and run the same program with the same
    /// scash.
    pub fn hello(&mut self, identity: &Identity) -> Result<()> {
        match &mut self.connection {
            Connection::Line(line) => {
                line.send(LineKind::Hello, 0, &identity.encode(), &[])?;
                line.receive(LineKind::Welcome).map(drop)
            }
            Connection::Alone(_) => Ok(()),
        }
    }

    /// Tells the launcher that this rank is done. From now on its process may end without being missed.
    /// (Under another launcher than `scash run` the lowest rank of each host serves the others, and waits
    /// here until they are done, too.)
    pub fn finalized(&mut self) -> Result<()> {
        match &mut self.connection {
            Connection::Line(line) => {
                line.send(LineKind::Finalized, 0, &[], &[])?;
                line.service.as_mut().map_or(Ok(()), Service::leave)
            }
            Connection::Alone(alone) => {
                alone.finalized();
                Ok(())
            }
        }
    }

    /// Tells the launcher that the way to another rank broke, which has not ended: it ends the job, and says
    /// why. `waits`: unless it can start all ranks again elsewhere, for which this one waits.
    pub fn tell_cut(&mut self, other: u32, why: &str, waits: bool) -> Result<()> {
        let then = if waits { AfterCut::Waits } else { AfterCut::Ends };
        match &mut self.connection {
            Connection::Line(line) => line.send(LineKind::Cut, 0, &roster::cut(other, why, then), &[]),
            Connection::Alone(_) => Ok(()),
        }
    }

    /// This rank does not reach one of another host. Where the launcher can start all ranks again elsewhere,
    /// tells it, and waits until it ends this one; returns when the launcher says that the job ends, or after
    /// a while. Returns at once if the other one has died, which ends the job, or this rank.
    pub(crate) fn cannot_connect(&mut self, other: u32, why: &str) {
        let is_far = self.layout.host_of(other) != self.layout.host_of(self.rank);
        let Connection::Line(line) = &mut self.connection else { return };
        if !self.starts_again || !is_far || self.page.died(other) {
            return;
        }
        if line.send(LineKind::Cut, 0, &roster::cut(other, why, AfterCut::WaitsToJoin), &[]).is_ok() {
            line.wait(PATIENCE_SECONDS);
        }
    }
}

impl BootLine {
    fn send(&mut self, kind: LineKind, sequence: u32, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
        for index in 0.. {
            let Some(packet) = frame::packet(kind, sequence, bytes, fds, index) else { break };
            self.send_packet(&packet)?;
        }
        Ok(())
    }

    fn send_packet(&mut self, packet: &Packet<'_, BorrowedFd<'_>>) -> Result<()> {
        let started = Instant::now();
        loop {
            match line::send(self.socket.as_fd(), packet, Blocking::Yes) {
                Ok(()) => return Ok(()),
                // The launcher closes the line of a rank that it has refused: what it had to say comes first.
                Err(Errno::EPIPE | Errno::ECONNRESET) => {
                    return self.receive(LineKind::Abort).and(Err(self.launcher_is_gone()));
                }
                // More descriptors are on their way than this user may have open. They land when other ranks
                // take them.
                Err(Errno::ETOOMANYREFS) if started.elapsed() < CONGESTION => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(Errno::ETOOMANYREFS) => {
                    let what = "passing file descriptors to other ranks (raise `ulimit -n`)";
                    return Err(io(what)(Errno::ETOOMANYREFS));
                }
                Err(errno) => return Err(io("writing to the launcher")(errno)),
            }
        }
    }

    /// Waits until the launcher says something or is gone, for so long at most.
    fn wait(&self, seconds: u32) {
        // Counted, so that a job may be stopped for long in it.
        for _ in 0..seconds {
            let until = Instant::now() + Duration::from_secs(1);
            while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
            {
                let mut line = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
                let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
                // A signal is no word of the launcher.
                if poll(&mut line, left).is_ok_and(|ready| ready > 0) {
                    return;
                }
            }
        }
    }

    /// Gives this rank's share, and waits for those of all.
    fn gather(&mut self, blob: &[u8], fds: &[BorrowedFd<'_>]) -> Result<Message> {
        self.send(LineKind::Gather, self.sequence, blob, fds)?;
        let message = self.receive(LineKind::Gathered)?;
        if message.sequence != self.sequence {
            return Err(confused(frame::Rubbish(format!("the result of exchange {}", message.sequence))));
        }
        self.sequence = self.sequence.wrapping_add(1);
        Ok(message)
    }

    fn launcher_is_gone(&self) -> Error {
        match &self.service {
            Some(service) => {
                Error::Down { rank: service.lead, why: "it served the ranks of this host".to_owned() }
            }
            None => launcher_is_gone(),
        }
    }

    /// Waits for the next message, which must be of this kind.
    fn receive(&mut self, expected: LineKind) -> Result<Message> {
        loop {
            let message = match line::receive(self.socket.as_fd(), &mut self.buffer, Blocking::Yes) {
                Ok(Received::Packet(length, fds)) => {
                    self.assembler.push(&self.buffer[..length], fds).map_err(confused)?
                }
                Ok(Received::Closed) => return Err(self.launcher_is_gone()),
                Ok(received) => return Err(unreadable(&received)),
                Err(errno) => return Err(io("reading from the launcher")(errno)),
            };
            match message {
                None => {}
                Some(message) if message.kind == LineKind::Abort => return Err(aborted(&message.bytes)),
                Some(message) if message.kind == expected => return Ok(message),
                Some(message) => {
                    return Err(confused(frame::Rubbish(format!("a {:?} message", message.kind))));
                }
            }
        }
    }
}

// SAFETY: the launcher, whose child this rank is, gives what ranks have sent it, whole and by rank:
// `decode_gathered` refuses everything else. Rank and size are checked as it joins, and do not change. A rank
// that is alone gets back what it gave.
unsafe impl Exchange for Member {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn secret(&self) -> &Secret {
        &self.secret
    }

    fn host(&self, rank: u32) -> u32 {
        self.layout.host_of(rank)
    }

    fn all_gather(&mut self, blob: &[u8], fds: &[BorrowedFd<'_>]) -> Result<Vec<Share>> {
        let Limits { bytes: max_bytes, fds: max_fds } = Limits::FROM_RANK;
        if blob.len() > max_bytes || fds.len() > max_fds {
            return Err(invalid(format!(
                "{} bytes and {} descriptors in one exchange: {max_bytes} and {max_fds} are the most",
                blob.len(),
                fds.len()
            )));
        }
        match &mut self.connection {
            Connection::Line(line) => decode_gathered(self.size, line.gather(blob, fds)?).map_err(confused),
            Connection::Alone(_) => Alone::gather(blob, fds),
        }
    }
}

/// Environment variables with errors that say what is wrong with them.
struct Lookup<'a> {
    var: &'a dyn Fn(&str) -> Option<OsString>,
}

impl Lookup<'_> {
    fn text(&self, name: &str) -> Result<String> {
        let value = (self.var)(name).ok_or_else(|| {
            invalid(format!("{name} is missing although other variables of `scash run` are set: start the program with `scash run`"))
        })?;
        value
            .into_string()
            .map_err(|value| invalid(format!("{name}={} is not text", value.to_string_lossy())))
    }

    fn number(&self, name: &str, least: u32) -> Result<u32> {
        let value = self.text(name)?;
        match value.parse() {
            Ok(number) if number >= least => Ok(number),
            _ => Err(invalid(format!(
                "{name}={value} is not a number from {least} on: `scash run` sets it, leave it alone"
            ))),
        }
    }

    /// The line, if the descriptor is what the launcher made.
    fn line(&self) -> Result<OwnedFd> {
        let value = self.text(vars::BOOT_FD)?;
        let parts = value.split_once(':').and_then(|(fd, name)| Some((fd.parse::<u16>().ok()?, name)));
        let Some((fd, name)) = parts else {
            return Err(invalid(format!(
                "{}={value} is malformed: `scash run` sets it, leave it alone",
                vars::BOOT_FD
            )));
        };
        let there = std::fs::read_link(format!("/proc/self/fd/{fd}"));
        if there.is_err() || there.is_ok_and(|there| there.as_os_str() != name) {
            return Err(invalid(
                "this program was started by a rank, not by scash run itself: only the program that `scash run` starts is a \
                 rank, and it keeps its line to the launcher to itself",
            ));
        }
        // SAFETY: the descriptor is open, and is the socket that the launcher made for this rank (its name is
        // unique in the system); `from_env` hands it out once in a process.
        let line = unsafe { OwnedFd::from_raw_fd(i32::from(fd)) };
        let flags = nix::fcntl::FdFlag::FD_CLOEXEC;
        nix::fcntl::fcntl(&line, nix::fcntl::FcntlArg::F_SETFD(flags)).map_err(io("setting FD_CLOEXEC"))?;
        // The claim would end with any descriptor of the line that is closed after it.
        let line = out_of_the_way(line);
        claim(line.as_fd())?;
        Ok(line)
    }
}

/// What the first message tells a rank.
struct Start {
    secret: Secret,
    layout: Layout,
    page: OwnedFd,
}

/// Reads the first message, which the launcher has sent before this process began.
fn start(line: BorrowedFd<'_>, buffer: &mut [u8], rank: u32, size: u32) -> Result<Start> {
    let (length, fds) = match line::receive(line, buffer, Blocking::No) {
        Ok(Received::Packet(length, fds)) => (length, fds),
        Ok(received) => return Err(unreadable(&received)),
        Err(Errno::EAGAIN) => {
            return Err(invalid(
                "another program has already used this rank's line to the launcher: one rank runs one scash program",
            ));
        }
        Err(errno) => return Err(io("reading from the launcher")(errno)),
    };
    let message = Assembler::new(Limits::FROM_LAUNCHER).push(&buffer[..length], fds).map_err(confused)?;
    let Some(Message { kind: LineKind::Start, mut bytes, fds, .. }) = message else {
        return Err(confused(frame::Rubbish("no Start message".into())));
    };
    let secret = bytes.get_mut(8..).and_then(|rest| rest.first_chunk_mut()).map(Secret::taken_from);
    let secret = secret.ok_or_else(|| confused(frame::Rubbish("a short Start message".into())))?;
    let mut reader = Reader::new(&bytes);
    let numbers = (reader.u32().map_err(confused)?, reader.u32().map_err(confused)?);
    reader.take(Secret::LENGTH).map_err(confused)?;
    let layout = Layout::read(&mut reader, numbers.1).map_err(confused)?;
    let version = text(reader.rest());
    if numbers != (rank, size) {
        return Err(invalid(format!(
            "the launcher (scash {version}) says rank {} of {}, the environment says rank {rank} of {size}: \
             leave {} and {} alone",
            numbers.0,
            numbers.1,
            vars::RANK,
            vars::SIZE
        )));
    }
    let page = fds.into_iter().next().ok_or_else(|| confused(frame::Rubbish("no job page".into())))?;
    Ok(Start { secret, layout, page })
}

fn invalid(why: impl Into<String>) -> Error {
    Error::Invalid(why.into())
}

fn launcher_is_gone() -> Error {
    Error::Io { what: "the launcher (scash run) is gone".into(), source: Errno::EPIPE.into() }
}

fn confused(rubbish: frame::Rubbish) -> Error {
    invalid(format!(
        "the launcher sent what this program does not understand ({rubbish}): use the `scash` command of version {}",
        env!("CARGO_PKG_VERSION")
    ))
}

fn unreadable(received: &Received) -> Error {
    match received {
        Received::DescriptorsLost => {
            io("taking file descriptors from other ranks (raise `ulimit -n`)")(Errno::EMFILE)
        }
        Received::Closed => launcher_is_gone(),
        _ => confused(frame::Rubbish("a packet that is too long".into())),
    }
}

/// What an Abort message means to the call that was waiting.
fn aborted(bytes: &[u8]) -> Error {
    let mut reader = Reader::new(bytes);
    match (reader.u8(), reader.u32()) {
        (Ok(reason), Ok(rank)) if reason == Reason::Gone as u8 => {
            Error::Down { rank, why: text(reader.rest()) }
        }
        (Ok(_), Ok(_)) => invalid(text(reader.rest())),
        _ => confused(frame::Rubbish("a short Abort message".into())),
    }
}
