//! From changed bytes to a diff.

use super::changes::RunCounts;
use super::pack::pack;
use super::{Changes, LINE, LINES, PageBytes, RUN_BITS, Run};
use crate::PAGE_SIZE;
use crate::codec::Writer;
use std::ops::Range;

/// Bytes of the runs form before the changed bytes.
const fn runs_header(runs: usize) -> usize {
    1 + 3 * runs
}

/// Bytes of the masks form before the changed bytes.
const fn masks_header(partial_lines: usize) -> usize {
    1 + 8 + 8 + 8 * partial_lines
}

/// The longest diff there is, in bytes.
///
/// r runs leave at least r − 1 bytes unchanged, so a diff of r runs has at most 4097 − r changed bytes, after
/// 1 + 3r bytes or 17 + 8 · 64 bytes of header, whichever is less. The sum is greatest at r = 176, where both
/// are 529.
pub const MAX_ENCODED: usize = 4450;

/// What [`encode`](super::encode) needs at the end of a vector so as not to allocate: it stores whole lines,
/// and cuts off in the end what is behind the diff.
pub const ENCODE_ROOM: usize = masks_header(LINES) + PAGE_SIZE + LINE;

/// With more runs than this the masks form is always shorter.
const MOST_RUNS: usize = (masks_header(LINES) - runs_header(0)) / 3;

const _: () = {
    let (mut longest, mut runs) = (0, 1);
    while runs <= PAGE_SIZE / 2 {
        let (short, long) = (runs_header(runs), masks_header(LINES));
        let len = PAGE_SIZE - (runs - 1) + if short < long { short } else { long };
        longest = if len > longest { len } else { longest };
        runs += 1;
    }
    assert!(longest == MAX_ENCODED);
    // The byte that counts the runs is large enough.
    assert!(MOST_RUNS <= u8::MAX as usize);
};

impl Changes {
    /// Appends the diff that gives these bytes the values that they have in `new`, and returns its length: 0
    /// for no bytes, at most [`MAX_ENCODED`].
    pub fn encode(&self, new: &PageBytes, out: &mut Vec<u8>) -> usize {
        if self.is_empty() {
            return 0;
        }
        let before = out.len();
        let RunCounts { partial, runs } = self.count_runs(MOST_RUNS);
        if runs_header(runs) <= masks_header(partial.count_ones() as usize) {
            self.encode_runs(runs, new, out);
        } else {
            self.encode_masks(partial, new, out);
        }
        let len = out.len() - before;
        assert!(len <= MAX_ENCODED, "a diff of {len} bytes");
        len
    }

    fn encode_runs(&self, count: usize, new: &PageBytes, out: &mut Vec<u8>) {
        out.push(u8::try_from(count).expect("many runs are encoded as masks"));
        let mut header = out.len();
        out.resize(header + 3 * count, 0);
        for run in self.runs() {
            let bits = u32::from(run.offset) | u32::from(run.len - 1) << RUN_BITS;
            let [low, middle, high, _] = bits.to_le_bytes();
            out[header..header + 3].copy_from_slice(&[low, middle, high]);
            header += 3;
            append_run(new, run, out);
        }
    }

    fn encode_masks(&self, partial: u64, new: &PageBytes, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u8(0);
        w.u64(self.changed());
        w.u64(partial);
        for (_, mask) in self.lines() {
            if mask != u64::MAX {
                w.u64(mask);
            }
        }
        let mut at = out.len();
        // Room for whole lines, so that each may be stored with what is behind its last changed byte.
        out.resize(at + self.changed().count_ones() as usize * LINE, 0);
        let lines = new.as_chunks::<LINE>().0;
        for (line, mask) in self.lines() {
            let (place, _) = out[at..].split_first_chunk_mut().expect("a line has room");
            at += pack(mask, &lines[line], place);
        }
        out.truncate(at);
    }
}

/// Appends the bytes of a run. A short run is copied together with what is behind it in the page, which is
/// cut off again: a fixed number of bytes takes a few instructions, a varying one a call.
fn append_run(page: &PageBytes, run: Run, out: &mut Vec<u8>) {
    let Range { start, end } = run.range();
    match page[start..].first_chunk::<LINE>() {
        Some(line) if end - start < LINE => {
            let len = out.len() + end - start;
            out.extend_from_slice(line);
            out.truncate(len);
        }
        _ => out.extend_from_slice(&page[start..end]),
    }
}
