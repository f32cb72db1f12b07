//! Whether a host is there, known sooner than by its agent: a TCP connection to the agent, on which the
//! launcher sends a byte now and then. The agent's system acknowledges it, whatever the agent and its ranks
//! do. So a host that is busy, or whose agent is stopped, is there; one that is switched off or cut off is
//! not.
//!
//! The bytes mean nothing, and nobody has to prove anything: whoever answers in an agent's place hides a
//! loss for as long as the pipes do. Where there is no such connection, or it breaks, the pipes tell as
//! ever.

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, connect, setsockopt, socket, sockopt,
};
use scash_comm::tcp::address_of;
use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// How often a host is asked while it may be silent for so long.
const QUESTIONS: u32 = 4;
/// Most connections that an agent keeps: the launcher has one.
const MOST: usize = 4;

/// How long a host may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) struct Heartbeat {
    pub(in crate::run) limit: Duration,
    /// Whether hosts are asked that are not in a network of the launcher's host.
    pub(in crate::run) is_far: bool,
}

impl Heartbeat {
    /// If the user says nothing else.
    pub(in crate::run) const USUAL: Heartbeat =
        Heartbeat { limit: Duration::from_millis(200), is_far: false };

    /// How often hosts are asked.
    pub(super) fn pause(self) -> Duration {
        (self.limit / QUESTIONS).max(Duration::from_millis(5))
    }
}

/// What the launcher knows of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostHealth {
    /// There is no connection yet.
    Unknown,
    /// It answers.
    There,
    /// It has not answered for longer than it may.
    Silent(Duration),
    /// The connection is broken: nothing is known by it any more.
    Broken,
}

/// The launcher's end of the connection to a host.
#[derive(Debug)]
pub(super) struct HeartbeatProbe {
    stream: TcpStream,
    /// When the oldest byte was sent that was not acknowledged when we looked last.
    asked: Option<Instant>,
}

impl HeartbeatProbe {
    /// Begins to connect. `None`: that is impossible.
    pub(super) fn call(address: SocketAddr, heartbeat: Heartbeat) -> Option<HeartbeatProbe> {
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(family, SockType::Stream, flags, None).ok()?;
        setsockopt(&socket, sockopt::DontRoute, &!heartbeat.is_far).ok()?;
        let connected = connect(socket.as_raw_fd(), &SockaddrStorage::from(address));
        if !matches!(connected, Ok(()) | Err(Errno::EINPROGRESS)) {
            return None;
        }
        let stream = TcpStream::from(socket);
        let _ = stream.set_nodelay(true);
        Some(HeartbeatProbe { stream, asked: None })
    }

    /// The address of the host. `None`: there is no connection yet, or none any more.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.stream.peer_addr().ok().map(|address| address.ip())
    }

    /// Looks whether what was sent has been acknowledged, and sends the next byte.
    pub(super) fn turn(&mut self, heartbeat: Heartbeat, now: Instant) -> HostHealth {
        let Ok(info) = info(&self.stream) else { return HostHealth::Broken };
        match info.tcpi_state {
            ESTABLISHED => {}
            SYN_SENT => return HostHealth::Unknown,
            _ => return HostHealth::Broken,
        }
        if info.tcpi_unacked == 0 {
            self.asked = None;
        }
        let since_asked = self.asked.map_or(Duration::ZERO, |asked| now.saturating_duration_since(asked));
        let since_heard = Duration::from_millis(info.tcpi_last_ack_recv.into());
        let round_trip = Duration::from_micros(u64::from(info.tcpi_rtt) + 4 * u64::from(info.tcpi_rttvar));
        let silence = since_asked.min(since_heard);
        if silence > heartbeat.limit.max(QUESTIONS * round_trip) {
            return HostHealth::Silent(silence);
        }
        match self.stream.write(&[0]) {
            Ok(_) => {
                self.asked.get_or_insert(now);
                HostHealth::There
            }
            // Some more are on their way than the system keeps, which says nothing new.
            Err(error) if error.kind() == ErrorKind::WouldBlock => HostHealth::There,
            Err(_) => HostHealth::Broken,
        }
    }
}

/// What the system calls the states of a connection.
const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;

fn info(socket: impl AsFd) -> io::Result<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).unwrap_or(0);
    // SAFETY: the system writes at most `length` bytes to `info`, which has as many.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    Errno::result(done)?;
    // SAFETY: it is a structure of integers, all of which were zero before the system wrote some.
    Ok(unsafe { info.assume_init() })
}

/// The agent's end.
#[derive(Debug)]
pub(super) struct HeartbeatListener {
    listener: TcpListener,
    streams: Vec<TcpStream>,
}

impl HeartbeatListener {
    /// Listens on the interface that ranks of this host listen on, as the user or the agent has said it.
    pub(super) fn new(interface: &str) -> io::Result<HeartbeatListener> {
        let address = address_of(interface).map_err(io::Error::other)?;
        let listener = TcpListener::bind((address, 0))?;
        listener.set_nonblocking(true)?;
        Ok(HeartbeatListener { listener, streams: Vec::new() })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Forgets what has come. The system acknowledges it without that, as long as it has room.
    pub(super) fn turn(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.streams.len() < MOST && stream.set_nonblocking(true).is_ok() {
                self.streams.push(stream);
            }
        }
        self.streams.retain_mut(|stream| {
            let read = stream.read(&mut [0; 4096]);
            matches!(&read, Ok(1..)) || read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;

    const SOON: Heartbeat = Heartbeat { limit: Duration::from_millis(50), is_far: false };

    /// Turns until that is so, for at most 10 s.
    fn until(probe: &mut HeartbeatProbe, is: impl Fn(HostHealth) -> bool) -> HostHealth {
        let started = Instant::now();
        loop {
            let life = probe.turn(SOON, Instant::now());
            if is(life) || started.elapsed() > Duration::from_secs(10) {
                return life;
            }
            sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_host_is_there_whose_agent_does_nothing_until_its_process_ends() {
        let listener = HeartbeatListener::new("127.0.0.1").unwrap();
        let mut probe = HeartbeatProbe::call(listener.address().unwrap(), SOON).unwrap();
        assert_eq!(until(&mut probe, |life| life != HostHealth::Unknown), HostHealth::There);
        for _ in 0..100 {
            sleep(Duration::from_millis(2));
            assert_eq!(probe.turn(SOON, Instant::now()), HostHealth::There);
        }
        drop(listener);
        assert_eq!(until(&mut probe, |life| life == HostHealth::Broken), HostHealth::Broken);
    }

    #[test]
    fn a_launcher_that_was_stopped_for_long_does_not_take_hosts_for_silent() {
        let mut listener = HeartbeatListener::new("127.0.0.1").unwrap();
        let mut probe = HeartbeatProbe::call(listener.address().unwrap(), SOON).unwrap();
        assert_eq!(until(&mut probe, |life| life != HostHealth::Unknown), HostHealth::There);
        for _ in 0..3 {
            listener.turn();
            assert_eq!(probe.turn(SOON, Instant::now() + Duration::from_secs(60)), HostHealth::There);
        }
    }

    #[test]
    fn nobody_is_reached_through_a_gateway_who_is_not_to_be() {
        // Reserved for documentation: in no network of this host.
        let address = "198.51.100.1:9".parse().unwrap();
        assert!(HeartbeatProbe::call(address, Heartbeat::USUAL).is_none());
    }
}
