//! Jobs on several hosts: how they are spread over them, and how hosts are lost.

use super::plan::{Blow, Strike, pause, rank_blow};
use crate::cluster::Kind;
use scash_bench::namespaces::address;
use scash_sim::rng::Rng;

/// Most hosts of a job.
pub const MOST_HOSTS: u32 = 5;
/// Most ranks of one: all of them share this machine.
const MOST_RANKS: u32 = 8;

/// Most milliseconds for which a host is cut off. Ranks give a connection up after ten seconds.
const LONGEST_CUT: u32 = 1500;

/// Kinds of such jobs. The first one, which users have who set nothing, is drawn more often.
pub(super) const KINDS: [Kind; 4] = [
    Kind { engine: "uffd", provider: "auto", shares: false },
    Kind { engine: "mprotect", provider: "auto", shares: false },
    Kind { engine: "uffd", provider: "tcp", shares: false },
    Kind { engine: "mprotect", provider: "tcp", shares: false },
];

/// How a job is spread over hosts, which have the numbers from 1 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// How many ranks each host has; none if it is a spare one, behind the others.
    pub slots: Vec<u32>,
    /// How many other hosts have a copy of a rank's store.
    pub copies: u32,
    /// Whether what goes between hosts is encrypted.
    pub is_encrypted: bool,
    /// Whether hosts that are lost are called again.
    pub hosts_return: bool,
    /// A host whose agent is heard so many milliseconds later than it speaks.
    pub late: Option<(u32, u32)>,
    /// Whether ranks of a lost host wait until it is back.
    pub ranks_wait: bool,
    /// The rack of each host, if racks are named: copies go to another one, if there is one.
    pub racks: Option<Vec<u32>>,
}

impl Spread {
    pub(super) fn draw(rng: &mut Rng) -> Spread {
        let hosts = rng.between(2, MOST_HOSTS);
        let mut slots = vec![1; hosts as usize];
        let more = rng.below(MOST_RANKS.min(2 * hosts) - hosts + 1);
        for _ in 0..more {
            slots[rng.below(hosts) as usize] += 1;
        }
        let (copies, is_encrypted) = (rng.pick(&[1, 1, 2]), rng.chance(25));
        let hosts_return = rng.chance(50);
        Spread { slots, copies, is_encrypted, hosts_return, late: None, ranks_wait: false, racks: None }
    }

    /// The same, where one of the hosts may be late.
    pub(super) fn with_late(self, rng: &mut Rng) -> Spread {
        let late = (rng.between(1, self.hosts()), rng.pick(&[2, 10, 40, 100]));
        Spread { late: Some(late).filter(|_| rng.chance(40)), ..self }
    }

    /// The same, where there may be spare hosts, or ranks may wait.
    pub(super) fn with_on_loss(mut self, rng: &mut Rng) -> Spread {
        if rng.chance(25) {
            let spares = rng.between(1, 2).min(MOST_HOSTS - self.hosts());
            self.slots.extend(std::iter::repeat_n(0, spares as usize));
        } else {
            self.ranks_wait = self.hosts_return && rng.chance(40);
        }
        self
    }

    /// The same, where hosts may stand in racks.
    pub(super) fn with_racks(mut self, rng: &mut Rng) -> Spread {
        if rng.chance(30) {
            self.racks = Some(self.slots.iter().map(|_| rng.below(2)).collect());
        }
        self
    }

    /// Whether a host has ranks as the job begins.
    pub(super) fn has_ranks(&self, host: u32) -> bool {
        self.slots.get(host as usize - 1).is_some_and(|slots| *slots > 0)
    }

    /// Ranks of the job.
    pub fn ranks(&self) -> u32 {
        self.slots.iter().sum()
    }

