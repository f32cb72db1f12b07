//! The wire protocol of PMI-1, the process management interface of MPICH (Balaji et al., "PMI: A Scalable
//! Parallel Process-Management Interface for Extreme-Scale Systems", EuroMPI 2010): MPICH's `mpiexec` speaks
//! it, and Slurm's `srun --mpi=pmi2`.
//!
//! The process inherits a stream socket (`PMI_FD`), and asks; each question and each answer is a line of
//! `NAME=VALUE` words:
//!
//! ```text
//! cmd=init pmi_version=1 pmi_subversion=1          cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0
//! cmd=get_my_kvsname                               cmd=my_kvsname kvsname=S
//! cmd=put kvsname=S key=K value=V                  cmd=put_result rc=0
//! cmd=barrier_in                                   cmd=barrier_out         when all have come
//! cmd=get kvsname=S key=K                          cmd=get_result rc=0 value=V
//! cmd=finalize                                     cmd=finalize_ack
//! cmd=abort exitcode=N                             (none)
//! ```
//! Values have no spaces, so a line is cut at them. Words that are not asked for are passed over.

use super::space::Space;
use crate::boot::claim::claim;
use crate::setting::setting;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, getsockopt, send, sockopt};
use scash_comm::{Error, Result, SecretText, wipe};
use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Longest line of a server: some send a value of 1,024 bytes, and texts beside it.
const LONGEST_LINE: usize = 8 << 10;
/// How long a server may take to answer what does not depend on other processes.
const ANSWER: Duration = Duration::from_secs(30);

/// The socket of this process. It is open until the process ends: MPICH's mpiexec takes its end for that of
/// the process, and kills all at once, those too that have yet to say why.
static SOCKET: OnceLock<OwnedFd> = OnceLock::new();

/// The connection to a PMI server.
#[derive(Debug)]
pub(super) struct Pmi {
    socket: BorrowedFd<'static>,
    rank: u32,
    size: u32,
    /// Name of the key-value space.
    space: String,
    /// Bytes behind the last line.
    unread: Vec<u8>,
}

impl Pmi {
    /// Greets the server that the environment tells of, if there is one.
    pub(super) fn find(var: &dyn Fn(&str) -> Option<OsString>, deadline: Instant) -> Result<Option<Pmi>> {
        let Some(fd) = setting("PMI_FD", var("PMI_FD"))? else { return Ok(None) };
        let number = |name: &str| -> Result<u32> {
            let value = setting(name, var(name))?.unwrap_or_default();
            value.parse().map_err(|_| {
                Error::Invalid(format!(
                    "PMI_FD={fd} and {name}={value:?}: a launcher that speaks PMI sets both to numbers"
                ))
            })
        };
        let (rank, size) = (number("PMI_RANK")?, number("PMI_SIZE")?);
        if rank >= size {
            return Err(Error::Invalid(format!("PMI_RANK={rank} in a job of PMI_SIZE={size} processes")));
        }
        if SOCKET.get().is_some() {
            return Err(Error::Invalid(
                "this process has asked its launcher by PMI before: it joins a job once".into(),
            ));
        }
        let socket = take(&fd)?;
        let socket = SOCKET.get_or_init(|| socket).as_fd();
        Pmi::greet(socket, rank, size, deadline).map(Some)
    }

    /// Begins the conversation.
    fn greet(socket: BorrowedFd<'static>, rank: u32, size: u32, deadline: Instant) -> Result<Pmi> {
        let mut pmi =
            Pmi { socket, rank, size, space: String::new(), unread: Vec::with_capacity(LONGEST_LINE + 4096) };
        let hello = "cmd=init pmi_version=1 pmi_subversion=1";
        let answer = pmi.ask(hello, "response_to_init", deadline)?;
        if answer.word("pmi_version").is_some_and(|version| version != "1") {
            return Err(pmi.odd(hello, &answer.line));
        }
        let question = "cmd=get_my_kvsname";
        let answer = pmi.ask(question, "my_kvsname", deadline)?;
        pmi.space = answer.word("kvsname").ok_or_else(|| pmi.odd(question, &answer.line))?.to_owned();
        Ok(pmi)
    }

    /// Asks, and waits for the answer of that name.
    fn ask(&mut self, question: &str, name: &str, deadline: Instant) -> Result<ServerLine> {
        self.ask_in_time(question, name, deadline)?.ok_or_else(|| {
            Error::Invalid(format!(
                "the launcher does not answer what this process asks by PMI ({question}): is it still there?"
            ))
        })
    }

    /// As [`ask`](Self::ask); `None` if there is no answer until `deadline`.
    fn ask_in_time(&mut self, question: &str, name: &str, deadline: Instant) -> Result<Option<ServerLine>> {
        self.send(question)?;
        let Some(line) = self.line(deadline)? else { return Ok(None) };
        let answer = ServerLine { line };
        let failed = answer.word("rc").is_some_and(|rc| rc != "0");
        if failed || answer.word("cmd") != Some(name) {
            return Err(self.odd(question, &answer.line));
        }
        Ok(Some(answer))
    }

