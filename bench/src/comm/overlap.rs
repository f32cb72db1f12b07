//! How much of a long message's time a rank can compute: a non-blocking transfer beside a computation that
//! takes as long (MMP's overlap).
//!
//! The computation uses registers only. Three cases: the sender computes, the receiver computes, both do; who
//! does not waits in its call.
//!
//! The transfer alone follows a computation, too. Where programs share a cache that is not theirs alone, a
//! message's bytes are less and less there while a rank does not touch them: one that follows another at once
//! takes two thirds of the time of one that comes a millisecond or two later, and says nothing of how long a
//! message takes beside a computation.

use crate::exchange::{Incoming, Outgoing, exchange};
use crate::record::{Figures, samples, timed};
use crate::transfer::two;
use crate::{Error, Result};
use scash_bench::figures::Samples;
use scash_bench::size;
use scash_messages::Messages;
use std::hint::black_box;

/// A non-blocking transfer beside a computation of equal length
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Bytes of the message
    #[arg(long = "length", value_name = "SIZE", value_parser = size::parse, default_value = "4M")]
    pub(crate) len: usize,

    /// Samples
    #[arg(long, value_name = "R", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Who computes: the name of the figure, and whether rank 0, which sends, and rank 1, which receives, do.
const CASES: [(&str, [bool; 2]); 3] =
    [("sender", [true, false]), ("receiver", [false, true]), ("both", [true, true])];
const MESSAGE: u16 = 1;
const DONE: u16 = 2;
/// Steps of the computation whose time is taken first.
const TRIAL: u64 = 1 << 20;

impl Options {
    /// The transfer alone in microseconds, and the cost of both together in times of the computation alone;
    /// rank 0 tells.
    pub(crate) fn measure(&self, messages: &dyn Messages, mine: &mut [u8]) -> Result<Figures> {
        two(messages)?;
        mine.fill(1);
        let mut theirs = vec![0; self.len];
        let hurried = self.alone(messages, mine, &mut theirs, 0)?;
        let pause = self.steps(messages, hurried.median())?;
        let alone = self.alone(messages, mine, &mut theirs, pause)?;
        let mut figures = Figures::default().times("transfer", &alone);
        let steps = self.steps(messages, alone.median())?;
        for (name, computes) in CASES {
            let mut ratios = Vec::new();
            let own = if computes[messages.rank() as usize] { steps } else { 0 };
            for _ in 0..self.rounds {
                messages.barrier()?;
                let computation = timed(|| work(own))?;
                messages.barrier()?;
                let together = timed(|| transfer(messages, mine, &mut theirs, own))?;
                ratios.push(slower(messages, together)? / slower(messages, computation)?);
            }
            figures = figures.figure(&format!("{name}_times"), samples(ratios)?.median());
        }
        // Rank 0 has received nothing.
        if messages.rank() == 0 || theirs.iter().all(|byte| *byte == 1) {
            Ok(figures)
        } else {
            Err(Error::WrongData)
        }
    }

    /// The transfer while nobody computes, after so many steps of the computation.
    fn alone(&self, messages: &dyn Messages, mine: &[u8], theirs: &mut [u8], pause: u64) -> Result<Samples> {
        let mut times = Vec::new();
        for round in 0..=self.rounds {
            work(pause)?;
            messages.barrier()?;
            let time = timed(|| transfer(messages, mine, theirs, 0))?;
            times.extend((round > 0).then_some(time));
        }
        samples(times)
    }

    /// Steps that take so many microseconds; the same number at both ranks.
    fn steps(&self, messages: &dyn Messages, microseconds: f64) -> Result<u64> {
        let times: Result<Vec<f64>> = (0..self.rounds).map(|_| timed(|| work(TRIAL))).collect();
        let trial = slower(messages, samples(times?)?.median())?;
        let steps = slower(messages, microseconds)? / trial * TRIAL as f64;
        Ok(scash_bench::figures::count(steps))
    }
}

/// A message from rank 0 to rank 1 beside a computation, until both know that it is there.
fn transfer(messages: &dyn Messages, mine: &[u8], theirs: &mut [u8], steps: u64) -> Result<()> {
    let (from, to) = (0, 1);
    if messages.rank() == from {
        let send = Outgoing { to, tag: MESSAGE, bytes: mine };
        exchange(messages, &mut [], &[send], || work(steps))?;
        return Ok(messages.receive_bytes(to, DONE, &mut [])?);
    }
    let receive = Incoming { from, tag: MESSAGE, into: theirs };
    exchange(messages, &mut [receive], &[], || work(steps))?;
    Ok(messages.send_bytes(from, DONE, &[])?)
}

/// The longer of both ranks' times.
fn slower(messages: &dyn Messages, time: f64) -> Result<f64> {
    let [slower] = messages.combined(scash_mp::Op::Max, [time])?;
    Ok(slower)
}

/// So many steps, each of which needs the last one.
fn work(steps: u64) -> Result<()> {
    let mut value = 1u64;
    for _ in 0..steps {
        value = black_box(value).wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 1;
    }
    black_box(value);
    Ok(())
}
