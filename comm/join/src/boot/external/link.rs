//! The connection between the lead of a host and rank 0: reports one way, decisions the other, each behind
//! its length (`u32`, little-endian).

use nix::sys::socket::{setsockopt, sockopt};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Longest frame: a packet of a boot line, and what says whose it is.
const LONGEST: usize = 128 << 10;
/// How long a host that is cut off or switched off counts as there, in seconds: a few of the kernel's own
/// questions.
const SILENCE: u32 = 20;
/// How often the kernel asks.
const BEAT: u32 = 3;

/// One end.
#[derive(Debug)]
pub(super) struct LeadLink {
    stream: TcpStream,
    received: Vec<u8>,
    /// Bytes that the socket had no room for.
    queue: Vec<u8>,
    is_open: bool,
}

impl LeadLink {
    /// That of a connection whose other end has proved that it belongs to the job.
    pub(super) fn new(stream: TcpStream) -> io::Result<LeadLink> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        // Both ends are silent as long as nothing happens, so the kernels must say that they are there.
        setsockopt(&stream, sockopt::KeepAlive, &true)?;
        setsockopt(&stream, sockopt::TcpKeepIdle, &BEAT)?;
        setsockopt(&stream, sockopt::TcpKeepInterval, &BEAT)?;
        setsockopt(&stream, sockopt::TcpKeepCount, &(SILENCE / BEAT))?;
        setsockopt(&stream, sockopt::TcpUserTimeout, &(SILENCE * 1000))?;
        Ok(LeadLink { stream, received: Vec::new(), queue: Vec::new(), is_open: true })
    }

    /// Whether the other end is there.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether something waits for room.
    pub(super) fn is_full(&self) -> bool {
        self.is_open && !self.queue.is_empty()
    }

    /// Sends a frame, or keeps it until there is room.
    pub(super) fn send(&mut self, frame: &[u8]) {
        let length = u32::try_from(frame.len()).expect("no packet is so long");
        self.queue.extend(length.to_le_bytes());
        self.queue.extend_from_slice(frame);
        self.flush();
    }

    /// Sends as much as there is room for. That nobody is there any more shows when it is read.
    pub(super) fn flush(&mut self) {
        while !self.queue.is_empty() {
            match self.stream.write(&self.queue) {
                Ok(count) => drop(self.queue.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return self.queue.clear(),
            }
        }
    }

    /// Waits until all is sent, or the time is up.
    pub(super) fn drain(&mut self, deadline: Instant) {
        while self.is_full() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
            self.flush();
        }
    }

    /// All frames that have come. When nothing can come any more, or no frame can begin so, the link is not
    /// open.
    pub(super) fn receive(&mut self) -> Vec<Vec<u8>> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(count) if count > 0 => self.received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Ok(_) | Err(_) => {
                    self.is_open = false;
                    break;
                }
            }
        }
        let (frames, done) = cut(&self.received).unwrap_or_else(|| {
            self.is_open = false;
            (Vec::new(), self.received.len())
        });
        self.received.drain(..done);
        frames
    }
}

impl AsFd for LeadLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The whole frames at the front of these bytes, and how many bytes they take. `None`: one would be too long.
fn cut(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let (mut frames, mut done) = (Vec::new(), 0);
    while let Some((length, rest)) = bytes[done..].split_first_chunk() {
        let length = u32::from_le_bytes(*length) as usize;
        if length > LONGEST {
            return None;
        }
        let Some(frame) = rest.get(..length) else { break };
        frames.push(frame.to_vec());
        done += 4 + length;
    }
    Some((frames, done))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::TcpListener;

    fn pair() -> (LeadLink, LeadLink) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (LeadLink::new(one).unwrap(), LeadLink::new(listener.accept().unwrap().0).unwrap())
    }

    #[test]
    fn frames_arrive_whole_and_in_order_and_then_the_end() {
        let (mut one, mut other) = pair();
        let frames: Vec<Vec<u8>> = (0_u8..200).map(|i| vec![i; usize::from(i) * 300]).collect();
        frames.iter().for_each(|frame| one.send(frame));
        let mut came = Vec::new();
        while came.len() < frames.len() {
            came.extend(other.receive());
            one.flush();
        }
        assert!(came == frames && other.is_open());
        drop(one);
        while other.is_open() {
            assert!(other.receive().is_empty());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_cut_into_frames_or_refused(bytes in prop::collection::vec(0_u8..4, 0..64)) {
            if let Some((frames, done)) = cut(&bytes) {
                prop_assert_eq!(done, frames.iter().map(|frame| frame.len() + 4).sum::<usize>());
            }
        }
    }
}
