//! Other threads of the program: stopped by a signal while an image is taken, each in its handler, where the
//! kernel has put all that a thread needs to go on.
//!
//! A thread may be stopped while it has a lock of the C library, that of the allocator, say. In the process
//! that took the image nothing is allocated before all go on; in one that comes back all go on at once, each
//! from where it was, and the lock is given back as ever. Some locks know their thread by the system's
//! number, which is another one in the process that comes back: those that a thread has are looked for
//! (`owners`), in the dynamic linker no thread is stopped, and in the C library none that has its number in a
//! register, to compare it with a lock's or to write it there.
//!
//! Threads of the runtime have names that begin with `scash/`, take no signals, and are not in images.

use super::Refusal;
use super::area;
use super::kernel::{self, SyscallFailure};
use super::maps::{self, Mapping};
use super::tasks::{TaskStatus, each_thread, is_of_the_runtime, own_number};
use super::thread::Thread;
use crate::store::PAGE;
use std::ops::Range;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Most threads that are stopped.
pub(super) const MOST: usize = 256;
/// How long stopping may take.
const TIMEOUT: u64 = 100_000_000;
/// How long a thread that was in the dynamic linker is left alone, and the stopping thread waits for answers.
const PAUSE: i64 = 50_000;

/// States of a thread, in the low bits of its word; above them is the turn in which it was asked. A thread
/// that finds itself asked, and so may stop, does that only if it is still asked in that turn: one that gets
/// the signal when the others were let go again would wait for ever.
const ASKED: u32 = 1;
const STOPPED: u32 = 2;
const BUSY: u32 = 3;
/// It stops in this turn, and notes its registers.
const STOPPING: u32 = 4;
const STATE: u32 = 7;

/// The word of a thread in this state, in a turn.
fn word(turn: u32, state: u32) -> u32 {
    turn << STATE.count_ones() | state
}

/// Most ranges of code in which threads are not stopped everywhere, of each kind.
const MOST_RANGES: usize = 16;

/// What the thread that stops and those that are stopped tell each other. Lies in scratch memory, in no
/// image.
#[repr(C)]
struct Table {
    /// Raised when stopped threads may go on.
    turn: AtomicU32,
    count: AtomicU32,
    /// Code of the dynamic linker, and of the C library.
    linker: [Range<usize>; MOST_RANGES],
    library: [Range<usize>; MOST_RANGES],
    entries: [Entry; MOST],
}

#[repr(C)]
struct Entry {
    tid: AtomicU32,
    state: AtomicU32,
    thread: Thread,
}

fn table() -> *mut Table {
    let (at, room) = area::part(area::THREADS);
    assert!(size_of::<Table>() <= room);
    at.cast()
}

/// The signal by which threads are stopped.
fn signal() -> i32 {
    libc::SIGRTMAX() - 1
}

/// That all other threads of the program are stopped, until it is dropped.
pub(super) struct Stopped {
    any: bool,
}

impl Stopped {
    /// There are none.
    pub(super) fn none() -> Stopped {
        Stopped { any: false }
    }

    /// The stopped threads, and which of them is the process's first.
    pub(super) fn each(&self) -> impl Iterator<Item = (Thread, bool)> {
        let leader = std::process::id();
        let count = if self.any { count() } else { 0 };
        (0..count).filter_map(move |i| {
            // SAFETY: a thread that has stopped has filled its entry, and changes it no more.
            let entry = unsafe { &*entry(i) };
            // Others were asked, and have ended, or turned out to be of the runtime: one has no name at
            // first.
            let has_stopped = entry.state.load(Ordering::Acquire) & STATE == STOPPED;
            has_stopped.then(|| (entry.thread, entry.tid.load(Ordering::Relaxed) == leader))
        })
    }

    /// The system's numbers of this thread and of the stopped ones: so many.
    pub(super) fn numbers(&self) -> ([u32; MOST + 1], usize) {
        let mut numbers = [0; MOST + 1];
        let count = if self.any { count() } else { 0 };
        numbers[0] = own_number();
        for i in 0..count {
            // SAFETY: an entry of the table; its words are atomic.
            numbers[i + 1] = unsafe { &(*entry(i)).tid }.load(Ordering::Relaxed);
        }
        (numbers, count + 1)
    }

