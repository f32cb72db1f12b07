//! What all ranks do together: barriers, and messages from everybody to everybody.

use crate::Result;
use crate::record::{Figures, samples, timed};
use scash_bench::size;
use scash_messages::Messages;

/// Barriers of all ranks (MMP's Table 2)
#[derive(clap::Args)]
pub(crate) struct Barrier {
    /// Samples
    #[arg(long, value_name = "R", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Barriers in a sample
    #[arg(long, value_name = "K", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    length: u32,
}

impl Barrier {
    /// Microseconds of a barrier.
    pub(crate) fn measure(&self, messages: &dyn Messages) -> Result<Figures> {
        let mut times = Vec::new();
        messages.barrier()?;
        for _ in 0..self.rounds {
            let time = timed(|| Ok((0..self.length).try_for_each(|_| messages.barrier())?))?;
            times.push(time / f64::from(self.length));
        }
        Ok(Figures::default().times("barrier", &samples(times)?))
    }
}

/// One message from every rank to every rank, of each length (MMP's Figure 8)
#[derive(clap::Args)]
pub(crate) struct AllToAll {
    /// Bytes of a message: one or more lengths, such as 8,4k,64k
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = size::parse, default_value = "4k")]
    pub(crate) lengths: Vec<usize>,

    /// Samples
    #[arg(long, value_name = "R", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Bytes that each rank sends in a sample, about, with some for each message.
const SAMPLE_BYTES: usize = 400_000;
const OVERHEAD: usize = 8_000;

impl AllToAll {
    /// Microseconds of all these messages, and megabytes a second of all of them together (what a rank sends
    /// itself does not count).
    pub(crate) fn measure(&self, messages: &dyn Messages, len: usize) -> Result<Figures> {
        let (rank, size) = (messages.rank(), messages.size() as usize);
        let own = rank.to_le_bytes()[0];
        let (mine, mut theirs) = (vec![own; len * size], vec![0; len * size]);
        let repeats = (SAMPLE_BYTES / (len + OVERHEAD) / size).max(1);
        let mut times = Vec::new();
        for round in 0..=self.rounds {
            messages.barrier()?;
            let time = timed(|| Ok((0..repeats).try_for_each(|_| messages.all_to_all(&mine, &mut theirs))?))?;
            if round > 0 {
                times.push(time / repeats as f64);
            }
        }
        let is_right = |(part, from): (&[u8], u32)| part.iter().all(|byte| *byte == from.to_le_bytes()[0]);
        if !theirs.chunks(len.max(1)).zip(0..).all(is_right) {
            return Err(crate::Error::WrongData);
        }
        let times = samples(times)?;
        let bytes = (len * size * (size - 1)) as f64;
        Ok(Figures::default().times("all_to_all", &times).figure("rate_mb_s", bytes / times.median()))
    }
}
