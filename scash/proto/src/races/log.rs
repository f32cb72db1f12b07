//! Traces of writes: in a rank's log, and on their way to the pages' homes.
//!
//! ```text
//! log           { u32 page | u32 stamp | u64 site | u8 put | u16 length | diff | old | if put: met } …
//! write traces  u32 meeting | u8 lost
//!               | { u32 page | u8 put | number | known | site in words | diff | old | if put: met } …
//! ```
//!
//! The diff says which bytes are meant and what they are now, `old` and `met` what these bytes were in the
//! twin, and in the home's frame.

use super::Change;
use crate::codec::{Malformed, Reader, Why, Writer};
use crate::diff::{Changes, Diff, DiffError, ENCODE_ROOM, PageBytes};
use crate::wire::sync::{self, KnownIntervals};
use crate::{Node, PAGE_SIZE, Rank};
use std::collections::BTreeMap;

/// A log that was used up to here gives its memory back.
const KEPT: usize = 1 << 20;
/// Most bytes of an entry, and those behind it that encoding works with.
const ENTRY: usize = 4 + 4 + 8 + 1 + 2 + ENCODE_ROOM + 2 * PAGE_SIZE;
/// A message is sent when it has grown past this, in bytes.
const BATCH: usize = 48 << 10;

/// What one rank changed in one page in one interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trace {
    pub(super) rank: Rank,
    /// The interval's number.
    pub(super) number: u64,
    /// The last interval of each other rank that came before it.
    pub(super) known: KnownIntervals,
    /// Where in the program; empty: not known.
    pub(super) site: String,
    /// Which bytes.
    pub(super) changes: Changes,
    /// What they are, in ascending order.
    pub(super) new: Vec<u8>,
    /// What they were.
    pub(super) old: Vec<u8>,
    /// What the home's frame held there, if the changes were put into it.
    pub(super) met: Option<Vec<u8>>,
}

/// A message with traces.
#[derive(Debug, PartialEq, Eq)]
pub struct WriteTraces {
    /// Number of the meeting.
    pub meeting: u32,
    /// Its sender has lost traces of this epoch.
    pub(super) lost: bool,
    /// By page.
    pub(super) traces: Vec<(u32, Trace)>,
}

/// The traces of a rank since the last memory barrier.
#[derive(Debug)]
pub(super) struct Log {
    bytes: Vec<u8>,
    /// What it has room for when an epoch begins.
    room: usize,
    /// There was no room for some.
    lost: bool,
}

/// With as much room: what is saved of a rank, and comes back, is its memory with all that was set aside.
impl Clone for Log {
    fn clone(&self) -> Log {
        let mut bytes = Vec::with_capacity(self.bytes.capacity());
        bytes.extend_from_slice(&self.bytes);
        Log { bytes, ..*self }
    }
}

impl Log {
    pub(super) fn new(room: usize) -> Log {
        Log { bytes: Vec::with_capacity(room), room, lost: false }
    }

    /// Sees to it that much can be appended where nothing may allocate.
    pub(super) fn make_room(&mut self) {
        self.bytes.reserve(self.room / 2);
    }

    /// Appends a trace. What is put may be put in a signal handler: nothing allocates then.
    pub(super) fn append(&mut self, stamp: u32, change: &Change<'_>) {
        if change.met.is_none() {
            self.bytes.reserve(ENTRY);
        } else if self.bytes.capacity() - self.bytes.len() < ENTRY {
            self.lost = true;
            return;
        }
        let mut w = Writer::new(&mut self.bytes);
        w.u32(change.page);
        w.u32(stamp);
        w.u64(change.site);
        w.u8(u8::from(change.met.is_some()));
        w.u16(0);
        let start = self.bytes.len();
        let length = change.changes.encode(change.new, &mut self.bytes).to_le_bytes();
        self.bytes[start - 2..start].copy_from_slice(&length[..2]);
        append_values(&mut self.bytes, change.changes, change.old);
        if let Some(met) = change.met {
            append_values(&mut self.bytes, change.changes, met);
        }
    }

