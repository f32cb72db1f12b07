//! How a running job is asked and told things by other commands of its user: `scash status`, `scash migrate`,
//! `scash drain`.
//!
//! The launcher has a socket whose name no file system has (Linux's abstract names), so that nothing is left
//! when it is killed. The name has the user's number and that of the process that the user has started, which
//! is what jobs are called. A request is a datagram of words with zeros between them, and so is the answer:
//! whether all went well, and a text. The kernel says who has sent one; only the same user, and root, are
//! heard.

use nix::cmsg_space;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, UnixAddr, UnixCredentials, recvmsg, setsockopt, sockopt,
};
use nix::unistd::{geteuid, getppid};
use std::io::{self, ErrorKind, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Most bytes of a request or an answer.
const MOST: usize = 100 << 10;
/// How long a job may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How an answer begins.
const YES: u8 = b'+';
const NO: u8 = b'-';

/// The launcher's end.
#[derive(Debug)]
pub(super) struct Control(UnixDatagram);

/// What somebody asks.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) words: Vec<String>,
    from: SocketAddr,
}

impl Control {
    /// For the job of the process that has started this one.
    pub(super) fn open() -> io::Result<Control> {
        let socket = bind(&name(u32::try_from(getppid().as_raw()).unwrap_or(0)))?;
        socket.set_nonblocking(true)?;
        Ok(Control(socket))
    }

    /// The next request, if there is one.
    pub(super) fn next(&self) -> Option<Request> {
        loop {
            let (bytes, from) = match receive(&self.0) {
                Ok(received) => received?,
                Err(_) => return None,
            };
            if let Some(from) = from {
                let words = bytes.split(|byte| *byte == 0);
                let words = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
                return Some(Request { words, from });
            }
        }
    }

    /// Answers it, if whoever has asked is still there.
    pub(super) fn answer(&self, request: &Request, answer: Result<String, String>) {
        let (sign, mut text) = match answer {
            Ok(text) => (YES, text),
            Err(why) => (NO, why),
        };
        if let Some((end, _)) = text.char_indices().find(|(at, _)| *at > MOST - 8) {
            text.truncate(end);
        }
        let _ = self.0.send_to_addr(&[&[sign], text.as_bytes()].concat(), &request.from);
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Asks a job. The error says why there is no answer, or why not.
pub(crate) fn ask(job: u32, words: &[&str]) -> Result<String, String> {
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::ConnectionRefused => {
            format!(
                "there is no job {job} of yours on this machine: `scash status` names those that there are"
            )
        }
        ErrorKind::WouldBlock => format!("job {job} does not answer: is it stopped?"),
        _ => format!("asking job {job}: {error}"),
    };
    let answer = || -> io::Result<Vec<u8>> {
        let socket = bind(&format!("scash-ask-{}-{}", std::process::id(), job))?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.connect_addr(&SocketAddr::from_abstract_name(name(job))?)?;
        socket.send(words.join("\0").as_bytes())?;
        loop {
            match receive(&socket)? {
                Some((bytes, Some(_))) => return Ok(bytes),
                Some((_, None)) => {}
                None => return Err(ErrorKind::WouldBlock.into()),
            }
        }
    };
    let bytes = answer().map_err(failed)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match bytes.split_first() {
        Some((&YES, rest)) => Ok(text(rest)),
        Some((&NO, rest)) => Err(text(rest)),
        _ => Err(format!("job {job} answers with something else")),
    }
}

/// The jobs of this user on this machine.
pub(crate) fn jobs() -> io::Result<Vec<u32>> {
    let begin = format!("@{}", prefix());
    // Names of others may be any bytes.
    let sockets = std::fs::read("/proc/net/unix")?;
    let sockets = String::from_utf8_lossy(&sockets);
    let names = sockets.lines().filter_map(|line| line.split_whitespace().last());
    let mut jobs: Vec<u32> = names.filter_map(|name| name.strip_prefix(&begin)?.parse().ok()).collect();
    jobs.sort_unstable();
    Ok(jobs)
}

fn prefix() -> String {
    format!("scash-job-{}-", geteuid())
}

fn name(job: u32) -> String {
    format!("{}{job}", prefix())
}

/// A socket of that name which is told who sends.
fn bind(name: &str) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    setsockopt(&socket, sockopt::PassCred, &true)?;
    Ok(socket)
}

/// The next datagram, and who sent it if that is one to be heard.
fn receive(socket: &UnixDatagram) -> io::Result<Option<(Vec<u8>, Option<SocketAddr>)>> {
    let mut bytes = vec![0; MOST];
    let mut room = cmsg_space!(UnixCredentials);
    let (length, is_heard, from) = {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        match recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut room), MsgFlags::empty()) {
            Err(nix::errno::Errno::EAGAIN) => return Ok(None),
            Err(errno) => return Err(errno.into()),
            Ok(message) => {
                let ours = [0, geteuid().as_raw()];
                let is_ours = |part| match part {
                    ControlMessageOwned::ScmCredentials(who) => ours.contains(&who.uid()),
                    _ => false,
                };
                let is_heard = message.cmsgs().is_ok_and(|mut parts| parts.any(is_ours));
                let from = message.address.and_then(|from| from.as_abstract().map(<[u8]>::to_vec));
                (message.bytes, is_heard, from)
            }
        }
    };
    bytes.truncate(length);
    let from = from.filter(|_| is_heard).map(SocketAddr::from_abstract_name).transpose()?;
    Ok(Some((bytes, from)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_job_is_asked_and_answers_and_others_are_not_there() {
        let job = std::process::id();
        let control = Control(bind(&name(job)).unwrap());
        control.0.set_nonblocking(true).unwrap();
        assert!(control.next().is_none());
        assert!(jobs().unwrap().contains(&job));
        let asking = std::thread::spawn(move || [ask(job, &["migrate", "2", "b"]), ask(job, &["status"])]);
        let next = || loop {
            if let Some(request) = control.next() {
                return request;
            }
            std::thread::yield_now();
        };
        let request = next();
        assert_eq!(request.words, ["migrate", "2", "b"]);
        control.answer(&request, Err("there is no host b".to_owned()));
        control.answer(&next(), Ok("é".repeat(MOST)));
        let [refused, long] = asking.join().unwrap();
        assert_eq!(refused, Err("there is no host b".to_owned()));
        assert!(long.unwrap().len() > MOST - 20);
        drop(control);
        assert!(ask(job, &["status"]).unwrap_err().contains("there is no job"));
    }
}
