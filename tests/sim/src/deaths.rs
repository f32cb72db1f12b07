//! How ranks of a simulated job die, and what they come back from.
//!
//! A job with a [`Deaths`] takes checkpoints: its ranks save images and pages into simulated stores, step by
//! step, as `scash_ft::commit` says. Between any two steps somebody may be killed. Then all ranks are, and
//! the real `scash_ft::recovery` decides from which epoch they come back.

use super::network::{Happened, Network};
use super::rng::Rng;
use super::world::Setup;
use scash_proto::Sharing;

/// What is added to a [`Setup`] if ranks may die and come back.
#[derive(Clone, Copy, Debug)]
pub struct Deaths {
    /// Hosts. Ranks lie side by side on them.
    pub hosts: u32,
    /// Hosts beside its own that have a rank's store. Less than `hosts`.
    pub replicas: u32,
    /// A host that dies is replaced by an empty one. If not, its ranks move to other hosts.
    pub spares: bool,
    /// What hosts have between them, if links can be cut and slow, and hosts be taken for lost and come back.
    pub network: Option<Network>,
    /// How often, in a hundred, a rank that comes to a memory barrier says that a checkpoint is due.
    pub due: u32,
    /// How many, in a thousand, of the images cannot be saved.
    pub left_out: u32,
    /// How many times somebody is killed.
    pub kills: u32,
    /// About so many steps lie between a start or a death and the next death.
    pub apart: u64,
    /// The first death comes after so many checkpoints.
    pub after: u64,
    /// How often, in a hundred, somebody dies as soon as this has happened.
    pub at_point: Option<(Point, u32)>,
    /// The first death comes at this step.
    pub first_at: Option<u64>,
    /// The second death comes so many steps after the first.
    pub second_after: Option<u64>,
    /// The second death comes so many steps after the coordinator has begun to bring ranks back.
    pub in_restart_after: Option<u64>,
    /// What is done wrongly.
    pub mistake: Option<Mistake>,
}

/// A step of a checkpoint or of a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A rank is ordered to stage.
    Stage,
    /// It has copied a page.
    Page,
    /// Something has arrived at a holder, or was asked of one, or answered by it.
    Write,
    /// A rank has staged, or has left the checkpoint out.
    Staged,
    /// A rank knows whether the checkpoint counts.
    Committed,
    /// The coordinator has done a step.
    Recovery,
    /// A rank that was started again has gone a step further.
    Return,
}

/// All of them.
const POINTS: [Point; 7] = [
    Point::Stage,
    Point::Page,
    Point::Write,
    Point::Staged,
    Point::Committed,
    Point::Recovery,
    Point::Return,
];

/// What the simulated stores, ranks and coordinator can do wrongly: the tests must see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// One rank's mark counts for all ranks.
    Maximum,
    /// The mark is written before the data has arrived.
    NoFenceBeforeTheMark,
    /// A rank comes to the last meeting before its marks have arrived.
    MeetingBeforeTheMarks,
    /// A rank runs on when it has staged itself, and does not wait for others.
    LeavingEarly,
    /// Pages are written over those of the committed epoch.
    InPlace,
    /// Slots of the committed epoch are used again before the next one is committed.
    EarlyReuse,
    /// A mark counts whatever its incarnation is.
    AnyIncarnation,
    /// The mark of a checkpoint that was left out stays.
    MarksStay,
    /// Base records of the newest incarnation are not completed.
    NoCatchingUp,
    /// Base records are written before the copies.
    BaseRecordsFirst,
    /// Messages of the old incarnation reach the new one.
    Ghosts,
    /// Frames of pages of which nothing was saved hold what they held.
    OldFrames,
    /// Claims of the old incarnation are kept.
    OldClaims,
    /// A rank that comes back searches for data races as if the job began.
    NewSearch,
    /// The coordinator looks at stores before the ranks have ended that may write to them.
    LooksTooSoon,
    /// Ranks take messages and puts of ranks of an old incarnation that live on.
    GhostsAreHeard,
    /// What such ranks write arrives at stores of hosts that have ended their ranks.
    GhostsWrite,
    /// A host that comes back counts as if it had the stores that others have.
    ReturnedIsWhole,
    /// A message is lost where a link is cut, though its connection lives on.
    CutsLose,
    /// Ranks do not wait for a holder behind a slow link.
    SlowIsLeftOut,
}

