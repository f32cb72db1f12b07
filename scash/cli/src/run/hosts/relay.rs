//! What the remote shell runs on a host where an agent may be that has lost its launcher: it says what that
//! agent keeps, or joins it to the launcher that goes on with the job. And `scash resume JOB`, which looks
//! for such agents here and elsewhere.

use super::agent::serve_launcher;
use super::frames::{Up, hello};
use super::link;
use super::standby;
use super::succession::{END, Found, JobName, TAKE, connect, find};
use crate::run::plan::RSH_IF_NOT_SAID;
use crate::run::status;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::unistd::getpid;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What the agent of a host is started for.
#[derive(Debug, clap::Args)]
pub(crate) struct AgentArgs {
    /// Join the agent that keeps what it has of this job
    #[arg(long, value_name = "JOB", requires = "host")]
    of: Option<JobName>,

    /// As which of its hosts
    #[arg(long, value_name = "N")]
    host: Option<u32>,

    /// Have the agent end that keeps what it has of this job, if it has no launcher
    #[arg(long, value_name = "JOB", requires = "host", conflicts_with = "of")]
    release: Option<JobName>,

    /// Say what agents keep here of this job
    #[arg(long, value_name = "JOB", conflicts_with_all = ["of", "release"])]
    find: Option<String>,

    /// Wait until the launcher at the other end of standard input is lost, and go on with its job
    #[arg(long, conflicts_with_all = ["of", "release", "find"])]
    standby: bool,
}

/// Serves a launcher; returns the exit status.
pub(crate) fn agent(args: &AgentArgs) -> u8 {
    let host = args.host.unwrap_or(0);
    match (&args.of, &args.release, &args.find) {
        _ if args.standby => standby::wait(),
        (Some(job), _, _) => join(job, host),
        (_, Some(job), _) => release(job, host),
        (_, _, Some(job)) => tell(job),
        (None, None, None) => serve_launcher(),
    }
}

/// Has the agent of a job end, and waits until it has.
fn release(job: &JobName, host: u32) -> u8 {
    // If it is not there, all is well. The end of the connection tells that it has ended.
    if let Ok(mut agent) = connect(job, host, END) {
        let _ = agent.read(&mut [0]);
    }
    0
}

/// Joins the agent of a job to the launcher at the other end of stdin and stdout, until one of them is gone.
fn join(job: &JobName, host: u32) -> u8 {
    // The ends of pipes tell, whoever dies.
    let _ = prctl::set_pdeathsig(None);
    let mut stdout = io::stdout().lock();
    let refuse = |stdout: &mut dyn Write, why: &str| {
        let why = format!("nothing is kept of job {job}: its agent is not there ({why})");
        let refused = Up::Refused { status: status::LAUNCHER, why };
        let _ = stdout.write_all(&[hello().encode(), refused.encode()].concat());
        let _ = stdout.flush();
        0
    };
    let agent = match connect(job, host, TAKE) {
        Ok(agent) => agent,
        Err(error) => return refuse(&mut stdout, &error.to_string()),
    };
    let mut passed = 0;
    let joined = agent.try_clone().and_then(|to| {
        thread::Builder::new().name("down".to_owned()).spawn(move || {
            let _ = copy(&mut io::stdin().lock(), &mut &to, &mut 0);
            let _ = to.shutdown(Shutdown::Both);
        })?;
        copy(&mut &agent, &mut stdout, &mut passed)
    });
    let _ = agent.shutdown(Shutdown::Both);
    if passed == 0 {
        return refuse(&mut stdout, "it has ended");
    }
    if joined.is_ok() { 0 } else { status::LAUNCHER }
}

/// Copies what comes, as it comes, and counts it.
fn copy(from: &mut impl Read, to: &mut impl Write, passed: &mut u64) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                to.write_all(&buffer[..length])?;
                to.flush()?;
                *passed += length as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Says what agents here keep of a job, for `scash resume` elsewhere.
fn tell(job: &str) -> u8 {
    let told = find(Some(job)).and_then(|found| Ok(serde_json::to_writer(io::stdout(), &found)?));
    match told {
        Ok(()) => 0,
        Err(error) => {
            crate::say(&format!("looking for agents of job {job}: {error}"));
            status::LAUNCHER
        }
    }
}

/// Where agents of a job are looked for that have lost their launcher.
#[derive(Debug, Default)]
pub(in crate::run) struct Search {
    /// Those that are called at first; with none, agents are looked for here, and all hosts are called.
    pub(in crate::run) hosts: Vec<String>,
    pub(in crate::run) rsh: Option<String>,
    pub(in crate::run) agent: Option<PathBuf>,
}

