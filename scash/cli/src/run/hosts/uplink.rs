//! An agent's way to the launcher: its stdout, on which several threads send frames, and the room that there
//! is for output.

use super::frames::{MOST_OUTPUT, Up};
use crate::run::output::{Sink, Stream};
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Most bytes of a stream that are on their way.
pub(super) const WINDOW: usize = 256 << 10;

/// The way to the launcher.
#[derive(Debug)]
pub(super) struct Uplink {
    pipe: Mutex<File>,
    /// One a stream.
    rooms: [StreamCredit; 2],
}

/// How much of a stream may be sent.
#[derive(Debug)]
struct StreamCredit {
    /// `None`: nobody reads it any more.
    bytes: Mutex<Option<usize>>,
    changed: Condvar,
}

/// A thread that panicked while it held the lock has left a number that is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Uplink {
    pub(super) fn new(pipe: File) -> Arc<Uplink> {
        let room = || StreamCredit { bytes: Mutex::new(Some(WINDOW)), changed: Condvar::new() };
        Arc::new(Uplink { pipe: Mutex::new(pipe), rooms: [room(), room()] })
    }

    /// Sends a frame. Waits while the launcher does not read, which it always does.
    pub(super) fn send(&self, up: &Up) -> io::Result<()> {
        lock(&self.pipe).write_all(&up.encode())
    }

    /// So many bytes of a stream are out.
    pub(super) fn taken(&self, stream: Stream, bytes: u32) {
        let room = self.room(stream);
        if let Some(left) = &mut *lock(&room.bytes) {
            *left = left.saturating_add(bytes as usize).min(WINDOW);
        }
        room.changed.notify_all();
    }

    /// Nobody reads a stream any more: whoever writes to it is to learn that.
    pub(super) fn shut(&self, stream: Stream) {
        let room = self.room(stream);
        *lock(&room.bytes) = None;
        room.changed.notify_all();
    }

    fn room(&self, stream: Stream) -> &StreamCredit {
        &self.rooms[stream as usize - 1]
    }
}

/// A stream of this host's ranks, served by one thread.
#[derive(Debug)]
pub(super) struct Output {
    uplink: Arc<Uplink>,
    stream: Stream,
    /// Closed when nothing more is to be sent.
    _done: File,
}

impl Output {
    pub(super) fn new(uplink: Arc<Uplink>, stream: Stream, done: File) -> Output {
        Output { uplink, stream, _done: done }
    }

    /// Takes room for some of so many bytes; waits until there is any.
    fn take_room(&self, wanted: usize) -> io::Result<usize> {
        let room = self.uplink.room(self.stream);
        let mut left = lock(&room.bytes);
        loop {
            match &mut *left {
                None => return Err(io::ErrorKind::BrokenPipe.into()),
                Some(0) => left = room.changed.wait(left).unwrap_or_else(PoisonError::into_inner),
                Some(most) => {
                    let length = wanted.min(*most).min(MOST_OUTPUT);
                    *most -= length;
                    return Ok(length);
                }
            }
        }
    }

    fn send(&self, rank: u32, bytes: &[u8]) -> io::Result<()> {
        self.uplink.send(&Up::Output { stream: self.stream, rank, bytes: bytes.to_vec() })
    }
}

impl Sink for Output {
    fn take(&mut self, rank: u32, mut bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return self.send(rank, bytes);
        }
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(self.take_room(bytes.len())?);
            self.send(rank, part)?;
            bytes = rest;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};
    use std::thread;

    #[test]
    fn output_waits_for_room_and_learns_that_nobody_reads() {
        let mut file = tempfile::tempfile().unwrap();
        let uplink = Uplink::new(file.try_clone().unwrap());
        let mut output = Output::new(uplink.clone(), Stream::Err, tempfile::tempfile().unwrap());
        let writer = thread::spawn(move || output.take(3, &vec![7; 2 * WINDOW]));
        uplink.taken(Stream::Out, 1); // means nothing to it
        uplink.taken(Stream::Err, 10);
        uplink.shut(Stream::Err);
        assert_eq!(writer.join().unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        file.rewind().unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert!(bytes.iter().filter(|byte| **byte == 7).count() <= WINDOW + 10);
    }
}
