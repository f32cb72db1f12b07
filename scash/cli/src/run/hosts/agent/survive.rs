//! What an agent does whose ranks may die (`--replicas`): it keeps their stores and what they print, ends
//! them, makes them what they were, and starts them again, as the launcher says.
//!
//! ```text
//!             Recall: kill all             all have ended: Store of each, Ended
//!   Together ────────────────────▶ Ending ─────────────────────────────────────▶ Ended ─┐ Rewind: stores and
//!      ▲                                                                          │ ▲   │ output go back;
//!      │                       Again: start all                                   │ └───┘ Rewound. Recall:
//!      └──────────────────────────────────────────────────────────────────────────┘         Store, Ended
//! ```

use super::running_ranks::RunningRanks;
use super::survival::{Phase, Survival};
use super::{Agent, COMMITTED, LINES, PRINTED, SAID, is_gone, outputs, trouble};
use crate::run::hosts::frames::{Again, Down, MOST_OUTPUT, MOST_PIECE, StoreChunk, Up};
use crate::run::oom::OomKills;
use crate::run::output::{Lengths, Printing, Stream};
use crate::run::recovery::{Kept, Rewound, RewoundPlace};
use crate::run::{Refusal, status};
use nix::sys::signal::Signal;
use scash_comm::Secret;
use scash_ft::Epoch;
use scash_join::boot::Layout;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of a store that are sent for one Read.
const ENOUGH: u64 = 2 << 20;

impl Agent {
    /// Starts all ranks from where they are to go on. `lost`: when the launcher learnt that a rank was lost,
    /// and when all had ended.
    pub(super) fn start_survivors(
        &mut self,
        work: &mut RunningRanks,
        lost: Option<(Instant, Instant)>,
    ) -> Result<(), Refusal> {
        let Some(mut survival) = work.survival.take() else { return Ok(()) };
        let started = self.start_ranks(work, |rank| survival.kept.setup(rank, survival.base, lost));
        work.survival = Some(survival);
        started
    }

    /// Memory is short: frames go with the processes that have them.
    pub(super) fn forget_frames(&mut self) {
        if let Some(survival) = self.work.as_mut().and_then(|work| work.survival.as_mut()) {
            survival.kept.forget_frames();
        }
    }

    /// Starts to send what ranks will have printed that is not taken back, and to hear what they tell.
    pub(super) fn hear_survivors(&self, work: &RunningRanks) -> Result<Printing, Refusal> {
        if let Some(Survival { kept, .. }) = &work.survival {
            self.watch(kept, COMMITTED)?;
            self.watch(&kept.user_messages, SAID)?;
        }
        self.send_saved(work.survival.as_ref())
    }

    /// Starts to send what ranks will have printed that is not taken back.
    fn send_saved(&self, survival: Option<&Survival>) -> Result<Printing, Refusal> {
        let Some(Survival { kept, .. }) = survival else {
            return Err(Refusal::new(status::LAUNCHER, "nothing is kept of what ranks print"));
        };
        let sinks = |done| outputs(&self.uplink, done);
        let printing = Printing::send_saved(kept.output(), sinks).map_err(|error| trouble(&error))?;
        self.watch(&printing, PRINTED)?;
        Ok(printing)
    }

    /// Takes what a launcher says whose job's ranks may die.
    pub(super) fn take_of_survivors(&mut self, down: Down) -> Result<(), Refusal> {
        let Some(work) = &mut self.work else { return Ok(()) };
        let Some(survival) = &mut work.survival else { return Ok(()) };
        match (down, survival.phase) {
            (Down::Recall, Phase::Together) if work.begun => {
                survival.recall();
                survival.phase = Phase::Ending;
                work.processes.signal(Signal::SIGKILL);
            }
            // Another host was lost before ranks could be started again.
            (Down::Recall, Phase::Ended) => {
                survival.recall();
                return self.tell_of_stores();
            }
            (Down::Empty(rank), Phase::Ended) => return self.change_store(|kept| kept.empty(rank)),
            (Down::Read { rank, range }, Phase::Ended) => return self.read_store(rank, range),
            (Down::Piece(piece), Phase::Ended) => {
                return self.change_store(|kept| kept.write(piece.rank, piece.at, &piece.bytes));
            }
            (Down::Store(rank), Phase::Ended) => return self.send(&Up::Stored(rank)),
            (Down::Rewind(all), Phase::Ended) => return self.rewind(&all),
            (Down::Again(again), Phase::Ended) => return self.start_again(again),
            (Down::Commit(epoch), _) => {
                // When ranks have ended, it is what a plan says, which may come to nothing.
                if survival.phase == Phase::Together {
                    survival.committed = survival.committed.max(epoch);
                }
                if epoch > survival.base.epoch && survival.phase == Phase::Together {
                    survival.kept.forget_former().map_err(|error| trouble(&error))?;
                }
                let bytes = survival.kept.bytes();
                self.print_epoch(epoch);
                return self.send(&Up::Kept(bytes));
            }
            (Down::Had(epoch), _) => survival.committed = survival.committed.max(epoch),
            (Down::Finish(status), _) => survival.finish(status),
            (down, phase) => {
                let what: String = format!("{down:?}").chars().take(20).collect();
                let why = format!("the launcher says {what} out of turn ({phase:?})");
                return Err(Refusal::new(status::LAUNCHER, why));
            }
        }
        Ok(())
    }

