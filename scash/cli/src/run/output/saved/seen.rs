//! What the user has seen of ranks behind the epoch that they are taken back to: their launcher had printed
//! all that was there when the job ended. They print it anew, and then it is left out; or they print
//! something else, which is shown.
//!
//! It is in a file for each stream, from when ranks are taken back until they have printed all of it, or
//! something else. That may be another process, and yet another one if that is killed on the way. The file
//! begins with where in the stream it begins, a number of 8 bytes.

use super::{Lengths, Saved, length_of};
use crate::run::recovery::seen_name;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Most bytes that are kept of a stream; what is behind them appears twice.
const MOST: u64 = 16 << 20;

impl Saved {
    /// Ranks are about to be taken back to where they had printed so much. What cannot be kept appears twice.
    ///
    /// # Errors
    /// It cannot be noted that no more counts as printed: what ranks print instead could be left out.
    pub(in crate::run) fn keep_seen(&self, lengths: &[Lengths]) -> io::Result<()> {
        let mut is_noted = false;
        for (rank, (lengths, printed)) in lengths.iter().zip(self.printed()).enumerate() {
            for stream in 0..2 {
                let (length, printed) = (lengths[stream], printed[stream]);
                let Some(path) = self.seen_path(rank, stream) else { continue };
                let Some(file) = self.files.get(rank).and_then(|files| files.get(stream)) else { continue };
                let first = length.min(printed);
                let seen = seen_behind(file, &path, first, printed);
                // It may have been of another epoch.
                let _ = fs::remove_file(&path);
                if !seen.is_empty() && write(&path, first, &seen).is_err() {
                    let _ = fs::remove_file(&path);
                }
                if first < printed {
                    self.note(rank, stream, first)?;
                    is_noted = true;
                }
            }
        }
        // What ranks print instead may be on the disk soon.
        self.record.iter().filter(|_| is_noted).try_for_each(File::sync_data)
    }

    /// What of that is behind what counts as printed of a stream. If nothing is, the file goes.
    pub(super) fn take_seen(&self, rank: usize, stream: usize, printed: u64) -> Vec<u8> {
        let seen = self.seen_path(rank, stream).map_or_else(Vec::new, |path| rest(&path, printed));
        if seen.is_empty() {
            self.forget_seen(rank, stream);
        }
        seen
    }

    /// Ranks have printed all of that, or something else.
    pub(super) fn forget_seen(&self, rank: usize, stream: usize) {
        if let Some(path) = self.seen_path(rank, stream) {
            let _ = fs::remove_file(path);
        }
    }

    fn seen_path(&self, rank: usize, stream: usize) -> Option<PathBuf> {
        let rank = self.first + u32::try_from(rank).ok()?;
        Some(self.directory.as_ref()?.join(seen_name(rank, stream)))
    }
}

/// What was seen of a stream behind there: what is in its file and counts as printed, and what ranks have not
/// printed anew since they were taken back the last time.
fn seen_behind(file: &File, path: &Path, first: u64, printed: u64) -> Vec<u8> {
    let length = printed - first;
    let there = length.min(length_of(file).saturating_sub(first)).min(MOST);
    let mut seen = vec![0; usize::try_from(there).unwrap_or(0)];
    if file.read_exact_at(&mut seen, first).is_err() {
        return Vec::new();
    }
    if there == length {
        seen.extend(rest(path, printed));
    }
    whole_lines(seen)
}

/// What a file has from there on.
fn rest(path: &Path, from: u64) -> Vec<u8> {
    let bytes = fs::read(path).unwrap_or_default();
    let Some((first, mut bytes)) = bytes.split_first_chunk::<8>() else { return Vec::new() };
    let before = from.checked_sub(u64::from_le_bytes(*first)).and_then(|before| usize::try_from(before).ok());
    let behind = before.and_then(|before| bytes.split_off(before..));
    whole_lines(behind.unwrap_or_default().to_vec())
}

fn whole_lines(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    bytes
}

fn write(path: &Path, first: u64, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&first.to_le_bytes())?;
    file.write_all(bytes)
}
