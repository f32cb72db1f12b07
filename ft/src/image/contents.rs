//! What is in a file, wherever it lies: hosts have copies of programs and libraries, each with an inode and
//! times of its own.

use super::description::Record;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Longest file whose bytes are summed up that is not code, which takes tenths of a second. A longer one is
/// on a disk of all hosts, or ranks do not go from one host to another.
const MOST_SUMMED: u64 = 256 << 20;

/// By what a file is known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Contents {
    device: u64,
    inode: u64,
    len: u64,
    /// When it was written the last time.
    time: [i64; 2],
    /// What the linker has noted of what it has linked (`.note.gnu.build-id`), with zeros behind.
    build: [u8; 32],
    /// If it has noted nothing: a sum over all bytes. Of a device: which one.
    sum: u64,
    /// Whether there is a sum.
    is_summed: u64,
    /// Whether it must not have changed at all.
    is_code: u64,
}

// SAFETY: it consists of bytes and 64-bit words, all of which lie at multiples of 8.
unsafe impl Record for Contents {}

impl Contents {
    /// Of a program or a library reads the headers, of other files all, unless they are long, or this process
    /// has them open: whoever closes a file loses all locks that the process has on it.
    pub(super) fn of(path: &Path, is_code: bool) -> io::Result<Contents> {
        let is = path.metadata()?;
        let (device, inode, len, time) = (is.dev(), is.ino(), is.len(), [is.mtime(), is.mtime_nsec()]);
        let known = Contents { device, inode, len, time, build: [0; 32], sum: 0, is_summed: 0, is_code: 0 };
        if !is.is_file() {
            return Ok(Contents { sum: is.rdev(), is_summed: 1, ..known });
        }
        if !is_code && is_open(&is) {
            return Ok(known);
        }
        let mut file = File::open(path)?;
        if let Some(build) = build(&file) {
            return Ok(Contents { build, is_code: 1, ..known });
        }
        if !is_code && len > MOST_SUMMED {
            return Ok(known);
        }
        Ok(Contents { sum: sum(&mut file, &is)?, is_summed: 1, is_code: is_code.into(), ..known })
    }

    /// Whether the file of this name is the same, here. What is not code may have other bytes by now, as
    /// files that are open, if it is the very file.
    pub(super) fn are_in(&self, path: &Path) -> io::Result<bool> {
        let is = path.metadata()?;
        // A disk of all hosts may have another number on each.
        let is_unchanged =
            (self.inode, self.len, self.time) == (is.ino(), is.len(), [is.mtime(), is.mtime_nsec()]);
        if self.is_code == 0 && (is_unchanged || (self.device, self.inode) == (is.dev(), is.ino())) {
            return Ok(true);
        }
        if is.len() != self.len {
            return Ok(false);
        }
        let here = Contents::of(path, self.is_code != 0)?;
        let alike = |all: &Contents| (all.build, all.sum, all.is_summed, all.is_code);
        let is_known = here.is_summed != 0 || here.is_code != 0;
        Ok(is_known && alike(&here) == alike(self))
    }
}

/// Whether this process has the file open.
fn is_open(file: &Metadata) -> bool {
    let Ok(all) = std::fs::read_dir("/proc/self/fd") else { return true };
    let is_it = |is: Metadata| (is.dev(), is.ino()) == (file.dev(), file.ino());
    all.flatten().any(|entry| std::fs::metadata(entry.path()).is_ok_and(is_it))
}

/// Of no more than the file had when it was looked at: it may grow meanwhile.
fn sum(file: &mut File, is: &Metadata) -> io::Result<u64> {
    let mut crc = crc32fast::Hasher::new();
    let (mut file, mut part) = (file.take(is.len()), vec![0; 1 << 16]);
    loop {
        match file.read(&mut part)? {
            0 => return Ok(crc.finalize().into()),
            len => crc.update(&part[..len]),
        }
    }
}

/// The note of the linker in an ELF file of 64 bits, lower bytes first.
fn build(file: &File) -> Option<[u8; 32]> {
    const NOTE: u32 = 4;
    const MOST: usize = 1 << 16;
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    let is_elf = header.starts_with(b"\x7fELF\x02\x01");
    let (at, size, count) = (word(&header, 32)?, half(&header, 54)?, half(&header, 56)?);
    if !is_elf || size != 56 {
        return None;
    }
    let mut segments = vec![0; usize::from(size) * usize::from(count)];
    file.read_exact_at(&mut segments, at).ok()?;
    segments.chunks_exact(size.into()).filter(|segment| number(segment, 0) == Some(NOTE)).find_map(
        |segment| {
            let (at, len) = (word(segment, 8)?, usize::try_from(word(segment, 32)?).ok()?);
            let mut notes = vec![0; len.min(MOST)];
            file.read_exact_at(&mut notes, at).ok()?;
            let align = if word(segment, 48) == Some(8) { 8 } else { 4 };
            build_in(&notes, align)
        },
    )
}

