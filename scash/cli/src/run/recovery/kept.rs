//! What outlives the processes of ranks: their stores, what they have printed, and what rank 0 reads. It is
//! kept by whoever starts the ranks: the launcher, on several hosts each agent for its own, and under another
//! launcher a rank's keeper.

use super::directory::Directory;
use super::epoch::{self, ResumePoint, Rewound, RewoundPlace, StoreState};
use super::frames::FrameFiles;
use super::input::Input;
use super::opened::{LockedFiles, OpenedStores, store_in_memory, stores_in_memory};
use super::rank_setup::RankSetup;
use super::user_messages::UserMessages;
use crate::run::output::{Lengths, Saved};
use crate::run::replicas::{Replicas, StoreLocation};
use crate::run::{Refusal, status};
use nix::sys::eventfd::{EfdFlags, EventFd};
use scash_comm::descriptors::out_of_the_way;
use scash_ft::store::{A_RESTART, Store, bytes_taken, vars};
use scash_ft::{Base, Epoch, Moment};
use scash_join::boot;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

/// Most bytes that an empty store takes.
const A_HEADER: u64 = 64 << 10;

/// What rank 0 has told of, or the only rank of a keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) struct StoreNews {
    /// How many epochs all ranks have now that they had not.
    pub(in crate::run) epochs: u64,
    /// Whether all ranks go on again.
    pub(in crate::run) resumed: bool,
}

/// What this process keeps for ranks that may die.
#[derive(Debug)]
pub(in crate::run) struct Kept {
    /// Ranks that this process starts.
    here: Vec<u32>,
    /// Whose stores ranks of this process hold copies of, which are here, too, and which of them does.
    holdings: Vec<HeldStores>,
    /// Of ranks that follow one another, all these among them.
    stores: Vec<Store>,
    frames: FrameFiles,
    /// The ranks whose output may be here.
    printing: Range<u32>,
    /// By rank, of `printing`.
    output: Arc<Saved>,
    input: Input,
    /// An eventfd, to which one rank writes after each commit, and when all ranks go on again.
    committed: File,
    /// That rank. It may be one that other processes start.
    teller: u32,
    /// What ranks say at once.
    pub(in crate::run) user_messages: UserMessages,
    /// Variables that are the same in each incarnation.
    env: Vec<(&'static str, String)>,
    /// Where stores and output are, if they are not in memory.
    taken: Option<LockedFiles>,
}

/// A copy of a rank's store, and the rank of this process that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) struct HeldStores {
    pub(in crate::run) owner: u32,
    pub(in crate::run) holder: u32,
}

impl Kept {
    /// For so many ranks, and what they are to be started from. `is_one`: both of our streams are one file.
    pub(in crate::run) fn new(
        ranks: u32,
        replicas: &Replicas,
        is_one: bool,
    ) -> Result<(Kept, Base), Refusal> {
        let input = Input::find()?;
        let (parts, what) = match &replicas.place {
            StoreLocation::Memory => (OpenedStores::in_memory(ranks, is_one), "--replicas".to_owned()),
            StoreLocation::New(path) => {
                (OpenedStores::new_in(path, ranks, is_one), format!("--checkpoint-dir {}", path.display()))
            }
            StoreLocation::Resumed(path) => {
                (OpenedStores::found_in(path, ranks), format!("resume {}", path.display()))
            }
        };
        let make = || {
            let OpenedStores { stores, output, taken, base } = parts?;
            let kept = Kept {
                here: (0..ranks).collect(),
                holdings: Vec::new(),
                stores,
                frames: FrameFiles::default(),
                printing: 0..ranks,
                output: Arc::new(output),
                input,
                committed: signal_of_commits()?,
                teller: 0,
                user_messages: UserMessages::new()?,
                env: replicas.env(),
                taken,
            };
            Ok((kept, base))
        };
        make().map_err(|error: io::Error| {
            Refusal::new(status::LAUNCHER, format!("{what}: making the stores of {ranks} ranks: {error}"))
        })
    }

