//! Thresholds that are measured when ranks meet: up to which length a message travels at once, and up to
//! which one is pushed ([`Options::tune`]). Whether pushes through shared memory pay at all is measured even
//! if nobody asks.
//!
//! **Who measures.** What a protocol costs depends on what is between two ranks, so there are two classes of
//! peers: those of the same host, and others. Within a host its two lowest ranks measure, at the same time on
//! all hosts; after that, the lowest ranks of hosts two by two measure between hosts. So the time does not
//! grow with the job, and no host has more than one pair that measures. All others wait in the exchange.
//!
//! **What is measured.** Round trips, of which the *leader* (the lower rank) takes the time; the *follower*
//! sends each message back by the protocol that its tag names. For each length of a ladder two protocols take
//! turns, so what disturbs a machine for a while disturbs both, and of each the median counts. Which split of
//! the ladder into lengths for the one and lengths for the other agrees best with that is the business of
//! [`ladder`]. A push keeps both ranks busy, and a get one: so it has to be [`BOTH_COPY`] times as fast.
//! Measured one way: processors of one machine pushed 64 KiB in 2 µs, or 4 where they were far from each
//! other, and read them in 6 to 7; those of another one did in 6.6 and 7.4, but moved 16 GB/s by pushes both
//! ways at once, and 38 by reads. Past [`BUDGET`] the leader begins no round trip; lengths that were not
//! measured are left out.
//!
//! **What is chosen.** Each leader tells what it found to all; for each class, the median of the leaders is
//! every rank's threshold, so all have the same. It is at least [`LEAST`], and at most half of the window, as
//! options are. Where nothing was measured (a job of one rank, no time), the options stand. Receivers take
//! whatever comes, so no two ranks need the same thresholds for messages to arrive; but a job should behave
//! in the same way wherever its ranks are numbered.

mod ladder;

use super::communicator::Communicator;
use super::engine::Protocols;
use super::matching::Pattern;
use super::{Large, Options, Tune};
use scash_comm::{Error, Exchange, Result};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The context of the messages that are measured: the program's receives, which may be open to all, do not
/// meet them.
const CONTEXT: u16 = 2;
/// Time for a class of peers, of which [`Options::eager`] gets a half.
const BUDGET: Duration = Duration::from_millis(20);
/// The least threshold.
const LEAST: usize = 256;
/// Lengths between which `eager` ends, and those between which `push` does; in powers of two.
const EAGER: std::ops::RangeInclusive<u32> = 8..=16;
const PUSH: std::ops::RangeInclusive<u32> = 13..=20;
/// The one that tells whether pushes pay, and time for that.
const READS: std::ops::RangeInclusive<u32> = 16..=16;
const READS_BUDGET: Duration = Duration::from_millis(4);
/// What the time of a push counts for beside that of a get.
const BOTH_COPY: f64 = 1.4;
/// Numbers that a rank tells: of each class, both thresholds. 0 is none.
const TOLD: usize = 4;

/// Where protocols change; see [`Communicator::thresholds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Bytes of the longest message that travels at once.
    pub eager: usize,
    /// Bytes of the longest message that is pushed, where messages are.
    pub push: usize,
}

/// A protocol that is measured. Its number is the tag of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Eager = 1,
    Push = 2,
    Get = 3,
    Rendezvous = 4,
}

/// The tag of the last message.
const OVER: u64 = 0;

impl Protocol {
    const ALL: [Self; 4] = [Self::Eager, Self::Push, Self::Get, Self::Rendezvous];

    fn of_tag(tag: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| *protocol as u64 == tag)
    }

    /// What serves messages that are too long for eager, if they are not too long for a push. The receiver
    /// may be able to read them, and they may travel through shared memory.
    fn beyond_eager(large: Large, is_readable: bool, is_near: bool) -> Self {
        match large {
            Large::Auto if is_readable && !is_near => Protocol::Get,
            Large::Get if is_readable => Protocol::Get,
            Large::Auto | Large::Push => Protocol::Push,
            Large::Get | Large::Rendezvous => Protocol::Rendezvous,
        }
    }

    /// What serves those that are too long for a push.
    fn beyond_push(large: Large, is_readable: bool) -> Self {
        if large == Large::Auto && is_readable { Protocol::Get } else { Protocol::Rendezvous }
    }

    /// What has all messages travel so.
    fn alone(self) -> Protocols {
        let (all, none) = (usize::MAX, 0);
        match self {
            Protocol::Eager => Protocols { eager: all, push: none, large: Large::Rendezvous },
            Protocol::Push => Protocols { eager: none, push: all, large: Large::Push },
            Protocol::Get => Protocols { eager: none, push: none, large: Large::Get },
            Protocol::Rendezvous => Protocols { eager: none, push: none, large: Large::Rendezvous },
        }
    }
}

