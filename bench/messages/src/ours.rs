//! Over scash: nothing but other types of the same arguments.

use crate::{Messages, Request, StartedOperation};
use scash::runtime::MessageJob;
use scash_comm::{Error, Result};
use scash_mp::{Collective, Communicator};

/// What has a communicator.
trait Ours {
    fn communicator(&self) -> &Communicator;

    fn checkpoint(&self) -> Result<()> {
        Ok(())
    }
}

impl Ours for Communicator {
    fn communicator(&self) -> &Communicator {
        self
    }
}

impl Ours for MessageJob {
    fn communicator(&self) -> &Communicator {
        self
    }

    fn checkpoint(&self) -> Result<()> {
        if self.comes_back() { MessageJob::checkpoint(self) } else { Ok(()) }
    }
}

impl<T: Ours> Messages for T {
    fn rank(&self) -> u32 {
        self.communicator().rank()
    }

    fn size(&self) -> u32 {
        self.communicator().size()
    }

    fn send_bytes(&self, to: u32, tag: u16, bytes: &[u8]) -> Result<()> {
        self.communicator().send(to, tag.into(), bytes)
    }

    fn receive_bytes(&self, from: u32, tag: u16, into: &mut [u8]) -> Result<()> {
        let status = self.communicator().receive(Some(from), Some(tag.into()), into)?;
        is_whole(status.len, into.len())
    }

    unsafe fn start_send(&self, to: u32, tag: u16, bytes: *const u8, len: usize) -> Result<Request> {
        // SAFETY: the caller's promise.
        let request = unsafe { self.communicator().start_send(to, tag.into(), bytes, len) }?;
        Ok(Request(StartedOperation::Ours(request)))
    }

    unsafe fn start_receive(&self, from: u32, tag: u16, into: *mut u8, len: usize) -> Result<Request> {
        // SAFETY: the caller's promise.
        let request = unsafe { self.communicator().start_receive(Some(from), Some(tag.into()), into, len) }?;
        Ok(Request(StartedOperation::Ours(request)))
    }

    fn wait(&self, request: Request) -> Result<()> {
        match request.0 {
            StartedOperation::Ours(request) => self.communicator().wait(request).map(drop),
            StartedOperation::Mpi(_) => Err(foreign()),
        }
    }

    fn test(&self, request: Request) -> Result<Option<Request>> {
        let StartedOperation::Ours(mut request) = request.0 else { return Err(foreign()) };
        let over = self.communicator().test(&mut request)?;
        Ok(if over.is_some() { None } else { Some(Request(StartedOperation::Ours(request))) })
    }

    fn checkpoint(&self) -> Result<()> {
        Ours::checkpoint(self)
    }

    unsafe fn play(&self, collective: &Collective, input: *const u8, output: *mut u8) -> Result<()> {
        // SAFETY: the caller's promise, and the operation is over before this returns.
        let request = unsafe { self.communicator().start(collective, input, output) }?;
        self.communicator().wait(request).map(drop)
    }

    unsafe fn all_to_all_bytes(&self, len: usize, input: *const u8, output: *mut u8) -> Result<()> {
        let lens = vec![len; self.communicator().size() as usize];
        // SAFETY: the caller's promise.
        unsafe { self.play(&Collective::AllToAll { to: lens.clone(), from: lens }, input, output) }
    }
}

/// A message that is shorter than expected would leave numbers of an older one behind it.
fn is_whole(len: usize, room: usize) -> Result<()> {
    if len == room {
        return Ok(());
    }
    Err(Error::Invalid(format!("a message of {len} bytes where one of {room} was expected")))
}

fn foreign() -> Error {
    Error::Invalid("a request of MPI is none of scash".to_owned())
}
