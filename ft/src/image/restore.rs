//! Coming back from an image.

use super::Refusal;
use super::area;
use super::description::{Reader, VERSION};
use super::files::{self, Files};
use super::identity::Identity;
use super::kernel;
use super::limits;
use super::maps::{self, HEAP, Mapping, STACK};
use super::save::{ACTION, MOST_SIGNALS, kernel_name};
use super::settings;
use super::steps::{PageCopies, Planner, REFUSED, Threads, TooLong};
use super::thread::{self, SIGNALS, Thread};
use super::threads::{MOST, has_lasting_others};
use crate::store::{Entry, Pages, RankStore, vars};
use crate::{Base, Epoch, Incarnation, Moment};
use nix::fcntl::{FcntlArg, fcntl};
use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Called by the system before `main` begins.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = start;

/// That this program, linked from an archive, has what a rank needs to come back. To be called by what takes
/// images, so that the linker keeps it.
pub fn is_linked() -> bool {
    std::hint::black_box(START) as usize != 0
}

/// The value of a variable in the environment of the process that has come back, while the program's own
/// memory still shows that of the process that was saved.
pub fn environment(name: &str) -> Option<OsString> {
    let (at, room) = area::part(area::BYTES);
    // SAFETY: `start` has left zero-terminated strings there, the last of them empty.
    let all = unsafe { std::slice::from_raw_parts(at, room) };
    let mut strings = all.split(|byte| *byte == 0).take_while(|string| !string.is_empty());
    strings.find_map(|string| {
        let value = string.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(OsString::from_vec(value.to_vec()))
    })
}

/// If the launcher says so, becomes the process that the store holds. Else returns.
extern "C" fn start(_: c_int, _: *const *const c_char, variables: *const *const c_char) {
    if variable(variables, vars::STORE).is_none() {
        return;
    }
    let Some(text) = variable(variables, vars::EPOCH).filter(|text| *text != "0") else {
        return settings::note_start(&files::note_inherited());
    };
    // Others, that would run a handler of a half-made process or end this one, wait until it can take them.
    let signals = Thread::block_signals();
    let Err(why) = come_back(variables, text) else {
        Thread::set_signals(signals);
        return;
    };
    let rank = variable(variables, "SCASH_RANK").unwrap_or("?");
    let line = format!("scash: rank {rank} cannot go on from epoch {text}: {why}\n");
    // At once, if the launcher hears that: what is printed may never be committed.
    let says = variable(variables, "SCASH_SAYS").and_then(|place| place.split_once(':')?.0.parse().ok());
    let is_said = says.is_some_and(|socket: RawFd| write(socket, &line));
    if !is_said {
        write(libc::STDERR_FILENO, &line);
    }
    // SAFETY: the call ends the process.
    unsafe { libc::_exit(REFUSED) }
}

/// Writes to a descriptor, and says whether it has taken all. Nothing can be done if nobody reads that.
fn write(to: RawFd, line: &str) -> bool {
    // SAFETY: the bytes are there.
    let written = unsafe { libc::write(to, line.as_ptr().cast(), line.len()) };
    usize::try_from(written) == Ok(line.len())
}

/// A variable's value, in the list that the system gives to a program.
fn variable<'a>(mut list: *const *const c_char, name: &str) -> Option<&'a str> {
    loop {
        // SAFETY: the list ends with a null pointer, which it is not read beyond.
        let string = unsafe { list.read() };
        if string.is_null() {
            return None;
        }
        // SAFETY: it is a C string, which lies above the stack as long as the program runs.
        let string = unsafe { CStr::from_ptr(string) }.to_str().unwrap_or_default();
        if let Some(value) = string.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) {
            return Some(value);
        }
        list = list.wrapping_add(1);
    }
}

