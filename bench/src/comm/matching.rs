//! What a long queue of posted receives costs: messages between two ranks that fit the receive posted last,
//! and then all others from the last to the first.

use crate::exchange::{Incoming, Outgoing, exchange};
use crate::record::{Figures, samples, timed};
use crate::transfer::two;
use crate::{Error, Result};
use scash_messages::Messages;

/// A message among many posted receives, matched in the worst order
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Posted receives before the one that fits: one or more numbers
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "0,10000", value_parser = clap::value_parser!(u16).range(..=30_000))]
    pub(crate) posted: Vec<u16>,

    /// Samples
    #[arg(long, value_name = "R", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Messages there and back in a sample
    #[arg(long, value_name = "K", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    length: u32,
}

const PING: u16 = 0;
const MEET: u16 = 1;
/// Tag of the first receive in the queue.
const FIRST: u16 = 2;

impl Options {
    /// Microseconds of a message one way behind `posted` receives, and of each of these in the opposite
    /// order.
    pub(crate) fn measure(&self, messages: &dyn Messages, posted: u16) -> Result<Figures> {
        two(messages)?;
        let (mut one_way, mut reverse) = (Vec::new(), Vec::new());
        for round in 0..=self.rounds {
            let (ping, drain) = self.sample(messages, posted)?;
            if round > 0 {
                one_way.push(ping);
                reverse.extend((posted > 0).then(|| drain / f64::from(posted)));
            }
        }
        let figures = Figures::default().times("latency", &samples(one_way)?);
        Ok(if posted > 0 { figures.times("reverse", &samples(reverse)?) } else { figures })
    }

    fn sample(&self, messages: &dyn Messages, posted: u16) -> Result<(f64, f64)> {
        let (tags, peer) = (FIRST..FIRST + posted, 1 - messages.rank());
        let mut rooms = vec![[0; 2]; posted.into()];
        let bodies: Vec<[u8; 2]> = tags.clone().map(u16::to_le_bytes).collect();
        let mut receives: Vec<_> = (rooms.iter_mut().zip(tags.clone()))
            .map(|(room, tag)| Incoming { from: peer, tag, into: room })
            .collect();
        let sends: Vec<_> = (bodies.iter().zip(tags).rev())
            .map(|(body, tag)| Outgoing { to: peer, tag, bytes: body })
            .collect();
        let (mut ping, mut start) = (0.0, None);
        exchange(messages, &mut receives, &[], || {
            meet(messages, peer, MEET)?;
            ping = timed(|| (0..self.length).try_for_each(|_| meet(messages, peer, PING)))?;
            meet(messages, peer, MEET)?;
            start = Some(std::time::Instant::now());
            exchange(messages, &mut [], &sends, || Ok(()))
        })?;
        let drain = start.map_or(0.0, |start| start.elapsed().as_secs_f64() * 1e6);
        if rooms == bodies { Ok((ping / 2.0 / f64::from(self.length), drain)) } else { Err(Error::WrongData) }
    }
}

/// A message from rank 0 to rank 1, and one back.
fn meet(messages: &dyn Messages, peer: u32, tag: u16) -> Result<()> {
    if peer == 1 {
        messages.send_bytes(peer, tag, &[1])?;
        Ok(messages.receive_bytes(peer, tag, &mut [0])?)
    } else {
        messages.receive_bytes(peer, tag, &mut [0])?;
        Ok(messages.send_bytes(peer, tag, &[1])?)
    }
}