    /// Hosts of it.
    pub fn hosts(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// The value of `--host`.
    pub fn list(&self) -> String {
        let one = |(host, slots): (u32, &u32)| match slots {
            0 => format!("{}:spare", address(host)),
            slots => format!("{}:{slots}", address(host)),
        };
        (1..).zip(&self.slots).map(one).collect::<Vec<String>>().join(",")
    }

    /// The file that is the value of `--hostfile`, if racks are named.
    pub(super) fn file(&self) -> Option<String> {
        let racks = self.racks.as_ref()?;
        let line = |((host, slots), rack): ((u32, &u32), &u32)| match slots {
            0 => format!("{} spare rack={rack}\n", address(host)),
            slots => format!("{} slots={slots} rack={rack}\n", address(host)),
        };
        Some((1..).zip(&self.slots).zip(racks).map(line).collect())
    }

    /// The host of each rank, as the job begins.
    pub(super) fn places(&self) -> Vec<u32> {
        (1..).zip(&self.slots).flat_map(|(host, slots)| std::iter::repeat_n(host, *slots as usize)).collect()
    }

    /// The names of all hosts, for `scash resume`.
    pub(super) fn names(&self) -> String {
        (1..=self.hosts()).map(address).collect::<Vec<String>>().join(",")
    }

    /// What the user wants of ranks; not each can be had.
    fn order(&self, rng: &mut Rng) -> Blow {
        let host = rng.between(1, self.hosts());
        if rng.chance(25) { Blow::Drain(host) } else { Blow::Move(rng.below(self.ranks()), host) }
    }

    /// Failures from outside, and what the user wants meanwhile. One host is left in any case.
    pub(super) fn strikes(&self, rng: &mut Rng) -> Vec<Strike> {
        let mut order: Vec<u32> = (1..=self.hosts()).collect();
        rng.shuffle(&mut order);
        let mut blows: Vec<Blow> = losses(&order[1..], self.copies, rng);
        for _ in 0..rng.below(3) {
            let at = rng.below(u32::try_from(blows.len()).unwrap_or(0) + 1) as usize;
            blows.insert(at, rank_blow(rng.below(20), rng));
        }
        for _ in 0..rng.pick(&[0, 0, 0, 1, 1, 2]) {
            let at = rng.below(u32::try_from(blows.len()).unwrap_or(0) + 1) as usize;
            // One alone would tidy up after the other, and agents are its children here.
            blows.insert(at, Blow::KillBoth);
        }
        for _ in 0..rng.pick(&[0, 0, 0, 1, 2, 3]) {
            let at = rng.below(u32::try_from(blows.len()).unwrap_or(0) + 1) as usize;
            blows.insert(at, self.order(rng));
        }
        for _ in 0..rng.pick(&[0, 0, 0, 1, 2]) {
            let at = rng.below(u32::try_from(blows.len()).unwrap_or(0) + 1) as usize;
            blows.insert(at, Blow::Cut(rng.between(1, self.hosts()), pause(LONGEST_CUT, rng)));
        }
        let strike = |blow| {
            // Some come while ranks are on their way back, and some when they have long gone on.
            let most = rng.pick(&[20, 200, 800, 2000]);
            Strike { after: pause(most, rng), blow }
        };
        blows.into_iter().map(strike).collect()
    }
}

/// How some of these hosts are lost. Only one time in ten there are more at once than there are copies.
fn losses(hosts: &[u32], copies: u32, rng: &mut Rng) -> Vec<Blow> {
    let two = hosts.first_chunk().copied();
    let one = |host: u32, rng: &mut Rng| {
        if rng.chance(35) { Blow::KillThenLose(host) } else { Blow::Lose(host) }
    };
    match (rng.below(20), two) {
        (0..=2, _) => Vec::new(),
        (3..=4, Some([one, other])) => vec![Blow::LoseBoth(one, other)],
        (5..=8, Some([one, other])) if copies > 1 => vec![Blow::LoseBoth(one, other)],
        (9..=14, Some(_)) => {
            let number = rng.between(2, u32::try_from(hosts.len()).unwrap_or(2));
            hosts[..number as usize].iter().map(|host| one(*host, rng)).collect()
        }
        _ => hosts.first().map(|host| one(*host, rng)).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_on_hosts_keeps_one_of_them_and_loses_each_other_one_once() {
        for seed in 0..2000 {
            let mut rng = Rng::part(seed, 0);
            let spread = Spread::draw(&mut rng).with_on_loss(&mut Rng::part(seed, 4));
            assert!((2..=MOST_RANKS).contains(&spread.ranks()), "{spread:?}");
            let mut lost: Vec<u32> =
                spread.strikes(&mut rng).iter().flat_map(|strike| strike.blow.hosts()).collect();
            assert!(lost.len() < spread.slots.len(), "{spread:?} {lost:?}");
            assert!(lost.iter().all(|host| (1..=spread.hosts()).contains(host)), "{spread:?} {lost:?}");
            lost.sort_unstable();
            assert!(lost.windows(2).all(|two| two[0] != two[1]), "{lost:?}");
        }
    }

    #[test]
    fn ranks_are_dealt_to_hosts_in_their_order() {
        let slots = vec![1, 3, 2, 0];
        let spread = Spread { slots, ..Spread::draw(&mut Rng::part(0, 0)) };
        assert_eq!(spread.list(), "10.77.0.1:1,10.77.0.2:3,10.77.0.3:2,10.77.0.4:spare");
        assert!(spread.has_ranks(3) && !spread.has_ranks(4));
        assert_eq!((spread.ranks(), spread.places()), (6, vec![1, 2, 2, 2, 3, 3]));
        assert_eq!(spread.file(), None);
        let file = Spread { racks: Some(vec![0, 1, 0, 1]), ..spread }.file().unwrap();
        assert!(file.starts_with("10.77.0.1 slots=1 rack=0\n"), "{file}");
        assert!(file.ends_with("10.77.0.4 spare rack=1\n"), "{file}");
    }
}
