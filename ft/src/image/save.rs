//! Saving a process.

use super::context::SavedContext;
use super::description::{NoRoom, VERSION, Writer};
use super::files::files_change;
use super::kernel::{self, SyscallFailure};
use super::maps::{self, Mapping};
use super::owners::Owners;
use super::populated::PageMap;
use super::thread::{SIGNALS, Thread};
use super::threads::{Stopped, stop_others};
use super::{Own, PreparedImage, Refusal, Step, Tracking};
use crate::store::{Key, PAGE, Staged, Unsaved};
use std::ffi::c_void;
use std::ops::Range;
use std::time::Duration;

/// Signals that there are.
pub(super) const MOST_SIGNALS: usize = 64;
/// Bytes of the kernel's `struct sigaction`.
pub(super) const ACTION: usize = 32;

/// So many mappings are many: Linux gives a process 65,530 at most, if nobody has said otherwise.
const CROWD: usize = 1 << 14;

/// What is saved, and how it went.
pub(super) struct Save<'a, 'b> {
    prepared: &'a PreparedImage,
    own: &'a Own<'a>,
    tracking: &'a Tracking,
    staged: &'a mut Staged<'b>,
    steps: &'a mut dyn FnMut(Step) -> bool,
    thread: Thread,
    others: Stopped,
    owners: Owners<'static>,
    context: SavedContext,
    /// Whether the process has so many mappings that no more are watched: it would get even more.
    is_crowded: bool,
    /// How long the kernel has looked which pages there are, and which were written.
    scan: Duration,
    kernel: [u8; 130],
    result: Result<(), SaveError>,
}

/// Why it did not go; without memory of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum SaveError {
    Kernel(SyscallFailure),
    Unsaved(Unsaved),
    NoRoom,
    /// A shared mapping of the program's begins there.
    Shared(usize),
    /// A private mapping begins there whose file is gone: what was not written of it is in no image.
    Removed(usize),
    /// A thread has a robust mutex.
    RobustMutex,
    /// A thread has a lock there that knows its owner by the thread's number.
    OwnedLock(usize),
    /// Other threads have opened or closed files since these were looked at.
    FilesChange,
    /// A file is mapped that its identity does not have.
    NewFiles,
    /// Since that was asked, a thread has got what no image can carry.
    Late(&'static str),
}

impl From<SyscallFailure> for SaveError {
    fn from(failure: SyscallFailure) -> SaveError {
        SaveError::Kernel(failure)
    }
}

impl From<Unsaved> for SaveError {
    fn from(why: Unsaved) -> SaveError {
        SaveError::Unsaved(why)
    }
}

impl From<NoRoom> for SaveError {
    fn from(_: NoRoom) -> SaveError {
        SaveError::NoRoom
    }
}

impl<'a, 'b> Save<'a, 'b> {
    pub(super) fn new(
        prepared: &'a PreparedImage,
        own: &'a Own<'a>,
        tracking: &'a Tracking,
        staged: &'a mut Staged<'b>,
        steps: &'a mut dyn FnMut(Step) -> bool,
    ) -> Result<Save<'a, 'b>, Refusal> {
        let thread = prepared.quiet.thread;
        let (context, result, kernel) = (SavedContext::default(), Ok(()), kernel_name());
        // From here on nothing is allocated, until the value is dropped.
        let mut asked = || {
            steps(Step::Asked);
        };
        let others = if prepared.is_alone { Stopped::none() } else { stop_others(&mut asked)? };
        let (is_crowded, scan) = (false, Duration::ZERO);
        Ok(Save {
            prepared,
            own,
            tracking,
            staged,
            steps,
            thread,
            others,
            owners: Owners::default(),
            context,
            is_crowded,
            scan,
            kernel,
            result,
        })
    }

    /// Where it is noted where the thread stands.
    pub(super) fn context(&mut self) -> *mut SavedContext {
        &raw mut self.context
    }

    /// How it went; if well, how much of the time was a scan.
    pub(super) fn outcome(&self) -> Result<Duration, SaveError> {
        self.result.map(|()| self.scan)
    }

    /// Tells who watches, and returns whether that one wants more.
    pub(super) fn comes_to(&mut self, step: Step) -> bool {
        (self.steps)(step)
    }

    fn all(&mut self) -> Result<(), SaveError> {
        self.thread.set_context(&self.context);
        let mappings = maps::read()?;
        self.is_crowded = mappings.len() > CROWD;
        if !self.prepared.is_learnt && !self.prepared.identity.has_files_of(mappings) {
            return Err(SaveError::NewFiles);
        }
        // SAFETY: the store gives room for a description, which only this writer uses.
        let mut writer = unsafe { Writer::new(self.staged.description()) };
        let described = self.describe(&mut writer, mappings);
        described.map_err(|why| self.staged.trouble().map_or(why, SaveError::Unsaved))?;
        self.staged.described(writer.len());
        self.comes_to(Step::Described);
        let pages = PageMap::open()?;
        self.owners = Owners::new(self.others.numbers(), mappings);
        self.save_mappings(&pages, mappings)?;
        self.staged.flush();
        self.scan = pages.looked();
        Ok(())
    }

