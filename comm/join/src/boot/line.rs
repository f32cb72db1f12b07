//! The two system calls of the boot line: one packet out, one packet in.

use super::frame::{HEADER, MAX_FDS, MAX_PAYLOAD, Packet};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, sendmsg,
    socketpair,
};
use scash_comm::descriptors::out_of_the_way;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A new line: two ends, both closed on exec.
pub(super) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
}

/// Whether a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocking {
    /// It may.
    Yes,
    /// It returns `EAGAIN` instead.
    No,
}

impl Blocking {
    fn flags(self) -> MsgFlags {
        if self == Blocking::No { MsgFlags::MSG_DONTWAIT } else { MsgFlags::empty() }
    }
}

/// Sends one packet.
pub(super) fn send<F: AsRawFd>(
    line: BorrowedFd<'_>,
    packet: &Packet<'_, F>,
    wait: Blocking,
) -> Result<(), Errno> {
    let fds: Vec<RawFd> = packet.fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&fds)];
    let control: &[ControlMessage<'_>] = if fds.is_empty() { &[] } else { &rights };
    let pieces = [IoSlice::new(&packet.header), IoSlice::new(packet.payload)];
    // A peer that is gone is an error to be returned, not a signal.
    let flags = MsgFlags::MSG_NOSIGNAL | wait.flags();
    retry(&[Errno::EINTR], || sendmsg::<()>(line.as_raw_fd(), &pieces, control, flags, None))?;
    Ok(())
}

/// A packet as it came in.
#[derive(Debug)]
pub(super) enum Received {
    /// These many bytes of the buffer, and these descriptors (closed on exec).
    Packet(usize, Vec<OwnedFd>),
    /// The packet did not fit the buffer: no correct sender makes such.
    TooLong,
    /// Descriptors were lost: this process has too many open files.
    DescriptorsLost,
    /// The other end is closed.
    Closed,
}

/// Room for one packet.
pub(super) fn buffer() -> Vec<u8> {
    vec![0; HEADER + MAX_PAYLOAD]
}

/// Receives one packet. Whatever the other end sent before it closed is delivered before
/// [`Received::Closed`].
pub(super) fn receive(line: BorrowedFd<'_>, buffer: &mut [u8], wait: Blocking) -> Result<Received, Errno> {
    let mut control = nix::cmsg_space!([RawFd; MAX_FDS]);
    // If the other end closed with packets of ours unread, the kernel says "connection reset" once, ahead of
    // the packets that are still here for us.
    retry(&[Errno::EINTR, Errno::ECONNRESET], || {
        let mut pieces = [IoSliceMut::new(buffer)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC | wait.flags();
        let message = recvmsg::<()>(line.as_raw_fd(), &mut pieces, Some(&mut control), flags)?;
        let Ok(parts) = message.cmsgs() else { return Ok(Received::DescriptorsLost) };
        let mut fds = Vec::new();
        for part in parts {
            if let ControlMessageOwned::ScmRights(raw) = part {
                fds.extend(raw.into_iter().map(adopt));
            }
        }
        if message.flags.contains(MsgFlags::MSG_TRUNC) {
            return Ok(Received::TooLong);
        }
        // Both sides' packets have a header, so that nothing at all means the end.
        Ok(if message.bytes == 0 { Received::Closed } else { Received::Packet(message.bytes, fds) })
    })
}

fn adopt(fd: RawFd) -> OwnedFd {
    // SAFETY: the kernel made this descriptor for us in `recvmsg`, whose result is read once: nobody else
    // owns it.
    out_of_the_way(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Calls again while the error is one of those that pass.
fn retry<T>(passing: &[Errno], mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(errno) if passing.contains(&errno) => {}
            other => return other,
        }
    }
}