    /// How many they are.
    pub(super) fn len(&self) -> usize {
        self.each().count()
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if self.any {
            release();
        }
    }
}

fn count() -> usize {
    // SAFETY: the table is mapped, and the word an atomic one.
    let count = unsafe { &(*table()).count }.load(Ordering::Acquire);
    (count as usize).min(MOST)
}

fn entry(i: usize) -> *mut Entry {
    let entries = table().cast::<u8>().wrapping_add(std::mem::offset_of!(Table, entries)).cast::<Entry>();
    entries.wrapping_add(i)
}

/// The word that is raised when stopped threads may go on.
fn turn_word() -> &'static AtomicU32 {
    // SAFETY: the table is mapped as long as there may be a stopping thread, and the word an atomic one.
    unsafe { &(*table()).turn }
}

/// Lets go of all threads, also of those that have not stopped yet: they will not.
fn give_up() {
    for i in 0..count() {
        // SAFETY: an entry of the table; its words are atomic.
        let state = unsafe { &(*entry(i)).state };
        let asked = word(turn_word().load(Ordering::Relaxed), ASKED);
        let _ = state.compare_exchange(asked, 0, Ordering::AcqRel, Ordering::Acquire);
        // It waits for nobody, and its entry may be another thread's in the next turn.
        while state.load(Ordering::Acquire) & STATE == STOPPING {
            pause();
        }
    }
    release();
}

fn release() {
    let turn = turn_word();
    turn.fetch_add(1, Ordering::Release);
    futex(turn, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX.cast_unsigned(), None);
}

/// Sleeps at a word, or wakes those that do.
fn futex(word: &AtomicU32, what: i32, value: u32, limit: Option<&libc::timespec>) {
    let limit = limit.map_or(0, |limit| (&raw const *limit).expose_provenance());
    let at = word.as_ptr().expose_provenance();
    // SAFETY: the word is borrowed for the call, and so is the limit.
    let _ = unsafe { kernel::raw(libc::SYS_futex, [at, kernel::bits(what), value as usize, limit, 0, 0]) };
}

/// Stops all other threads of the program. Calls `asked` as soon as one more is asked to stop; those that
/// were asked before may have stopped by then.
///
/// # Errors
/// There are too many, or one does not stop.
pub(super) fn stop_others(asked: &mut dyn FnMut()) -> Result<Stopped, Refusal> {
    install();
    // SAFETY: no thread is stopped, so nobody else uses the table.
    unsafe { (*table()).count.store(0, Ordering::Relaxed) };
    if !has_others()? {
        return Ok(Stopped::none());
    }
    note_ranges()?;
    // What `asked` takes does not count.
    let (begun, mut away) = (now(), 0);
    loop {
        let all_stopped = ask_all(&mut || {
            let left = now();
            asked();
            away += now().wrapping_sub(left);
        });
        let all_stopped = all_stopped.map_err(|failure| {
            // Those that have stopped go on, whatever the reason why others have not: before this allocates.
            give_up();
            Refusal::from(failure)
        })?;
        if all_stopped {
            return Ok(Stopped { any: count() > 0 });
        }
        if now().wrapping_sub(begun).wrapping_sub(away) > TIMEOUT {
            let deaf = deaf_thread();
            give_up();
            return Err(reluctance(deaf.as_ref()));
        }
        pause();
    }
}

/// Why threads did not stop, of which one does not hear the signal.
fn reluctance(deaf: Option<&TaskStatus>) -> Refusal {
    match deaf {
        Some(thread) => {
            let why = format!(
                "its thread \"{}\" blocks all signals, and so cannot be stopped (pthread_sigmask: signal {} must reach \
                 it)",
                String::from_utf8_lossy(thread.name()),
                signal()
            );
            // The C library does so, too, while a thread begins, ends, or makes another one. That can take
            // long where there are fewer processors than threads that compute.
            if thread.is_runnable() { Refusal::passing(why) } else { Refusal::new(why) }
        }
        None => Refusal::passing(
            "a thread of the program did not stop in 100 ms: is it loading libraries, or at locks, all the time?"
                .to_owned(),
        ),
    }
}