    /// Rank 0 has told of something: that all ranks go on again, or that they have an epoch.
    pub(super) fn take_news(&mut self) -> Result<(), Refusal> {
        let Some(Survival { kept, told, committed, .. }) = self.survival() else { return Ok(()) };
        let news = kept.told();
        *told = Epoch(told.0.saturating_add(news.epochs));
        *committed = (*told).max(*committed);
        let committed = Up::Committed(*told);
        if self.is_orphan() {
            return Ok(()); // another launcher that has come hears it with all that is kept
        }
        if news.resumed {
            self.send(&Up::Resumed)?;
        }
        if news.epochs > 0 { self.send(&committed) } else { Ok(()) }
    }

    /// So many bytes of a stream were seen. What ranks keep of that is of no use any more.
    pub(super) fn give_up(&mut self, stream: Stream, bytes: u32) {
        let seen = self.uplink.taken(stream, bytes);
        if let (Some((rank, seen)), Some(survival)) = (seen, self.survival()) {
            survival.kept.output().give_up(rank, stream as usize - 1, seen);
        }
    }

    /// Passes on what ranks have said that cannot wait for a checkpoint; to the launcher that they had.
    pub(super) fn pass_sayings_on(&mut self) -> Result<(), Refusal> {
        let is_orphan = self.is_orphan();
        while let Some(lines) = self.survival().and_then(|survival| survival.kept.user_messages.next()) {
            for part in lines.as_bytes().chunks(MOST_OUTPUT).filter(|_| !is_orphan) {
                self.send(&Up::Said(part.to_vec()))?;
            }
        }
        Ok(())
    }

    /// A rank has ended: tells how much it has printed, if that is kept.
    pub(super) fn tell_what_is_printed(&mut self, rank: u32) -> Result<(), Refusal> {
        let Some(survival) = self.survival() else { return Ok(()) };
        let lengths = survival.kept.output().lengths(rank as usize);
        self.send(&Up::Printed { rank, lengths })
    }

    /// No rank runs. Tells the launcher what stores say, if it has recalled the ranks; sends all that they
    /// have printed, if they will not be started again.
    pub(super) fn survivors_have_ended(&mut self) -> Result<(), Refusal> {
        if self.survival().is_none() {
            return Ok(());
        }
        self.pass_sayings_on()?;
        let Some(survival) = self.survival() else { return Ok(()) };
        if survival.phase == Phase::Ending {
            survival.phase = Phase::Ended;
            return if self.is_orphan() { self.tell_what_is_kept() } else { self.tell_of_stores() };
        }
        if survival.is_finished
            && let Some(printing) = self.work.as_ref().and_then(|work| work.printing.as_ref())
        {
            printing.finish();
        }
        Ok(())
    }

    /// Tells the launcher what the stores say of ranks that have ended.
    fn tell_of_stores(&mut self) -> Result<(), Refusal> {
        let Some(survival) = self.survival() else { return Ok(()) };
        for state in survival.kept.states_with_output() {
            self.send(&Up::Store(state))?;
        }
        self.send(&Up::Ended)
    }

    /// This agent cannot do its part in a restart. It keeps what it has: another launcher may need that.
    fn cannot(&mut self, why: String) -> Result<(), Refusal> {
        let said = self.survival().is_some_and(|survival| std::mem::replace(&mut survival.has_refused, true));
        if said {
            return Ok(());
        }
        self.send(&Up::Refused { status: status::LAUNCHER, why })
    }

    /// Does something to a store whose rank moves here.
    fn change_store(&mut self, change: impl FnOnce(&mut Kept) -> io::Result<()>) -> Result<(), Refusal> {
        let Some(Survival { kept, .. }) = self.survival() else { return Ok(()) };
        change(kept).or_else(|error| {
            self.cannot(format!("the store of a rank that moves here cannot be written: {error}"))
        })
    }