    /// What the rank has to say, by receiver. After that the log is empty.
    pub(super) fn write_traces(
        &mut self,
        node: &Node,
        mut words: impl FnMut(u64) -> String,
    ) -> Vec<(Rank, Vec<u8>)> {
        let mut batches: BTreeMap<Rank, Vec<u8>> = BTreeMap::new();
        let mut full = Vec::new();
        if self.lost {
            // Any home may miss something.
            batches = node.peers().map(|rank| (rank, begin(node.meeting(), true))).collect();
        }
        let mut entries = Reader::new(&self.bytes);
        while entries.remaining() > 0 {
            let entry = Entry::read(&mut entries).expect("a rank can read its own log");
            let Some(comparer) = node.comparer_of(entry.page) else { continue };
            let batch = batches.entry(comparer).or_insert_with(|| begin(node.meeting(), self.lost));
            entry.say(node, &words(entry.site), batch);
            if batch.len() > BATCH {
                full.push((comparer, std::mem::replace(batch, begin(node.meeting(), self.lost))));
            }
        }
        full.extend(batches);
        if self.bytes.len() > KEPT {
            self.bytes = Vec::with_capacity(self.room);
        }
        self.bytes.clear();
        self.lost = false;
        full
    }
}

/// The beginning of a message.
fn begin(meeting: u32, lost: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    let mut w = Writer::new(&mut out);
    w.u32(meeting);
    w.u8(u8::from(lost));
    out
}

/// Appends the bytes of a set as a page has them.
fn append_values(out: &mut Vec<u8>, changes: &Changes, page: &PageBytes) {
    changes.runs().for_each(|run| out.extend_from_slice(&page[run.range()]));
}

/// An entry of the log.
struct Entry<'a> {
    page: u32,
    stamp: u32,
    site: u64,
    put: bool,
    diff: &'a [u8],
    /// `old`, and `met` if there is one.
    values: &'a [u8],
}

impl<'a> Entry<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Entry<'a>, DiffError> {
        let (page, stamp, site, put) = (r.u32()?, r.u32()?, r.u64()?, r.u8()? != 0);
        let length = r.u16()?;
        let diff = r.bytes(usize::from(length))?;
        let count = Diff::parse(diff)?.changes().bytes();
        let values = r.bytes(if put { 2 * count } else { count })?;
        Ok(Entry { page, stamp, site, put, diff, values })
    }

    /// Appends it to a message.
    fn say(&self, node: &Node, site: &str, out: &mut Vec<u8>) {
        let stamp = node.stamp_at(self.stamp);
        let mut w = Writer::new(out);
        w.u32(self.page);
        w.u8(u8::from(self.put));
        w.varint(stamp.number);
        sync::put_known(&mut w, &stamp.known);
        w.blob(site.as_bytes());
        w.blob(self.diff);
        w.bytes(self.values);
    }
}

impl WriteTraces {
    /// Reads a message of a rank about pages of a region that has so many.
    pub fn decode(from: Rank, pages: u32, bytes: &[u8]) -> Result<WriteTraces, DiffError> {
        let mut r = Reader::new(bytes);
        let (meeting, lost) = (r.u32()?, r.u8()? != 0);
        let mut traces = Vec::new();
        while r.remaining() > 0 {
            let at = r.position();
            let page = r.u32()?;
            if page >= pages {
                let why = Why::TooLarge { value: page.into(), limit: pages.into() };
                return Err(Malformed { at, why }.into());
            }
            traces.push((page, Trace::read(from, &mut r)?));
        }
        Ok(WriteTraces { meeting, lost, traces })
    }
}

impl Trace {
    fn read(rank: Rank, r: &mut Reader<'_>) -> Result<Trace, DiffError> {
        let put = r.u8()? != 0;
        let (number, known) = (r.varint()?, sync::known(r)?);
        let site = String::from_utf8_lossy(r.blob()?).into_owned();
        let diff = Diff::parse(r.blob()?)?;
        let count = diff.changes().bytes();
        let new = diff.pieces().flat_map(|(_, bytes)| bytes).copied().collect();
        let old = r.bytes(count)?.to_vec();
        let met = if put { Some(r.bytes(count)?.to_vec()) } else { None };
        Ok(Trace { rank, number, known, site, changes: diff.changes().clone(), new, old, met })
    }
}