/// The same in a list of notes: the lengths of name and text, what it is, name, text.
fn build_in(mut notes: &[u8], align: usize) -> Option<[u8; 32]> {
    const BUILD_ID: u32 = 3;
    const NAME: usize = 12;
    loop {
        let [name, text] = [0, 4].map(|at| number(notes, at).and_then(|len| usize::try_from(len).ok()));
        let begin = NAME.checked_add(name?)?.checked_next_multiple_of(align)?;
        let end = begin.checked_add(text?)?;
        let (is, id) = (notes.get(NAME..NAME + name?)?, notes.get(begin..end)?);
        if is == b"GNU\0" && number(notes, 8) == Some(BUILD_ID) && !id.is_empty() {
            let mut build = [0; 32];
            let len = id.len().min(build.len());
            build[..len].copy_from_slice(&id[..len]);
            return Some(build);
        }
        notes = notes.get(end.checked_next_multiple_of(align)?..)?;
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    /// A note, with its name and text padded.
    fn note(name: &[u8], kind: u32, text: &[u8]) -> Vec<u8> {
        let mut note: Vec<u8> = [name.len() as u32, text.len() as u32, kind].map(u32::to_le_bytes).concat();
        for part in [name, text] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn the_linkers_note_is_found_among_others() {
        let others = [note(b"GNU\0", 5, &[9; 16]), note(b"Linux\0", 3, &[8; 5])].concat();
        let all = [&others[..], &note(b"GNU\0", 3, &[7; 20])].concat();
        let id = build_in(&all, 4).unwrap();
        assert_eq!((&id[..20], &id[20..]), (&[7; 20][..], &[0; 12][..]));
        assert_eq!(build_in(&others, 4), None);
        for len in 0..all.len() {
            assert_eq!(build_in(&all[..len], 4), None, "{len} bytes of it");
        }
        assert_eq!(build_in(&[0xff; 64], 8), None);
        assert_eq!(build_in(&[0; 64], 4), None);
    }

    #[test]
    fn copies_are_the_same_and_what_differs_in_one_byte_is_not() {
        let place = tempfile::tempdir().unwrap();
        let named = |name: &str| place.path().join(name);
        let program = std::env::current_exe().unwrap();
        std::fs::copy(&program, named("copy")).unwrap();
        let here = Contents::of(&program, true).unwrap();
        assert_ne!(here.build, [0; 32], "test programs have the linker's note");
        assert!(here.are_in(&named("copy")).unwrap());

        for (name, text) in [("one", "some data"), ("same", "some data"), ("longer", "some dates")] {
            std::fs::write(named(name), text).unwrap();
        }
        std::fs::write(named("changed"), "some dada").unwrap();
        for is_code in [false, true] {
            let one = Contents::of(&named("one"), is_code).unwrap();
            let same = |name: &str| one.are_in(&named(name)).unwrap();
            assert_eq!(
                ["one", "same", "longer", "changed", "copy"].map(same),
                [true, true, false, false, false]
            );
        }
        assert!(Contents::of(&named("none"), false).is_err());
        assert!(here.are_in(&named("none")).is_err());
    }

    #[test]
    fn data_may_change_in_the_very_file_and_code_may_not() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        std::fs::write(&path, "as it was").unwrap();
        let [data, code] = [false, true].map(|is_code| Contents::of(&path, is_code).unwrap());
        std::fs::write(&path, "as it is now").unwrap();
        assert_eq!([data, code].map(|of| of.are_in(&path).unwrap()), [true, false]);
    }

    #[test]
    fn a_file_that_is_locked_stays_locked() {
        let place = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(place.path(), "data").unwrap();
        let lock = libc::flock { l_type: libc::F_WRLCK as i16, l_whence: 0, l_start: 0, l_len: 0, l_pid: 0 };
        nix::fcntl::fcntl(place.as_file(), nix::fcntl::FcntlArg::F_SETLK(&lock)).unwrap();
        let is_locked = || {
            std::fs::read_to_string("/proc/locks")
                .unwrap()
                .contains(&format!("POSIX  ADVISORY  WRITE {}", std::process::id()))
        };
        assert!(is_locked());
        assert_eq!(Contents::of(place.path(), false).unwrap().is_summed, 0);
        assert!(is_locked());
    }

    #[test]
    fn devices_and_long_files_of_data_are_not_read() {
        let zero = Contents::of("/dev/zero".as_ref(), false).unwrap();
        assert!(zero.are_in("/dev/zero".as_ref()).unwrap());
        assert!(!zero.are_in("/dev/null".as_ref()).unwrap());
        let place = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| place.path().join(name));
        for path in [&one, &other] {
            File::create(path).unwrap().set_len(1 << 40).unwrap();
        }
        let long = Contents::of(&one, false).unwrap();
        assert_eq!([&one, &other].map(|path| long.are_in(path).unwrap()), [true, false]);
        // That of a disk that has another number on another host.
        let there = Contents { device: 0, ..long };
        assert!(there.are_in(&one).unwrap());
        File::options().write(true).open(&one).unwrap().set_len(1 << 41).unwrap();
        assert_eq!([long, there].map(|of| of.are_in(&one).unwrap()), [true, false]);
    }
}
