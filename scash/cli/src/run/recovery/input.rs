//! What rank 0 reads must be there again when it is started again: a file, or nothing.

use crate::run::{Refusal, status};
use nix::sys::stat::{FileStat, SFlag, fstat};
use nix::unistd::{Whence, lseek};
use std::io;
use std::os::fd::AsFd;

/// This process's standard input, which rank 0 has too.
#[derive(Debug)]
pub(super) struct Input {
    /// Where in the file the job began to read; `None`: it is /dev/null.
    begins_at: Option<i64>,
}

impl Input {
    /// Nothing that can be read again by this process.
    pub(super) fn none() -> Input {
        Input { begins_at: None }
    }

    /// Looks at what it is.
    pub(super) fn find() -> Result<Input, Refusal> {
        let refuse = |why: String| Refusal::new(status::USAGE, format!("--replicas: {why}"));
        let stdin = io::stdin();
        let file =
            fstat(stdin.as_fd()).map_err(|error| refuse(format!("asking for standard input: {error}")))?;
        if is_null(&file) {
            return Ok(Input { begins_at: None });
        }
        let what = kind(&file);
        if what != SFlag::S_IFREG {
            return Err(refuse(format!(
                "rank 0's standard input is {}, and what was read from it cannot be read again: use < /dev/null, or a file",
                name_of(what)
            )));
        }
        let at = lseek(stdin.as_fd(), 0, Whence::SeekCur);
        Ok(Input { begins_at: Some(at.map_err(|error| refuse(format!("standard input: {error}")))?) })
    }

    /// Whether this process's standard input is a file.
    pub(super) fn is_file() -> bool {
        fstat(io::stdin().as_fd()).is_ok_and(|file| kind(&file) == SFlag::S_IFREG)
    }

    /// Goes back to where the job began. A rank that restores an image goes from there to where it was.
    pub(super) fn rewind(&self) -> io::Result<()> {
        if let Some(at) = self.begins_at {
            lseek(io::stdin().as_fd(), at, Whence::SeekSet)?;
        }
        Ok(())
    }
}

fn kind(file: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(file.st_mode) & SFlag::S_IFMT
}

fn is_null(file: &FileStat) -> bool {
    kind(file) == SFlag::S_IFCHR && file.st_rdev == libc::makedev(1, 3)
}

fn name_of(kind: SFlag) -> &'static str {
    match kind {
        SFlag::S_IFCHR => "a terminal or another device",
        SFlag::S_IFIFO => "a pipe",
        SFlag::S_IFSOCK => "a socket",
        _ => "no file",
    }
}
