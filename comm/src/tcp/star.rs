//! Connections of rank 0 with some other ranks, made before any of them has an endpoint, with the handshake
//! that guards all connections here.

use super::calling::connect_all;
use super::congestion::Congestion;
use super::handshake::Job;
use super::reception::Reception;
use crate::{Error, Result, Secret};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// What is said on these connections, in the place where those of an endpoint have the number of their ranks'
/// agreement: nobody takes one for the other.
const ABI: u32 = 0x5C_A5_00_01;

/// The address of this host that the user means, as an endpoint understands it.
///
/// # Errors
/// Why it names none.
pub fn address_of(text: &str) -> std::result::Result<IpAddr, String> {
    super::interface::address_of(text)
}

fn job(size: u32, secret: &Secret) -> Job {
    // What ranks tell each other here are addresses, which their own connections do not need to be secret.
    Job {
        size,
        abi: ABI,
        secret: secret.clone(),
        encrypted: false,
        congestion: Congestion::System,
        comes_back: false,
    }
}

/// At rank 0: receives these other ranks of `size`, in their order.
///
/// # Errors
/// One did not come in time.
pub fn receive(
    listener: TcpListener,
    others: &[u32],
    size: u32,
    secret: &Secret,
    deadline: Instant,
) -> Result<Vec<TcpStream>> {
    let job = job(size, secret);
    let reception = Reception::new(&job, 0, others.iter().copied(), listener);
    let arrived = reception.receive_all(deadline, &AtomicBool::new(false)).map_err(never_given_up)?;
    Ok(arrived.into_iter().map(|(_, links)| links.stream.socket.into()).collect())
}

/// At rank `me`: connects to rank 0.
///
/// # Errors
/// It could not be reached in time.
pub fn call(
    address: SocketAddr,
    me: u32,
    size: u32,
    secret: &Secret,
    deadline: Instant,
) -> Result<TcpStream> {
    let job = job(size, secret);
    let made = connect_all(&job, me, &[(0, address)], deadline, &AtomicBool::new(false));
    let (_, links) = made.map_err(never_given_up)?.pop().expect("one was called");
    Ok(links.stream.socket.into())
}

fn never_given_up(error: Option<Error>) -> Error {
    error.expect("nobody gives up for somebody else's reason")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use std::io::{Read, Write};
    use std::time::Duration;

    #[test]
    fn rank_0_gets_each_caller_in_its_place_and_strangers_get_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let secret = Secret::random().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let caller = |me: u32, secret: Secret| {
            std::thread::spawn(move || {
                let mut stream = call(address, me, 6, &secret, deadline)?;
                stream.write_all(&[u8::try_from(me).unwrap()]).unwrap();
                Ok::<_, Error>(())
            })
        };
        let stranger = caller(4, Secret::random().unwrap());
        let callers = [caller(5, secret.clone()), caller(2, secret.clone())];
        let streams = receive(listener, &[2, 5], 6, &secret, deadline).unwrap();
        let said = streams.into_iter().map(|mut stream| {
            let mut byte = [0];
            stream.set_nonblocking(false).unwrap();
            stream.read_exact(&mut byte).unwrap();
            byte[0]
        });
        assert_eq!(said.collect::<Vec<_>>(), [2, 5]);
        callers.into_iter().for_each(|caller| caller.join().unwrap().unwrap());
        stranger.join().unwrap().unwrap_err();
    }
}
