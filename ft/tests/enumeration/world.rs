//! The world that is enumerated: hosts, stores, ranks, a coordinator, and what may happen next.

use crate::rank::{At, Begin, Rank, beginning};
use crate::store::{Index, Memory, Store};
use crate::{Mutant, Setup};
use scash_ft::recovery::{KnownRestart, RecoveryAction};
use scash_ft::{Base, Epoch};

/// A host of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Host {
    Up,
    Down,
    /// It cannot be reached, was left out, and may come back with the stores that it had.
    CutOff,
}

/// The memory of all ranks at a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cut {
    pub(crate) epoch: Epoch,
    pub(crate) memory: Vec<Memory>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Running,
    /// The coordinator carries out its plan: the steps that are left, the next one last, and how far it is
    /// in that.
    Recovering {
        steps: Vec<RecoveryAction>,
        within: u8,
    },
    /// The job has ended.
    Over,
    /// The job has ended since a rank is lost.
    Lost,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) hosts: Vec<Host>,
    /// Of each rank, at each host.
    pub(crate) stores: Vec<Vec<Option<Store>>>,
    /// None while all are dead.
    pub(crate) ranks: Vec<Rank>,
    pub(crate) phase: Phase,
    /// Of the newest start: its incarnation and epoch, the holders of each rank, and hosts that died or were
    /// cut off since.
    pub(crate) base: Base,
    pub(crate) holders: Vec<Vec<u32>>,
    pub(crate) gone: Vec<u32>,
    pub(crate) known: KnownRestart,
    /// Intervals of the application since the newest start.
    pub(crate) interval: u8,
    /// Whether this checkpoint is committed, once all ranks have met.
    pub(crate) verdict: Option<bool>,
    /// What a restart may go back to: the epoch that a rank has run on in, or the one that is staged.
    pub(crate) committed: Cut,
    pub(crate) staged: Option<Cut>,
    pub(crate) crashes_left: u8,
    pub(crate) left_out_left: u8,
}

/// What dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Crash {
    Rank,
    Coordinator,
    /// A host with its stores, its ranks.
    Host(u32),
    /// A host is cut off.
    Network(u32),
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// A rank goes on.
    Rank(usize),
    /// A rank begins a checkpoint that it cannot complete.
    LeaveOut(usize, Begin),
    /// Something dies, and then all ranks; of the marks that were under way, those with a bit arrive. Hosts
    /// that were cut off are back, or not.
    Crash { what: Crash, marks: u32, back: bool },
    /// The coordinator goes on.
    Recover,
}

/// What must never be.
pub(crate) type Wrong = String;

impl World {
    pub(crate) fn new(setup: &Setup) -> World {
        let memory = (0..setup.ranks).map(beginning).collect();
        let mut world = World {
            hosts: vec![Host::Up; usize::from(setup.hosts)],
            stores: vec![vec![None; usize::from(setup.hosts)]; usize::from(setup.ranks)],
            ranks: Vec::new(),
            phase: Phase::Running,
            base: Base::default(),
            holders: Vec::new(),
            gone: Vec::new(),
            known: KnownRestart::Started(Base::default()),
            interval: 0,
            verdict: None,
            committed: Cut { epoch: Epoch(0), memory },
            staged: None,
            crashes_left: setup.crashes,
            left_out_left: setup.left_out,
        };
        world.holders = world.placement(setup);
        for (stores, holders) in world.stores.iter_mut().zip(&world.holders) {
            holders.iter().for_each(|host| stores[*host as usize] = Some(Store::default()));
        }
        let ranks = (0..setup.ranks).zip(&world.holders);
        world.ranks = ranks.map(|(rank, holders)| new_rank(rank, Base::default(), holders, None)).collect();
        world.open(setup);
        world
    }

    /// Where each rank's store belongs: on the rank's host and the next ones that are up.
    pub(crate) fn placement(&self, setup: &Setup) -> Vec<Vec<u32>> {
        let hosts = self.hosts.len();
        let of = |rank: usize| {
            let ring = (0..hosts).map(move |next| (rank + next) % hosts);
            let up = ring.filter(|host| self.hosts[*host] == Host::Up);
            up.take(usize::from(setup.k) + 1).map(|host| u32::try_from(host).unwrap()).collect()
        };
        (0..usize::from(setup.ranks)).map(of).collect()
    }

    pub(crate) fn actions(&self, setup: &Setup) -> Vec<Action> {
        let mut actions = Vec::new();
        match &self.phase {
            Phase::Over | Phase::Lost => return actions,
            Phase::Recovering { .. } => actions.push(Action::Recover),
            Phase::Running => {
                let able = |rank: &usize| self.is_able(*rank);
                actions.extend((0..self.ranks.len()).filter(able).map(Action::Rank));
            }
        }
        if self.crashes_left > 0 {
            self.crashes(setup, &mut actions);
        } else {
            // Nobody dies any more, so the order in which ranks go on makes no difference.
            actions.truncate(1);
        }
        if self.left_out_left > 0 {
            self.leave_outs(&mut actions);
        }
        actions
    }