/// Becomes the process that was saved. Returns if the epoch has pages, but no process: then the program knows
/// what to do with them.
fn come_back(variables: *const *const c_char, epoch: &str) -> Result<(), Refusal> {
    let began = Moment::now();
    let number = |name: &str| {
        let text = variable(variables, name);
        let wrong = || Refusal::new(format!("{name} is not a number"));
        text.and_then(|text| text.parse::<u64>().ok()).ok_or_else(wrong)
    };
    let epoch = Epoch(epoch.parse().map_err(|_| Refusal::new(format!("{} is not a number", vars::EPOCH)))?);
    let incarnation = Incarnation(number(vars::INCARNATION)?);
    let file = RawFd::try_from(number(vars::STORE)?)
        .map_err(|_| Refusal::new(format!("{} is no descriptor", vars::STORE)))?;
    area::map_scratch()?;
    keep_environment(variables, began)?;
    // SAFETY: the launcher has opened it; if it has not, calls with it fail.
    let given = unsafe { BorrowedFd::borrow_raw(file) };
    // Above what the launcher has given, where no file of the program's will be.
    let file = fcntl(given, FcntlArg::F_DUPFD_CLOEXEC(file.saturating_add(1)));
    let file = file.map_err(|e| Refusal::new(format!("its store cannot be used: {e}")))?;
    // SAFETY: the kernel has made it just now.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    let number = file.as_raw_fd();
    let at = std::ptr::with_exposed_provenance_mut(area::STORE_AT);
    // SAFETY: the area is ours, and nothing of it is in use yet.
    let store = unsafe { RankStore::map(file, at, Base { incarnation, epoch }) }
        .map_err(|e| Refusal::new(format!("its store cannot be used: {e}")))?;
    let saved = store.saved().map_err(|e| Refusal::new(e.to_string()))?;
    if saved.description.is_empty() {
        return Ok(());
    }
    if has_lasting_others()? {
        return Err(Refusal::new(super::EARLY_THREADS.to_owned()));
    }
    become_it(&saved, number)?;
    Ok(())
}

/// Copies the environment to where it outlives the plan, with a line on when this process `began`.
fn keep_environment(mut list: *const *const c_char, began: Moment) -> Result<(), Refusal> {
    let mut kept = 0;
    keep(format!("{}={began}\0", vars::BEGAN).as_bytes(), &mut kept)?;
    loop {
        // SAFETY: as in `variable`.
        let string = unsafe { list.read() };
        if string.is_null() {
            return Ok(());
        }
        // SAFETY: as in `variable`.
        keep(unsafe { CStr::from_ptr(string) }.to_bytes_with_nul(), &mut kept)?;
        list = list.wrapping_add(1);
    }
}

/// Copies a line of the environment there, behind so many bytes.
fn keep(line: &[u8], kept: &mut usize) -> Result<(), Refusal> {
    let (at, room) = area::part(area::BYTES);
    if line.len() + 1 > room - *kept {
        return Err(Refusal::new("its environment is too large".to_owned()));
    }
    // An empty one would be the end of all.
    if line.len() > 1 {
        let to = at.wrapping_add(*kept);
        // SAFETY: there is room for them, and for a zero more, in scratch memory of zeros.
        unsafe { to.copy_from_nonoverlapping(line.as_ptr(), line.len()) };
        *kept += line.len();
    }
    Ok(())
}

/// What a description says.
struct SavedImage<'a> {
    threads: Threads,
    /// Signals that waited for somebody to take them.
    pending: u64,
    /// Kinds of `membarrier` that it has registered for.
    barriers: u64,
    actions: &'a [u8],
    heap_end: usize,
    /// Names of mapped files that are here as they were there.
    files: Vec<&'a [u8]>,
    mappings: Vec<Mapping<'a>>,
}

fn damaged() -> Refusal {
    Refusal::new("its description is damaged".to_owned())
}

/// Reads a description, and takes on files and the like.
fn read<'a>(description: &'a [u8]) -> Result<SavedImage<'a>, Refusal> {
    let mut reader = Reader(description);
    if reader.number() != Some(VERSION) {
        return Err(Refusal::new("it was saved by another version of scash".to_owned()));
    }
    let kernel = reader.bytes().ok_or_else(damaged)?;
    if kernel != kernel_name() {
        let kernel = String::from_utf8_lossy(kernel);
        let kernel = kernel.trim_end_matches('\0');
        return Err(Refusal::new(format!("it was saved under another kernel ({kernel})")));
    }
    let files = Identity::check(&mut reader)?;
    Files::take_on(&mut reader)?;
    let mut number = || reader.number().and_then(|number| usize::try_from(number).ok()).ok_or_else(damaged);
    let (count, leader) = (number()?, number()?);
    let first: *const Thread = reader.0.as_ptr().cast();
    if leader >= count || count > MOST + 1 || !(0..count).all(|_| reader.record::<Thread>().is_some()) {
        return Err(damaged());
    }
    let threads = Threads { first, count, leader };
    let mut number = || reader.number().ok_or_else(damaged);
    let (pending, barriers) = (number()?, number()?);
    let actions = reader.bytes().filter(|all| all.len() == MOST_SIGNALS * ACTION).ok_or_else(damaged)?;
    let heap_end = usize::try_from(reader.number().ok_or_else(damaged)?).map_err(|_| damaged())?;
    let mut mappings = Vec::new();
    while let Some(mapping) = read_mapping(&mut reader).ok_or_else(damaged)? {
        mappings.push(mapping);
    }
    Ok(SavedImage { threads, pending, barriers, actions, heap_end, files, mappings })
}

