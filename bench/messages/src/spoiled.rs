//! Messages of which some bits are wrong: to see whether a program notices.

use crate::{Messages, Request};
use scash_comm::Result;
use scash_mp::Collective;

/// Messages on their way from this rank, and results of collective operations here, have a wrong bit each if
/// they are not very short.
pub struct Spoiled<'a>(pub &'a dyn Messages);

/// Bytes of the shortest that are spoiled: no count, flag or time is so long.
const LEAST: usize = 64;
/// The wrong bit: in integers and floating-point numbers alike one that matters.
const BYTE: usize = 6;
const BIT: u8 = 1 << 4;

fn spoil(bytes: &mut [u8]) {
    if bytes.len() >= LEAST {
        bytes[BYTE] ^= BIT;
    }
}

/// Spoils what an operation has brought.
///
/// # Safety
/// The bytes are written to, and nobody else uses them.
unsafe fn spoil_at(bytes: *mut u8, len: usize) {
    if len >= LEAST {
        // SAFETY: the caller's promise.
        spoil(unsafe { std::slice::from_raw_parts_mut(bytes, len) });
    }
}

impl Messages for Spoiled<'_> {
    fn rank(&self) -> u32 {
        self.0.rank()
    }

    fn size(&self) -> u32 {
        self.0.size()
    }

    fn send_bytes(&self, to: u32, tag: u16, bytes: &[u8]) -> Result<()> {
        let mut bytes = bytes.to_vec();
        spoil(&mut bytes);
        self.0.send_bytes(to, tag, &bytes)
    }

    fn receive_bytes(&self, from: u32, tag: u16, into: &mut [u8]) -> Result<()> {
        self.0.receive_bytes(from, tag, into)
    }

    unsafe fn start_send(&self, to: u32, tag: u16, bytes: *const u8, len: usize) -> Result<Request> {
        // SAFETY: the caller's promise.
        unsafe { self.0.start_send(to, tag, bytes, len) }
    }

    unsafe fn start_receive(&self, from: u32, tag: u16, into: *mut u8, len: usize) -> Result<Request> {
        // SAFETY: the caller's promise.
        unsafe { self.0.start_receive(from, tag, into, len) }
    }

    fn wait(&self, request: Request) -> Result<()> {
        self.0.wait(request)
    }

    fn test(&self, request: Request) -> Result<Option<Request>> {
        self.0.test(request)
    }

    fn checkpoint(&self) -> Result<()> {
        self.0.checkpoint()
    }

    unsafe fn play(&self, collective: &Collective, input: *const u8, output: *mut u8) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.0.play(collective, input, output) }?;
        let len = match collective {
            Collective::AllReduce { count, reduction } => count * reduction.width(),
            Collective::AllToAll { from, .. } => from.iter().sum(),
            // The others come as they are.
            _ => 0,
        };
        // SAFETY: the operation has written so many bytes there, which the caller has promised.
        unsafe { spoil_at(output, len) };
        Ok(())
    }

    unsafe fn all_to_all_bytes(&self, len: usize, input: *const u8, output: *mut u8) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.0.all_to_all_bytes(len, input, output) }?;
        // SAFETY: as above.
        unsafe { spoil_at(output, len * self.0.size() as usize) };
        Ok(())
    }
}