    /// Sends some of the store of a rank that moves away.
    fn read_store(&mut self, rank: u32, range: Range<u64>) -> Result<(), Refusal> {
        let uplink = Arc::clone(&self.uplink);
        let Some(Survival { kept, .. }) = self.survival() else { return Ok(()) };
        let send = |at, bytes: &[u8]| uplink.send(&Up::Piece(StoreChunk { rank, at, bytes: bytes.to_vec() }));
        match kept.read(rank, range, ENOUGH, &mut vec![0; MOST_PIECE], send) {
            Ok(next) => self.send(&Up::HasRead { rank, next }),
            Err(error) if is_gone(&error) => self.sent(Err(error)).map_err(|error| trouble(&error)),
            Err(error) => {
                self.cannot(format!("the store of rank {rank}, which moves away, cannot be read: {error}"))
            }
        }
    }

    /// Makes of all ranks what they were.
    fn rewind(&mut self, all: &[Rewound]) -> Result<(), Refusal> {
        let Some(work) = &mut self.work else { return Ok(()) };
        let Some(survival) = &mut work.survival else { return Ok(()) };
        // Ranks may have ended already, and all of what they have printed be on its way.
        work.printing.take_if(|printing| !printing.go_on());
        if let Err(why) = survival.kept.rewind(all, &mut || {}) {
            return self.cannot(why);
        }
        // Their files begin with zeros, which are not to be printed whatever becomes of the restart.
        let comers = comers(all);
        self.uplink.skip(&comers);
        work.printing.iter().for_each(|printing| printing.skip(&comers));
        self.send(&Up::Rewound)
    }

    /// What is part of this epoch will not be taken back any more, and is printed.
    fn print_epoch(&self, epoch: Epoch) {
        let Some(work) = &self.work else { return };
        let lengths = work.survival.as_ref().and_then(|survival| survival.kept.printed_at(epoch));
        if let (Some(lengths), Some(printing)) = (lengths, &work.printing) {
            printing.commit(&lengths);
        }
    }

    /// Goes on to print, also what ranks have brought along that have come; not before the launcher knows
    /// them here.
    fn print_on(&mut self, base: Epoch) -> Result<(), Refusal> {
        if let Some(work) = self.work.as_ref().filter(|work| work.printing.is_none()) {
            let printing = self.send_saved(work.survival.as_ref())?;
            printing.skip(&self.uplink.sent());
            if let Some(work) = &mut self.work {
                work.printing = Some(printing);
            }
        }
        self.print_epoch(base);
        Ok(())
    }

    /// Starts all ranks, as the next incarnation. What it lacks for that may be there later.
    fn start_again(&mut self, again: Again) -> Result<(), Refusal> {
        let Again { base, ago, secret, layout, adopted } = again;
        if let Some(RunningRanks { survival: Some(survival), host, layout: there, .. }) = &mut self.work {
            // Stores are for ranks that are there, whether they can be started or not.
            there.clone_from(&layout);
            (survival.base, survival.told, survival.phase) = (base, base.epoch, Phase::Together);
            survival.committed = survival.committed.max(base.epoch);
            survival.is_recalled = false;
            survival.adopted = adopted;
            survival.place(&layout, *host);
            self.uplink.only(&layout.ranks_of(*host).collect::<Vec<u32>>());
        }
        self.oom_kills = OomKills::until_now();
        let started = self.print_on(base.epoch).and_then(|()| {
            let Some(mut work) = self.work.take() else { return Ok(()) };
            let started = self.start_renewed(&mut work, secret, layout, ago);
            self.work = Some(work);
            started
        });
        started.or_else(|Refusal { status, why }| self.send(&Up::Refused { status, why }))
    }

    /// Starts all ranks with new lines. `ago`: how long before the launcher learnt that one was lost, and
    /// that all had ended.
    fn start_renewed(
        &mut self,
        work: &mut RunningRanks,
        secret: Secret,
        layout: Layout,
        ago: [Duration; 2],
    ) -> Result<(), Refusal> {
        let former = work.renew(secret, layout)?;
        // It is not watched if that has failed before.
        let _ = self.epoll.delete(&former);
        self.watch(&work.host_relay, LINES)?;
        let now = Instant::now();
        let [lost, ended] = ago.map(|ago| now.checked_sub(ago).unwrap_or(now));
        self.start_survivors(work, Some((lost, ended)))
    }

    pub(super) fn survival(&mut self) -> Option<&mut Survival> {
        self.work.as_mut()?.survival.as_mut()
    }
}

/// Ranks that come here, and how much of what they have printed was printed elsewhere.
fn comers(all: &[Rewound]) -> Vec<(usize, Lengths)> {
    let comers = all.iter().filter(|one| one.place == RewoundPlace::Comes);
    comers.filter_map(|one| Some((usize::try_from(one.rank).ok()?, one.shown))).collect()
}
