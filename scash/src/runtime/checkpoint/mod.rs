//! Checkpoints of this rank: what it does between the protocol's `Stage` and its answer, in the process that
//! saves itself and in the one that comes back (docs/fault-tolerance.md).
//!
//! | | |
//! |---|---|
//! | [`copies`] | what goes to other hosts |
//! | [`counts`] | what is counted and timed |
//! | [`files`] | pages of files in memory that have contents: frames, words of objects |
//! | [`ours`] | descriptors, of which a program may have closed some |
//! | [`refill`] | frames get what they had |
//! | [`restart`] | how long a restart took |
//! | [`shared`] | shared pages go into the store |
//! | [`revive`] | a runtime for the process that has come back |

pub(crate) mod copies;
mod counts;
mod files;
mod ours;
mod printed;
mod refill;
mod restart;
mod revive;
mod shared;

use copies::StoreCopies;
pub use counts::CheckpointStats;
use counts::CheckpointTimer;
use ours::{CLOSED, OwnDescriptors};
pub use restart::RestartTime;

use super::core::Core;
use super::owned::Guard;
use super::{Runtime, lock};
use crate::error::{Error, Result};
use crate::fault::PAGE;
use crate::runtime::context::RankContext;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::stat::fstat;
use scash_comm::Stillness;
use scash_comm::descriptors::{is_out_of_the_way, out_of_the_way, remember};
use scash_comm::say::say;
use scash_ft::commit::{Commit, Input, Output};
use scash_ft::image::{self, Own, PreparedImage, Refusal, STORE_AT, Step, Took, Tracking};
use scash_ft::inject::Point;
use scash_ft::interval::{DEFAULT_MTBF, Interval, IntervalPolicy, parse_mtbf};
use scash_ft::store::{AN_EPOCH, RankStore, bytes_taken, vars};
use scash_ft::{Base, Epoch, Incarnation};
use scash_mp::Paused;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// How the names of this runtime's files in memory begin.
const FILES: &str = "/memfd:scash";

/// Checkpoints in a row that fail for passing reasons, until that is said.
const OFTEN: u32 = 10;

/// How long a rank that misses another one waits to be started again.
const PATIENCE_SECONDS: u32 = 30;

/// What a rank has that can come back.
pub(crate) struct Checkpoints {
    store: RankStore,
    /// Whether the copies on other hosts have the newest epoch. In a new incarnation nobody knows.
    copies_are_whole: bool,
    commit: Commit,
    tracking: Tracking,
    given: LauncherStores,
    /// How much the rank had printed when its threads were stopped.
    printed: [u64; 2],
    interval: Interval,
    /// When this process began to count time.
    started: Instant,
    barriers: u64,
    /// This process has come back, and the ranks have not yet met since.
    resumes: bool,
    /// Over the checkpoint that is being taken.
    watch: CheckpointTimer,
    /// Whether it was said why no image can be taken, and how often there was none in a row.
    has_said_why: bool,
    in_vain: u32,
    /// Whether it was said what cannot be taken back.
    has_warned: bool,
    /// How often it was to be saved, and what was named that the program has set for itself.
    looks: u32,
    unsaved_settings: Vec<&'static str>,
    counts: CheckpointStats,
}

/// What else a rank has from the launcher.
struct LauncherStores {
    /// Where rank 0 tells it that there is a new epoch.
    tells: Option<File>,
    /// What standard output and error are, before the program puts others in their place.
    prints: [File; 2],
    /// Whether both are one file.
    prints_to_one: bool,
}

impl LauncherStores {
    /// The files in which it is kept what this rank prints.
    fn streams(&self) -> &[File] {
        &self.prints[..if self.prints_to_one { 1 } else { 2 }]
    }

    /// Bytes that are in the files that the launcher has made of standard output and error. Allocates
    /// nothing.
    fn printed(&self) -> [u64; 2] {
        [0, 1]
            .map(|stream| fstat(&self.prints[stream]).map_or(0, |is| u64::try_from(is.st_size).unwrap_or(0)))
    }
}

impl Checkpoints {
    /// Whether the launcher has given anything.
    pub(super) fn are_taken(var: &dyn Fn(&str) -> Option<OsString>) -> bool {
        var(vars::STORE).is_some()
    }

