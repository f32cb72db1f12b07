//! What a process has mapped: `/proc/self/maps`, read without allocating.

use super::area;
use super::kernel::{self, SyscallFailure};
use super::tasks;
use crate::store::PAGE;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the kernel writes behind the name of a file that has it no more.
pub(super) const REMOVED: &[u8] = b" (deleted)";

/// The name of what `brk` gives.
pub(super) const HEAP: &[u8] = b"[heap]";

/// The name of the stack that the system gives to a process.
pub(super) const STACK: &[u8] = b"[stack]";

/// A mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping<'a> {
    pub(super) start: usize,
    pub(super) end: usize,
    /// `PROT_READ`, `PROT_WRITE`, `PROT_EXEC`.
    pub(super) protection: u32,
    pub(super) is_shared: bool,
    pub(super) offset: u64,
    /// Major and minor number of the device, as the kernel writes them: `fd:00`.
    pub(super) device: &'a [u8],
    pub(super) inode: u64,
    /// The file, or a name in brackets, or nothing.
    pub(super) name: &'a [u8],
}

impl Mapping<'_> {
    pub(super) fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    pub(super) fn is_readable(&self) -> bool {
        self.protection & 1 != 0
    }

    /// Whether a file lies under it.
    pub(super) fn has_file(&self) -> bool {
        self.inode != 0
    }

    /// Whether nobody can open the file again that lies under it.
    pub(super) fn is_removed(&self) -> bool {
        self.has_file() && self.name.ends_with(REMOVED)
    }

    /// Whether the kernel put it there, and puts it there in each process.
    pub(super) fn is_kernels(&self) -> bool {
        [&b"[vdso]"[..], b"[vsyscall]"].contains(&self.name) || self.name.starts_with(b"[vvar")
    }

    /// Whether it is in no image: the kernel's, or of the area.
    pub(super) fn is_apart(&self) -> bool {
        self.is_kernels() || area::range().contains(&self.start)
    }
}

/// Reads the list of mappings into scratch memory, where it stays until the next time.
///
/// # Errors
/// It cannot be read, or has no room there.
pub(super) fn read() -> Result<&'static [Mapping<'static>], SyscallFailure> {
    let (at, room) = area::part(area::MAPPINGS);
    let list: *mut Mapping<'_> = at.cast();
    let most = room / size_of::<Mapping<'_>>();
    let mut count = 0;
    let heap = heap()?;
    for mapping in parse(read_text()?).flat_map(|mapping| split(mapping, &heap)).flatten() {
        if count == most {
            return Err(SyscallFailure(libc::E2BIG));
        }
        // SAFETY: there is room for `most` of them in the scratch memory.
        unsafe { list.wrapping_add(count).write(mapping) };
        count += 1;
    }
    // SAFETY: so many were written. Nobody writes them before the next `read`, and there is one thread that
    // takes images, or comes back from one.
    Ok(unsafe { std::slice::from_raw_parts(list, count) })
}

/// What the kernel gives by `brk`: from where it began to where it ends now, in whole pages.
fn heap() -> Result<Range<usize>, SyscallFailure> {
    // The same in each process of a rank.
    static START: AtomicUsize = AtomicUsize::new(0);
    if START.load(Ordering::Relaxed) == 0 {
        START.store(tasks::heap_start()?, Ordering::Relaxed);
    }
    // SAFETY: the call tells where the heap ends.
    let end = unsafe { kernel::call(libc::SYS_brk, [0; 6]) }?;
    let [start, end] = [START.load(Ordering::Relaxed), end].map(|at| at.next_multiple_of(PAGE));
    Ok(start..end)
}

/// A mapping in parts before, in and behind the heap. The kernel merges what is watched on both sides of its
/// beginning, as a program's static data, and calls all of it the heap; but `brk` gives back only the rest.
fn split<'a>(mapping: Mapping<'a>, heap: &Range<usize>) -> [Option<Mapping<'a>>; 3] {
    if mapping.name != HEAP {
        return [Some(mapping), None, None];
    }
    let part = |from: usize, to: usize, name| {
        let (start, end) = (mapping.start.max(from), mapping.end.min(to));
        (start < end).then_some(Mapping { start, end, name, ..mapping })
    };
    [part(0, heap.start, b"" as &[u8]), part(heap.start, heap.end, HEAP), part(heap.end, usize::MAX, b"")]
}