/// Of a thread that was asked to stop and has not, because it blocks the signal: what the kernel says of it.
fn deaf_thread() -> Option<TaskStatus> {
    (0..count()).find_map(|i| {
        // SAFETY: an entry of the table; its words are atomic.
        let state = unsafe { &(*entry(i)).state };
        // SAFETY: likewise.
        let tid = unsafe { &(*entry(i)).tid };
        let is_asked = state.load(Ordering::Acquire) & STATE == ASKED;
        let status = is_asked.then(|| TaskStatus::of(tid.load(Ordering::Relaxed))).flatten()?;
        status.blocks(signal()).then_some(status)
    })
}

/// Whether the program has another thread than this one.
pub(super) fn has_others() -> Result<bool, SyscallFailure> {
    let (me, mut any) = (own_number(), false);
    each_thread(&mut |tid| any |= tid != me && !is_of_the_runtime(tid))?;
    Ok(any)
}

/// Whether it has one that stays: one that was waited for may be seen for a moment more.
pub(super) fn has_lasting_others() -> Result<bool, SyscallFailure> {
    for _ in 0..20 {
        if !has_others()? {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(true)
}

fn pause() {
    let limit = libc::timespec { tv_sec: 0, tv_nsec: PAUSE };
    let what = [(&raw const limit).expose_provenance(), 0, 0, 0, 0, 0];
    // SAFETY: the time is this function's.
    let _ = unsafe { kernel::raw(libc::SYS_nanosleep, what) };
}

/// Nanoseconds of a clock that only goes forward.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Why threads were not asked to stop. Says it without memory of its own: threads may have stopped that have
/// a lock of the allocator.
#[derive(Clone, Copy, Debug)]
enum AskFailure {
    TooMany,
    Call(SyscallFailure),
}

impl From<SyscallFailure> for AskFailure {
    fn from(failure: SyscallFailure) -> AskFailure {
        AskFailure::Call(failure)
    }
}

impl From<AskFailure> for Refusal {
    fn from(failure: AskFailure) -> Refusal {
        match failure {
            AskFailure::TooMany => Refusal::new(format!("it has more than {MOST} threads")),
            AskFailure::Call(failure) => failure.into(),
        }
    }
}

/// Asks each thread to stop that has not. Whether all have.
fn ask_all(asked: &mut dyn FnMut()) -> Result<bool, AskFailure> {
    let (mut all, mut too_many) = (true, false);
    let (me, to_stop) = (own_number(), word(turn_word().load(Ordering::Relaxed), ASKED));
    each_thread(&mut |tid| {
        if tid == me || is_of_the_runtime(tid) {
            return;
        }
        let Some(i) = place_of(tid) else {
            too_many = true;
            return;
        };
        // SAFETY: the entry is one of the table, and its words are atomic.
        let state = unsafe { &(*entry(i)).state };
        let now = state.load(Ordering::Acquire) & STATE;
        all &= now == STOPPED;
        // Only a thread changes a state that it was asked in.
        if ![STOPPED, STOPPING, ASKED].contains(&now) {
            state.store(to_stop, Ordering::Release);
            let what =
                [std::process::id() as usize, tid as usize, signal().cast_unsigned() as usize, 0, 0, 0];
            // SAFETY: the signal has a handler of ours. A thread that has ended meanwhile is not listed
            // again.
            let _ = unsafe { kernel::raw(libc::SYS_tgkill, what) };
            if now != BUSY {
                asked(); // for the first time
            }
        }
    })?;
    if too_many { Err(AskFailure::TooMany) } else { Ok(all) }
}

/// The entry of a thread; a new one if it has none.
fn place_of(tid: u32) -> Option<usize> {
    let count = count();
    // SAFETY: entries of the table; their words are atomic.
    let known = (0..count).find(|&i| unsafe { &(*entry(i)).tid }.load(Ordering::Relaxed) == tid);
    if known.is_some() || count == MOST {
        return known;
    }
    // SAFETY: an entry of the table, whose thread was not asked yet.
    let new = unsafe { &*entry(count) };
    // SAFETY: the table is mapped, and the word an atomic one.
    let total = unsafe { &(*table()).count };
    new.tid.store(tid, Ordering::Relaxed);
    new.state.store(0, Ordering::Relaxed);
    total.store(u32::try_from(count + 1).unwrap_or(0), Ordering::Release);
    Some(count)
}

/// Notes where the code of the dynamic linker is, and of the C library.
fn note_ranges() -> Result<(), SyscallFailure> {
    let mappings = maps::read()?;
    // SAFETY: no thread is stopped, so nobody else uses the table.
    unsafe { (*table()).linker = code_of(mappings, &[b"ld-", b"ld.so"]) };
    // SAFETY: likewise.
    unsafe { (*table()).library = code_of(mappings, &[b"libc.so", b"libc-", b"libpthread"]) };
    Ok(())
}

/// Where the code of files is whose names begin so.
fn code_of(mappings: &[Mapping<'_>], names: &[&[u8]]) -> [Range<usize>; MOST_RANGES] {
    let mut ranges = [const { 0..0 }; MOST_RANGES];
    let is_theirs = |mapping: &&Mapping<'_>| {
        let name = mapping.name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        mapping.protection & 4 != 0 && names.iter().any(|start| name.starts_with(start))
    };
    for (range, mapping) in ranges.iter_mut().zip(mappings.iter().filter(is_theirs)) {
        *range = mapping.range();
    }
    ranges
}

/// Sees to it that the signal has our handler.
fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: plain data, of which all zeros are a value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_stop as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        // SAFETY: the set is the action's.
        unsafe { libc::sigfillset(&raw mut action.sa_mask) };
        // SAFETY: the handler makes system calls only, and lives as long as the program.
        unsafe { libc::sigaction(signal(), &raw const action, std::ptr::null_mut()) };
        Thread::learn();
    });
}