    /// What the launcher has given to this rank, if ranks of this job can come back.
    ///
    /// # Errors
    /// It is not what a launcher gives.
    pub(super) fn from_vars(var: &dyn Fn(&str) -> Option<OsString>) -> Result<Option<Checkpoints>> {
        if !Checkpoints::are_taken(var) {
            return Ok(None);
        }
        if !image::is_linked() {
            return Err(Error::Join(
                "this program was linked without what a rank needs to come back".to_owned(),
            ));
        }
        let setting = |name: &str| var(name).map(|text| text.to_string_lossy().into_owned());
        let policy = setting(vars::CHECKPOINT).unwrap_or_else(|| "auto".to_owned());
        let policy: IntervalPolicy =
            policy.parse().map_err(|e| Error::Setting(format!("{}: {e}", vars::CHECKPOINT)))?;
        let mtbf = setting(vars::MTBF).map_or(Ok(DEFAULT_MTBF), |text| parse_mtbf(&text));
        let mtbf = mtbf.map_err(|e| Error::Setting(format!("{}: {e}", vars::MTBF)))?;
        remember();
        let (store, given) = open(var)?;
        let now = Instant::now();
        Ok(Some(Checkpoints {
            commit: commit_of(&store, &StoreCopies::default()),
            copies_are_whole: false,
            tracking: Tracking::new(out_of_the_way),
            store,
            given,
            printed: [0; 2],
            interval: Interval::new(policy, mtbf),
            started: now,
            barriers: 0,
            resumes: false,
            watch: CheckpointTimer::start(),
            has_said_why: false,
            in_vain: 0,
            has_warned: false,
            looks: 0,
            unsaved_settings: Vec::new(),
            counts: CheckpointStats::default(),
        }))
    }

    /// This rank's store.
    pub(super) fn store(&self) -> &RankStore {
        &self.store
    }

    /// Copies of the store are there.
    pub(super) fn has(&mut self, copies: &StoreCopies) {
        self.commit = commit_of(&self.store, copies);
        self.copies_are_whole = false;
    }

    /// This rank comes to a memory barrier: whether a checkpoint is due.
    fn is_due(&mut self) -> bool {
        self.barriers += 1;
        self.interval.due(self.started.elapsed(), self.barriers)
    }

    /// Gives the commitment what has happened.
    fn tell(&mut self, input: Input) -> Result<()> {
        self.commit.take(input).map_err(|e| Error::Broken(e.to_string()))
    }

    /// This rank is saved: so many pages were copied, and it consists of so many.
    fn saved(&mut self, copied: u64, kept: u64) -> SaveOutcome {
        self.counts.copied += copied;
        self.counts.kept = kept;
        self.in_vain = 0;
        SaveOutcome::InStore
    }

    /// Says once of what is saved that not all of it can be taken back, and what is not saved. That takes a
    /// while to find out: it is looked for at the first checkpoint, the second, the fourth, and so on.
    fn warn(&mut self, rank: u32, prepared: &PreparedImage) {
        self.looks += 1;
        if self.looks.is_power_of_two() {
            let mut changed = prepared.changed_settings();
            changed.retain(|what| !self.unsaved_settings.contains(what));
            self.unsaved_settings.extend(&changed);
            if !changed.is_empty() {
                let what = changed.join(", ");
                say(format!(
                    "scash: rank {rank}: no checkpoint has what was set of its process since it began; if a rank dies, \
                     this is as at its start: {what}\n"
                ));
            }
        }
        let Some((number, path)) = prepared.overwritten() else { return };
        if !std::mem::replace(&mut self.has_warned, true) {
            let path = path.display();
            say(format!(
                "scash: rank {rank}: descriptor {number} ({path}) is open for writing before the end of its file: \
                 if a rank dies, what was overwritten there since the checkpoint is not taken back\n"
            ));
        }
    }

    /// This rank cannot be saved. Says so once, unless it may be otherwise the next time: then when that has
    /// been so for long.
    fn leave_out(&mut self, rank: u32, why: &Refusal) -> SaveOutcome {
        self.in_vain += 1;
        let is_news = !why.is_passing() || self.in_vain >= OFTEN;
        if is_news && !std::mem::replace(&mut self.has_said_why, true) {
            say(format!(
                "scash: rank {rank} cannot be saved, so that the job could not go on from here if a rank died: {why}\n"
            ));
        }
        SaveOutcome::Nothing
    }

