//! How hosts of a simulated job lose each other.
//!
//! In a job with a [`Network`] links are cut, between two hosts or between a host and the coordinator, and
//! heal later or never. What is on its way waits as long as sender and receiver live. Links may be slow for
//! the whole run. A host of which the coordinator hears nothing for a while is taken for lost, and at times
//! one that it hears: the host's ranks live on as *ghosts* until their agent notices. A host that was lost,
//! or taken for lost, comes back empty. It gets ranks when the next checkpoint is committed, if not sooner.

use super::rng::Rng;

/// What is added to [`Deaths`](super::deaths::Deaths) if hosts may lose each other.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// How many, in a hundred, of the links are slow.
    pub slow: u32,
    /// How many times slower these are.
    pub slowness: u32,
    /// How many, in a hundred, of the deaths are none, but befall links.
    pub cuts: u32,
    /// The coordinator takes a host for lost that it has not heard of for about so many steps.
    pub timeout: u32,
    /// About so many steps later the host ends its ranks.
    pub ghosts: u32,
    /// How many, in a hundred, of the hosts come back.
    pub back: u32,
    /// About so many steps after the loss.
    pub back_after: u32,
}

impl Network {
    /// A network of some kind.
    pub(super) fn draw(rng: &mut Rng) -> Network {
        Network {
            slow: rng.pick(&[0, 20, 60]),
            slowness: rng.pick(&[10, 50, 300]),
            cuts: rng.pick(&[30, 60, 90]),
            timeout: rng.pick(&[20, 300, 3_000]),
            ghosts: rng.pick(&[100, 1_000, 10_000]),
            back: rng.pick(&[0, 60, 100]),
            back_after: rng.pick(&[20, 300, 3_000]),
        }
    }
}

/// What happened between hosts, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Happened {
    /// Times that links were cut.
    pub cuts: u64,
    /// Times that links healed.
    pub healed: u64,
    /// Hosts that were taken for lost, and were not.
    pub suspected: u64,
    /// Ranks that lived on when their job had gone on without them.
    pub ghosts: u64,
    /// Steps of these.
    pub ghosts_steps: u64,
    /// Messages of theirs to ranks that go on, which nobody took.
    pub refused: u64,
    /// Writes of ranks of such hosts that arrived at stores of the job, whose ranks had not ended yet.
    pub wrote: u64,
    /// Hosts that came back.
    pub returned: u64,
    /// Of these, while ranks were being ended.
    pub returned_in_a_recall: u64,
    /// Restarts that gave ranks to hosts that had come back.
    pub went_home: u64,
    /// Hosts that were lost, or taken for lost, again.
    pub lost_again: u64,
    /// Jobs that ended because two hosts did not reach each other any more.
    pub cut_off: u64,
}

impl Happened {
    /// Adds up.
    pub fn add(&mut self, other: Happened) {
        self.cuts += other.cuts;
        self.healed += other.healed;
        self.suspected += other.suspected;
        self.ghosts += other.ghosts;
        self.ghosts_steps += other.ghosts_steps;
        self.refused += other.refused;
        self.wrote += other.wrote;
        self.returned += other.returned;
        self.returned_in_a_recall += other.returned_in_a_recall;
        self.went_home += other.went_home;
        self.lost_again += other.lost_again;
        self.cut_off += other.cut_off;
    }
}