impl Deaths {
    /// A job of one host whose ranks take checkpoints, and nobody dies.
    pub const fn none() -> Self {
        Deaths {
            hosts: 1,
            replicas: 0,
            spares: true,
            network: None,
            due: 30,
            left_out: 0,
            kills: 0,
            apart: 1000,
            after: 0,
            at_point: None,
            first_at: None,
            second_after: None,
            in_restart_after: None,
            mistake: None,
        }
    }

    /// Draws how the ranks of a seed's job die.
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::part(seed, 10);
        let hosts = rng.pick(&[1, 1, 2, 2, 3, 4]);
        Deaths {
            hosts,
            replicas: if hosts == 1 { 0 } else { 1 + u32::from(hosts > 2 && rng.chance(25)) },
            spares: rng.chance(50),
            due: rng.pick(&[3, 15, 60]),
            left_out: rng.pick(&[0, 0, 10, 60]),
            kills: rng.between(1, 4),
            apart: rng.pick(&[200, 2_000, 10_000]),
            after: rng.pick(&[0, 1, 1, 2, 4]),
            at_point: rng.chance(70).then(|| (rng.pick(&POINTS), rng.pick(&[2, 10, 30]))),
            ..Deaths::none()
        }
    }

    /// The same on one host.
    pub fn on_one_host(self) -> Self {
        Deaths { hosts: 1, replicas: 0, network: None, ..self }
    }

    /// Draws how the ranks of a seed's job die if their hosts may lose each other.
    pub fn draw_with_network(seed: u64) -> Self {
        let mut rng = Rng::part(seed, 12);
        let hosts = rng.pick(&[2, 2, 3, 3, 4]);
        Deaths {
            hosts,
            replicas: 1 + u32::from(hosts > 2 && rng.chance(25)),
            spares: false,
            network: Some(Network::draw(&mut rng)),
            kills: rng.between(1, 5),
            due: rng.pick(&[15, 60, 60]),
            ..Deaths::draw(seed)
        }
    }
}

/// A job of a seed whose ranks die: small, for each runs several times.
pub fn setup(seed: u64, sharing: Sharing) -> Setup {
    let setup = super::random::setup(seed);
    let deaths = Deaths::draw(seed);
    Setup {
        size: if setup.size > 16 { setup.size / 4 } else { setup.size },
        races: setup.races && sharing == Sharing::Off,
        deaths: Some(if sharing == Sharing::Frames { deaths.on_one_host() } else { deaths }),
        sharing,
        // No memory is common to hosts.
        board: setup.board && sharing == Sharing::Frames,
        ..setup
    }
}

/// The same, but links between hosts may be cut and slow, and hosts be taken for lost and come back.
pub fn setup_with_network(seed: u64) -> Setup {
    let deaths = Some(Deaths::draw_with_network(seed));
    let setup = setup(seed, Sharing::Off);
    Setup { size: setup.size.max(2), deaths, ..setup }
}

/// What happened to the ranks of a job, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survived {
    /// Checkpoints that were committed.
    pub committed: u64,
    /// Checkpoints that were left out.
    pub left_out: u64,
    /// Times that somebody was killed.
    pub kills: u64,
    /// Of these, while ranks were running.
    pub kills_of_ranks: u64,
    /// Hosts that died with their ranks and stores.
    pub hosts: u64,
    /// Times that the coordinator died.
    pub coordinators: u64,
    /// Times that all ranks were started again.
    pub restarts: u64,
    /// Of these, from the beginning of the program.
    pub from_the_beginning: u64,
    /// Of these, from an epoch that all ranks had staged, and none had run on in.
    pub from_staged: u64,
    /// Restarts that were broken off: before the start, or before all ranks were back.
    pub broken_off: u64,
    /// Epochs that were copied from one store to another.
    pub copies: u64,
    /// Jobs that ended because all stores of a rank were gone.
    pub lost: u64,
    /// What happened between hosts.
    pub network: Happened,
}

impl Survived {
    /// Adds up.
    pub fn add(&mut self, other: Survived) {
        self.committed += other.committed;
        self.left_out += other.left_out;
        self.kills += other.kills;
        self.kills_of_ranks += other.kills_of_ranks;
        self.hosts += other.hosts;
        self.coordinators += other.coordinators;
        self.restarts += other.restarts;
        self.from_the_beginning += other.from_the_beginning;
        self.from_staged += other.from_staged;
        self.broken_off += other.broken_off;
        self.copies += other.copies;
        self.lost += other.lost;
        self.network.add(other.network);
    }
}