    /// The checkpoint that all ranks have answered counts, or does not.
    fn end(&mut self, counts: bool, context: &RankContext) -> Result<()> {
        let (now, cost) = (self.started.elapsed(), self.watch.all());
        self.counts.meeting += self.watch.lap();
        if std::mem::take(&mut self.resumes) {
            // This process comes back from it: it was committed, and its program will be told so.
            self.counts.committed += 1;
            self.interval.resumed(now, self.barriers);
            return Ok(());
        }
        self.tracking.settle(counts);
        self.tell(Input::Met { committed: counts })?;
        while let Some(output) = self.commit.poll() {
            match output {
                Output::Free { .. } => {
                    self.store.commit();
                    self.copies_are_whole = true;
                }
                Output::Clear { holder: 0, .. } => {
                    self.store.abandon();
                    self.tell(Input::Cleared(0))?;
                }
                Output::Clear { holder, .. } => {
                    context.copies.mark(&*context.endpoint, holder, &self.store)?;
                    self.tell(Input::Cleared(holder))?;
                }
                _ => {}
            }
        }
        if !counts {
            self.counts.left_out += 1;
            self.interval.resumed(now, self.barriers);
            return Ok(());
        }
        self.interval.took(cost, now, self.barriers);
        self.counts.committed += 1;
        self.tell_launcher(AN_EPOCH);
        Ok(())
    }

    /// Tells the launcher of something, if this is rank 0.
    fn tell_launcher(&mut self, what: u64) {
        if let Some(tells) = &mut self.given.tells {
            // A launcher that is gone ends this rank otherwise.
            let _ = tells.write(&what.to_ne_bytes());
        }
    }
}

fn commit_of(store: &RankStore, copies: &StoreCopies) -> Commit {
    let commit = Commit::new(store.incarnation(), store.epoch(), copies.count());
    commit.expect("a store has a holder, and not too many")
}

/// A number that the launcher has given.
fn number(var: &dyn Fn(&str) -> Option<OsString>, name: &str) -> Result<u64> {
    let text = var(name).unwrap_or_default();
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Error::Join(format!("{name}={}: a number is expected", text.display())))
}