/// Entered in a thread that is to stop.
extern "C" fn on_stop(_: i32, _: *mut libc::siginfo_t, frame: *mut libc::c_void) {
    let me = own_number();
    // SAFETY: entries of the table; their words are atomic.
    let Some(i) = (0..count()).find(|&i| unsafe { &(*entry(i)).tid }.load(Ordering::Relaxed) == me) else {
        return;
    };
    // SAFETY: an entry of the table; its words are atomic.
    let state = unsafe { &(*entry(i)).state };
    let asked = state.load(Ordering::Acquire);
    let stopping = asked & !STATE | STOPPING;
    if asked & STATE != ASKED
        || state.compare_exchange(asked, stopping, Ordering::AcqRel, Ordering::Relaxed).is_err()
    {
        return;
    }
    // SAFETY: the kernel gave the frame for the duration of this handler.
    let machine = unsafe { &(*frame.cast::<libc::ucontext_t>()).uc_mcontext };
    let at = machine.gregs[libc::REG_RIP as usize] as usize;
    // SAFETY: the ranges change only while nobody is asked, or stops.
    let is_in_linker = unsafe { &(*table()).linker }.iter().any(|range| range.contains(&at));
    // SAFETY: likewise.
    let library = unsafe { &(*table()).library }.iter().find(|range| range.contains(&at));
    // SAFETY: the thread executes the library, and was on this stack.
    let may_lock = library.is_some_and(|library| unsafe { may_look_at(me, &machine.gregs, library) });
    let may_stop = !is_in_linker && !may_lock;
    let known = Thread::in_handler(frame.expose_provenance() as u64);
    match known {
        Ok(thread) if may_stop => {
            // SAFETY: this thread's entry: the stopping one reads it when its state says so.
            unsafe { (*entry(i)).thread = thread };
            state.store(asked & !STATE | STOPPED, Ordering::Release);
        }
        _ => return state.store(asked & !STATE | BUSY, Ordering::Release),
    }
    loop {
        let turn = turn_word().load(Ordering::Acquire);
        if word(turn, ASKED) != asked {
            return;
        }
        futex(turn_word(), libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, turn, None);
    }
}

/// So many registers of a frame are general ones, and come first.
const GENERAL: usize = 16;
/// How far above the end of its stack a function that locks may have put the thread's number, in bytes.
const NEAR: usize = 128;

/// Whether a thread that was interrupted with these registers, in code of the library, may be about to
/// compare its number with a lock's, or to write it there: it has that in a register or at the end of its
/// stack. Not so if it makes a system call, or has made one just now: functions that lock look at the number
/// afterwards.
///
/// # Safety
/// The code is there, and so is the page in which its stack ends.
unsafe fn may_look_at(number: u32, registers: &[i64], library: &Range<usize>) -> bool {
    let [at, stack] = [libc::REG_RIP, libc::REG_RSP].map(|register| registers[register as usize] as usize);
    // SAFETY: as the caller promises.
    if unsafe { is_at_system_call(at, library) } {
        return false;
    }
    let end = (stack + NEAR).min(stack.next_multiple_of(PAGE));
    registers[..GENERAL].contains(&i64::from(number))
        || (stack.next_multiple_of(4)..end).step_by(4).any(|at| {
            // SAFETY: as the caller promises.
            unsafe { std::ptr::with_exposed_provenance::<u32>(at).read() == number }
        })
}

