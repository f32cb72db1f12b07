//! How a job outlives its launcher: what the agents of its hosts know so that another launcher can go on
//! with it, and how that finds them.
//!
//! An agent whose launcher is gone ends its ranks, and keeps their stores and what they have printed for a
//! while (`--linger`). It is found by a socket whose name no file system has, in which are the user's number,
//! the job's name and the host's number. The kernel says who connects; the same user and root are heard. So
//! whoever can start a process as that user on that host, as by the remote shell, may go on with the job.
//!
//! | first byte from the one who connects | what the agent does |
//! |---|---|
//! | `?` | says in JSON what it is ([`Found`]) |
//! | `>` | takes the connection for the pipes of a new launcher; or says, in a frame, that it has one |
//! | `x` | ends, if it has no launcher: another agent of its host is there, or the job is over |

use super::quorum::Quorum;
use super::relay::Search;
use super::{Hosts, SILENCE};
use crate::run::plan::Plan;
use crate::run::recovery::Description;
use crate::run::{Refusal, status};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect as connect_to, getsockopt, socket, sockopt,
};
use nix::unistd::{geteuid, getppid};
use scash_join::boot::Layout;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// What an agent is asked.
pub(super) const WHAT: u8 = b'?';
pub(super) const TAKE: u8 = b'>';
pub(super) const END: u8 = b'x';

/// Of what a [`Succession`] is.
const VERSION: u32 = 1;
/// How long one side may take to say what it wants, or to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most bytes of an answer.
const MOST: u64 = 16 << 20;

/// What a job is called on all its hosts: by the process number of the command that began it, and by a number
/// that other jobs of the same number do not have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::run) struct JobName(String);

impl JobName {
    /// A new one, for the job of the process that has started this one.
    fn new() -> JobName {
        let pid = getppid().as_raw();
        // Hashers begin with keys that are random.
        let salt = RandomState::new().hash_one(pid);
        JobName(format!("{pid}-{:08x}", salt & 0xffff_ffff))
    }

    /// Whether the user means this one, by its whole name or by the number alone.
    fn is_meant_by(&self, text: &str) -> bool {
        self.0 == text || self.0.split_once('-').is_some_and(|(pid, _)| pid == text)
    }
}

impl FromStr for JobName {
    type Err = String;

    fn from_str(text: &str) -> Result<JobName, String> {
        let (pid, salt) = text.split_once('-').unwrap_or((text, "0"));
        let is_number = !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit());
        let is_salt = !salt.is_empty() && salt.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_number && is_salt {
            Ok(JobName(text.to_owned()))
        } else {
            Err(format!("{text} is no job: one is called 4711, or 4711-0a1b2c3d"))
        }
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a launcher must know to go on with the job of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::run) struct Succession {
    version: u32,
    pub(in crate::run) job: JobName,
    /// The hosts, as the user has named them.
    pub(super) names: Vec<String>,
    /// How many ranks there are, and where they began.
    ranks: u32,
    layout: Vec<u8>,
    /// By host: its rack; empty if none was named.
    racks: Vec<u32>,
    rsh: Vec<String>,
    agent: PathBuf,
    /// How long agents keep what they have, in milliseconds.
    linger: u64,
    /// The limit of ranks' stacks, in bytes.
    pub(super) stack: u64,
    /// The command that began the job.
    command: Description,
    /// Hosts that are not called at first, by their numbers.
    #[serde(default)]
    pub(super) absent: Vec<u32>,
    /// Hosts that have a say in who goes on with the job, as a second launcher knows ([`Quorum`]).
    #[serde(default)]
    pub(super) voters: Option<Vec<u32>>,
}

