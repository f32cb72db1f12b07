//! What a provider costs without a job, a page or a protocol: two endpoints, each of a thread of this
//! process. The figures are those that LogGP asks for, as `scash bench scale` does; how they make up a
//! machine is said in `scash_bench::scale`.
//!
//! Rank 0 takes the time, and says so before it ends; rank 1 answers. Whatever one waits for, it hears if the
//! other is gone.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use scash_comm::conformance::SharedMemory;
use scash_comm::mem_exchange::MemExchange;
use scash_comm::shm::{ShmEndpoint, ShmOptions};
use scash_comm::tcp::{TcpEndpoint, TcpOptions};
use scash_comm::{Caps, Endpoint, Event, GetRange, PutRange, SegmentId};

use crate::area::PAGE;
use crate::outcome::{Outcome, Setting, Spent, microseconds, samples};
use crate::{Error, Result};
use scash_bench::{bare, cores};

/// A provider alone: messages, puts and gets between two threads of one process, without `scash run`
#[derive(clap::Args)]
pub(crate) struct Options {
    /// What carries them
    #[arg(long, value_name = "NAME", default_value = "shm", value_parser = ["shm", "tcp"])]
    provider: String,

    /// Samples
    #[arg(long, value_name = "R", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Operations in a sample: few, so that some samples are not disturbed on a busy machine
    #[arg(long, value_name = "K", default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=1000))]
    length: u32,
}

/// Bytes of a message: about those of a token of the memory barrier.
const MESSAGE: usize = 16;
/// Bytes of a small get.
const SMALL: usize = 64;
/// Bytes of a large put.
const LARGE: usize = 1 << 20;
/// Longest sleep of a rank that waits.
const NAP: Duration = Duration::from_millis(10);

/// Microseconds of each sample.
#[derive(Default)]
struct NetworkTimes {
    round_trip: Vec<f64>,
    /// A send, until the call returns.
    send: Vec<f64>,
    /// A message of a burst, until all have been taken and that is known.
    in_burst: Vec<f64>,
    /// A page put, until it is there.
    small_put: Vec<f64>,
    /// The same for 1 MiB.
    large_put: Vec<f64>,
    /// A page got.
    get: Vec<f64>,
    /// A few bytes got.
    small_get: Vec<f64>,
    /// What a bare connection takes for such requests and replies, if the provider uses one.
    bare: Vec<f64>,
    small_bare: Vec<f64>,
}