/// The next mapping; `None` inside if there is none.
fn read_mapping<'a>(reader: &mut Reader<'a>) -> Option<Option<Mapping<'a>>> {
    let start = usize::try_from(reader.number()?).ok()?;
    if start == 0 {
        return Some(None);
    }
    let end = usize::try_from(reader.number()?).ok()?;
    let word = reader.number()?;
    let (protection, is_shared) = ((word & 7) as u32, word >> 32 != 0);
    let (offset, inode) = (reader.number()?, reader.number()?);
    let (device, name) = (reader.bytes()?, reader.bytes()?);
    Some(Some(Mapping { start, end, protection, is_shared, offset, device, inode, name }))
}

/// Becomes the process that was saved. `ours` is a descriptor that it does not have.
fn become_it(pages: &Pages<'_>, ours: RawFd) -> Result<std::convert::Infallible, Refusal> {
    // First of all: files with high numbers are opened as the description is read.
    limits::raise();
    let saved = read(pages.description)?;
    limits::allow_memory(&saved.mappings)?;
    let private = pages.entries.partition_point(|entry| entry.key.address().is_some());
    let present = maps::read()?;
    check_kernels(present, &saved.mappings)?;
    let present: Vec<_> = present.iter().copied().filter(|mapping| !mapping.is_apart()).collect();
    let mut planner = Planner::new();
    let plan = MappingPlan { saved: &saved, present: &present, private: &pages.entries[..private] };
    plan.check_own_code()?;
    let before = plan.write(&mut planner)?;
    planner.may(libc::SYS_close, [usize::try_from(ours).unwrap_or(usize::MAX), 0, 0, 0, 0, 0])?;
    let slots = pages.slots();
    let copies = PageCopies { entries: pages.entries.as_ptr(), private, slots };
    thread::end_rseq()?;
    // SAFETY: the plan is that of the image; the entries, the slots and the thread's record lie in the mapped
    // store, which the plan leaves alone. The system has started one thread, which is this one.
    unsafe { planner.carry_out(before, &copies, saved.threads) }
}

/// What the kernel has put into this process must lie where it lay in the one that was saved.
fn check_kernels(present: &[Mapping<'_>], saved: &[Mapping<'_>]) -> Result<(), Refusal> {
    fn places(all: &[Mapping<'_>]) -> impl Iterator<Item = Range<usize>> {
        all.iter().filter(|mapping| mapping.is_kernels()).map(Mapping::range)
    }
    if places(present).eq(places(saved)) {
        return Ok(());
    }
    Err(Refusal::new(
        "the kernel has put its part of the process (vdso) elsewhere: another kernel, or addresses are random"
            .to_owned(),
    ))
}

/// What is there, and what is to be there.
struct MappingPlan<'a> {
    saved: &'a SavedImage<'a>,
    present: &'a [Mapping<'a>],
    private: &'a [Entry],
}

impl From<TooLong> for Refusal {
    fn from(_: TooLong) -> Refusal {
        Refusal::new("it has too many mappings".to_owned())
    }
}

