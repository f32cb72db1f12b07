//! A program that the launcher sends (`--copy`), on the agent's side: it lies in memory and has no name, so
//! nothing is left of it when the agent and its ranks have ended, however they end.

use crate::run::{Refusal, status};
use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Says that the file is to be executed, which some systems want to know (`vm.memfd_noexec`). Linux 6.3.
const EXECUTABLE: MFdFlags = MFdFlags::from_bits_retain(libc::MFD_EXEC);

/// A program that is coming, or has come.
#[derive(Debug)]
pub(super) struct ProgramCopy {
    file: File,
    size: u64,
    /// Bytes that have not come yet.
    left: u64,
}

impl ProgramCopy {
    /// A copy of a program of this name and so many bytes, of which none has come.
    pub(super) fn new(name: &OsStr, size: u64) -> Result<ProgramCopy, Refusal> {
        let name = Path::new(name).file_name().unwrap_or(name);
        // Not closed on exec: the interpreter of a script opens it again.
        let file = match memfd_create(name, EXECUTABLE) {
            Err(Errno::EINVAL) => memfd_create(name, MFdFlags::empty()),
            made => made,
        };
        let file = file.map_err(|error| no_room(size, error))?;
        Ok(ProgramCopy { file: file.into(), size, left: size })
    }

    /// Takes the next bytes; `true` when it is whole.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<bool, Refusal> {
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or_else(|| {
            Refusal::new(
                status::LAUNCHER,
                format!("the launcher sends more than the {} bytes of the program", self.size),
            )
        })?;
        self.file.write_all(bytes).map_err(|error| no_room(self.size, error))?;
        Ok(self.left == 0)
    }

    /// Where this process and its children find it.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }
}

fn no_room(size: u64, error: impl std::fmt::Display) -> Refusal {
    let why = format!(
        "no copy of the program ({size} bytes), which would lie in memory here: {error}; make room, or install the program and leave out --copy"
    );
    Refusal::new(status::LAUNCHER, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_comes_in_parts_is_executed_and_nothing_more_is_taken() {
        let script = b"#!/bin/sh\necho it is $1\n";
        let mut copy = ProgramCopy::new(OsStr::new("/some/where/script"), script.len() as u64).unwrap();
        assert!(!copy.add(&script[..5]).unwrap());
        assert!(copy.add(&script[5..]).unwrap());
        let output = Command::new(copy.path()).arg("there").output().unwrap();
        assert_eq!(output.stdout, b"it is there\n");
        assert!(copy.add(b"x").unwrap_err().why.contains("more than the 24 bytes"));
    }

    #[test]
    fn a_copy_that_does_not_fit_is_refused_with_its_size() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // A file that cannot be written, as where memory has run out.
        let mut copy = ProgramCopy { file: File::open(file.path()).unwrap(), size: 9, left: 9 };
        let refusal = copy.add(b"some").unwrap_err();
        assert!(refusal.why.contains("(9 bytes)") && refusal.why.contains("--copy"), "{}", refusal.why);
    }
}