    fn odd(&self, question: &str, answer: &str) -> Error {
        // Without values: one of them has the job's secret in it.
        let shorten = |text: &str| -> String {
            let text = text.split_once("value=").map_or(text, |(before, _)| before);
            text.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).take(120).collect()
        };
        Error::Invalid(format!(
            "the launcher answers {:?} when process {} asks {:?} by PMI",
            shorten(answer),
            self.rank,
            shorten(question)
        ))
    }

    fn send(&self, line: &str) -> Result<()> {
        // In one piece, as servers expect it.
        let line = secret_text(&[line, "\n"]);
        let mut left = line.as_bytes();
        while !left.is_empty() {
            match send(self.socket.as_raw_fd(), left, MsgFlags::MSG_NOSIGNAL) {
                Ok(count) => left = &left[count..],
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(gone(errno)),
            }
        }
        Ok(())
    }

    /// The next line; `None` if it does not come in time.
    fn line(&mut self, deadline: Instant) -> Result<Option<SecretText>> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line = SecretText::from(String::from_utf8_lossy(&self.unread[..end]).into_owned());
                wipe(&mut self.unread[..end]);
                self.unread.drain(..=end);
                return Ok(Some(line));
            }
            if self.unread.len() > LONGEST_LINE {
                return Err(self.odd("something", &String::from_utf8_lossy(&self.unread)));
            }
            if !wait(self.socket, deadline)? {
                return Ok(None);
            }
            let mut buffer = [0; 4096];
            match nix::unistd::read(self.socket, &mut buffer) {
                Ok(0) => return Err(gone(Errno::EPIPE)),
                Ok(count) => {
                    self.unread.extend_from_slice(&buffer[..count]);
                    wipe(&mut buffer[..count]);
                }
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(errno) => return Err(gone(errno)),
            }
        }
    }
}

impl Space for Pmi {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn job(&self) -> &str {
        &self.space
    }

    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        let question = secret_text(&["cmd=put kvsname=", &self.space, " key=", key, " value=", value]);
        self.ask(&question, "put_result", Instant::now() + ANSWER).map(drop)
    }

    fn fence(&mut self, deadline: Instant) -> Result<bool> {
        Ok(self.ask_in_time("cmd=barrier_in", "barrier_out", deadline)?.is_some())
    }

    fn get(&mut self, _owner: u32, key: &str) -> Result<SecretText> {
        let question = format!("cmd=get kvsname={} key={key}", self.space);
        let answer = self.ask(&question, "get_result", Instant::now() + ANSWER)?;
        let value = answer.word("value").map(|value| SecretText::from(value.to_owned()));
        value.ok_or_else(|| self.odd(&question, &answer.line))
    }

    fn finalize(&mut self) -> Result<()> {
        self.ask("cmd=finalize", "finalize_ack", Instant::now() + ANSWER).map(drop)
    }

    fn abort(&mut self) {
        // A launcher that is gone ends nobody any more.
        let _ = self.send("cmd=abort exitcode=1");
    }
}

/// A text of these parts, made in one piece.
fn secret_text(parts: &[&str]) -> SecretText {
    parts.concat().into()
}

/// A line of a server.
#[derive(Debug)]
struct ServerLine {
    line: SecretText,
}

impl ServerLine {
    /// The value of a word.
    fn word(&self, name: &str) -> Option<&str> {
        let mut words = self.line.split_ascii_whitespace().filter_map(|word| word.split_once('='));
        words.find(|(word, _)| *word == name).map(|(_, value)| value)
    }
}

/// The descriptor of that number, if it is a socket: this process's alone from now on.
fn take(number: &str) -> Result<OwnedFd> {
    let refuse = || {
        Error::Invalid(format!(
            "PMI_FD={number} names no socket of this process: only the program that the launcher itself starts can join its job"
        ))
    };
    let fd = number.parse().ok().filter(|fd: &i32| *fd > 2).ok_or_else(refuse)?;
    // SAFETY: nothing is done with the number but a system call, which refuses one that is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    getsockopt(&borrowed, sockopt::SockType).map_err(|_| refuse())?;
    // SAFETY: it is open, and is the socket that the launcher made for this process, as its environment says;
    // `Member::from_env` takes it once.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let flags = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC);
    nix::fcntl::fcntl(&socket, flags).map_err(super::io("setting FD_CLOEXEC"))?;
    claim(socket.as_fd())?;
    Ok(socket)
}

/// Waits until there is something to be read; `false` if the time is up.
pub(super) fn wait(fd: BorrowedFd<'_>, deadline: Instant) -> Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // The kernel counts milliseconds; a fraction more is not too early.
        let time = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], time) {
            Ok(0) if Instant::now() >= deadline => return Ok(false),
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(super::io("waiting for the launcher")(errno)),
        }
    }
}

fn gone(errno: Errno) -> Error {
    Error::Io {
        what: "the launcher, to which this process speaks PMI, is gone".to_owned(),
        source: errno.into(),
    }
}

#[cfg(test)]
mod tests;
