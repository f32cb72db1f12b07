//! A bare TCP connection, both ends spinning: what message passing and gets over `tcp` cannot beat.

use crate::cores;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage};
use scash_comm::tcp::Congestion;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

/// Bytes of a request: those of a get of one range over TCP,
pub const REQUEST: usize = 32;
/// and of the header of its reply.
pub const HEAD: usize = 16;
/// Vain looks after which an end offers its core, now and then.
const POLITE_EVERY: u32 = 32;

/// Listens at an address, for connections that send as fast as those of ranks.
///
/// # Errors
/// The system refuses.
pub fn listen(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    congestion().set(&listener).map_err(Error::other)?;
    Ok(listener)
}

/// Connects to such a listener.
///
/// # Errors
/// The system refuses.
pub fn connect(address: SocketAddr) -> Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket::socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    congestion().set(&socket).map_err(Error::other)?;
    socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    Ok(socket.into())
}

fn congestion() -> Congestion {
    Congestion::read(std::env::var("SCASH_CONGESTION").ok())
}

/// An end of a connection. Whoever waits there spins.
#[derive(Debug)]
pub struct SocketEnd(TcpStream);

impl SocketEnd {
    /// An end that sends without delay.
    ///
    /// # Errors
    /// The system does not make it so.
    pub fn new(stream: TcpStream) -> Result<SocketEnd> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(SocketEnd(stream))
    }

    /// Writes `bytes`.
    ///
    /// # Errors
    /// The other end is gone.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.exchange(&mut [], bytes)
    }

    /// Reads until `into` is full.
    ///
    /// # Errors
    /// The other end is gone.
    pub fn receive(&mut self, into: &mut [u8]) -> Result<()> {
        self.exchange(into, &[])
    }

    /// Reads until `into` is full and writes `bytes`, each as soon as it goes.
    ///
    /// # Errors
    /// The other end is gone.
    pub fn exchange(&mut self, mut into: &mut [u8], mut bytes: &[u8]) -> Result<()> {
        let mut looks = 0u32;
        while !(into.is_empty() && bytes.is_empty()) {
            let mut moved = 0;
            if !bytes.is_empty() {
                let written = ready(self.0.write(bytes))?;
                bytes = &bytes[written..];
                moved += written;
            }
            if !into.is_empty() {
                let read = ready(self.0.read(into))?;
                into = &mut into[read..];
                moved += read;
            }
            looks += u32::from(moved == 0);
            if moved == 0 && looks.is_multiple_of(POLITE_EVERY) {
                thread::yield_now();
            }
        }
        Ok(())
    }
}

/// The bytes that went, maybe none.
fn ready(done: Result<usize>) -> Result<usize> {
    match done {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
        done => done,
    }
}

/// Microseconds of a request and a reply of `reply` bytes, over `length` of them.
///
/// # Errors
/// The system gives no such connection.
pub fn round_trip(length: u32, reply: usize) -> Result<f64> {
    let listener = listen((Ipv4Addr::LOCALHOST, 0).into())?;
    let address = listener.local_addr()?;
    thread::scope(|scope| {
        let server = scope.spawn(move || -> Result<()> {
            cores::take(1, 2);
            let (mut request, answer) = ([0; REQUEST], vec![1; reply]);
            let mut peer = SocketEnd::new(listener.accept()?.0)?;
            for _ in 0..=length {
                peer.receive(&mut request)?;
                peer.send(&answer)?;
            }
            Ok(())
        });
        let client = scope.spawn(move || -> Result<f64> {
            cores::take(0, 2);
            let mut answer = vec![0; reply];
            let mut peer = SocketEnd::new(connect(address)?)?;
            let mut ask = || -> Result<()> {
                peer.send(&[2; REQUEST])?;
                peer.receive(&mut answer)
            };
            // The first one finds a server that has not begun to spin.
            ask()?;
            let start = Instant::now();
            (0..length).try_for_each(|_| ask())?;
            Ok(start.elapsed().as_secs_f64() * 1e6)
        });
        joined(server)?;
        Ok(joined(client)? / f64::from(length))
    })
}

/// What a thread has returned.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_takes_some_time_and_ends() {
        assert!(round_trip(3, 4096).unwrap() > 0.0);
    }

    #[test]
    fn more_than_sockets_hold_crosses_in_both_directions_at_once() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let here = listener.accept().unwrap().0;
        thread::scope(|scope| {
            for (stream, own) in [(here, 1), (there, 2)] {
                scope.spawn(move || {
                    let mut into = vec![0; 16 << 20];
                    SocketEnd::new(stream).unwrap().exchange(&mut into, &vec![own; 16 << 20]).unwrap();
                    assert!(into.iter().all(|byte| *byte == 3 - own));
                });
            }
        });
    }
}
