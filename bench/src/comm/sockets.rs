//! What TCP itself can do: the same measurements on a bare connection between two ranks, by the same waiting.

use crate::transfer::{Pair, two};
use crate::{Error, Result};
use scash_bench::bare::{self, SocketEnd};
use scash_messages::Messages;
use std::net::{SocketAddr, ToSocketAddrs};

/// The address that a rank is reached by, which the launcher chooses on several hosts.
const INTERFACE: &str = "SCASH_INTERFACE";
/// Room for an address as text.
const ADDRESS: usize = 64;

/// One of two ranks that are connected.
pub(crate) struct Sockets {
    rank: u32,
    pub(crate) end: SocketEnd,
}

impl Sockets {
    /// Connects two ranks, which tell each other where.
    pub(crate) fn connect(messages: &dyn Messages) -> Result<Self> {
        two(messages)?;
        let rank = messages.rank();
        let stream = if rank == 0 {
            let own = std::env::var(INTERFACE).unwrap_or_else(|_| "127.0.0.1".to_owned());
            let own =
                (own.as_str(), 0).to_socket_addrs().map_err(Error::Bare)?.next().ok_or(Error::WrongData)?;
            let listener = bare::listen(own).map_err(Error::Bare)?;
            let address = listener.local_addr().map_err(Error::Bare)?.to_string();
            let mut text = [b' '; ADDRESS];
            text[..address.len()].copy_from_slice(address.as_bytes());
            messages.send_bytes(1, 0, &text)?;
            listener.accept().map(|(stream, _)| stream)
        } else {
            let mut text = [0; ADDRESS];
            messages.receive_bytes(0, 0, &mut text)?;
            let address = String::from_utf8_lossy(&text).trim().parse::<SocketAddr>();
            bare::connect(address.map_err(|_| Error::WrongData)?)
        };
        let end = stream.and_then(SocketEnd::new).map_err(Error::Bare)?;
        Ok(Self { rank, end })
    }
}

impl Pair for Sockets {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn meet(&mut self) -> Result<()> {
        self.end.exchange(&mut [0], &[0]).map_err(Error::Bare)
    }

    fn ping(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<()> {
        let done = if self.rank == 0 {
            self.end.send(mine).and_then(|()| self.end.receive(theirs))
        } else {
            self.end.receive(theirs).and_then(|()| self.end.send(mine))
        };
        done.map_err(Error::Bare)
    }

    fn stream(&mut self, times: usize, mine: &[u8], rooms: &mut [u8]) -> Result<()> {
        // A message a call, as they are sent one by one; both directions take turns by messages.
        let mut rooms = rooms.chunks_mut(mine.len());
        let received = rooms.len() > 0;
        let mut left = times;
        while left > 0 || rooms.len() > 0 {
            let bytes = if left > 0 { mine } else { &[] };
            left = left.saturating_sub(1);
            self.end.exchange(rooms.next().unwrap_or_default(), bytes).map_err(Error::Bare)?;
        }
        let (heard, said): (&mut [u8], &[u8]) =
            (if times > 0 { &mut [0] } else { &mut [] }, if received { &[0] } else { &[] });
        self.end.exchange(heard, said).map_err(Error::Bare)
    }
}