    /// For ranks of a host, out of so many: which, is said by [`place`](Self::place). They read nothing.
    pub(in crate::run) fn of_host(
        size: u32,
        env: Vec<(&'static str, String)>,
        is_one: bool,
    ) -> Result<Kept, Refusal> {
        let make = || {
            Ok(Kept {
                here: Vec::new(),
                holdings: Vec::new(),
                stores: stores_in_memory(0..size, size)?,
                frames: FrameFiles::default(),
                printing: 0..size,
                output: Arc::new(Saved::kept_until_seen(size, is_one)?),
                input: Input::none(),
                committed: signal_of_commits()?,
                teller: 0,
                user_messages: UserMessages::new()?,
                env,
                taken: None,
            })
        };
        make().map_err(|error: io::Error| {
            Refusal::new(status::LAUNCHER, format!("--replicas: making the stores of its ranks: {error}"))
        })
    }

    /// These ranks are here now, and hold these copies.
    pub(in crate::run) fn place(&mut self, here: Vec<u32>, holdings: Vec<HeldStores>) {
        self.frames.keep_only(&here);
        (self.here, self.holdings) = (here, holdings);
    }

    /// Memory may be short, or it may take long until ranks run again: frames go with the processes that have
    /// them, and ranks that come back get new ones.
    pub(in crate::run) fn forget_frames(&mut self) {
        self.frames = FrameFiles::default();
    }

    /// For one rank, whose store is one of these of all, and whose output is in that directory.
    pub(super) fn of_rank(
        rank: u32,
        stores: Vec<Store>,
        directory: &Directory,
        env: Vec<(&'static str, String)>,
    ) -> io::Result<Kept> {
        let ranks = rank..rank + 1;
        Ok(Kept {
            stores,
            frames: FrameFiles::default(),
            output: Arc::new(Saved::on_disk(directory, ranks.clone(), false, false)?),
            printing: ranks,
            here: vec![rank],
            holdings: Vec::new(),
            input: Input::none(),
            committed: signal_of_commits()?,
            teller: rank,
            user_messages: UserMessages::new()?,
            env,
            taken: None,
        })
    }

    /// Whether the job that was found here has ended well, and its launcher was killed before it had printed
    /// all and removed the files.
    pub(in crate::run) fn has_ended(&self) -> bool {
        self.taken.as_ref().is_some_and(|taken| taken.has_ended)
    }

    /// All ranks have ended well. Who finds the files from now on does not start them again. (If that cannot
    /// be noted, they are started from their newest epoch.)
    pub(in crate::run) fn note_end(&self) {
        if let Some(taken) = &self.taken {
            let note = |store: &Store| taken.directory.note_end(store.rank());
            // What they have printed last is in no checkpoint.
            let _ = self.output.sync().and_then(|()| self.stores.iter().try_for_each(note));
        }
    }

    /// The job has ended, with this status. What it leaves on disk is of no use if all went well; else
    /// returns where it can be gone on with.
    pub(in crate::run) fn over(&self, status: u8, base: Base) -> Option<String> {
        let taken = self.taken.as_ref()?;
        let (directory, name) = (&taken.directory, taken.directory.path().display());
        if status == 0 {
            return directory.remove().err().map(|error| format!("removing the files in {name}: {error}"));
        }
        let epoch = if taken.is_damaged {
            epoch::resume(&self.stores).map_or(Epoch(0), |point| point.plan.base.epoch)
        } else {
            self.epoch(base)
        };
        (epoch > Epoch(0)).then(|| format!("`scash resume {name}` goes on from epoch {epoch}"))
    }

    /// What a rank is started with that goes on from `base`. `lost`: why it does, as of
    /// [`Recovery::restart`](super::Recovery::restart).
    pub(in crate::run) fn setup(
        &mut self,
        rank: u32,
        base: Base,
        lost: Option<(Instant, Instant)>,
    ) -> io::Result<RankSetup> {
        let frames = self.frames.of(rank, base.epoch)?;
        let printed = rank.checked_sub(self.printing.start).and_then(|index| usize::try_from(index).ok());
        let (Some(store), Some(printed)) = (self.store(rank), printed) else {
            return Err(io::Error::other("there is no such rank"));
        };
        let store = store.file().as_raw_fd();
        let mut env = self.env.clone();
        env.push((vars::STORE, store.to_string()));
        env.push((vars::FRAMES, frames.to_string()));
        env.push((vars::INCARNATION, base.incarnation.to_string()));
        env.push((vars::EPOCH, base.epoch.to_string()));
        if let Some((first, all)) = lost {
            env.push((vars::LOST, format!("{},{}", Moment::of(first), Moment::of(all))));
        }
        let (says, place) = self.user_messages.given()?;
        env.push((boot::vars::SAYS, place));
        let prints = self.output.numbers(printed);
        env.push((vars::PRINTS, format!("{},{}", prints[0], prints[1])));
        let mut inherited = vec![store, frames, says, prints[0], prints[1]];
        let held = self.holdings.iter().filter(|holding| holding.holder == rank);
        let held =
            held.filter_map(|holding| Some((holding.owner, self.store(holding.owner)?.file().as_raw_fd())));
        let held: Vec<(u32, RawFd)> = held.collect();
        if !held.is_empty() {
            let words: Vec<String> = held.iter().map(|(owner, file)| format!("{owner}:{file}")).collect();
            env.push((vars::HELD, words.join(",")));
            inherited.extend(held.iter().map(|(_, file)| file));
        }
        if rank == self.teller {
            let committed = self.committed.as_raw_fd();
            env.push((vars::COMMITTED, committed.to_string()));
            inherited.push(committed);
        }
        Ok(RankSetup { output: self.output.given(printed)?, env, inherited })
    }

    /// What ranks have printed.
    pub(in crate::run) fn output(&self) -> &Arc<Saved> {
        &self.output
    }

    /// The store of a rank.
    fn store(&self, rank: u32) -> Option<&Store> {
        let first = self.stores.first()?.rank();
        self.stores.get(usize::try_from(rank.checked_sub(first)?).ok()?)
    }

    /// The newest epoch that all ranks have, which were started from `base`. (Their stores are all here.)
    pub(in crate::run) fn epoch(&self, base: Base) -> Epoch {
        // Stores that contradict each other are told of when ranks are to be started from them.
        epoch::find(base, &self.states()).map_or(base.epoch, |plan| plan.base.epoch)
    }

    /// Makes the store of a rank a new one, to which one of another host is to be copied.
    pub(in crate::run) fn empty(&mut self, rank: u32) -> io::Result<()> {
        let here = self.stores.iter_mut().find(|store| store.rank() == rank).ok_or_else(no_store)?;
        *here = store_in_memory(rank, here.size())?;
        Ok(())
    }

    /// Ranks have a newer epoch than that which they were started from: whose stores are elsewhere by now,
    /// those of them that are here are of no use any more.
    pub(in crate::run) fn forget_former(&mut self) -> io::Result<()> {
        let (here, holdings) = (&self.here, &self.holdings);
        let is_held = |rank| here.contains(&rank) || holdings.iter().any(|held| held.owner == rank);
        let former =
            self.stores.iter().filter(|store| !is_held(store.rank()) && bytes_taken(store.file()) > A_HEADER);
        for rank in former.map(Store::rank).collect::<Vec<u32>>() {
            self.empty(rank)?;
        }
        Ok(())
    }

    /// Writes what comes of such a store.
    pub(in crate::run) fn write(&self, rank: u32, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.store(rank).ok_or_else(no_store)?.write(at, bytes)
    }

    /// Gives away some of the store of a rank ([`Store::read`]).
    pub(in crate::run) fn read(
        &self,
        rank: u32,
        range: Range<u64>,
        enough: u64,
        buffer: &mut [u8],
        take: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<Option<u64>> {
        self.store(rank).ok_or_else(no_store)?.read(range, enough, buffer, take)
    }

    /// What the stores say.
    pub(in crate::run) fn states(&self) -> Vec<StoreState> {
        self.stores.iter().map(StoreState::of).collect()
    }

    /// The same, with where what they have of what ranks had printed begins.
    pub(in crate::run) fn states_with_output(&self) -> Vec<StoreState> {
        self.stores.iter().map(|store| StoreState::of(store).with_output(store)).collect()
    }

    /// How much memory the stores take.
    pub(in crate::run) fn bytes(&self) -> u64 {
        self.stores.iter().map(|store| bytes_taken(store.file())).sum()
    }

    /// Takes what a rank has told of since this was called last.
    pub(in crate::run) fn told(&self) -> StoreNews {
        let mut told = [0; 8];
        let _ = (&self.committed).read(&mut told);
        let told = u64::from_ne_bytes(told);
        StoreNews { epochs: told % A_RESTART, resumed: told >= A_RESTART }
    }

    /// How much of each rank's output is part of what all have. (All stores are here.)
    pub(in crate::run) fn committed(&self, base: Base) -> Option<Vec<Lengths>> {
        let epoch = self.epoch(base);
        if epoch == base.epoch {
            return None; // it was printed when ranks were started from it
        }
        self.printed_at(epoch)
    }

    /// How much each rank that is here had printed at an epoch. If ranks have gone on meanwhile to where
    /// marks are used again, nobody knows; but they will tell of that, too.
    pub(in crate::run) fn printed_at(&self, epoch: Epoch) -> Option<Vec<Lengths>> {
        let of = |rank| {
            if self.here.contains(&rank) { lengths_at(self.store(rank)?, epoch) } else { Some([0; 2]) }
        };
        self.printing.clone().map(of).collect()
    }

    /// Makes all as it was at the newest epoch that ranks have, from which they will be started again, and
    /// which were started from `before` the last time; none may run. Returns how much they had printed then.
    ///
    /// # Errors
    /// A disk has other bytes of that epoch than were written, say. What ranks have printed up to it may have
    /// been shown, so that nobody goes on from an earlier one but whoever begins anew.
    pub(in crate::run) fn go_back(
        &mut self,
        before: Base,
        rewound: &mut dyn FnMut(),
    ) -> Result<Vec<Lengths>, String> {
        let states = self.states();
        let plan = epoch::find(before, &states).map_err(|why| why.to_string())?;
        if let Some(taken) = &mut self.taken {
            epoch::verify(&self.stores, plan.base.epoch).inspect_err(|_| taken.is_damaged = true)?;
        }
        let rounds = epoch::rounds(&plan, &states)?;
        let all: Vec<Rewound> = rounds.into_iter().flatten().map(|(_, rewound)| rewound).collect();
        self.rewind(&all, rewound)
    }

    /// Makes of each of these ranks what it was at an epoch, from which it will be started again; none may
    /// run. Returns how much those of this process had printed then. If none of them goes on here, only their
    /// stores are written. Calls `rewound` behind each one.
    pub(in crate::run) fn rewind(
        &mut self,
        all: &[Rewound],
        rewound: &mut dyn FnMut(),
    ) -> Result<Vec<Lengths>, String> {
        let runs: BTreeMap<u32, &Rewound> = all
            .iter()
            .filter(|one| one.place != RewoundPlace::Elsewhere)
            .map(|one| (one.rank, one))
            .collect();
        let lengths = if runs.is_empty() { Vec::new() } else { self.take_output_back(&runs)? };
        for Rewound { rank, base, .. } in all {
            let store = self.store(*rank).ok_or_else(|| format!("rank {rank} has no store here"))?;
            store.set_base(*base);
            store.sync().map_err(|error| format!("writing the stores: {error}"))?;
            rewound();
        }
        Ok(lengths)
    }

    /// Makes of the output and input of the ranks that go on here what they were. Returns how much each had
    /// printed.
    fn take_output_back(&mut self, runs: &BTreeMap<u32, &Rewound>) -> Result<Vec<Lengths>, String> {
        let length = |rank| runs.get(&rank).map_or([0; 2], |one| one.output);
        let lengths: Vec<Lengths> = self.printing.clone().map(length).collect();
        self.user_messages.next_incarnation();
        // Whatever was told, was so of ranks that are gone.
        let _ = self.told();
        let cut = self.output.cut(&lengths).and_then(|()| self.output.lengthen(&lengths));
        let cut = cut.and_then(|()| self.bring_output(runs));
        cut.map_err(|error| format!("taking output back: {error}"))?;
        self.input.rewind().map_err(|error| format!("standard input cannot be read again: {error}"))?;
        Ok(lengths)
    }

    /// Ranks that come here bring what they had printed and nobody has seen: it is in their stores.
    fn bring_output(&self, runs: &BTreeMap<u32, &Rewound>) -> io::Result<()> {
        for (rank, one) in runs.iter().filter(|(_, one)| one.place == RewoundPlace::Comes) {
            let (store, index) =
                (self.store(*rank).ok_or_else(no_store)?, (rank - self.printing.start) as usize);
            for stream in (0..2).filter(|stream| one.shown[*stream] < one.output[*stream]) {
                self.output.fill(index, stream, |write| {
                    store.printed(one.base.epoch, stream, one.shown[stream], write)
                })?;
            }
        }
        Ok(())
    }
}

fn no_store() -> io::Error {
    io::Error::other("there is no store of such a rank")
}

/// Makes all as it was at the newest epoch that all ranks have and no disk has damaged, and says which it is.
/// None may run.
pub(super) fn go_on(stores: &[Store], output: &Saved) -> io::Result<Base> {
    let ResumePoint { plan, instead } = epoch::resume(stores).map_err(io::Error::other)?;
    let base = plan.base;
    let lengths: Option<Vec<Lengths>> = stores.iter().map(|store| lengths_at(store, base.epoch)).collect();
    let lengths = lengths.ok_or_else(|| io::Error::other("their marks are gone"))?;
    output.must_have(&lengths)?;
    // Before anything is cut: who goes on after this one comes to the same epoch.
    epoch::carry_out(&plan, stores)?;
    output.keep_seen(&lengths)?;
    output.cut(&lengths)?;
    if let Some(why) = instead {
        crate::say(&format!("{why}: the epoch before it is whole"));
    }
    let whence =
        if base.epoch == Epoch(0) { "the beginning".into() } else { format!("epoch {}", base.epoch) };
    crate::say(&format!("the job goes on from {whence} (incarnation {})", base.incarnation));
    Ok(base)
}

/// What ranks tell of commits by.
fn signal_of_commits() -> io::Result<File> {
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    Ok(out_of_the_way(EventFd::from_value_and_flags(0, flags)?.into()).into())
}

/// How much a rank had printed at an epoch.
fn lengths_at(store: &Store, epoch: Epoch) -> Option<Lengths> {
    if epoch == Epoch(0) { Some([0; 2]) } else { store.outputs(epoch) }
}

/// Readable when a rank has told of something.
impl AsFd for Kept {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.committed.as_fd()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use std::io::Write;

    #[test]
    fn stores_of_ranks_that_have_moved_away_are_forgotten_and_others_stay() {
        let mut kept = Kept::of_host(3, Vec::new(), false).unwrap();
        kept.place(vec![0], vec![HeldStores { owner: 2, holder: 0 }]);
        for rank in 0..3 {
            kept.write(rank, 1 << 24, &vec![1; 1 << 20]).unwrap();
        }
        let bytes =
            |kept: &Kept| kept.stores.iter().map(|store| bytes_taken(store.file())).collect::<Vec<_>>();
        let before = bytes(&kept);
        kept.forget_former().unwrap();
        let after = bytes(&kept);
        assert_eq!([before[0], before[2]], [after[0], after[2]]);
        assert!(before[1] >= 1 << 20 && after[1] <= A_HEADER, "{before:?} {after:?}");
        assert_eq!(kept.stores[1].rank(), 1);
    }

    #[test]
    fn a_job_that_had_ended_well_is_found_as_it_was_and_its_ranks_are_not_to_be_started() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("job");
        let kept = |parts: OpenedStores| Kept {
            stores: parts.stores,
            taken: parts.taken,
            ..Kept::of_host(2, Vec::new(), false).unwrap()
        };
        let parts = OpenedStores::new_in(&path, 2, false).unwrap();
        parts.taken.as_ref().unwrap().directory.output(1, 0, false).unwrap().write_all(b"done\n").unwrap();
        let first = kept(parts);
        assert!(!first.has_ended());
        first.note_end();
        drop(first);
        let second = kept(OpenedStores::found_in(&path, 2).unwrap());
        assert!(second.has_ended());
        assert_eq!(std::fs::read(path.join("rank-1.out")).unwrap(), b"done\n");
        assert_eq!(second.over(0, Base::default()), None);
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
    }
}
