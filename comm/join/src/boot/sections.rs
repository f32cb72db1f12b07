//! Sections of the running program's own file, by their names.

use object::Endianness;
use object::elf::{ET_EXEC, FileHeader64, SHF_ALLOC};
use object::read::elf::{FileHeader, SectionHeader};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A section of the running program's own file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramSection {
    /// The address that the linker has given it.
    pub address: u64,
    /// Its bytes.
    pub size: u64,
    /// Whether it lies in the process where the linker has put it: the system has loaded it there.
    pub is_loaded: bool,
    /// Whether the program may lie elsewhere than the linker has put it (position-independent executables).
    pub is_movable: bool,
    /// Where its contents begin in the file; `None` if it has none.
    contents: Option<u64>,
}

impl ProgramSection {
    /// The section of the first of these names that has one; `None` if none has, or if the program's file is
    /// none of ELF with 64 bits.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn find(names: &[&str]) -> io::Result<Option<ProgramSection>> {
        ProgramSection::find_in(Path::new(PROGRAM), names)
    }

    /// A library of this process whose file has a section of one of these names; the program itself is none.
    ///
    /// # Errors
    /// The process's mappings cannot be read. Files that cannot be opened have no such section.
    pub fn library_with(names: &[&str]) -> io::Result<Option<PathBuf>> {
        let program = std::fs::read_link(PROGRAM)?;
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        // address, access, offset, device, inode; what has code is mapped with x.
        let code =
            maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|access| access.contains('x')));
        let files: BTreeSet<&Path> =
            code.filter_map(|line| line.find('/').map(|path| Path::new(&line[path..]))).collect();
        let has_it = |file: &&Path| *file != program && matches!(Self::find_in(file, names), Ok(Some(_)));
        Ok(files.into_iter().find(has_it).map(Path::to_owned))
    }

    fn find_in(file: &Path, names: &[&str]) -> io::Result<Option<ProgramSection>> {
        let mut file = File::open(file)?;
        let cache = object::ReadCache::new(&mut file);
        let find = || -> object::Result<Option<ProgramSection>> {
            let header = FileHeader64::<Endianness>::parse(&cache)?;
            let endian = header.endian()?;
            let sections = header.sections(endian, &cache)?;
            let mut found = names.iter().filter_map(|name| sections.section_by_name(endian, name.as_bytes()));
            let Some((_, section)) = found.next() else {
                return Ok(None);
            };
            Ok(Some(ProgramSection {
                address: section.sh_addr(endian),
                size: section.sh_size(endian),
                is_loaded: section.sh_flags(endian).contains(SHF_ALLOC),
                is_movable: header.e_type(endian) != ET_EXEC,
                contents: section.file_range(endian).map(|(begin, _)| begin),
            }))
        };
        Ok(find().unwrap_or(None))
    }

    /// Reads its contents from `offset` on until `buffer` is full. Without contents these are zeros.
    ///
    /// # Errors
    /// The file cannot be read, or ends before.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self.contents {
            Some(begin) => File::open(PROGRAM)?.read_exact_at(buffer, begin + offset),
            None => {
                buffer.fill(0);
                Ok(())
            }
        }
    }
}

/// The link itself, not where it points to: the file may have been replaced since the program started.
const PROGRAM: &str = "/proc/self/exe";

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn sections_of_this_program_are_found_and_read() {
        let text = ProgramSection::find(&[".text"]).unwrap().unwrap();
        assert!(text.is_loaded && text.size > 1000);
        let here = sections_of_this_program_are_found_and_read as *const () as u64;
        if !text.is_movable {
            assert!((text.address..text.address + text.size).contains(&here));
        }
        let mut code = [0; 64];
        text.read(text.size / 2, &mut code).unwrap();
        assert_ne!(code, [0; 64]);
        let bss = ProgramSection::find(&[".bss"]).unwrap().unwrap();
        bss.read(0, &mut code).unwrap();
        assert_eq!(code, [0; 64]);
        assert_eq!(ProgramSection::find(&[".nobody-has-this"]).unwrap(), None);
    }

    #[test]
    fn libraries_of_this_process_are_looked_through_and_the_program_is_not() {
        let library = ProgramSection::library_with(&[".nobody-has-this", ".dynsym"]).unwrap().unwrap();
        assert!(library.to_string_lossy().contains(".so"), "{}", library.display());
        // What marks a program that needs a loader.
        assert!(ProgramSection::find(&[".interp"]).unwrap().is_some());
        assert_eq!(ProgramSection::library_with(&[".nobody-has-this"]).unwrap(), None);
    }

    #[test]
    fn a_file_that_is_no_program_has_no_sections() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for contents in [&b"#!/bin/sh\n"[..], b"\x7fELF\x02\x01\x01", b""] {
            file.write_all(contents).unwrap();
            assert_eq!(ProgramSection::find_in(file.path(), &[".text"]).unwrap(), None);
        }
    }
}
