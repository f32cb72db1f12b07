//! What ranks print where it may be taken back: a file in memory for each stream of each rank, which
//! outlives the rank's process. A thread prints what is part of an epoch that all ranks have; that is never
//! taken back.
//!
//! ```text
//!  a file   0          printed        to be printed        its end
//!           +----------+--------------+--------------------+
//!           | given up | waits for us | may be taken back  | ◀── the rank appends
//!           +----------+--------------+--------------------+
//! ```
//!
//! So a reader of ours who is slow holds up nobody, and costs memory instead.

mod printer;
mod seen;

use printer::give_up;
pub(super) use printer::{SavedPrinter, start};

use super::wiring::RankOutput;
use crate::run::recovery::{Directory, output_name};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use scash_comm::descriptors::out_of_the_way;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// How many bytes of its stdout and stderr a rank has printed.
pub(in crate::run) type Lengths = [u64; 2];

/// The files of all ranks.
#[derive(Debug)]
pub(in crate::run) struct Saved {
    /// By rank: of stdout, and of stderr if that is another one.
    files: Vec<Vec<File>>,
    /// The first of these ranks.
    first: u32,
    /// Where it is noted what was printed, if that is to outlive this process.
    record: Option<File>,
    /// The directory of these files, if they have one.
    directory: Option<PathBuf>,
    /// Whether what was printed is kept until somebody says that it was seen ([`give_up`](Self::give_up)).
    is_kept: bool,
}

impl Saved {
    /// Empty files. `is_one`: a rank has one for both streams, so that what it says stays in its order.
    pub(in crate::run) fn new(ranks: u32, is_one: bool) -> io::Result<Saved> {
        let streams = if is_one { 1 } else { 2 };
        let files = (0..ranks).map(|_| (0..streams).map(|_| file()).collect());
        let files = files.collect::<io::Result<_>>()?;
        Ok(Saved { files, first: 0, record: None, directory: None, is_kept: false })
    }

    /// The same, for output that goes to another host: it is kept until it was seen there.
    pub(in crate::run) fn kept_until_seen(ranks: u32, is_one: bool) -> io::Result<Saved> {
        Ok(Saved { is_kept: true, ..Saved::new(ranks, is_one)? })
    }

    /// This part of a stream of a rank was seen: gives the memory back that it takes.
    pub(in crate::run) fn give_up(&self, rank: u32, stream: usize, seen: Range<u64>) {
        let file = self.files.get(rank as usize).and_then(|files| files.get(stream));
        if let Some(file) = file {
            give_up(file, seen.start, seen.end);
        }
    }

