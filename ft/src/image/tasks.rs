//! What the kernel says of the threads of this process, asked without allocating.

use super::kernel::{self, SyscallFailure};

/// The system's number of the calling thread.
pub(super) fn own_number() -> u32 {
    // SAFETY: the call has no arguments.
    unsafe { kernel::raw(libc::SYS_gettid, [0; 6]) as u32 }
}

fn open(path: &[u8]) -> Result<usize, SyscallFailure> {
    let flags = kernel::bits(libc::O_RDONLY | libc::O_CLOEXEC);
    let what = [kernel::bits(libc::AT_FDCWD), path.as_ptr().expose_provenance(), flags, 0, 0, 0];
    // SAFETY: callers give bytes that end with a zero.
    unsafe { kernel::call(libc::SYS_openat, what) }
}

fn close(file: usize) {
    // SAFETY: callers have opened it.
    let _ = unsafe { kernel::raw(libc::SYS_close, [file, 0, 0, 0, 0, 0]) };
}

/// Calls `each` with the number of each thread of this process, without allocating.
pub(super) fn each_thread(each: &mut dyn FnMut(u32)) -> Result<(), SyscallFailure> {
    each_number(b"/proc/self/task\0", &mut |number, _| each(number))
}

/// Calls `each` with each descriptor of this process, without allocating.
pub(super) fn each_descriptor(each: &mut dyn FnMut(u32)) -> Result<(), SyscallFailure> {
    let mut unless_ours = |number: u32, list| {
        if number as usize != list {
            each(number);
        }
    };
    each_number(b"/proc/self/fd\0", &mut unless_ours)
}

/// Calls `each` with each name in a directory that is a number, and the descriptor by which it is read.
fn each_number(directory: &[u8], each: &mut dyn FnMut(u32, usize)) -> Result<(), SyscallFailure> {
    let directory = open(directory)?;
    let mut list = [0u64; 512];
    let result = loop {
        let what = [directory, (&raw mut list).expose_provenance(), size_of_val(&list), 0, 0, 0];
        // SAFETY: the kernel writes at most as many bytes.
        let len = match unsafe { kernel::call(libc::SYS_getdents64, what) } {
            Ok(0) => break Ok(()),
            Ok(len) => len,
            Err(failure) => break Err(failure),
        };
        // SAFETY: so many bytes were written.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const list).cast::<u8>(), len) };
        names(bytes).filter_map(number).for_each(|number| each(number, directory));
    };
    close(directory);
    result
}

/// The names in a list of `struct linux_dirent64`.
fn names(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    const NAME: usize = 19;
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_le_bytes([*bytes.get(16)?, *bytes.get(17)?]));
        let (one, rest) = bytes.split_at_checked(len)?;
        bytes = rest;
        one.get(NAME..)?.split(|byte| *byte == 0).next()
    })
}

fn number(digits: &[u8]) -> Option<u32> {
    let digit = |byte: &u8| char::from(*byte).to_digit(10);
    digits.iter().try_fold(0u32, |sum, byte| sum.checked_mul(10)?.checked_add(digit(byte)?))
}

/// The path of a thread's file, which has at most six letters and a zero behind them.
fn path_of(tid: u32, file: &[u8]) -> [u8; 34] {
    let mut path = [0; 34];
    path[..27].copy_from_slice(b"/proc/self/task/0000000000/");
    path[27..27 + file.len()].copy_from_slice(file);
    let mut rest = tid;
    for digit in path[16..26].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    // The directory has the number without zeros in front.
    let zeros = path[16..25].iter().take_while(|byte| **byte == b'0').count();
    path.copy_within(16 + zeros.., 16);
    path
}

/// Whether a thread's name says so. No program gives such a name to its threads by its own: no file's name
/// has that letter.
pub(super) fn is_of_the_runtime(tid: u32) -> bool {
    let file = match open(&path_of(tid, b"comm\0")) {
        Ok(file) => file,
        // It has ended.
        Err(SyscallFailure(libc::ENOENT | libc::ESRCH)) => return true,
        // One of the runtime does not stop, and so there is no image: better than one without a thread.
        Err(_) => return false,
    };
    let mut name = [0u8; 16];
    let what = [file, (&raw mut name).expose_provenance(), name.len(), 0, 0, 0];
    // SAFETY: the kernel writes at most as many bytes.
    let _ = unsafe { kernel::raw(libc::SYS_read, what) };
    close(file);
    name.starts_with(b"scash/")
}