impl MappingPlan<'_> {
    /// Writes the plan; returns how many steps come before pages are copied.
    fn write(&self, planner: &mut Planner) -> Result<usize, Refusal> {
        let wanted = || self.saved.mappings.iter().filter(|mapping| !mapping.is_kernels());
        for mapping in self.present.iter().filter(|mapping| !self.is_kept(mapping)) {
            planner.must(libc::SYS_munmap, [mapping.start, mapping.range().len(), 0, 0, 0, 0])?;
        }
        self.write_heap(planner)?;
        let mut opened = None;
        for mapping in wanted() {
            self.write_mapping(planner, mapping, &mut opened)?;
        }
        close(planner, opened)?;
        let before = planner.count();
        // Parts of the heap that the program has protected are as the kernel gives them until then.
        let is_closed = |mapping: &&Mapping<'_>| {
            self.is_opened(mapping) || mapping.name == HEAP && mapping.protection != 3
        };
        for mapping in wanted().filter(is_closed) {
            let protection = mapping.protection as usize;
            planner.must(libc::SYS_mprotect, [mapping.start, mapping.range().len(), protection, 0, 0, 0])?;
        }
        for (i, action) in self.saved.actions.chunks_exact(ACTION).enumerate() {
            let signal = i + 1;
            if signal != 9 && signal != 19 {
                let action = action.as_ptr().expose_provenance();
                planner.must(libc::SYS_rt_sigaction, [signal, action, 0, SIGNALS, 0, 0])?;
            }
        }
        // This thread takes none before it is what was saved.
        for signal in (1..=MOST_SIGNALS).filter(|signal| self.saved.pending >> (signal - 1) & 1 == 1) {
            planner.may(libc::SYS_kill, [std::process::id() as usize, signal, 0, 0, 0, 0])?;
        }
        for bit in (0..31).filter(|bit| self.saved.barriers >> bit & 1 == 1) {
            planner.may(libc::SYS_membarrier, [1 << bit, 0, 0, 0, 0, 0])?;
        }
        Ok(before)
    }

    /// What carries out the plan must lie in both processes at one place.
    fn check_own_code(&self) -> Result<(), Refusal> {
        let own = (become_it as *const ()).addr();
        let mapping = self.present.iter().find(|mapping| mapping.range().contains(&own));
        if mapping.is_some_and(|mapping| self.is_kept(mapping)) {
            return Ok(());
        }
        Err(Refusal::new(
            "its libraries lie elsewhere here: are there others (LD_PRELOAD), or are they aligned otherwise (another \
             file system)?"
                .to_owned(),
        ))
    }

    /// Whether a mapping of this process is one of the image, too: of a file (then all pages of it that were
    /// written here have been written there), or stack or heap, which the kernel knows.
    fn is_kept(&self, mapping: &Mapping<'_>) -> bool {
        mapping.name == STACK || mapping.name == HEAP || self.is_there(mapping, &self.saved.mappings)
    }

    fn is_there(&self, mapping: &Mapping<'_>, among: &[Mapping<'_>]) -> bool {
        let file = mapping.has_file() && !mapping.is_shared;
        // Another host has its own copies of programs and libraries.
        let is_same = |other: &Mapping<'_>| {
            let Mapping { device, inode, .. } = *mapping;
            other == mapping || self.is_known(mapping) && Mapping { device, inode, ..*other } == *mapping
        };
        file && among
            .binary_search_by_key(&mapping.start, |other| other.start)
            .is_ok_and(|i| among[i].has_file() && is_same(&among[i]))
    }

    /// Whether the file under a mapping is known to be here as it was there.
    fn is_known(&self, mapping: &Mapping<'_>) -> bool {
        self.saved.files.contains(&mapping.name)
    }

    /// Whether a mapping has pages that are to be copied.
    fn has_pages(&self, mapping: &Mapping<'_>) -> bool {
        let page = |entry: &Entry| entry.key.address().unwrap_or(usize::MAX);
        let first = self.private.partition_point(|entry| page(entry) < mapping.start);
        self.private.get(first).is_some_and(|entry| page(entry) < mapping.end)
    }

    /// Whether a mapping must be made writable while pages are copied.
    fn is_opened(&self, mapping: &Mapping<'_>) -> bool {
        mapping.protection & 2 == 0 && self.has_pages(mapping)
    }

    fn write_heap(&self, planner: &mut Planner) -> Result<(), Refusal> {
        let heap = self.saved.mappings.iter().find(|mapping| mapping.name == HEAP);
        // SAFETY: the call tells where the heap ends.
        let now = unsafe { kernel::call(libc::SYS_brk, [0; 6]) }?;
        let start = self.present.iter().find(|mapping| mapping.name == HEAP).map_or(now, |heap| heap.start);
        let Some(heap) = heap else { return Ok(()) };
        if start.next_multiple_of(4096) != heap.start && start != heap.start {
            return Err(Refusal::new(format!(
                "its heap begins at {start:#x}, and began at {:#x}: are addresses random?",
                heap.start
            )));
        }
        planner.may(libc::SYS_brk, [start, 0, 0, 0, 0, 0])?;
        planner.may(libc::SYS_brk, [self.saved.heap_end, 0, 0, 0, 0, 0])?;
        Ok(())
    }

    /// `opened`: the file under the mapping before, as a library has several, and each file that waits for
    /// its step takes a descriptor.
    fn write_mapping<'a>(
        &self,
        planner: &mut Planner,
        mapping: &Mapping<'a>,
        opened: &mut Option<Opened<'a>>,
    ) -> Result<(), Refusal> {
        let (start, len) = (mapping.start, mapping.range().len());
        let mut protection = mapping.protection as usize;
        if self.is_opened(mapping) {
            protection |= kernel::READ_WRITE;
        }
        if mapping.name == STACK || mapping.name == HEAP || self.is_there(mapping, self.present) {
            if self.is_opened(mapping) && mapping.name != HEAP {
                planner.must(libc::SYS_mprotect, [start, len, protection, 0, 0, 0])?;
            }
            return Ok(());
        }
        let sharing = if mapping.is_shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
        let flags = kernel::bits(sharing | libc::MAP_FIXED | libc::MAP_NORESERVE);
        if !mapping.has_file() {
            let flags = flags | kernel::bits(libc::MAP_ANONYMOUS);
            planner.must(libc::SYS_mmap, [start, len, protection, flags, usize::MAX, 0])?;
            return Ok(());
        }
        let (name, inode) = (mapping.name, mapping.inode);
        let fd = match opened.take_if(|last| (last.name, last.inode) == (name, inode)) {
            Some(same) => same.fd,
            None => {
                close(planner, opened.take())?;
                usize::try_from(open(mapping, self.is_known(mapping))?).unwrap_or(usize::MAX)
            }
        };
        *opened = Some(Opened { name, inode, fd });
        let offset = usize::try_from(mapping.offset).map_err(|_| damaged())?;
        Ok(planner.must(libc::SYS_mmap, [start, len, protection, flags, fd, offset])?)
    }
}