    fn is_able(&self, rank: usize) -> bool {
        match self.ranks[rank].at {
            At::Ready | At::Busy => true,
            At::Staged | At::LeftOut => self.verdict.is_some(),
            At::Waiting => false,
        }
    }

    fn leave_outs(&self, actions: &mut Vec<Action>) {
        for rank in (0..self.ranks.len()).filter(|rank| self.ranks[*rank].at == At::Ready) {
            actions.push(Action::LeaveOut(rank, Begin::CannotStage));
            let holders = u8::try_from(self.holders[rank].len()).unwrap();
            actions.extend((0..holders).map(|holder| Action::LeaveOut(rank, Begin::NoRoom(holder))));
        }
    }

    fn crashes(&self, setup: &Setup, actions: &mut Vec<Action>) {
        let mut kinds = vec![Crash::Coordinator];
        if self.phase == Phase::Running {
            kinds.push(Crash::Rank);
        }
        let up: Vec<u32> = (0..).zip(&self.hosts).filter(|(_, h)| **h == Host::Up).map(|(n, _)| n).collect();
        if self.hosts.len() > 1 {
            kinds.extend(up.iter().map(|host| Crash::Host(*host)));
        }
        if setup.cut_off && up.len() > 1 {
            kinds.extend(up.iter().map(|host| Crash::Network(*host)));
        }
        for what in kinds {
            let marks = self.marks_under_way(what).len();
            for marks in 0..1 << marks {
                actions.push(Action::Crash { what, marks, back: false });
                if self.hosts.contains(&Host::CutOff) || matches!(what, Crash::Network(_)) {
                    actions.push(Action::Crash { what, marks, back: true });
                }
            }
        }
    }

    pub(crate) fn act(&mut self, action: Action, setup: &Setup) -> Result<(), Wrong> {
        match action {
            Action::Rank(rank) => self.step(rank, setup),
            Action::LeaveOut(rank, begin) => {
                self.left_out_left -= 1;
                self.ranks[rank].begin(begin, setup.mutant);
                self.after_step(rank, setup);
            }
            Action::Crash { what, marks, back } => {
                self.crash(what, marks, setup);
                return self.recover(back, setup);
            }
            Action::Recover => return self.recovery_step(setup),
        }
        Ok(())
    }

    fn step(&mut self, rank: usize, setup: &Setup) {
        let (holders, stores) = (&self.holders[rank], &mut self.stores[rank]);
        let this = &mut self.ranks[rank];
        match (this.at, self.verdict) {
            (At::Ready, _) => this.begin(Begin::Stage, setup.mutant),
            (At::Busy, _) => this.advance(setup.mutant, |holder, write| {
                let host = holders[usize::from(holder)] as usize;
                stores[host].as_mut().expect("a holder has a store").land(write);
            }),
            (_, Some(committed)) => this.met(committed, setup.mutant),
            (at, None) => panic!("a rank goes on while it is {at:?}"),
        }
        self.after_step(rank, setup);
    }

    fn after_step(&mut self, rank: usize, setup: &Setup) {
        if self.ranks[rank].at == At::Waiting {
            match self.staged.take() {
                Some(cut) if self.ranks[rank].committed() == cut.epoch => self.committed = cut,
                _ => {}
            }
        }
        let at = |what: At| self.ranks.iter().any(|rank| rank.at == what);
        if !at(At::Ready) && !at(At::Busy) && self.verdict.is_none() {
            self.verdict = Some(!at(At::LeftOut));
        }
        if self.ranks.iter().all(|rank| rank.at == At::Waiting) {
            self.open(setup);
        }
    }

    /// All ranks run to the next barrier, which is a checkpoint, or to the job's end.
    pub(crate) fn open(&mut self, setup: &Setup) {
        if self.committed.epoch >= Epoch(setup.epochs) {
            self.phase = Phase::Over;
            return;
        }
        self.interval += 1;
        self.verdict = None;
        self.ranks.iter_mut().for_each(|rank| rank.run(self.base.incarnation.0, self.interval));
        let memory = self.ranks.iter().map(|rank| rank.memory).collect();
        self.staged = Some(Cut { epoch: self.committed.epoch.next(), memory });
    }

    /// Whether the world has this mistake.
    pub(crate) fn is(setup: &Setup, mutant: Mutant) -> bool {
        setup.mutant == Some(mutant)
    }
}

/// A rank with so many holders.
pub(crate) fn new_rank(rank: u8, base: Base, holders: &[u32], restored: Option<(Index, Memory)>) -> Rank {
    Rank::new(rank, base, u8::try_from(holders.len()).unwrap(), restored)
}