/// Measures, and says with which provider.
pub(crate) fn measure(options: &Options) -> Result<(Setting, Outcome)> {
    let start = Instant::now();
    let both: Result<Vec<(bool, NetworkTimes)>> = thread::scope(|scope| {
        let ranks = MemExchange::ranks(2).into_iter();
        let threads: Vec<_> = ranks.map(|exchange| scope.spawn(|| play(exchange, options))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(times) => times,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect()
    });
    let (direct, mut times) = both?.swap_remove(0);
    if options.provider == "tcp" {
        // Only now: while the ranks wait for each other they spin, and there may be no more cores.
        let ask = |reply| bare::round_trip(options.length, reply).map_err(Error::Bare);
        for _ in 0..options.rounds {
            times.bare.push(ask(bare::HEAD + PAGE)?);
            times.small_bare.push(ask(bare::HEAD + SMALL)?);
        }
    }
    let outcome = Outcome::new(Spent::without_job(start.elapsed(), 0))
        .parameter("direct", direct)
        .times("round_trip", &samples(times.round_trip)?)
        .times("send", &samples(times.send)?)
        .times("in_burst", &samples(times.in_burst)?)
        .times("put", &samples(times.small_put)?)
        .times("large_put", &samples(times.large_put)?)
        .times("get", &samples(times.get)?)
        .times("small_get", &samples(times.small_get)?);
    let outcome = if times.bare.is_empty() {
        outcome
    } else {
        outcome.times("bare", &samples(times.bare)?).times("small_bare", &samples(times.small_bare)?)
    };
    Ok((Setting::of_provider(&options.provider), outcome))
}

/// One rank's part, and whether memory of peers can be accessed.
fn play(mut exchange: MemExchange, options: &Options) -> Result<(bool, NetworkTimes)> {
    let rank = Rank::new(&mut exchange, &options.provider)?;
    // Only now: the endpoint's own thread may run on any.
    cores::take(rank.endpoint.rank() as usize, 2);
    let (mut times, direct) = (NetworkTimes::default(), rank.endpoint.caps().contains(Caps::DIRECT));
    for _ in 0..options.rounds {
        if rank.endpoint.rank() == 0 {
            rank.lead(options.length, &mut times)?;
        } else {
            rank.follow(options.length)?;
        }
    }
    Ok((direct, times))
}

/// The endpoint is dropped before the memory.
struct Rank {
    endpoint: Box<dyn Endpoint>,
    segment: SegmentId,
    memory: SharedMemory,
    /// Messages that came and were not waited for yet.
    unread: Cell<u32>,
}

impl Rank {
    fn new(exchange: &mut MemExchange, provider: &str) -> Result<Self> {
        let endpoint: Box<dyn Endpoint> = match provider {
            "tcp" => {
                Box::new(TcpEndpoint::new(exchange, &TcpOptions { ranks_here: 2, ..TcpOptions::default() })?)
            }
            _ => Box::new(ShmEndpoint::new(exchange, &ShmOptions::default())?),
        };
        let memory = SharedMemory::new(LARGE)?;
        (0..LARGE).step_by(PAGE).for_each(|at| memory.write(at, &[1]));
        // SAFETY: `SharedMemory` gives no references to its bytes, and is dropped after the endpoint.
        let segment = unsafe { endpoint.register(exchange, memory.segment()) }?;
        Ok(Self { endpoint, segment, memory, unread: Cell::new(0) })
    }

    /// One sample of everything.
    fn lead(&self, length: u32, times: &mut NetworkTimes) -> Result<()> {
        let each = |time: f64| time / f64::from(length);
        times
            .round_trip
            .push(each(timed(|| (0..length).try_for_each(|_| self.send().and_then(|()| self.receive(1))))?));
        let start = Instant::now();
        times.send.push(each(timed(|| (0..length).try_for_each(|_| self.send()))?));
        self.receive(1)?;
        times.in_burst.push(each(start.elapsed().as_secs_f64() * 1e6));
        times.small_put.push(each(timed(|| (0..length).try_for_each(|_| self.put(PAGE)))?));
        times.large_put.push(timed(|| self.put(LARGE))?);
        times.get.push(each(timed(|| (0..length).try_for_each(|_| self.get(PAGE)))?));
        times.small_get.push(each(timed(|| (0..length).try_for_each(|_| self.get(SMALL)))?));
        self.send()
    }

    fn follow(&self, length: u32) -> Result<()> {
        (0..length).try_for_each(|_| self.receive(1).and_then(|()| self.send()))?;
        self.receive(length)?;
        self.send()?;
        self.receive(1)
    }

    fn send(&self) -> Result<()> {
        let peer = 1 - self.endpoint.rank();
        self.endpoint.send(peer, 0, &[&[7; MESSAGE]])?;
        Ok(self.endpoint.flush()?)
    }

    /// Waits for so many messages.
    fn receive(&self, count: u32) -> Result<()> {
        let (mut turn, mut gone) = (0, false);
        while self.unread.get() < count && !gone {
            let taken = self.endpoint.poll(&mut |event| match event {
                Event::Message { .. } | Event::Part { .. } => self.unread.set(self.unread.get() + 1),
                Event::Down { .. } => gone = true,
            })?;
            if taken == 0 {
                self.endpoint.idle(turn, NAP);
                turn += 1;
            }
        }
        if gone && self.unread.get() < count {
            return Err(Error::NotMeasured("the other rank gave up".to_owned()));
        }
        self.unread.set(self.unread.get() - count);
        Ok(())
    }

    fn put(&self, len: usize) -> Result<()> {
        let range = PutRange { offset: 0, len, src: self.memory.at(0) };
        // SAFETY: the memory stays mapped; the other rank writes none of it.
        unsafe { self.endpoint.put(1, self.segment, &[range]) }?;
        self.endpoint.flush()?;
        Ok(self.endpoint.fence(1)?)
    }

    fn get(&self, len: usize) -> Result<()> {
        let range = GetRange { offset: 0, len, dst: self.memory.at(0) };
        // SAFETY: the memory stays mapped, and nobody relies on what it holds.
        Ok(unsafe { self.endpoint.get(1, self.segment, &[range]) }?)
    }
}

/// Microseconds of something that may fail.
fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let (time, done) = microseconds(work);
    done.map(|()| time)
}