    /// Saves the pages of all private mappings. Those that lie one behind the other, and of which the kernel
    /// remembers no writes, are looked for at once, as those of libraries.
    ///
    /// Of stacks, too, all pages are saved: what lies below where this thread stands may be in use, as its
    /// stack may be an array in a frame of another one (`makecontext`).
    fn save_mappings(&mut self, pages: &PageMap, mappings: &[Mapping<'_>]) -> Result<(), SaveError> {
        let mut together = 0..0;
        for mapping in mappings.iter().filter(|mapping| !mapping.is_apart() && !mapping.is_shared) {
            let is_plain = mapping.is_readable() && !self.tracking.is_for(mapping);
            let follows = mapping.start == together.end;
            if is_plain && follows {
                together.end = mapping.end;
                continue;
            }
            self.save_range(pages, std::mem::take(&mut together))?;
            if is_plain {
                together = mapping.range();
            } else {
                self.save_mapping(pages, mapping)?;
            }
        }
        self.save_range(pages, together)
    }

    fn describe(&self, writer: &mut Writer, mappings: &[Mapping<'_>]) -> Result<(), SaveError> {
        writer.number(VERSION)?;
        writer.bytes(&self.kernel)?;
        self.prepared.identity.write(writer, mappings)?;
        if !self.prepared.is_alone
            && let Some(why) = hindrance()?
        {
            return Err(SaveError::Late(why));
        }
        self.prepared.files.write(writer, self.own.descriptors, self.prepared.is_alone)?;
        writer.number(self.others.len() as u64 + 1)?;
        let first = self.others.each().position(|(_, is_leader)| is_leader);
        writer.number(first.map_or(0, |i| i as u64 + 1))?;
        let threads = std::iter::once(self.thread).chain(self.others.each().map(|(thread, _)| thread));
        for thread in threads {
            // SAFETY: the thread is this one or stopped, so its list stays as it is.
            if unsafe { thread.has_robust_mutex() } {
                return Err(SaveError::RobustMutex);
            }
            writer.record(&thread)?;
        }
        writer.number(pending_signals())?;
        writer.number(barriers())?;
        let mut actions = [0u8; MOST_SIGNALS * ACTION];
        read_actions(&mut actions)?;
        writer.bytes(&actions)?;
        // SAFETY: the call tells where the heap ends.
        writer.number(unsafe { kernel::call(libc::SYS_brk, [0; 6]) }? as u64)?;
        for mapping in mappings {
            if mapping.is_apart() && !mapping.is_kernels() {
                continue;
            }
            if mapping.is_shared {
                if self.is_ours(mapping) {
                    continue;
                }
                let is_written = mapping.protection & 2 != 0;
                if is_written || !mapping.has_file() || mapping.is_removed() {
                    return Err(SaveError::Shared(mapping.start));
                }
            } else if mapping.is_removed() {
                return Err(SaveError::Removed(mapping.start));
            }
            write_mapping(writer, mapping)?;
        }
        Ok(writer.number(0)?)
    }

    fn is_ours(&self, mapping: &Mapping<'_>) -> bool {
        mapping.name.starts_with(self.own.shared.as_bytes())
    }

    /// Saves the pages of a mapping that have bytes of their own, and that may be hidden, or tracked.
    fn save_mapping(&mut self, pages: &PageMap, mapping: &Mapping<'_>) -> Result<(), SaveError> {
        if !mapping.is_readable() {
            // The program cannot read it; nothing of what it may have written before can be seen, unless it
            // is made readable again. So it is made readable for the moment.
            return self.save_hidden(pages, mapping);
        }
        let is_known = self.save_watched(pages, mapping, self.tracking.is_trusted())?
            || !self.is_crowded
                && self.tracking.begin(mapping).is_ok()
                && self.save_watched(pages, mapping, false)?;
        if is_known { Ok(()) } else { self.save_range(pages, mapping.range()) }
    }

    /// Saves a mapping if the kernel remembers what of it was written, and returns whether it does. It is
    /// believed if it is `trusted`.
    fn save_watched(
        &mut self,
        pages: &PageMap,
        mapping: &Mapping<'_>,
        trusted: bool,
    ) -> Result<bool, SaveError> {
        let (staged, steps, owners) = (&mut *self.staged, &mut *self.steps, &self.owners);
        pages.written(mapping.range(), |mut run, was_written| {
            while !run.is_empty() {
                if trusted && !was_written {
                    run.start += staged.keep(Key::private(run.start), run.len() / PAGE) * PAGE;
                    if run.is_empty() {
                        break;
                    }
                }
                // SAFETY: the page is mapped and readable.
                unsafe { save_page(staged, owners, run.start) }?;
                steps(Step::Page);
                run.start += PAGE;
            }
            Ok(())
        })
    }

    fn save_hidden(&mut self, pages: &PageMap, mapping: &Mapping<'_>) -> Result<(), SaveError> {
        let mut any = false;
        pages.runs::<SaveError>(mapping.range(), |_| {
            any = true;
            Ok(())
        })?;
        if !any {
            return Ok(());
        }
        let protection = mapping.protection as usize;
        let set = |protection| {
            let what = [mapping.start, mapping.range().len(), protection, 0, 0, 0];
            // SAFETY: the mapping is the process's, and no other thread runs.
            unsafe { kernel::call(libc::SYS_mprotect, what) }
        };
        set(protection | 1)?;
        let saved = self.save_range(pages, mapping.range());
        // Before they are hidden again.
        self.staged.flush();
        set(protection)?;
        saved
    }

    fn save_range(&mut self, pages: &PageMap, range: Range<usize>) -> Result<(), SaveError> {
        let (staged, steps, owners) = (&mut *self.staged, &mut *self.steps, &self.owners);
        pages.runs(range, |run| {
            for page in run.step_by(PAGE) {
                // SAFETY: the page is mapped and readable.
                unsafe { save_page(staged, owners, page) }?;
                steps(Step::Page);
            }
            Ok(())
        })
    }
}

/// Saves a page of private memory, if no lock that one of the threads has is in it.
///
/// # Safety
/// The page is mapped and readable, and nobody changes it.
unsafe fn save_page(staged: &mut Staged<'_>, owners: &Owners<'_>, page: usize) -> Result<(), SaveError> {
    let copied = staged.copied();
    // SAFETY: as the caller promises.
    unsafe { staged.page(Key::private(page), std::ptr::with_exposed_provenance(page)) }?;
    // A page that is as it was in the newest epoch has no lock now, since it had none then.
    let is_new = staged.copied() > copied;
    // SAFETY: as the caller promises.
    match is_new.then(|| unsafe { owners.lock_in(page) }).flatten() {
        Some(at) => Err(SaveError::OwnedLock(at)),
        None => Ok(()),
    }
}

/// How it went, in words.
pub(super) fn told(result: Result<Duration, SaveError>) -> Result<Duration, Refusal> {
    result.map_err(|trouble| {
        Refusal::new(match trouble {
            SaveError::RobustMutex => {
                return Refusal::passing(
                    "a thread of it has a robust mutex, which would not know it when it comes back".to_owned(),
                );
            }
            SaveError::OwnedLock(at) => {
                return Refusal::passing(format!(
                    "a thread of it has a lock, at {at:#x}, that knows its owner by a number which is another one when \
                     it comes back, or what looks like one: a mutex that is recursive, error-checking or with priority \
                     inheritance, or a reader-writer lock to write"
                ));
            }
            SaveError::FilesChange | SaveError::NewFiles => return files_change(),
            SaveError::Late(why) => return Refusal::passing(why.to_owned()),
            SaveError::Kernel(failure) => failure.to_string(),
            SaveError::Unsaved(why) => why.to_string(),
            SaveError::NoRoom => "it has more mappings than its store has room for".to_owned(),
            SaveError::Shared(at) => format!(
                "it shares memory with others at {at:#x}, which no image can carry (MAP_SHARED, or a shared memory object)"
            ),
            SaveError::Removed(at) => {
                format!("it has {} mapped, a file that was removed or replaced", name_of_mapping(at))
            }
        })
    })
}

/// The name of the file that is mapped there, for people.
fn name_of_mapping(at: usize) -> String {
    let mappings = maps::read().unwrap_or_default();
    let mapping = mappings.iter().find(|mapping| mapping.start == at);
    let name = mapping.map(|mapping| mapping.name).unwrap_or_default();
    String::from_utf8_lossy(name.strip_suffix(maps::REMOVED).unwrap_or(name)).into_owned()
}

/// Saves the process, as [`Save`] says.
pub(super) extern "C" fn save(with: *mut c_void) {
    // SAFETY: it is called with a `Save`, which nobody else uses meanwhile.
    let save = unsafe { &mut *with.cast::<Save<'_, '_>>() };
    save.result = save.all();
    if let Err(SaveError::OwnedLock(_)) = save.result {
        wipe_frames();
    }
}

/// Overwrites what frames below the caller's have left: the search for locks has a copy of one there that it
/// has found, which is on a stack that is searched the next time.
#[inline(never)]
fn wipe_frames() {
    let mut frames = [0u64; 1024];
    for word in &mut frames {
        // SAFETY: it is a word of this frame. Of what nobody reads, the compiler would write nothing.
        unsafe { std::ptr::from_mut(word).write_volatile(0) };
    }
}

fn write_mapping(writer: &mut Writer, mapping: &Mapping<'_>) -> Result<(), NoRoom> {
    writer.number(mapping.start as u64)?;
    writer.number(mapping.end as u64)?;
    writer.number(u64::from(mapping.protection) | u64::from(mapping.is_shared) << 32)?;
    writer.number(mapping.offset)?;
    writer.number(mapping.inode)?;
    writer.bytes(mapping.device)?;
    writer.bytes(mapping.name)
}

/// Signals that wait: all, since this thread takes none now.
fn pending_signals() -> u64 {
    let mut pending = 0u64;
    let at = (&raw mut pending).expose_provenance();
    // SAFETY: the kernel writes a set of this size.
    let _ = unsafe { kernel::raw(libc::SYS_rt_sigpending, [at, SIGNALS, 0, 0, 0, 0]) };
    pending
}

/// The kinds of `membarrier` that this process has registered for (Linux 6.3); where nobody knows, the one
/// that programs use.
fn barriers() -> u64 {
    const GET_REGISTRATIONS: usize = 1 << 9;
    // SAFETY: the call takes numbers.
    let known = unsafe { kernel::call(libc::SYS_membarrier, [GET_REGISTRATIONS, 0, 0, 0, 0, 0]) };
    let usual = kernel::bits(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    known.unwrap_or(usual) as u64
}

fn read_actions(actions: &mut [u8; MOST_SIGNALS * ACTION]) -> Result<(), SyscallFailure> {
    for (i, action) in actions.chunks_exact_mut(ACTION).enumerate() {
        let what = [i + 1, 0, action.as_mut_ptr().expose_provenance(), SIGNALS, 0, 0];
        // SAFETY: the kernel writes a `struct sigaction`, which is as long.
        unsafe { kernel::call(libc::SYS_rt_sigaction, what) }?;
    }
    Ok(())
}

/// The kernel's release and build, with zeros behind: of one release there may be several, whose code in each
/// process (vdso) lies elsewhere.
pub(super) fn kernel_name() -> [u8; 130] {
    let mut text = [0; 130];
    if let Ok(name) = nix::sys::utsname::uname() {
        let bytes = [name.release().as_encoded_bytes(), b" ", name.version().as_encoded_bytes()].concat();
        let len = bytes.len().min(text.len());
        text[..len].copy_from_slice(&bytes[..len]);
    }
    text
}

/// Refuses what a process has that no image can carry, as far as can be asked before threads are stopped.
pub(super) fn refuse_what_cannot_be_saved() -> Result<(), Refusal> {
    let found = hindrance().map_err(|failure| Refusal::new(failure.to_string()))?;
    found.map_or(Ok(()), |why| Err(Refusal::new(why.to_owned())))
}

/// What a process has besides memory, threads and files that no image can carry. Allocates nothing.
fn hindrance() -> Result<Option<&'static str>, SyscallFailure> {
    if has_timers()? {
        return Ok(Some("it has POSIX timers (timer_create)"));
    }
    for which in [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF] {
        let mut timer = libc::itimerval {
            it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 },
            it_value: libc::timeval { tv_sec: 0, tv_usec: 0 },
        };
        // SAFETY: the call writes the structure.
        let _ = unsafe { libc::getitimer(which, &raw mut timer) };
        if (timer.it_value.tv_sec, timer.it_value.tv_usec) != (0, 0) {
            return Ok(Some("it has a running interval timer (setitimer, alarm)"));
        }
    }
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: the structure is plain data, and the call fills it.
    let mut found: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes the structure.
    let has_children = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut found, flags) } == 0;
    Ok(has_children.then_some("it has child processes"))
}

/// Whether it has timers that `timer_create` has made. A kernel without a list of them is not asked.
fn has_timers() -> Result<bool, SyscallFailure> {
    let path = c"/proc/self/timers".as_ptr().expose_provenance();
    let flags = kernel::bits(libc::O_RDONLY | libc::O_CLOEXEC);
    let what = [kernel::bits(libc::AT_FDCWD), path, flags, 0, 0, 0];
    // SAFETY: the path is a C string.
    let file = match unsafe { kernel::call(libc::SYS_openat, what) } {
        Err(SyscallFailure(libc::ENOENT)) => return Ok(false),
        file => file?,
    };
    let mut byte = 0u8;
    // SAFETY: the byte is this function's.
    let read =
        unsafe { kernel::call(libc::SYS_read, [file, (&raw mut byte).expose_provenance(), 1, 0, 0, 0]) };
    // SAFETY: the descriptor was opened here.
    let _ = unsafe { kernel::call(libc::SYS_close, [file, 0, 0, 0, 0, 0]) };
    Ok(read? > 0)
}
