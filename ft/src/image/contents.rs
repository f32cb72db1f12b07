//! What is in a file, wherever it lies: hosts have copies of programs and libraries, each with an inode and
//! times of its own.

use super::description::Record;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// By what two files are taken for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Contents {
    len: u64,
    /// What the linker has noted of what it has linked (`.note.gnu.build-id`), with zeros behind.
    build: [u8; 32],
    /// A sum over all bytes, if it has noted nothing, or the file is none of a linker's.
    sum: u64,
}

// SAFETY: it consists of bytes and 64-bit words, of which the first and the last lie at multiples of 8.
unsafe impl Record for Contents {}

impl Contents {
    /// Of a program or a library reads the headers, of other files all.
    pub(super) fn of(path: &Path) -> io::Result<Contents> {
        let mut file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(match build(&file) {
            Some(build) => Contents { len, build, sum: 0 },
            None => Contents { len, build: [0; 32], sum: sum(&mut file)? },
        })
    }
}

fn sum(file: &mut File) -> io::Result<u64> {
    let mut crc = crc32fast::Hasher::new();
    let mut part = vec![0; 1 << 16];
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
        let here = Contents::of(&program).unwrap();
        assert_eq!(Contents::of(&named("copy")).unwrap(), here);
        assert_ne!(here.build, [0; 32], "test programs have the linker's note");

        for (name, text) in [("one", "some data"), ("same", "some data"), ("other", "some dates")] {
            std::fs::write(named(name), text).unwrap();
        }
        std::fs::write(named("changed"), "some dada").unwrap();
        let of = |name: &str| Contents::of(&named(name)).unwrap();
        assert_eq!(of("one"), of("same"));
        assert_ne!(of("one"), of("other"));
        assert_ne!(of("one"), of("changed"));
        assert!(Contents::of(&named("none")).is_err());
    }
}