/// A descriptor that the launcher has given. To be called once for each. Programs that the rank starts do not
/// get it.
fn descriptor(var: &dyn Fn(&str) -> Option<OsString>, name: &str) -> Result<OwnedFd> {
    let number = RawFd::try_from(number(var, name)?).map_err(|e| Error::Join(format!("{name}: {e}")))?;
    // SAFETY: the launcher has given it to this process, and nobody else knows it; if not, calls with it
    // fail.
    let file = out_of_the_way(unsafe { OwnedFd::from_raw_fd(number) });
    let _ = fcntl(&file, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
    Ok(file)
}

/// The file that the launcher has given for this rank's frames, if it has.
pub(super) fn frames(var: &dyn Fn(&str) -> Option<OsString>) -> Result<Option<OwnedFd>> {
    var(vars::FRAMES).map(|_| descriptor(var, vars::FRAMES)).transpose()
}

/// Maps the store that the launcher has given, and takes what else it has.
fn open(var: &dyn Fn(&str) -> Option<OsString>) -> Result<(RankStore, LauncherStores)> {
    let base = Base {
        incarnation: Incarnation(number(var, vars::INCARNATION)?),
        epoch: Epoch(number(var, vars::EPOCH)?),
    };
    let file = descriptor(var, vars::STORE)?;
    // SAFETY: the addresses are those of stores, and a process has one.
    let store = unsafe { RankStore::map(file, std::ptr::with_exposed_provenance_mut(STORE_AT), base) };
    let store = store.map_err(|e| Error::Join(format!("the store of this rank cannot be used: {e}")))?;
    let tells = var(vars::COMMITTED).map(|_| descriptor(var, vars::COMMITTED)).transpose()?.map(File::from);
    let (prints, prints_to_one) = prints(var)?;
    Ok((store, LauncherStores { tells, prints, prints_to_one }))
}

/// The files in which the launcher keeps what this rank prints, and whether they are one.
fn prints(var: &dyn Fn(&str) -> Option<OsString>) -> Result<([File; 2], bool)> {
    let text = var(vars::PRINTS).unwrap_or_default();
    let wrong = || Error::Join(format!("{}={}: two numbers are expected", vars::PRINTS, text.display()));
    let (out, err) = text.to_str().and_then(|text| text.split_once(',')).ok_or_else(wrong)?;
    let file = |number: &str| -> Result<File> {
        let number = number.parse::<RawFd>().ok().filter(|number| *number > 2).ok_or_else(wrong)?;
        // SAFETY: the launcher has given it to this process, and nobody else knows it; if not, calls fail.
        let file = File::from(out_of_the_way(unsafe { OwnedFd::from_raw_fd(number) }));
        let _ = fcntl(&file, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
        Ok(file)
    };
    let printed = file(out)?;
    let is_one = out == err;
    let also = if is_one { printed.try_clone().map_err(|_| wrong())? } else { file(err)? };
    Ok(([printed, File::from(out_of_the_way(also.into()))], is_one))
}

impl Runtime {
    /// Tells the protocol, on the way into a memory barrier, if a checkpoint is due.
    pub(super) fn look_at_the_clock(&self, core: &mut Core) -> Result<()> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(()) };
        if lock(checkpoints).is_due() {
            core.node.handle(scash_proto::Input::CheckpointDue)?;
        }
        Ok(())
    }

    /// Saves what this rank has, and says whether it has. Returns twice: in the process that has come back,
    /// too, and there with a runtime that has been made anew. Whoever has the lock on the core keeps other
    /// threads of the runtime away from everything.
    pub(super) fn stage(&self, core: &mut Guard<'_, Core>, messages: &[Paused<'_>]) -> Result<bool> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(false) };
        self.context.endpoint.flush()?;
        let mut checkpoints = lock(checkpoints);
        self.passes(Point::CheckpointDue);
        checkpoints.watch = CheckpointTimer::start();
        checkpoints.tell(Input::Stage)?;
        while let Some(output) = checkpoints.commit.poll() {
            match output {
                Output::Write { holder: 0 } => match self.save(core, &mut checkpoints, messages)? {
                    SaveOutcome::InStore => {
                        self.passes(Point::CheckpointCopy);
                        checkpoints.tell(Input::Copied(0))?;
                    }
                    SaveOutcome::CameBack => return Ok(true),
                    SaveOutcome::Nothing => checkpoints.tell(Input::NoRoom(0))?,
                },
                Output::Write { holder } if checkpoints.store.has_written() => {
                    let Checkpoints { store, copies_are_whole, .. } = &mut *checkpoints;
                    self.context.copies.send(&*self.context.endpoint, holder, store, !*copies_are_whole)?;
                    checkpoints.tell(Input::Copied(holder))?;
                }
                Output::Write { holder } => checkpoints.tell(Input::NoRoom(holder))?,
                // The store is memory of this host, or a disk that has taken what was written (`save`).
                Output::Fence { holder: 0 } => {
                    fence(Ordering::SeqCst);
                    self.passes(Point::CheckpointFence);
                    checkpoints.tell(Input::Fenced(0))?;
                }
                Output::Fence { holder } => {
                    self.context.copies.fence(&*self.context.endpoint, holder)?;
                    checkpoints.tell(Input::Fenced(holder))?;
                }
                Output::Mark { holder: 0, .. } => {
                    let Checkpoints { printed, barriers, .. } = *checkpoints;
                    checkpoints.store.mark(printed, barriers).map_err(no_mark)?;
                    self.passes(Point::CheckpointMark);
                    checkpoints.tell(Input::Marked(0))?;
                }
                Output::Mark { holder, .. } => {
                    self.context.copies.mark(&*self.context.endpoint, holder, &checkpoints.store)?;
                    checkpoints.tell(Input::Marked(holder))?;
                }
                Output::Staged | Output::NotStaged => {
                    let rest = checkpoints.watch.lap();
                    checkpoints.counts.fence += rest;
                    return Ok(output == Output::Staged);
                }
                _ => {}
            }
        }
        Err(Error::Broken("a checkpoint came to nothing".to_owned()))
    }

    /// Writes image and shared pages into the store.
    fn save(
        &self,
        core: &mut Guard<'_, Core>,
        checkpoints: &mut Checkpoints,
        messages: &[Paused<'_>],
    ) -> Result<SaveOutcome> {
        let own = Own { descriptors: &is_out_of_the_way, shared: FILES };
        let (prepared, still) = match self.prepare(&own, messages) {
            Ok(ready) => ready,
            Err(why) => return Ok(checkpoints.leave_out(self.rank, &why)),
        };
        if self.knows_of_a_loss() {
            return Ok(SaveOutcome::Nothing);
        }
        checkpoints.warn(self.rank, &prepared);
        let known = checkpoints.store.outputs();
        let descriptors = OwnDescriptors::of(checkpoints, &self.context);
        let mut staged = checkpoints.store.stage();
        let may_fail = lock(&self.fate).is_some();
        let mut steps = |step| {
            match step {
                Step::Page if !may_fail => {}
                Step::Page => self.passes(Point::ImagePage),
                Step::Asked => self.passes(Point::ImageThread),
                Step::Described => self.passes(Point::ImageDescribed),
                Step::Stopped => {
                    // Threads that are not in the barrier print again after it.
                    checkpoints.printed = checkpoints.given.printed();
                    checkpoints.counts.stop += checkpoints.watch.lap();
                    self.passes(Point::CheckpointStop);
                    return descriptors.are_ours();
                }
            }
            true
        };
        // SAFETY: this thread has the locks on the core and on the call that all threads of the rank come to,
        // and the endpoint holds still: no thread of the runtime changes anything. After a return in another
        // process all that is the kernel's is made anew.
        let took = unsafe { image::capture(prepared, &own, &checkpoints.tracking, &mut staged, &mut steps) };
        drop(still);
        let mut image_time = Duration::ZERO;
        let saved = match took {
            Ok(Took::CameBack) => {
                // Its store is that of the process that is gone.
                std::mem::forget(staged);
                self.revive(core, checkpoints, messages)?;
                return Ok(SaveOutcome::CameBack);
            }
            Ok(Took::Nothing) => Err(Refusal::new(CLOSED.to_owned())),
            Ok(Took::Image { .. }) if self.knows_of_a_loss() => return Ok(SaveOutcome::Nothing),
            Ok(Took::Image { scan }) => {
                checkpoints.counts.scan += scan;
                image_time = checkpoints.watch.lap();
                let shared = self.save_shared(core, &mut staged);
                let all = shared.and_then(|()| {
                    if self.context.copies.count() == 1 {
                        return Ok(()); // they stay where they are
                    }
                    printed::save(checkpoints.given.streams(), checkpoints.printed, known, &mut staged)
                });
                all.map_err(|why| Refusal::new(why.to_string()))
            }
            Err(why) => Err(why),
        };
        let (copied, kept) = (staged.copied(), staged.pages());
        // What was found of an image that there is not may be gone: threads run again.
        let written = saved.and_then(|()| staged.written().map_err(|why| Refusal::new(why.to_string())));
        checkpoints.counts.image += image_time;
        checkpoints.counts.shared += checkpoints.watch.lap();
        let saved = written.and_then(|written| {
            checkpoints.counts.copy += written.copying;
            // Where the store outlives this machine: the lengths that the image tells are those that other
            // hosts see, or this one when it has power again.
            if checkpoints.store.is_durable() || self.context.copies.count() > 1 {
                image::sync_files(&own, &checkpoints.given.prints.each_ref().map(|file| file.as_fd()))?;
            }
            let unwritten = |e| Refusal::new(format!("its store cannot be written: {e}"));
            checkpoints.store.wrote(written).map_err(unwritten)
        });
        checkpoints.counts.fence += checkpoints.watch.lap();
        match saved {
            Ok(()) => Ok(checkpoints.saved(copied, kept)),
            Err(why) => Ok(checkpoints.leave_out(self.rank, &why)),
        }
    }

    /// Finds out whether this rank can be saved, and has the threads of the runtime hold still.
    fn prepare<'a>(
        &'a self,
        own: &Own<'_>,
        messages: &'a [Paused<'_>],
    ) -> std::result::Result<(PreparedImage, Vec<Stillness<'a>>), Refusal> {
        if let Some(it) = messages.iter().find_map(Paused::hindrance) {
            let refusal = if it.is_passing { Refusal::passing } else { Refusal::new };
            return Err(refusal(it.why.to_owned()));
        }
        let prepared = image::prepare(own)?;
        self.await_attendant();
        // What they work on there is another one's in the process that comes back.
        if !self.await_idlers() || self.context.objects.has_leavers() {
            return Err(Refusal::passing("a thread is on its way out of a call that waits".to_owned()));
        }
        let theirs = messages.iter().map(Paused::hold_still);
        let still = std::iter::once(self.context.endpoint.hold_still()).chain(theirs).collect::<Option<_>>();
        let still = still.ok_or_else(|| {
            Refusal::new("its provider has threads that do not stop: use tcp or shm".to_owned())
        })?;
        Ok((prepared, still))
    }

    /// Whether the checkpoint that all ranks have answered counts.
    pub(super) fn committed(&self, counts: bool) -> Result<()> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(()) };
        self.passes(Point::CheckpointMeet);
        lock(checkpoints).end(counts, &self.context)?;
        self.passes(Point::CheckpointDone);
        Ok(())
    }

    /// A checkpoint at a memory barrier, now, whatever the clock says. Whether it was committed: not where
    /// ranks do not come back (`scash run --replicas`), nor if one of them cannot be saved. Collective.
    pub fn checkpoint(&self) -> Result<bool> {
        let Some(checkpoints) = &self.checkpoints else { return self.barrier().map(|()| false) };
        let before = lock(checkpoints).counts.committed;
        lock(&self.core).node.handle(scash_proto::Input::CheckpointDue)?;
        self.barrier()?;
        Ok(lock(checkpoints).counts.committed > before)
    }

    /// Which start of the job's ranks this is, from 0: it is raised each time that they come back.
    pub fn incarnation(&self) -> u64 {
        self.checkpoints.as_ref().map_or(0, |checkpoints| lock(checkpoints).store.incarnation().0)
    }

    /// What was counted of checkpoints, if ranks come back.
    pub(super) fn checkpoint_stats(&self) -> Option<CheckpointStats> {
        let checkpoints = lock(self.checkpoints.as_ref()?);
        let (incarnation, store) = (checkpoints.store.incarnation().0, checkpoints.store.file());
        // Not if the program has closed it, and has a file of its own there.
        let store = if is_out_of_the_way(store.as_raw_fd()) { bytes_taken(store) } else { 0 };
        Some(CheckpointStats { incarnation, store, ..checkpoints.counts })
    }

    /// Whether this rank may know that another one is gone. Such a rank is not saved: what it knows may be
    /// anywhere in it, in a call that is about to fail too, and the rank that comes back would miss for ever
    /// one that came back with it. The job goes back to an epoch before anyway.
    fn knows_of_a_loss(&self) -> bool {
        let page = &self.context.page;
        self.context.endpoint.misses() || (0..self.size).any(|rank| page.died(rank))
    }

    /// Where ranks come back, one that misses another does not go on: it waits to be ended and started again.
    /// A launcher that does not see to that for so long has lost nobody: then there is an error to be told.
    pub(crate) fn await_restart(&self) {
        if self.checkpoints.is_some() {
            self.tell_cuts(true);
            be_patient(PATIENCE_SECONDS);
        }
    }
}

/// Waits to be ended and started again.
pub(crate) fn be_patient(seconds: u32) {
    // Counted, so that a job may be stopped for long in it.
    (0..seconds).for_each(|_| std::thread::sleep(Duration::from_secs(1)));
}

/// How saving went.
enum SaveOutcome {
    InStore,
    /// This is the process that has come back.
    CameBack,
    /// It could not be: why was said.
    Nothing,
}

fn no_mark(error: std::io::Error) -> Error {
    Error::Broken(format!("the mark of a checkpoint cannot be written: {error}"))
}

const _: () = assert!(PAGE == scash_ft::store::PAGE);