/// Whether a thread that goes on at this address makes a system call there, or has made one just now.
///
/// # Safety
/// The code is there.
unsafe fn is_at_system_call(at: usize, code: &Range<usize>) -> bool {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    [at, at - SYSCALL.len()].into_iter().any(|call| {
        let is_there = code.contains(&call) && code.contains(&(call + 1));
        // SAFETY: as just found out.
        is_there && unsafe { std::ptr::with_exposed_provenance::<[u8; 2]>(call).read() == SYSCALL }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use std::sync::mpsc::channel;

    fn mask(how: i32) {
        // SAFETY: plain data, of which all zeros are a value.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set is this function's.
        unsafe { libc::sigaddset(&raw mut set, signal()) };
        // SAFETY: likewise.
        unsafe { libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) };
    }

    #[test]
    fn a_thread_that_may_be_about_to_look_at_its_number_is_known_by_registers_and_stack() {
        const NUMBER: u32 = 4711;
        let code = [0x90_u8, 0x90, 0x0f, 0x05, 0x90, 0x90, 0x90];
        let begin = code.as_ptr().expose_provenance();
        let library = begin..begin + code.len();
        let is_one = |at: usize, register: i64, words: &[u32; 64], from: usize| {
            let mut registers = [0_i64; 23];
            registers[libc::REG_R13 as usize] = register;
            registers[libc::REG_RIP as usize] = (begin + at) as i64;
            registers[libc::REG_RSP as usize] = words[from..].as_ptr().expose_provenance() as i64;
            // SAFETY: the code and the words are there.
            unsafe { may_look_at(NUMBER, &registers, &library) }
        };
        #[repr(align(4096))]
        struct Stack([u32; 64]);
        let empty = Stack([0; 64]);
        assert!(is_one(0, i64::from(NUMBER), &empty.0, 0));
        assert!(!is_one(0, i64::from(NUMBER) | 1 << 32, &empty.0, 0));
        for (at, is_call) in
            [(0, false), (1, false), (2, true), (3, false), (4, true), (5, false), (6, false)]
        {
            assert_eq!(is_one(at, i64::from(NUMBER), &empty.0, 0), !is_call, "{at}");
        }
        let mut full = Stack([0; 64]);
        full.0[33] = NUMBER;
        assert!(!is_one(0, 0, &full.0, 0) && !is_one(0, 0, &full.0, 1) && !is_one(0, 0, &full.0, 34));
        assert!(is_one(0, 0, &full.0, 2) && is_one(0, 0, &full.0, 33));
    }

    /// As one does that has lost its processor for as long as the others wait for it. It stopped when all had
    /// been let go, and nobody let it go.
    #[test]
    fn a_thread_that_hears_too_late_that_it_is_to_stop_does_not() {
        area::have_scratch().unwrap();
        let ((says, said), (asks, asked)) = (channel(), channel());
        let thread = std::thread::spawn(move || {
            mask(libc::SIG_BLOCK);
            says.send("deaf").unwrap();
            asked.recv().unwrap();
            mask(libc::SIG_UNBLOCK);
            says.send("runs").unwrap();
            asked.recv().unwrap();
        });
        assert_eq!(said.recv().unwrap(), "deaf");
        for _ in 0..2 {
            assert!(stop_others(&mut || {}).is_err());
        }
        asks.send(()).unwrap();
        assert_eq!(said.recv_timeout(std::time::Duration::from_secs(60)), Ok("runs"));
        // A busy machine may give it no processor for 100 ms.
        let mut asked = 0;
        let stopped = (0..50).find_map(|_| {
            asked = 0;
            stop_others(&mut || asked += 1).ok()
        });
        let stopped = stopped.unwrap();
        assert!(stopped.len() > 0 && asked == stopped.len());
        drop(stopped);
        asks.send(()).unwrap();
        thread.join().unwrap();
    }
}