/// Thresholds that were measured for a class of peers: those that were to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Measured {
    eager: Option<usize>,
    push: Option<usize>,
}

impl Communicator {
    /// Where protocols change in messages to a rank: as the options say, or as was measured at the start
    /// ([`Options::tune`]). Measured ones are the same at all ranks, for all peers of the same host, and for
    /// all of others.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn thresholds(&self, to: u32) -> Result<Thresholds> {
        self.check(Some(to))?;
        let Protocols { eager, push, .. } = self.shared.engine().protocols(to);
        Ok(Thresholds { eager, push })
    }

    /// Measures what is to be, and has messages travel accordingly. Collective.
    pub(super) fn tune(&self, exchange: &mut dyn Exchange, options: &Options) -> Result<()> {
        let hosts: Vec<u32> = (0..self.size()).map(|rank| exchange.host(rank)).collect();
        let mut pairs = pairs(&hosts);
        if !(options.tune.eager || options.tune.push) {
            // Those of other hosts are not read.
            pairs[1].clear();
        }
        // All ranks see this alike: of `tune`, these two are the same everywhere, and whether reads pay is
        // the leader's affair.
        if pairs.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let mut found = [Measured::default(); 2];
        for (found, pairs) in found.iter_mut().zip(pairs) {
            let mine =
                pairs.into_iter().find(|&(leader, follower)| [leader, follower].contains(&self.rank()));
            match mine {
                Some((leader, follower)) if leader == self.rank() => *found = self.lead(follower, options)?,
                Some((leader, _)) => self.follow(leader, options)?,
                None => {}
            }
        }
        let told: Vec<Vec<u8>> =
            exchange.all_gather(&told(found), &[])?.into_iter().map(|(told, _)| told).collect();
        let agreed = agreed(&told)?;
        let here = exchange.host(self.rank());
        let mut engine = self.shared.engine();
        for to in 0..self.size() {
            let class = usize::from(exchange.host(to) != here);
            engine.set_protocols(to, chosen(agreed[class], options));
        }
        Ok(())
    }

    /// Measures with a follower.
    fn lead(&self, follower: u32, options: &Options) -> Result<Measured> {
        let mut bytes = vec![1; longest(options)];
        let (is_readable, is_near) = {
            let engine = self.shared.engine();
            (engine.is_readable(follower), engine.is_near(follower))
        };
        let beyond = Protocol::beyond_eager(options.large, is_readable, is_near);
        // The follower may come later; and first times cost more than others.
        for protocol in Protocol::ALL {
            self.round_trip(follower, protocol, &mut bytes[..LEAST])?;
        }
        let start = Instant::now();
        let mut measure = |first, second, powers, budget| {
            let deadline = start + budget;
            ladder::climb(lengths(powers, options), |which, len| {
                let protocol = if which == ladder::Which::First { first } else { second };
                let is_late = Instant::now() >= deadline;
                (!is_late).then(|| self.round_trip(follower, protocol, &mut bytes[..len])).transpose()
            })
        };
        let mut found = Measured::default();
        if options.tune.eager {
            let steps = measure(Protocol::Eager, beyond, EAGER, BUDGET / 2)?;
            found.eager = ladder::split(&steps, options.eager);
        }
        let instead = Protocol::beyond_push(options.large, is_readable);
        let (rungs, budget) = if options.tune.push { (PUSH, BUDGET) } else { (READS, READS_BUDGET) };
        if beyond == Protocol::Push
            && (options.tune.push || instead == Protocol::Get && measures_reads(options))
        {
            let steps = measure(Protocol::Push, instead, rungs, budget)?;
            let weight = if instead == Protocol::Get { BOTH_COPY } else { 1.0 };
            let steps: Vec<_> = steps.into_iter().map(|step| step.with_first_counted(weight)).collect();
            found.push = ladder::split(&steps, options.push);
        }
        self.shared.engine().set_protocols(follower, Protocol::Eager.alone());
        self.send_in(CONTEXT, follower, OVER, &[])?;
        Ok(found)
    }

    /// The time of a message there and back.
    fn round_trip(&self, follower: u32, protocol: Protocol, bytes: &mut [u8]) -> Result<Duration> {
        self.shared.engine().set_protocols(follower, protocol.alone());
        let (start, tag) = (Instant::now(), protocol as u64);
        self.send_in(CONTEXT, follower, tag, bytes)?;
        self.receive_in(Pattern { context: CONTEXT, source: Some(follower), tag: Some(tag) }, bytes)?;
        Ok(start.elapsed())
    }

    /// Sends back what a leader sends.
    fn follow(&self, leader: u32, options: &Options) -> Result<()> {
        let mut room = vec![1; longest(options)];
        let pattern = Pattern { context: CONTEXT, source: Some(leader), tag: None };
        loop {
            let status = self.receive_in(pattern, &mut room)?;
            let Some(protocol) = Protocol::of_tag(status.tag) else { return Ok(()) };
            self.shared.engine().set_protocols(leader, protocol.alone());
            self.send_in(CONTEXT, leader, status.tag, &room[..status.len])?;
        }
    }
}