/// `scash resume JOB`: becomes the command that goes on with the job. Returns why it cannot.
pub(in crate::run) fn resume(job: &str, search: Search) -> Result<std::convert::Infallible, String> {
    let mut found = find(Some(job)).map_err(|error| format!("looking for agents of job {job}: {error}"))?;
    let mut whys = Vec::new();
    for host in &search.hosts {
        if !found.is_empty() {
            break;
        }
        match ask(job, host, &search, None) {
            Ok(there) => found = there,
            Err(why) => whys.push(format!("host {host}: {why}")),
        }
    }
    found.sort_by(|one, other| one.succession.job.cmp(&other.succession.job));
    found.dedup_by(|one, other| one.succession.job == other.succession.job);
    match found.len() {
        0 => {
            let where_ =
                if search.hosts.is_empty() { "here; say with --host where it has been" } else { "there" };
            whys.push(format!("no agent of job {job} is {where_}"));
            Err(whys.join("; "))
        }
        1 => {
            let Search { hosts, rsh, agent } = search;
            let mut command = found.swap_remove(0).succession.take_over(&hosts, rsh, agent)?;
            Err(format!("going on with it: {}", command.exec()))
        }
        _ => {
            let names: Vec<String> = found.iter().map(|found| found.succession.job.to_string()).collect();
            Err(format!("job {job} may be one of {}: say which", names.join(", ")))
        }
    }
}

/// Asks on another host, which may take so long to answer; else the user does that, who may be asked for a
/// password and may interrupt it.
pub(super) fn ask(
    job: &str,
    host: &str,
    search: &Search,
    most: Option<Duration>,
) -> Result<Vec<Found>, String> {
    let rsh = search.rsh.as_deref().unwrap_or(RSH_IF_NOT_SAID);
    let agent = match &search.agent {
        Some(agent) => agent.clone(),
        None => std::env::current_exe().map_err(|error| error.to_string())?,
    };
    let mut words = rsh.split_whitespace();
    let mut command = Command::new(words.next().ok_or("--rsh: which command?")?);
    command.args(words).arg(host).arg(link::quoted(&agent)).args(["agent", "--find", job]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    if most.is_some() {
        let this = getpid();
        // SAFETY: `prepare` makes system calls only, as the child of a process with several threads must.
        unsafe { command.pre_exec(move || link::prepare(this, false)) };
    }
    let mut child = command.spawn().map_err(|error| format!("running `{rsh}`: {error}"))?;
    let bytes = child.stdout.take().map_or(Ok(Vec::new()), |stdout| read_in_time(stdout, most));
    if bytes.is_err() {
        let _ = child.kill();
    }
    let ended = child.wait().map_err(|error| format!("running `{rsh}`: {error}"))?;
    let bytes = bytes.map_err(|error| format!("`{rsh} {host}`: {error}"))?;
    if !ended.success() {
        return Err(format!("`{rsh} {host}` has brought no answer ({ended})"));
    }
    serde_json::from_slice(&bytes).map_err(|error| format!("its answer is none: {error}"))
}

/// All that comes, if it comes in time.
fn read_in_time(mut from: impl Read + AsFd, most: Option<Duration>) -> io::Result<Vec<u8>> {
    let (until, mut all) = (most.map(|most| Instant::now() + most), Vec::new());
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left =
            left.map_or(PollTimeout::NONE, |left| PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
        match poll(&mut [PollFd::new(from.as_fd(), PollFlags::POLLIN)], left) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")),
            Err(Errno::EINTR) => continue,
            polled => polled?,
        };
        let mut buffer = [0; 4096];
        match from.read(&mut buffer)? {
            0 => return Ok(all),
            length => all.extend_from_slice(&buffer[..length]),
        }
    }
}

/// What agents here have lost their launcher, for people.
pub(crate) fn orphans() -> Vec<String> {
    let found = find(None).unwrap_or_default();
    let orphan = |found: &Found| {
        let Found { succession, host, left, .. } = found;
        let name = succession.names.get(*host as usize)?;
        let (job, left) = (&succession.job, (*left)?);
        Some(format!(
            "job {job}: its launcher is lost, and host {name} keeps what it has for {left} s more; `scash resume {job}` goes on"
        ))
    };
    found.iter().filter_map(orphan).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn bytes_are_passed_on_as_they_come() {
        let (one, other) = UnixStream::pair().unwrap();
        let passing = thread::spawn(move || {
            let mut all = Vec::new();
            copy(&mut &other, &mut all, &mut 0).map(|()| all)
        });
        (&one).write_all(b"some").unwrap();
        (&one).write_all(&vec![7; 200_000]).unwrap();
        drop(one);
        assert_eq!(passing.join().unwrap().unwrap().len(), 200_004);
    }
}
