//! Messages between two ranks: how long one takes, how many bytes a second arrive of many, and of as many
//! both ways at once.

use crate::exchange::{Incoming, Outgoing, exchange};
use crate::record::{Figures, samples, timed};
use crate::{Error, Result};
use scash_bench::size;
use scash_messages::Messages;

/// Latency, rate, and rate of both ways at once, for each length of message (CLUMP's Table 4 and curves;
/// MMP's Figures 6 and 7)
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Bytes of a message: one or more lengths, such as 8,4k,1M
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = size::parse, default_value = "8")]
    pub(crate) lengths: Vec<usize>,

    /// Samples of each figure
    #[arg(long, value_name = "R", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
}

const PING: u16 = 1;
const STREAM: u16 = 2;
const DONE: u16 = 3;

/// Most bytes of messages that are under way at once when rates are measured, and the bounds of their number.
const WINDOW_BYTES: usize = 1 << 20;
const WINDOW: (usize, usize) = (4, 64);
/// Bytes, with [`OVERHEAD`] for each message, that make a sample long enough to be timed.
const SAMPLE_BYTES: usize = 200_000;
const OVERHEAD: usize = 800;

/// Two ranks with a connection of some kind. Rank 0 takes the times.
pub(crate) trait Pair {
    /// This rank, 0 or 1.
    fn rank(&self) -> u32;

    /// Returns when both have come here.
    fn meet(&mut self) -> Result<()>;

    /// A message to the other rank, and then one from there; for rank 1 the other way round.
    fn ping(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<()>;

    /// Sends `mine` so many times, and receives as many messages as `rooms` has space for; returns when both
    /// ranks have done that.
    fn stream(&mut self, times: usize, mine: &[u8], rooms: &mut [u8]) -> Result<()>;
}

/// Microseconds one way, and megabytes a second; rates only of messages that have bytes.
pub(crate) fn measure(pair: &mut impl Pair, mine: &mut [u8], rounds: u32) -> Result<Figures> {
    let len = mine.len();
    let repeats = (SAMPLE_BYTES / (len + OVERHEAD)).clamp(2, 250);
    let window = (WINDOW_BYTES / len.max(1)).clamp(WINDOW.0, WINDOW.1);
    let windows = (repeats / window).max(1);
    let (mut theirs, mut rooms) = (vec![0; len], vec![0; len * window]);
    let (first, own, other) = (pair.rank() == 0, pair.rank(), 1 - pair.rank());
    let (mut one_way, mut rate, mut both_ways) = (Vec::new(), Vec::new(), Vec::new());
    // One more than are counted: the first finds memory that was never touched.
    for round in 0..=rounds {
        mine.fill(pattern(own, round));
        pair.meet()?;
        let ping = timed(|| (0..repeats).try_for_each(|_| pair.ping(mine, &mut theirs)))?;
        right(&theirs, pattern(other, round))?;
        if round > 0 {
            one_way.push(ping / 2.0 / repeats as f64);
        }
        if len == 0 {
            continue;
        }
        let (times, room) = if first { (window, 0) } else { (0, rooms.len()) };
        let stream = timed(|| (0..windows).try_for_each(|_| pair.stream(times, mine, &mut rooms[..room])))?;
        let crossing = timed(|| (0..windows).try_for_each(|_| pair.stream(window, mine, &mut rooms)))?;
        right(&rooms, pattern(other, round))?;
        if round > 0 {
            // Bytes a microsecond are megabytes a second.
            let bytes = (windows * window * len) as f64;
            rate.push(bytes / stream);
            both_ways.push(2.0 * bytes / crossing);
        }
    }
    let figures = Figures::default().times("latency", &samples(one_way)?);
    if len == 0 {
        return Ok(figures);
    }
    Ok(figures
        .figure("rate_mb_s", samples(rate)?.median())
        .figure("both_ways_mb_s", samples(both_ways)?.median()))
}

/// What a rank's messages consist of in a round.
fn pattern(rank: u32, round: u32) -> u8 {
    // No two that follow each other are equal.
    (round * 2 + rank).to_le_bytes()[0]
}

fn right(bytes: &[u8], pattern: u8) -> Result<()> {
    if bytes.iter().all(|byte| *byte == pattern) { Ok(()) } else { Err(Error::WrongData) }
}

/// The messages of two ranks.
pub(crate) struct Ranks<'a> {
    messages: &'a dyn Messages,
    peer: u32,
}

impl<'a> Ranks<'a> {
    /// There must be two.
    pub(crate) fn of(messages: &'a dyn Messages) -> Result<Self> {
        two(messages)?;
        Ok(Self { messages, peer: 1 - messages.rank() })
    }
}

/// An error unless there are two ranks.
pub(crate) fn two(messages: &dyn Messages) -> Result<()> {
    if messages.size() == 2 { Ok(()) } else { Err(Error::NotTwo(messages.size())) }
}

impl Pair for Ranks<'_> {
    fn rank(&self) -> u32 {
        self.messages.rank()
    }

    fn meet(&mut self) -> Result<()> {
        Ok(self.messages.barrier()?)
    }

    fn ping(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<()> {
        if self.rank() == 0 {
            self.messages.send_bytes(self.peer, PING, mine)?;
            Ok(self.messages.receive_bytes(self.peer, PING, theirs)?)
        } else {
            self.messages.receive_bytes(self.peer, PING, theirs)?;
            Ok(self.messages.send_bytes(self.peer, PING, mine)?)
        }
    }

    fn stream(&mut self, times: usize, mine: &[u8], rooms: &mut [u8]) -> Result<()> {
        let (from, to) = (self.peer, self.peer);
        let mut receives: Vec<_> =
            rooms.chunks_mut(mine.len()).map(|into| Incoming { from, tag: STREAM, into }).collect();
        let sends = vec![Outgoing { to, tag: STREAM, bytes: mine }; times];
        exchange(self.messages, &mut receives, &sends, || Ok(()))?;
        // That what was sent is there, its receiver says.
        let (received, sent) = (!receives.is_empty(), times > 0);
        if received {
            self.messages.send_bytes(to, DONE, &[])?;
        }
        if sent {
            self.messages.receive_bytes(from, DONE, &mut [])?;
        }
        Ok(())
    }
}