/// The pairs that measure, the leader first: within hosts, and between hosts.
fn pairs(hosts: &[u32]) -> [Vec<(u32, u32)>; 2] {
    let mut all: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (rank, host) in (0..).zip(hosts) {
        all.entry(*host).or_default().push(rank);
    }
    let pair = |ranks: &[u32]| Some((*ranks.first()?, *ranks.get(1)?));
    let within = all.values().filter_map(|ranks| pair(ranks)).collect();
    let mut firsts: Vec<u32> = all.values().filter_map(|ranks| ranks.first().copied()).collect();
    firsts.sort_unstable();
    [within, firsts.chunks(2).filter_map(pair).collect()]
}

/// The longest threshold that there may be.
fn most(options: &Options) -> usize {
    (options.window / 2).max(LEAST)
}

/// Lengths that are measured: powers of two.
fn lengths(powers: std::ops::RangeInclusive<u32>, options: &Options) -> impl Iterator<Item = usize> {
    let most = most(options);
    powers.map(|power| 1 << power).take_while(move |len| *len <= most)
}

/// The longest message that is measured.
fn longest(options: &Options) -> usize {
    let of = |measured, powers| lengths(powers, options).filter(move |_| measured);
    let Tune { eager, push, .. } = options.tune;
    // Whether reads are measured its leader may know alone.
    of(eager, EAGER).chain(of(push, PUSH)).chain(of(true, READS)).max().unwrap_or(0).max(LEAST)
}

/// Whether there are lengths for which it is to be found out whether they are better read than pushed.
fn measures_reads(options: &Options) -> bool {
    let is_pushed = |len| options.eager < len && len <= options.push;
    options.tune.reads && options.large == Large::Auto && lengths(READS, options).any(is_pushed)
}

/// What a rank tells of what it has found.
fn told(found: [Measured; 2]) -> Vec<u8> {
    let numbers = found.into_iter().flat_map(|class| [class.eager, class.push]);
    numbers.flat_map(|number| (number.unwrap_or(0) as u64).to_le_bytes()).collect()
}

/// What follows from what all ranks have told, in their order: the medians of those that have measured.
fn agreed(told: &[Vec<u8>]) -> Result<[Measured; 2]> {
    let mut columns: [Vec<usize>; TOLD] = Default::default();
    for (rank, told) in (0..).zip(told) {
        let (numbers, rest) = told.as_chunks::<8>();
        if numbers.len() != TOLD || !rest.is_empty() {
            let why = "it tells something else than thresholds".to_owned();
            return Err(Error::Protocol { rank, why });
        }
        for (column, number) in columns.iter_mut().zip(numbers) {
            // One that no memory has is none.
            column.extend(usize::try_from(u64::from_le_bytes(*number)).ok().filter(|number| *number > 0));
        }
    }
    let [eager, push, eager_between, push_between] = columns.map(middle);
    Ok([Measured { eager, push }, Measured { eager: eager_between, push: push_between }])
}

/// The median, the lower one of two.
fn middle(mut numbers: Vec<usize>) -> Option<usize> {
    numbers.sort_unstable();
    numbers.get(numbers.len().saturating_sub(1) / 2).copied()
}

