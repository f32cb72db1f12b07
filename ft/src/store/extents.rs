//! A store as bytes: what has been written of its file, to be copied to a store on another host whose rank
//! moves there. Nobody writes it meanwhile.

use super::{PAGE, Store};
use nix::errno::Errno;
use nix::unistd::{Whence, lseek};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bytes of a store that say what the rest is worth, at its beginning: who copies it, copies them last.
pub const HEADER: u64 = PAGE as u64;

impl Store {
    /// Gives away what has been written of the file within a range, in pieces of at most `buffer`'s length,
    /// each with its place, until that is all or some `enough` bytes. Returns where to go on, if there may be
    /// more.
    ///
    /// # Errors
    /// The file cannot be read, or `take` fails.
    pub fn read(
        &self,
        range: Range<u64>,
        enough: u64,
        buffer: &mut [u8],
        mut take: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<Option<u64>> {
        let file = File::from(self.file.try_clone()?);
        let seek = |from: u64, whence| match lseek(&file, i64::try_from(from).unwrap_or(i64::MAX), whence) {
            Ok(at) => Ok(u64::try_from(at).ok()),
            Err(Errno::ENXIO) => Ok(None),
            Err(errno) => Err(io::Error::from(errno)),
        };
        let (mut at, mut given) = (range.start, 0);
        while let Some(begin) = seek(at, Whence::SeekData)?.filter(|begin| *begin < range.end) {
            let end = seek(begin, Whence::SeekHole)?.unwrap_or(range.end).min(range.end);
            at = begin;
            while at < end {
                if given >= enough {
                    return Ok(Some(at));
                }
                let length = buffer.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
                file.read_exact_at(&mut buffer[..length], at)?;
                take(at, &buffer[..length])?;
                (at, given) = (at + length as u64, given + length as u64);
            }
        }
        Ok(None)
    }

    /// Writes bytes there.
    ///
    /// # Errors
    /// The store ends before that, or there is no memory left.
    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let file = File::from(self.file.try_clone()?);
        let end = at.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| file.metadata().map_or(true, |is| end > is.len())) {
            return Err(io::Error::other(
                "the store that it is copied from is longer: is `ulimit -f` the same?",
            ));
        }
        file.write_all_at(bytes, at)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::{Base, Epoch, Incarnation};

    fn copy(from: &Store, to: &Store, range: Range<u64>, enough: u64) -> usize {
        let (mut next, mut reads) = (Some(range.start), 0);
        while let Some(at) = next {
            let write = |at: u64, bytes: &[u8]| to.write(at, bytes);
            next = from.read(at..range.end, enough, &mut [0; 5000], write).unwrap();
            reads += 1;
        }
        reads
    }

    #[test]
    fn what_was_written_is_copied_wherever_it_lies_and_nothing_else() {
        let (from, to) = (Store::create(3, 4).unwrap(), Store::create(3, 4).unwrap());
        from.set_base(Base { incarnation: Incarnation(2), epoch: Epoch(7) });
        let far = 3 << 30;
        let bytes: Vec<u8> = (0..=255).cycle().take(20_000).collect();
        from.write(far + 4096, &bytes).unwrap();
        from.write(1 << 20, b"near").unwrap();
        assert!(copy(&from, &to, HEADER..u64::MAX, 8192) > 2);
        assert_eq!(to.base(), Base::default(), "the header is copied last");
        copy(&from, &to, 0..HEADER, u64::MAX);
        assert_eq!((to.base(), to.rank()), (from.base(), 3));
        let mut read = vec![0; bytes.len()];
        File::from(to.file().try_clone_to_owned().unwrap()).read_exact_at(&mut read, far + 4096).unwrap();
        assert!(read == bytes);
        let blocks = |store: &Store| nix::sys::stat::fstat(store.file()).unwrap().st_blocks;
        assert_eq!(blocks(&to), blocks(&from));
        assert!(to.write(u64::MAX - 2, b"beyond").is_err());
    }
}