/// Where the kernel says that memory begins that `brk` gives.
pub(super) fn heap_start() -> Result<usize, SyscallFailure> {
    let file = open(b"/proc/self/stat\0")?;
    let mut text = [0u8; 1024];
    let what = [file, (&raw mut text).expose_provenance(), text.len(), 0, 0, 0];
    // SAFETY: the kernel writes at most as many bytes.
    let read = unsafe { kernel::call(libc::SYS_read, what) };
    close(file);
    heap_start_in(&text[..read?]).ok_or(SyscallFailure(libc::EIO))
}

/// The 47th field. The second one is a name in brackets, which may have spaces and brackets.
fn heap_start_in(stat: &[u8]) -> Option<usize> {
    let behind_name = stat.iter().rposition(|byte| *byte == b')')? + 2;
    let digits = stat.get(behind_name..)?.split(|byte| *byte == b' ').nth(47 - 3)?;
    let digit = |byte: &u8| char::from(*byte).to_digit(10);
    digits.iter().try_fold(0usize, |sum, byte| sum.checked_mul(10)?.checked_add(digit(byte)? as usize))
}

/// The beginning of `/proc/self/task/TID/status`.
pub(super) struct TaskStatus {
    text: [u8; 4096],
    len: usize,
}

impl TaskStatus {
    pub(super) fn of(tid: u32) -> Option<TaskStatus> {
        let file = open(&path_of(tid, b"status\0")).ok()?;
        let mut status = TaskStatus { text: [0; 4096], len: 0 };
        let what = [file, (&raw mut status.text).expose_provenance(), status.text.len(), 0, 0, 0];
        // SAFETY: the kernel writes at most as many bytes.
        let read = unsafe { kernel::call(libc::SYS_read, what) };
        close(file);
        status.len = read.ok()?;
        Some(status)
    }

    /// What stands behind a word at the beginning of a line.
    fn field(&self, word: &[u8]) -> Option<&[u8]> {
        let lines = self.text[..self.len].split(|byte| *byte == b'\n');
        lines.filter_map(|line| line.strip_prefix(word)).map(<[u8]>::trim_ascii).next()
    }

    pub(super) fn name(&self) -> &[u8] {
        self.field(b"Name:").unwrap_or_default()
    }

    /// Whether the thread blocks a signal.
    pub(super) fn blocks(&self, signal: i32) -> bool {
        self.signals(b"SigBlk:").is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
    }

    /// Whether the thread has a processor, or waits for one.
    pub(super) fn is_runnable(&self) -> bool {
        self.field(b"State:").is_some_and(|state| state.starts_with(b"R"))
    }

    fn signals(&self, word: &[u8]) -> Option<u64> {
        let digit =
            |mask: u64, byte: &u8| char::from(*byte).to_digit(16).map(|bits| mask << 4 | u64::from(bits));
        self.field(word).and_then(|digits| digits.iter().try_fold(0, digit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn the_heap_begins_where_the_system_says_whatever_the_name_of_the_program_is() {
        let fields: Vec<String> = (4..53).map(|field| (field * 1000).to_string()).collect();
        let stat = format!("17 (a) b (c) R {}", fields.join(" "));
        assert_eq!(heap_start_in(stat.as_bytes()), Some(47_000));
        assert_eq!(heap_start_in(b"17 (a"), None);
        // SAFETY: the call tells where the heap ends.
        let end = unsafe { kernel::call(libc::SYS_brk, [0; 6]) }.unwrap();
        assert!((1..=end).contains(&heap_start().unwrap()));
    }

    #[test]
    fn a_thread_that_blocks_the_signal_is_known_by_its_status() {
        let (ready, is_ready) = channel();
        let (end, is_over) = channel::<()>();
        let body = move || {
            let all = nix::sys::signal::SigSet::all();
            all.thread_block().unwrap();
            ready.send(own_number()).unwrap();
            let _ = is_over.recv();
        };
        let thread = std::thread::Builder::new().name("deaf one".into()).spawn(body).unwrap();
        let deaf = TaskStatus::of(is_ready.recv().unwrap()).unwrap();
        assert!([1, libc::SIGUSR1, libc::SIGRTMAX()].into_iter().all(|signal| deaf.blocks(signal)));
        assert_eq!(deaf.name(), b"deaf one");
        let tid = number(deaf.field(b"Pid:").unwrap()).unwrap();
        while TaskStatus::of(tid).unwrap().is_runnable() {
            std::thread::yield_now();
        }
        let own = TaskStatus::of(own_number()).unwrap();
        assert!(!own.blocks(libc::SIGUSR1), "this one blocks none");
        assert!(own.is_runnable(), "it runs");
        assert!(TaskStatus::of(u32::MAX).is_none());
        drop(end);
        thread.join().unwrap();
    }
}