/// A file that is opened for the plan.
struct Opened<'a> {
    name: &'a [u8],
    inode: u64,
    fd: usize,
}

fn close(planner: &mut Planner, opened: Option<Opened<'_>>) -> Result<(), TooLong> {
    opened.map_or(Ok(()), |Opened { fd, .. }| planner.must(libc::SYS_close, [fd, 0, 0, 0, 0, 0]))
}

/// Opens the file under a mapping; one of which the contents are not known to be the same must be the same
/// one.
fn open(mapping: &Mapping<'_>, is_known: bool) -> Result<RawFd, Refusal> {
    use std::os::unix::fs::MetadataExt;
    let path = Path::new(OsStr::from_bytes(mapping.name));
    let refuse = |why: String| Refusal::new(format!("it has {} mapped, which {why}", path.display()));
    let file = std::fs::File::open(path).map_err(|e| refuse(format!("cannot be opened: {e}")))?;
    let is = file.metadata().map_err(|e| refuse(e.to_string()))?;
    if !is_known && is.ino() != mapping.inode {
        return Err(refuse("has been replaced since".to_owned()));
    }
    Ok(file.into_raw_fd())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::super::description::Writer;
    use super::*;

    #[test]
    fn an_image_of_another_version_or_another_kernel_is_refused_by_name() {
        let refusal = |version: u64, kernel: &[u8]| {
            let mut room = [0_u64; 64];
            // SAFETY: the room is the writer's, and its length a multiple of 8.
            let mut writer = unsafe { Writer::new((room.as_mut_ptr().cast(), size_of_val(&room))) };
            writer.number(version).unwrap();
            writer.bytes(kernel).unwrap();
            let len = writer.len();
            let written: Vec<u8> = room.iter().flat_map(|word| word.to_ne_bytes()).collect();
            read(&written[..len]).err().unwrap().to_string()
        };
        let ours = kernel_name();
        assert_eq!(refusal(VERSION + 1, &ours), "it was saved by another version of scash");
        assert_eq!(refusal(VERSION, b"5.4.0-of-old"), "it was saved under another kernel (5.4.0-of-old)");
        assert_eq!(refusal(VERSION, &ours), "its list of programs is damaged", "it is not there");
    }
}