impl Succession {
    /// That of the job which this process runs.
    pub(super) fn of(
        plan: &Plan,
        hosts: &Hosts,
        is_one: bool,
        linger: Duration,
        stack: u64,
    ) -> io::Result<Succession> {
        Ok(Succession {
            version: VERSION,
            job: JobName::new(),
            names: hosts.names.clone(),
            ranks: plan.ranks,
            layout: hosts.layout.encode(),
            racks: hosts.racks.clone(),
            rsh: hosts.rsh.clone(),
            agent: hosts.agent.clone(),
            linger: u64::try_from(linger.as_millis()).unwrap_or(u64::MAX),
            stack,
            command: Description::of_a_job_on_hosts(plan.ranks, is_one, &plan.task.program.path)?,
            absent: Vec::new(),
            voters: None,
        })
    }

    /// Which hosts have a say when another launcher has gone on.
    pub(super) fn quorum(&self) -> Quorum {
        self.voters.as_deref().map_or_else(|| Quorum::of_all(self.names.len()), Quorum::fixed)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads one. The text says why there is none.
    pub(in crate::run) fn decode(bytes: &[u8]) -> Result<Succession, String> {
        let succession: Succession =
            serde_json::from_slice(bytes).map_err(|error| format!("it describes no job: {error}"))?;
        match succession.version {
            VERSION => Ok(succession),
            other => Err(format!("it is of version {other}, and this scash knows {VERSION}")),
        }
    }

    pub(super) fn linger(&self) -> Duration {
        Duration::from_millis(self.linger)
    }

    /// Whether stdout and stderr were one file where the job began.
    pub(super) fn is_one_stream(&self) -> bool {
        self.command.is_one
    }

    /// The directory in which the job began.
    pub(super) fn directory(&self) -> PathBuf {
        self.command.directory()
    }

    /// Where the program lies on the hosts.
    pub(in crate::run) fn program(&self) -> Option<PathBuf> {
        self.command.program()
    }

    /// How its agents are looked for.
    pub(super) fn search(&self) -> Search {
        Search { hosts: Vec::new(), rsh: Some(self.rsh.join(" ")), agent: Some(self.agent.clone()) }
    }

    /// The command that goes on with this job, by a remote shell and an agent that may be others now.
    /// `hosts`: those that are called at first; all, if there are none.
    pub(super) fn take_over(
        mut self,
        hosts: &[String],
        rsh: Option<String>,
        agent: Option<PathBuf>,
    ) -> Result<Command, String> {
        if let Some(unknown) = hosts.iter().find(|host| !self.names.contains(host)) {
            return Err(format!(
                "job {} has no host {unknown}: its hosts are {}",
                self.job,
                self.names.join(", ")
            ));
        }
        let is_absent = |name: &String| !hosts.is_empty() && !hosts.contains(name);
        self.absent =
            (0..).zip(&self.names).filter(|(_, name)| is_absent(name)).map(|(host, _)| host).collect();
        self.rsh = rsh.map_or(self.rsh, |rsh| vec![rsh]);
        self.agent = agent.unwrap_or(self.agent);
        let failed = |error: io::Error| format!("going on with job {}: {error}", self.job);
        // It has no name, and goes with the process that reads it.
        let file = memfd_create(c"scash-job", MFdFlags::MFD_CLOEXEC).map_err(|error| failed(error.into()))?;
        let mut file = File::from(file);
        file.write_all(&self.encode()).and_then(|()| file.rewind()).map_err(failed)?;
        self.command.take_over(file).map_err(failed)
    }

    /// How many ranks the job has, and its hosts.
    pub(in crate::run) fn hosts(self) -> Result<(u32, Hosts), Refusal> {
        let layout = Layout::decode(&self.layout, self.ranks);
        let layout = layout.ok().filter(|layout| layout.hosts() as usize == self.names.len());
        let layout = layout.ok_or_else(|| Refusal::new(status::LAUNCHER, "what agents know is damaged"))?;
        let (names, rsh, agent) = (self.names.clone(), self.rsh.join(" "), Some(self.agent.clone()));
        let hosts = Hosts::new(names, layout, &rsh, agent, false)?;
        Ok((self.ranks, Hosts { racks: self.racks.clone(), former: Some(self), ..hosts }))
    }
}

/// What an agent says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Found {
    pub(super) succession: Succession,
    /// Which host it is.
    pub(super) host: u32,
    /// For how many seconds it keeps what it has; `None`: it has a launcher.
    pub(super) left: Option<u64>,
    /// For how many seconds it has heard nothing of a launcher.
    pub(super) silence: u64,
}

