//! What ranks say to their user at once, while what they print waits for a checkpoint: a socket that all
//! ranks write to, each line a message. It outlives them, and so does what they have said: ranks that are
//! started again come to the same places, and what they say there a second time is no news.

use scash_comm::descriptors::out_of_the_way;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;

/// Bytes of the longest message: more than a socket takes.
const LONGEST: usize = 1 << 20;
/// Lines that are remembered at most.
const MOST: usize = 10_000;

/// See [the module](self).
#[derive(Debug)]
pub(in crate::run) struct UserMessages {
    ours: UnixDatagram,
    /// The ranks' end.
    given: OwnedFd,
    heard: UserMessageLog,
    buffer: Vec<u8>,
}

impl UserMessages {
    pub(super) fn new() -> io::Result<UserMessages> {
        let (ours, given) = UnixDatagram::pair()?;
        ours.set_nonblocking(true)?;
        let given = out_of_the_way(given.into());
        Ok(UserMessages { ours, given, heard: UserMessageLog::default(), buffer: vec![0; LONGEST] })
    }

    /// The descriptor that ranks inherit, and what they are told of it.
    pub(super) fn given(&self) -> io::Result<(RawFd, String)> {
        let number = self.given.as_raw_fd();
        let name = std::fs::read_link(format!("/proc/self/fd/{number}"))?;
        Ok((number, format!("{number}:{}", name.display())))
    }

    /// The next lines that are news; `None` if there are none for now.
    pub(in crate::run) fn next(&mut self) -> Option<String> {
        loop {
            match self.ours.recv(&mut self.buffer) {
                Ok(len) => {
                    let text = String::from_utf8_lossy(&self.buffer[..len]).into_owned();
                    if let Some(news) = self.heard.news(text) {
                        return Some(news);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    /// All ranks were ended, and all that they have said was taken.
    pub(super) fn next_incarnation(&mut self) {
        self.heard.next_incarnation();
    }
}

/// Readable when ranks have said something.
impl AsFd for UserMessages {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ours.as_fd()
    }
}

/// What ranks have said, as a value.
#[derive(Debug, Default)]
struct UserMessageLog {
    /// In former incarnations.
    before: BTreeSet<String>,
    /// In this one.
    now: Vec<String>,
}

impl UserMessageLog {
    /// A message; whole lines if it is news.
    fn news(&mut self, mut text: String) -> Option<String> {
        if !text.ends_with('\n') {
            text.push('\n');
        }
        if self.before.contains(&text) {
            return None;
        }
        if self.now.len() + self.before.len() < MOST {
            self.now.push(text.clone());
        }
        Some(text)
    }

    fn next_incarnation(&mut self) {
        self.before.extend(self.now.drain(..));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_before_a_restart_is_no_news_after_it() {
        let mut heard = UserMessageLog::default();
        let is_news = |heard: &mut UserMessageLog, text: &str| heard.news(text.to_owned()).is_some();
        assert!(is_news(&mut heard, "one\n"));
        assert!(is_news(&mut heard, "one\n"), "a rank may say a thing twice");
        heard.next_incarnation();
        assert!(is_news(&mut heard, "two\n"));
        assert!(!is_news(&mut heard, "one\n"));
        heard.next_incarnation();
        assert!(!is_news(&mut heard, "two\n"));
        assert_eq!(heard.news("three".to_owned()).as_deref(), Some("three\n"), "lines have ends");
    }

    #[test]
    fn no_more_than_so_much_is_remembered() {
        let mut heard = UserMessageLog::default();
        for number in 0..2 * MOST {
            assert!(heard.news(number.to_string()).is_some());
            heard.next_incarnation();
        }
        assert_eq!(heard.before.len(), MOST);
    }
}
