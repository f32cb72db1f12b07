//! A request and its reply on a bare TCP connection of this host, both ends spinning: what a get over `tcp` cannot beat.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

/// Bytes of a request: those of a get of one range.
const REQUEST: usize = 32;
/// Vain looks after which an end offers its core, now and then.
const POLITE_EVERY: u32 = 32;

/// Microseconds of a request and a reply of `reply` bytes, over `length` of them.
pub(crate) fn round_trip(length: u32, reply: usize) -> Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::scope(|scope| {
        let server = scope.spawn(move || -> Result<()> {
            let (mut request, answer) = ([0; REQUEST], vec![1; reply]);
            let mut peer = prepared(listener.accept()?.0)?;
            for _ in 0..=length {
                receive(&mut peer, &mut request)?;
                peer.write_all(&answer)?;
            }
            Ok(())
        });
        let mut answer = vec![0; reply];
        let mut peer = prepared(TcpStream::connect(address)?)?;
        let mut ask = || -> Result<()> {
            peer.write_all(&[2; REQUEST])?;
            receive(&mut peer, &mut answer)
        };
        // The first one finds a server that has not begun to spin.
        ask()?;
        let start = Instant::now();
        (0..length).try_for_each(|_| ask())?;
        let time = start.elapsed().as_secs_f64() * 1e6;
        match server.join() {
            Ok(served) => served?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        Ok(time / f64::from(length))
    })
}

fn prepared(stream: TcpStream) -> Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Spins until `bytes` are full. (What is written fits the socket's buffer.)
fn receive(stream: &mut TcpStream, bytes: &mut [u8]) -> Result<()> {
    let (mut done, mut looks) = (0, 0u32);
    while done < bytes.len() {
        match stream.read(&mut bytes[done..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                looks += 1;
                if looks.is_multiple_of(POLITE_EVERY) {
                    thread::yield_now();
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_round_trip_takes_some_time_and_ends() {
        assert!(super::round_trip(3, 4096).unwrap() > 0.0);
    }
}