impl Found {
    /// Whether it takes another launcher.
    pub(super) fn misses_its_launcher(&self) -> bool {
        self.left.is_some() || self.silence >= SILENCE.as_secs()
    }
}

/// The agent's end.
#[derive(Debug)]
pub(super) struct Rendezvous {
    pub(super) listener: UnixListener,
}

impl Rendezvous {
    /// Of the agent of that host. If an agent that was left behind has its name, that ends.
    pub(super) fn open(job: &JobName, host: u32) -> io::Result<Rendezvous> {
        let address = address(job, host)?;
        let deadline = Instant::now() + PATIENCE;
        let mut asks_at = Instant::now();
        loop {
            match UnixListener::bind_addr(&address) {
                Ok(listener) => {
                    listener.set_nonblocking(true)?;
                    return Ok(Rendezvous { listener });
                }
                Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                    if Instant::now() >= asks_at {
                        // It may have to miss its launcher first.
                        let _ = ask_to_end(job, host);
                        asks_at += PATIENCE / 8;
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The next one who has connected and may, and what it asks.
    pub(super) fn next(&self) -> Option<(UnixStream, u8)> {
        loop {
            let (mut stream, _) = self.listener.accept().ok()?;
            if !is_ours(&stream) {
                continue;
            }
            let mut what = [0];
            let asked = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.read_exact(&mut what));
            if asked.and_then(|()| stream.set_read_timeout(None)).is_ok() {
                return Some((stream, what[0]));
            }
        }
    }
}

/// Asks an agent to end that was left behind, if it listens: one that is stopped may have more callers than
/// it has room for.
fn ask_to_end(job: &JobName, host: u32) -> io::Result<()> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let former = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect_to(former.as_raw_fd(), &UnixAddr::new_abstract(name(job, host).as_bytes())?)?;
    UnixStream::from(former).write_all(&[END])
}

/// Whether this user, or root, is at the other end. Everybody may take a name that no file system has, also
/// one in which is the number of another user.
fn is_ours(stream: &UnixStream) -> bool {
    let who = getsockopt(stream, sockopt::PeerCredentials);
    who.is_ok_and(|who| [0, geteuid().as_raw()].contains(&who.uid()))
}

/// Connects to the agent of a host, if it is there, and says what is wanted.
pub(super) fn connect(job: &JobName, host: u32, what: u8) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect_addr(&address(job, host)?)?;
    if !is_ours(&stream) {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "another user has the agent's name"));
    }
    stream.write_all(&[what])?;
    Ok(stream)
}

/// The agents here of jobs that are meant; all, if `None`.
pub(super) fn find(job: Option<&str>) -> io::Result<Vec<Found>> {
    let all = names_here()?;
    let meant = all.iter().filter(|(name, _)| job.is_none_or(|job| name.is_meant_by(job)));
    // One that ends meanwhile is not there.
    Ok(meant.filter_map(|(job, host)| ask(job, *host).ok()).collect())
}

/// The other hosts of the job, by their numbers, whose agents are on this machine. (Names tell, whoever has
/// taken them: nothing but a warning follows from it.)
pub(super) fn others_here(job: &JobName, host: u32) -> Vec<u32> {
    let names = names_here().unwrap_or_default().into_iter();
    names.filter(|(name, other)| (name, *other != host) == (job, true)).map(|(_, other)| other).collect()
}

