//! Connections of this host's processes fall silent because the user wants it (`scash run --inject 'cut host
//! b …'`): the kernel throws away what comes on them before TCP sees it. No rights are needed for that, and
//! the processes do not notice. Connections that are made later are not silent.

use nix::errno::Errno;
use nix::sys::socket::{SockaddrStorage, getpeername, getsockname};
use nix::unistd::Pid;
use scash_comm::descriptors::pidfd;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Cuts these processes off from hosts at these addresses, or from all others if none is named. Processes
/// and descriptors that are gone meanwhile are cut off.
pub(super) fn cut(pids: impl Iterator<Item = Pid>, from: &[IpAddr]) -> io::Result<()> {
    for pid in pids {
        for socket in sockets(pid)? {
            if leads_to(&socket, from) {
                silence(&socket)?;
            }
        }
    }
    Ok(())
}

/// The sockets of a process.
fn sockets(pid: Pid) -> io::Result<Vec<OwnedFd>> {
    let process = match pidfd(pid) {
        Err(Errno::ESRCH) => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut all = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))?.flatten() {
        let is_socket =
            fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        match number.filter(|_| is_socket).map(|number| descriptor_of(&process, number)) {
            None | Some(Err(Errno::EBADF | Errno::ESRCH)) => {}
            Some(taken) => all.push(taken?),
        }
    }
    Ok(all)
}

/// A descriptor of another process, as one of ours.
fn descriptor_of(process: &OwnedFd, number: RawFd) -> nix::Result<OwnedFd> {
    // SAFETY: the call takes three numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) };
    let fd = i32::try_from(Errno::result(fd)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel made this descriptor for us just now.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whether the other end is on such a host, and not on this one.
fn leads_to(socket: &OwnedFd, hosts: &[IpAddr]) -> bool {
    let address = |end: nix::Result<SockaddrStorage>| {
        let end = end.ok()?;
        let v4 = end.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| end.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    };
    let ends = [address(getsockname(socket.as_raw_fd())), address(getpeername(socket.as_raw_fd()))];
    let [Some(here), Some(there)] = ends else { return false };
    here != there && (hosts.is_empty() || hosts.contains(&there))
}

/// Has the kernel throw away what comes.
fn silence(socket: &OwnedFd) -> io::Result<()> {
    // "Return 0": keep no byte of any packet.
    let mut nothing = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut nothing };
    let length = libc::socklen_t::try_from(size_of_val(&program)).unwrap_or(0);
    // SAFETY: the kernel reads the program and its one instruction, both of which outlive the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            length,
        )
    };
    Errno::result(done)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::getpid;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    /// Both ends of a connection between two addresses of this host.
    fn connection(to: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((to, 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        near.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        (near, far)
    }

    #[test]
    fn connections_to_hosts_that_are_named_fall_silent_and_others_do_not() {
        // The system connects from 127.0.0.1 to either.
        let [(mut cut_off, mut far), (mut other, mut near)] = ["127.0.0.2", "127.0.0.1"].map(connection);
        cut([getpid()].into_iter(), &["127.0.0.2".parse().unwrap()]).unwrap();
        far.write_all(b"lost").unwrap();
        near.write_all(b"kept").unwrap();
        assert!(cut_off.read(&mut [0; 4]).is_err());
        let mut bytes = [0; 4];
        other.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"kept");
    }

    #[test]
    fn a_process_that_is_gone_has_no_connections() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        cut([Pid::from_raw(child.id() as i32)].into_iter(), &[]).unwrap();
    }
}
