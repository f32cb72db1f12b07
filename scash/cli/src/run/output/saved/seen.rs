//! What the user has seen of ranks behind the epoch that they are taken back to: their launcher had printed
//! all that was there when the job ended. They print it anew, and then it is left out; or they print
//! something else, which is shown.
//!
//! It is kept in a file for each stream from when ranks are taken back until somebody prints again, who may
//! be another process.

use super::{Lengths, Saved, length_of};
use crate::run::recovery::seen_name;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Most bytes that are kept of a stream; what is behind them appears twice.
const MOST: u64 = 16 << 20;

impl Saved {
    /// Ranks are about to be taken back to where they had printed so much. What cannot be kept appears twice.
    pub(in crate::run) fn keep_seen(&self, lengths: &[Lengths]) {
        for (rank, (lengths, printed)) in lengths.iter().zip(self.printed()).enumerate() {
            for stream in 0..2 {
                self.keep_seen_of(rank, stream, lengths[stream], printed[stream]);
            }
        }
    }

    fn keep_seen_of(&self, rank: usize, stream: usize, length: u64, printed: u64) {
        let Some(path) = self.seen_path(rank, stream) else { return };
        // Of a launcher that did not come to print.
        let _ = fs::remove_file(&path);
        if printed <= length {
            return;
        }
        let file = self.files.get(rank).and_then(|files| files.get(stream));
        if let Some(file) = file {
            let there = printed.min(length_of(file)).min(length + MOST).saturating_sub(length);
            let mut bytes = vec![0; usize::try_from(there).unwrap_or(0)];
            if file.read_exact_at(&mut bytes, length).is_ok() {
                bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
                let _ = fs::write(&path, &bytes);
            }
        }
        // Whoever dies from here on leaves somebody who shows it again, rather than something that nobody has
        // seen.
        self.note(rank, stream, length);
    }

    /// By rank and stream: what is kept, behind what counts as printed.
    pub(super) fn take_seen(&self) -> Vec<[Vec<u8>; 2]> {
        let take = |rank, stream| -> io::Result<Vec<u8>> {
            let Some(path) = self.seen_path(rank, stream) else { return Ok(Vec::new()) };
            let bytes = fs::read(&path)?;
            fs::remove_file(&path)?;
            Ok(bytes)
        };
        let of = |rank| [0, 1].map(|stream| take(rank, stream).unwrap_or_default());
        (0..self.files.len()).map(of).collect()
    }

    fn seen_path(&self, rank: usize, stream: usize) -> Option<PathBuf> {
        let rank = self.first + u32::try_from(rank).ok()?;
        Some(self.directory.as_ref()?.join(seen_name(rank, stream)))
    }
}