/// The jobs and hosts in the names of agents here, each once.
fn names_here() -> io::Result<BTreeSet<(JobName, u32)>> {
    let begin = format!("@{}", prefix());
    // Names of others may be any bytes.
    let sockets = std::fs::read("/proc/net/unix")?;
    let sockets = String::from_utf8_lossy(&sockets);
    let names = sockets.lines().filter_map(|line| line.split_whitespace().last()?.strip_prefix(&begin));
    let read = |name: &str| {
        let (name, host) = name.rsplit_once('.')?;
        Some((name.parse().ok()?, host.parse().ok()?))
    };
    Ok(names.filter_map(read).collect())
}

fn ask(job: &JobName, host: u32) -> io::Result<Found> {
    let stream = connect(job, host, WHAT)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut bytes = Vec::new();
    stream.take(MOST).read_to_end(&mut bytes)?;
    let found: Found = serde_json::from_slice(&bytes)?;
    if (&found.succession.job, found.host) != (job, host) {
        return Err(io::Error::new(ErrorKind::InvalidData, "the agent is another one than its name says"));
    }
    Ok(found)
}

fn prefix() -> String {
    format!("scash-agent-{}-", geteuid())
}

fn address(job: &JobName, host: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name(job, host))
}

fn name(job: &JobName, host: u32) -> String {
    format!("{}{job}.{host}", prefix())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_meant_by_its_number_and_by_its_whole_name() {
        let name: JobName = "4711-0a1b".parse().unwrap();
        assert!(name.is_meant_by("4711") && name.is_meant_by("4711-0a1b"));
        assert!(!name.is_meant_by("471") && !name.is_meant_by("4711-0a1c") && !name.is_meant_by(""));
        for wrong in ["", "-", "4711-", "x", "4711-g", "47/11", "4711 "] {
            assert!(wrong.parse::<JobName>().is_err(), "{wrong:?}");
        }
        let (one, other) = (JobName::new(), JobName::new());
        assert_ne!(one, other, "though they are of one process");
    }

    /// What an agent says is carried out: it has the job's command and environment.
    #[test]
    fn an_agent_of_another_user_is_not_believed() {
        if !geteuid().is_root() {
            return eprintln!("skipped: only root can be another user");
        }
        let job = JobName::new();
        let address = address(&job, 0).unwrap();
        let stranger = std::thread::spawn(move || {
            const NOBODY: libc::c_long = 65_534;
            // SAFETY: the call takes numbers; that of the system changes this thread alone.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) }, 0);
            UnixListener::bind_addr(&address).unwrap()
        });
        let listener = stranger.join().unwrap();
        let refused = connect(&job, 0, WHAT).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied, "{refused}");
        assert!(find(Some(&job.to_string())).unwrap().is_empty());
        drop(listener);
    }

    #[test]
    fn an_agent_is_found_and_asked_and_one_that_was_left_behind_makes_room() {
        let job = JobName::new();
        let rendezvous = Rendezvous::open(&job, 3).unwrap();
        let next = |rendezvous: &Rendezvous| loop {
            if let Some(next) = rendezvous.next() {
                return next;
            }
            std::thread::yield_now();
        };
        let asking = std::thread::spawn({
            let job = job.clone();
            move || connect(&job, 3, TAKE).unwrap()
        });
        assert_eq!(next(&rendezvous).1, TAKE);
        asking.join().unwrap();
        let coming = std::thread::spawn({
            let job = job.clone();
            move || Rendezvous::open(&job, 3).is_ok()
        });
        assert_eq!(next(&rendezvous).1, END);
        drop(rendezvous);
        assert!(coming.join().unwrap());
        assert!(connect(&job, 4, WHAT).is_err());
    }

    #[test]
    fn agents_of_other_hosts_that_are_on_this_machine_are_seen() {
        let (job, another) = (JobName::new(), JobName::new());
        let _agents = [(&job, 3), (&job, 1), (&another, 2)].map(|(job, host)| Rendezvous::open(job, host));
        assert_eq!(others_here(&job, 3), [1]);
        assert_eq!(others_here(&job, 2), [1, 3]);
        assert_eq!(others_here(&JobName::new(), 3), [0; 0]);
    }
}