fn read_text() -> Result<&'static [u8], SyscallFailure> {
    let (at, room) = area::part(area::MAPS);
    let path = c"/proc/self/maps".as_ptr().expose_provenance();
    let open = [kernel::bits(libc::AT_FDCWD), path, kernel::bits(libc::O_RDONLY | libc::O_CLOEXEC), 0, 0, 0];
    // SAFETY: the path is a C string.
    let file = unsafe { kernel::call(libc::SYS_openat, open) }?;
    let mut len = 0;
    let result = loop {
        let what = [file, at.expose_provenance() + len, room - len, 0, 0, 0];
        // SAFETY: the bytes from `len` on are scratch memory of ours.
        match unsafe { kernel::call(libc::SYS_read, what) } {
            Ok(0) => break Ok(()),
            Ok(more) => len += more,
            Err(failure) => break Err(failure),
        }
        if len == room {
            break Err(SyscallFailure(libc::E2BIG));
        }
    };
    // SAFETY: the descriptor was opened above.
    let _ = unsafe { kernel::call(libc::SYS_close, [file, 0, 0, 0, 0, 0]) };
    // SAFETY: so many bytes were read; nobody writes them before the next `read`, as above.
    result.map(|()| unsafe { std::slice::from_raw_parts(at, len) })
}

/// The mappings that a list tells of.
pub(super) fn parse(text: &[u8]) -> impl Iterator<Item = Mapping<'_>> {
    text.split(|byte| *byte == b'\n').filter_map(mapping)
}

/// `55d0-55e0 r--p 00000000 fd:00 1234      /bin/cat`
fn mapping(line: &[u8]) -> Option<Mapping<'_>> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut range = fields.next()?.splitn(2, |byte| *byte == b'-');
    let (start, end) = (number(range.next()?, 16)?, number(range.next()?, 16)?);
    let access = fields.next().filter(|access| access.len() == 4)?;
    let bit = |at: usize, letter, bit| if access[at] == letter { bit } else { 0 };
    let protection = bit(0, b'r', 1) | bit(1, b'w', 2) | bit(2, b'x', 4);
    let offset = number(fields.next()?, 16)?;
    let device = fields.next()?;
    let inode = number(fields.next()?, 10)?;
    let name = fields.next().unwrap_or_default().trim_ascii();
    let [start, end] = [start, end].map(|at| usize::try_from(at).unwrap_or(0));
    Some(Mapping { start, end, protection, is_shared: access[3] == b's', offset, device, inode, name })
}

fn number(digits: &[u8], base: u32) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, base).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_understood_and_others_are_passed_over() {
        let text = b"7ffff7fc1000-7ffff7fc3000 r-xp 00001000 fd:00 77   /lib/with space.so\n\
            1000-2000 rw-s 00000000 00:01 9 /memfd:scash (deleted)\nrubbish\n\
            ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0      [vsyscall]\n3000-4000 ---p 0 00:00 0\n";
        let all: Vec<_> = parse(text).collect();
        assert_eq!(all.len(), 4);
        let lib = all[0];
        assert_eq!((lib.range(), lib.protection), (0x7fff_f7fc_1000..0x7fff_f7fc_3000, 5));
        assert_eq!((lib.offset, lib.inode, lib.name), (0x1000, 77, &b"/lib/with space.so"[..]));
        assert!(lib.has_file() && !lib.is_shared && all[1].is_shared);
        assert!(all[2].is_apart() && !all[3].is_apart() && all[3].name.is_empty());
        assert_eq!(all[3].protection, 0);
        assert!(all[1].is_removed() && !lib.is_removed());
    }

    #[test]
    fn the_heap_begins_and_ends_where_brk_does_though_it_was_merged_with_what_is_beside_it() {
        let all = parse(b"10000-90000 rw-p 00000000 00:00 0 [heap]\n").next().unwrap();
        let parts = |heap: Range<usize>| -> Vec<_> {
            split(all, &heap).into_iter().flatten().map(|part| (part.range(), part.name)).collect()
        };
        let (none, heap) = (&b""[..], HEAP);
        assert_eq!(parts(0x10000..0x90000), [(0x10000..0x90000, heap)]);
        assert_eq!(parts(0x30000..0x90000), [(0x10000..0x30000, none), (0x30000..0x90000, heap)]);
        let three = [(0x10000..0x30000, none), (0x30000..0x80000, heap), (0x80000..0x90000, none)];
        assert_eq!(parts(0x30000..0x80000), three);
    }
}
