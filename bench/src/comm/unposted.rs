//! Messages of random sizes that nobody has posted a receive for when they come (MMP's random sizes).
//!
//! Rank 0 begins many sends at once; rank 1 hears, when all have begun, that it may receive, and takes them
//! one by one. With active zero copy they are all there by then, in memory that was made for each; with
//! rendezvous each long one has still to be asked for, a round trip.

use crate::exchange::{Outgoing, exchange};
use crate::record::{Figures, samples, timed};
use crate::transfer::two;
use crate::{Error, Result};
use scash_bench::size;
use scash_messages::{Joined, Messages};

/// Messages of random sizes that come before their receives are posted (MMP's random sizes)
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Bytes of the longest
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "64k")]
    most: usize,

    /// Messages at once
    #[arg(long, value_name = "K", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,

    /// Samples
    #[arg(long, value_name = "R", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

const MESSAGE: u16 = 1;
const BEGUN: u16 = 2;
const DONE: u16 = 3;

impl Options {
    /// Messages a second.
    pub(crate) fn measure(&self, joined: &Joined) -> Result<Figures> {
        let messages = joined.messages();
        two(messages)?;
        let most = self.most.max(1);
        let mine = vec![7; most];
        let mut sizes = Random(0x9e37_79b9_7f4a_7c15);
        let mut rates = Vec::new();
        for round in 0..=self.rounds {
            let lens: Vec<usize> = (0..self.count).map(|_| 1 + sizes.below(most)).collect();
            messages.barrier()?;
            let time = timed(|| match messages.rank() {
                0 => send(messages, &mine, &lens),
                _ => receive(joined, &lens),
            })?;
            if round > 0 {
                rates.push(f64::from(self.count) / time * 1e6);
            }
        }
        Ok(Figures::default().figure("messages_s", samples(rates)?.median()))
    }
}

fn send(messages: &dyn Messages, mine: &[u8], lens: &[usize]) -> Result<()> {
    let sends: Vec<_> =
        lens.iter().map(|len| Outgoing { to: 1, tag: MESSAGE, bytes: &mine[..*len] }).collect();
    exchange(messages, &mut [], &sends, || Ok(messages.send_bytes(1, BEGUN, &[])?))?;
    Ok(messages.receive_bytes(1, DONE, &mut [])?)
}

fn receive(joined: &Joined, lens: &[usize]) -> Result<()> {
    let messages = joined.messages();
    messages.receive_bytes(0, BEGUN, &mut [])?;
    let mut bytes = Vec::new();
    for len in lens {
        bytes = match joined {
            // The memory that was made for it when it came.
            Joined::Scash(world) => {
                world.recycle(bytes);
                world.receive_owned(Some(0), Some(MESSAGE.into()))?.bytes
            }
            Joined::Mpi(_) => {
                let mut bytes = vec![0; *len];
                messages.receive_bytes(0, MESSAGE, &mut bytes)?;
                bytes
            }
        };
        if bytes.len() != *len || bytes.last() != Some(&7) {
            return Err(Error::WrongData);
        }
    }
    Ok(messages.send_bytes(0, DONE, &[])?)
}

/// A sequence of numbers that all ranks know (xorshift*).
struct Random(u64);

impl Random {
    /// Less than `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let [.., a, b, c, d] = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
        u32::from_le_bytes([a, b, c, d]) as usize % end
    }
}