/// What serves messages to a class of peers.
fn chosen(measured: Measured, options: &Options) -> Protocols {
    let fit = |threshold: usize| threshold.clamp(LEAST, most(options));
    let eager = measured.eager.map_or(options.eager, fit);
    let measured = measured.push.filter(|_| options.tune.push || options.tune.reads);
    let push = measured.map_or(options.push, |push| fit(push).max(eager));
    Protocols { eager, push, large: options.large }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pair_a_host_measures_and_hosts_two_by_two() {
        assert_eq!(pairs(&[0]), [vec![], vec![]]);
        assert_eq!(pairs(&[0; 5]), [vec![(0, 1)], vec![]]);
        assert_eq!(pairs(&[0, 0, 1, 1]), [vec![(0, 1), (2, 3)], vec![(0, 2)]]);
        assert_eq!(pairs(&[2, 0, 1, 2, 0]), [vec![(1, 4), (0, 3)], vec![(0, 1)]]);
        let many: Vec<u32> = (0..1000).map(|rank| rank % 100).collect();
        let [within, between] = pairs(&many);
        assert_eq!((within.len(), between.len()), (100, 50));
        let mut busy: Vec<u32> = between.iter().flat_map(|&(leader, follower)| [leader, follower]).collect();
        busy.sort_unstable();
        busy.dedup();
        assert_eq!(busy.len(), 100, "nobody measures with two at once");
    }

    #[test]
    fn the_medians_of_what_leaders_have_found_are_agreed_on() {
        let one = |eager, push| told([Measured { eager, push }, Measured { eager: push, push: None }]);
        let all = [one(Some(512), None), one(None, None), one(Some(1 << 30), Some(7)), one(Some(1024), None)];
        let within = Measured { eager: Some(1024), push: Some(7) };
        assert_eq!(agreed(&all).unwrap(), [within, Measured { eager: Some(7), push: None }]);
        assert!(matches!(agreed(&[vec![0; 31]]), Err(Error::Protocol { rank: 0, .. })));
    }

    #[test]
    fn thresholds_are_neither_shorter_nor_longer_than_makes_sense() {
        let options = Options { window: 4096, eager: 300, push: 400, tune: Tune::ALL, ..Options::default() };
        let chosen = |eager, push| {
            let Protocols { eager, push, .. } = chosen(Measured { eager, push }, &options);
            (eager, push)
        };
        assert_eq!(chosen(None, None), (300, 400), "what was not measured stays");
        assert_eq!(chosen(Some(1), Some(1 << 40)), (256, 2048));
        assert_eq!(chosen(Some(1024), Some(512)), (1024, 1024), "what travels at once is not asked about");
        assert_eq!(chosen(Some(1024), None), (1024, 400));
        assert!(lengths(PUSH, &options).next().is_none() && longest(&options) == 2048);
    }

    #[test]
    fn whether_reads_pay_is_measured_where_there_is_something_to_be_read_or_pushed() {
        let (eager, push, large) = (16 << 10, 1 << 20, Large::Auto);
        let all = Options { eager, push, large, ..Options::default() };
        assert!(measures_reads(&all) && longest(&all) == 64 << 10);
        for none in [
            Options { eager: 64 << 10, ..all },
            Options { push: 63 << 10, ..all },
            Options { large: Large::Push, ..all },
            Options { tune: Tune::NONE, ..all },
        ] {
            assert!(!measures_reads(&none), "{none:?}");
        }
    }

    #[test]
    fn a_protocol_is_measured_against_the_one_that_would_serve_instead() {
        use Protocol::{Get, Push, Rendezvous};
        // Unread; read; read, and through shared memory.
        let beyond = |large| {
            let eager = |is_readable, is_near| Protocol::beyond_eager(large, is_readable, is_near);
            let push = [false, true].map(|is_readable| Protocol::beyond_push(large, is_readable));
            ([eager(false, false), eager(true, false), eager(true, true)], push)
        };
        assert_eq!(beyond(Large::Auto), ([Push, Get, Push], [Rendezvous, Get]));
        assert_eq!(beyond(Large::Get).0, [Rendezvous, Get, Get]);
        assert_eq!(beyond(Large::Push), ([Push; 3], [Rendezvous; 2]));
        assert_eq!(beyond(Large::Rendezvous).0, [Rendezvous; 3]);
        assert!(Protocol::ALL.iter().all(|protocol| Protocol::of_tag(*protocol as u64) == Some(*protocol)));
        assert_eq!(Protocol::of_tag(OVER), None);
    }
}
