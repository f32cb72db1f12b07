//! Whether long messages within a host are pushed, or read by their receiver: measured as ranks meet
//! ([`Options::calibrate`]), because it depends on the processor which of the two is faster.
//!
//! **Who measures.** The two lowest ranks of each host, at the same time on all hosts. All others wait in the
//! exchange.
//!
//! **What is measured.** Round trips of [`LEN`] bytes, of which the *leader* (the lower rank) takes the time;
//! the *follower* sends each message back by the protocol that its tag names. The two protocols take turns,
//! and of each the least time counts: whatever else the machine does makes a round trip longer, as do the
//! first ones through pages of a ring that nobody has touched yet. There are enough [`TURNS`] to come around
//! the ring. A push keeps both ranks busy, and a read one: so it has to be [`BOTH_COPY`] times as fast.
//! Measured one way: processors of one machine pushed 64 KiB in 2 µs, or 4 where they were far from each
//! other, and read them in 6 to 7; those of another one did in 6.6 and 7.4, but moved 16 GB/s by pushes both
//! ways at once, and 38 by reads. Past [`BUDGET`] the leader begins no round trip, and finds nothing.
//!
//! **What follows.** Each leader tells what it found to all, and what most of them found holds within every
//! host, so a job behaves in the same way wherever its ranks are numbered. Where reads are faster, nothing
//! longer than an eager message is pushed. Receivers take whatever comes, so messages arrive even if ranks
//! have different options.

use super::communicator::Communicator;
use super::engine::Protocols;
use super::matching::Pattern;
use super::{Large, Options};
use scash_comm::{Error, Exchange, Result};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The context of the messages that are measured: the program's receives, which may be open to all, do not
/// meet them.
const CONTEXT: u16 = 2;
/// Bytes of a message.
const LEN: usize = 64 << 10;
/// Bytes of a message whose round trip tells whether both ranks run, and how long that takes at most if they
/// do. Where they share a processor, as they may in their first milliseconds on a busy machine, each of them
/// has to be woken, which takes ten times as long as 64 KiB do.
const SHORT: usize = 256;
const AWAKE: Duration = Duration::from_micros(10);
/// Times that each protocol is measured.
const TURNS: usize = 40;
/// Time for all of them, which usually take one or two milliseconds.
const BUDGET: Duration = Duration::from_millis(20);
/// What the time of a push counts for beside that of a read.
const BOTH_COPY: f64 = 1.4;
/// The tag of the last message.
const OVER: u64 = 0;

/// Where protocols change; see [`Communicator::thresholds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Bytes of the longest message that travels at once.
    pub eager: usize,
    /// Bytes of the longest message that is pushed, where messages are.
    pub push: usize,
}

/// How a message travels. Its number is the tag of the messages that are measured, and what a leader tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Read = 1,
    Push = 2,
}

impl Method {
    fn numbered(number: u64) -> Option<Self> {
        [Self::Read, Self::Push].into_iter().find(|method| *method as u64 == number)
    }

    /// What has all messages travel so.
    fn alone(self) -> Protocols {
        match self {
            Self::Read => Protocols { eager: 0, push: 0, large: Large::Get },
            Self::Push => Protocols { eager: 0, push: usize::MAX, large: Large::Push },
        }
    }

    /// The better one, as these times say.
    fn better(push: Duration, read: Duration) -> Self {
        if push.mul_f64(BOTH_COPY) <= read { Self::Push } else { Self::Read }
    }
}