    /// Writes over a part of what a rank has printed.
    pub(in crate::run) fn fill(
        &self,
        rank: usize,
        stream: usize,
        give: impl FnOnce(&mut dyn FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(file) = self.files.get(rank).and_then(|files| files.get(stream)) else { return Ok(()) };
        // Whoever else has it appends, wherever one wants to write.
        let file = File::options().write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        give(&mut |at, bytes| file.write_all_at(bytes, at))
    }

    /// Files of these ranks in a directory: empty ones that are made, or those that are there.
    pub(in crate::run) fn on_disk(
        directory: &Directory,
        ranks: Range<u32>,
        is_one: bool,
        is_new: bool,
    ) -> io::Result<Saved> {
        let streams = if is_one { 1 } else { 2 };
        let out = |file: File| File::from(out_of_the_way(file.into()));
        let of = |rank| (0..streams).map(|stream| directory.output(rank, stream, is_new).map(out)).collect();
        let (first, files) = (ranks.start, ranks.map(of).collect::<io::Result<_>>()?);
        let (record, directory) = (Some(directory.printed()?), Some(directory.path().to_owned()));
        Ok(Saved { files, first, record, directory, is_kept: false })
    }

    /// How much was printed, by rank, in whole lines. What is not noted was not.
    fn printed(&self) -> Vec<Lengths> {
        let mut words = vec![0; self.files.len() * 16];
        if let Some(record) = &self.record {
            let (first, mut read) = (self.word(0, 0), 0);
            while let Ok(length @ 1..) = record.read_at(&mut words[read..], first + read as u64) {
                read += length;
            }
        }
        let (words, _) = words.as_chunks::<8>();
        words.chunks_exact(2).map(|two| [u64::from_le_bytes(two[0]), u64::from_le_bytes(two[1])]).collect()
    }

    /// Notes how much was printed. If that fails, some is printed twice by who goes on with the job.
    fn note(&self, rank: usize, stream: usize, printed: u64) -> io::Result<()> {
        let word = self.word(rank, stream);
        self.record.as_ref().map_or(Ok(()), |record| record.write_all_at(&printed.to_le_bytes(), word))
    }

    /// The descriptors of what the rank prints to, which are out of its way.
    pub(in crate::run) fn numbers(&self, rank: usize) -> [RawFd; 2] {
        let files = self.files.get(rank).map_or(&[][..], Vec::as_slice);
        [files.first(), files.last()].map(|file| file.map_or(-1, File::as_raw_fd))
    }

    /// Where in the record the word of a stream is.
    fn word(&self, rank: usize, stream: usize) -> u64 {
        (u64::from(self.first) + rank as u64) * 16 + stream as u64 * 8
    }

    /// What the rank prints to.
    pub(in crate::run) fn given(&self, rank: usize) -> io::Result<RankOutput> {
        let files = self.files.get(rank).map_or(&[][..], Vec::as_slice);
        let stream = |file: Option<&File>| file.map(File::try_clone).transpose();
        let (out, err) = (stream(files.first())?, stream(files.last())?);
        Ok(RankOutput { stdout: out.map(Into::into), stderr: err.map(Into::into) })
    }

    /// How much the rank has printed.
    pub(in crate::run) fn lengths(&self, rank: usize) -> Lengths {
        let length = |stream: usize| {
            let file = self.files.get(rank).and_then(|files| files.get(stream));
            file.map_or(0, length_of)
        };
        [length(0), length(1)]
    }

    /// Has the disk have all that was printed.
    pub(in crate::run) fn sync(&self) -> io::Result<()> {
        self.files.iter().flatten().try_for_each(File::sync_data)
    }

    /// Checks that so much is there of what ranks have printed. The error names a file that is shorter.
    pub(in crate::run) fn must_have(&self, lengths: &[Lengths]) -> io::Result<()> {
        for (rank, (files, lengths)) in (self.first..).zip(self.files.iter().zip(lengths)) {
            for (stream, (file, length)) in files.iter().zip(lengths).enumerate() {
                let there = file.metadata()?.len();
                if there < *length {
                    let name = output_name(rank, stream);
                    return Err(io::Error::other(format!("{name}: it has {there} bytes, and had {length}")));
                }
            }
        }
        Ok(())
    }

    /// Takes back what ranks have printed beyond that. Nobody may print meanwhile.
    pub(in crate::run) fn cut(&self, lengths: &[Lengths]) -> io::Result<()> {
        for (files, lengths) in self.files.iter().zip(lengths) {
            for (file, length) in files.iter().zip(lengths) {
                if file.metadata()?.len() > *length {
                    file.set_len(*length)?;
                }
            }
        }
        Ok(())
    }
}

impl Saved {
    /// What a rank has printed elsewhere counts as if it had been printed here: its file begins with zeros,
    /// which nobody reads ([`SavedPrinter::skip`]).
    pub(in crate::run) fn lengthen(&self, lengths: &[Lengths]) -> io::Result<()> {
        for (files, lengths) in self.files.iter().zip(lengths) {
            for (file, length) in files.iter().zip(lengths) {
                if file.metadata()?.len() < *length {
                    file.set_len(*length)?;
                }
            }
        }
        Ok(())
    }
}

fn length_of(file: &File) -> u64 {
    file.metadata().map_or(0, |is| is.len())
}

/// A file that is appended to, whoever writes.
fn file() -> io::Result<File> {
    let file = memfd_create(c"scash-output", MFdFlags::MFD_CLOEXEC)?;
    fcntl(&file, FcntlArg::F_SETFL(OFlag::O_APPEND))?;
    Ok(out_of_the_way(file).into())
}

#[cfg(test)]
mod tests;