impl Communicator {
    /// Where protocols change in messages to a rank: as the options say, or, within a host, as was found
    /// when ranks met ([`Options::calibrate`]); then all ranks have the same there.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn thresholds(&self, to: u32) -> Result<Thresholds> {
        self.check(Some(to))?;
        let Protocols { eager, push, .. } = self.shared.engine().protocols(to);
        Ok(Thresholds { eager, push })
    }

    /// Finds out whether reads are better than pushes within a host, and has messages travel accordingly.
    /// Collective.
    pub(super) fn calibrate(&self, exchange: &mut dyn Exchange, options: &Options) -> Result<()> {
        let hosts: Vec<u32> = (0..self.size()).map(|rank| exchange.host(rank)).collect();
        let pairs = pairs(&hosts);
        // All ranks see this alike.
        if pairs.is_empty() {
            return Ok(());
        }
        let me = self.rank();
        let found = match pairs.into_iter().find(|&(leader, follower)| [leader, follower].contains(&me)) {
            Some((leader, follower)) if leader == me => self.lead(follower, options)?,
            Some((leader, _)) => {
                self.follow(leader)?;
                None
            }
            None => None,
        };
        let told = exchange.all_gather(&[found.map_or(0, |method| method as u8)], &[])?;
        let told: Vec<_> = told.into_iter().map(|(told, _)| told).collect();
        let agreed = agreed(&told)?.filter(|_| options.calibrate);
        let Options { eager, large, .. } = *options;
        let push = if agreed == Some(Method::Read) { eager } else { options.push };
        let mut engine = self.shared.engine();
        for to in (0..).zip(&hosts).filter(|&(_, host)| *host == hosts[me as usize]).map(|(to, _)| to) {
            engine.set_protocols(to, Protocols { eager, push, large });
        }
        Ok(())
    }

    /// Measures with a follower, and ends its part.
    fn lead(&self, follower: u32, options: &Options) -> Result<Option<Method>> {
        let is_chosen_here = {
            let engine = self.shared.engine();
            engine.is_readable(follower) && engine.is_near(follower)
        };
        let found = if is_chosen_here && has_a_choice(options) { self.measure(follower)? } else { None };
        self.send_in(CONTEXT, follower, OVER, &[])?;
        Ok(found)
    }

    fn measure(&self, follower: u32) -> Result<Option<Method>> {
        let mut bytes = vec![1; LEN];
        // The follower may come later; and first times cost more than others.
        let mut short = self.round_trip(follower, Method::Read, &mut bytes[..SHORT])?;
        for _ in 0..TURNS {
            short = self.round_trip(follower, Method::Push, &mut bytes[..SHORT])?.min(short);
        }
        if short >= AWAKE {
            return Ok(None);
        }
        let start = Instant::now();
        let (mut push, mut read) = (Duration::MAX, Duration::MAX);
        for _ in 0..TURNS {
            for (method, least) in [(Method::Push, &mut push), (Method::Read, &mut read)] {
                if start.elapsed() >= BUDGET {
                    return Ok(None);
                }
                *least = self.round_trip(follower, method, &mut bytes)?.min(*least);
            }
        }
        Ok(Some(Method::better(push, read)))
    }

    /// The time of a message there and back.
    fn round_trip(&self, follower: u32, method: Method, bytes: &mut [u8]) -> Result<Duration> {
        self.shared.engine().set_protocols(follower, method.alone());
        let (start, tag) = (Instant::now(), method as u64);
        self.send_in(CONTEXT, follower, tag, bytes)?;
        self.receive_in(Pattern { context: CONTEXT, source: Some(follower), tag: Some(tag) }, bytes)?;
        Ok(start.elapsed())
    }

    /// Sends back what a leader sends.
    fn follow(&self, leader: u32) -> Result<()> {
        let mut room = vec![1; LEN];
        let pattern = Pattern { context: CONTEXT, source: Some(leader), tag: None };
        loop {
            let status = self.receive_in(pattern, &mut room)?;
            let Some(method) = Method::numbered(status.tag) else { return Ok(()) };
            self.shared.engine().set_protocols(leader, method.alone());
            self.send_in(CONTEXT, leader, status.tag, &room[..status.len])?;
        }
    }
}

/// The two lowest ranks of each host, the lower one first.
fn pairs(hosts: &[u32]) -> Vec<(u32, u32)> {
    let mut all: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (rank, host) in (0..).zip(hosts) {
        all.entry(*host).or_default().push(rank);
    }
    all.values().filter_map(|ranks| Some((*ranks.first()?, *ranks.get(1)?))).collect()
}

/// Whether there are messages that might be read or pushed, and whether it is to be found out which is
/// better.
fn has_a_choice(options: &Options) -> bool {
    options.calibrate && options.large == Large::Auto && options.eager < LEN && LEN <= options.push
}

/// What follows from what all ranks have told, in their order: what most leaders have found; reads, if as
/// many have found either.
fn agreed(told: &[Vec<u8>]) -> Result<Option<Method>> {
    let (mut reads, mut pushes) = (0, 0);
    for (rank, told) in (0..).zip(told) {
        match *told.as_slice() {
            [0] => {}
            [told] if told == Method::Read as u8 => reads += 1,
            [told] if told == Method::Push as u8 => pushes += 1,
            _ => {
                let why = "it tells something else than how messages travel".to_owned();
                return Err(Error::Protocol { rank, why });
            }
        }
    }
    Ok((reads + pushes > 0).then_some(if reads >= pushes { Method::Read } else { Method::Push }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_lowest_ranks_of_each_host_measure() {
        assert_eq!(pairs(&[0]), []);
        assert_eq!(pairs(&[0; 5]), [(0, 1)]);
        assert_eq!(pairs(&[0, 0, 1, 1]), [(0, 1), (2, 3)]);
        assert_eq!(pairs(&[2, 0, 1, 2, 0]), [(1, 4), (0, 3)]);
    }

    #[test]
    fn what_most_leaders_have_found_is_agreed_on() {
        let agreed = |told: &[u8]| agreed(&told.iter().map(|told| vec![*told]).collect::<Vec<_>>()).unwrap();
        assert_eq!(agreed(&[0, 0]), None);
        assert_eq!(agreed(&[1, 0, 2, 0, 2]), Some(Method::Push));
        assert_eq!(agreed(&[1, 0, 2, 0]), Some(Method::Read));
        for wrong in [vec![], vec![3], vec![1, 1]] {
            let error = super::agreed(&[vec![0], wrong]).unwrap_err();
            assert!(matches!(error, Error::Protocol { rank: 1, .. }), "{error}");
        }
    }

    #[test]
    fn a_push_has_to_be_faster_by_what_it_takes_of_a_second_processor() {
        let of = |push, read| Method::better(Duration::from_micros(push), Duration::from_micros(read));
        assert_eq!(of(10, 14), Method::Push);
        assert_eq!(of(11, 14), Method::Read);
    }

    #[test]
    fn nothing_is_measured_where_all_is_read_or_nothing_is_pushed_or_it_is_not_asked_for() {
        let all = Options { eager: 16 << 10, push: 1 << 20, ..Options::default() };
        assert!(has_a_choice(&all));
        for none in [
            Options { eager: 64 << 10, ..all },
            Options { push: 63 << 10, ..all },
            Options { large: Large::Push, ..all },
            Options { calibrate: false, ..all },
        ] {
            assert!(!has_a_choice(&none), "{none:?}");
        }
    }
}
