//! The protocol's messages.
//!
//! | message | from → to | carries | counted |
//! |---|---|---|---|
//! | [`Token`] | rank r → rank r + 2ᵏ, step k of a meeting (in base 2) | what all ranks must agree on; how many items each rank is to expect | – |
//! | [`Control`] | home ↔ sharer, at most one a pair and meeting | notices, subscriptions, "my puts are in front of this" | 1 |
//! | [`PageBatch`] as diff | writer → home | diffs of pages written away from home | 1 a page |
//! | [`PageBatch`] as update | home → sharer | changed bytes of pages (transfer by message) | 1 a page |
//! | [`Parcel`] | down a broadcast's tree | "the pages of this home are in your frames" | by itself |
//! | [`ReduceMessage`] | up and down a tree of all ranks, outside of meetings | see [`reduce`] | – |
//! | [`WriteTraces`](crate::races::WriteTraces) | writer → home, where data races are looked for | what was written, and in which intervals | 1 a message |
//! | [`SyncMessage`] | between ranks that share a lock or another object, outside of meetings | see [`sync`] | signals: 1 |
//!
//! Items are *counted* so that a rank knows when it has all that is meant for it: meeting tokens carry, for
//! each rank, the number of items that were sent to it, routed towards it along the rounds (after round k all
//! entries whose distance has a digit k other than 0 have moved). No rank handles more than its own share:
//! log₂(ranks) tokens in base 2, whatever the number of ranks.

pub mod reduce;
pub mod stall;
pub mod sync;

pub use reduce::ReduceMessage;
pub use stall::StallMessage;
pub use sync::SyncMessage;

use crate::codec::{Malformed, Reader, Why, Writer};
use crate::copyset::CopyMode;
use crate::{Pages, Rank};

/// What kind of bytes a message holds; travels beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A [`Token`].
    Token,
    /// A [`Control`].
    Control,
    /// A [`PageBatch`] of diffs for their home.
    Diff,
    /// A [`PageBatch`] of changes for a sharer.
    Update,
    /// A [`Parcel`].
    Parcel,
    /// A [`SyncMessage`].
    Sync,
    /// A [`ReduceMessage`].
    Reduce,
    /// A [`StallMessage`].
    Stall,
    /// A [`WriteTraces`](crate::races::WriteTraces).
    WriteTraces,
}

impl Kind {
    /// The number that stands for it on the wire.
    pub fn number(self) -> u16 {
        match self {
            Kind::Token => 1,
            Kind::Control => 2,
            Kind::Diff => 3,
            Kind::Update => 4,
            Kind::Parcel => 5,
            Kind::Sync => 6,
            Kind::Reduce => 7,
            Kind::Stall => 8,
            Kind::WriteTraces => 9,
        }
    }

    /// The kind that a number stands for.
    pub fn from_number(n: u16) -> Option<Kind> {
        use Kind::{Control, Diff, Parcel, Reduce, Stall, Sync, Token, Update, WriteTraces};
        let all = [Token, Control, Diff, Update, Parcel, Sync, Reduce, Stall, WriteTraces];
        all.into_iter().find(|k| k.number() == n)
    }
}

/// What a rank came to a meeting for; all ranks must have come for the same.
///
/// Four numbers, so that ranks can be compared without knowing each other's calls: what the call is, and its
/// arguments.
///
/// The first number is the kind of the call in its low byte; above it, for calls that are memory barriers,
/// how many reductions came before since the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Purpose(pub [u64; 4]);

impl Purpose {
    /// The same purpose, after so many reductions.
    pub fn after(self, reductions: u64) -> Purpose {
        let [kind, a, b, c] = self.0;
        Purpose([kind | reductions << 8, a, b, c])
    }

    /// How many reductions came before.
    pub fn reductions(self) -> u64 {
        self.0[0] >> 8
    }

    /// The kind of the call.
    pub fn kind(self) -> u64 {
        self.0[0] & 0xff
    }
}

/// A purpose and a rank that came with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attendance {
    /// What for.
    pub purpose: Purpose,
    /// Who.
    pub rank: Rank,
}

/// Something that every rank must learn at a meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notice {
    /// The rank that says so.
    pub origin: Rank,
    /// The pages it is about.
    pub pages: Pages,
    /// What of them.
    pub news: News,
}

/// What a [`Notice`] says of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum News {
    /// The notice's origin touched them first.
    FirstTouch,
    /// They get another home.
    Moves {
        /// Which.
        to: Rank,
        /// The program has said so, and not their home that found who writes them.
        placed: bool,
    },
}

impl News {
    /// The home that is named.
    pub fn home(self) -> Option<Rank> {
        match self {
            News::FirstTouch => None,
            News::Moves { to, .. } => Some(to),
        }
    }

    /// Zero, or the home above zero, above one bit.
    fn number(self) -> u64 {
        match self {
            News::FirstTouch => 0,
            News::Moves { to, placed } => (u64::from(to.0) + 1) << 1 | u64::from(placed),
        }
    }

    fn from_number(n: u32) -> News {
        let to = (n >> 1).checked_sub(1).map(Rank);
        to.map_or(News::FirstTouch, |to| News::Moves { to, placed: n & 1 != 0 })
    }
}

/// One step's message of a meeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Number of the meeting.
    pub meeting: u32,
    /// Step within the meeting.
    pub step: u8,
    /// Somebody wrote away from home, so that a second meeting follows.
    pub away: bool,
    /// In a first meeting: the barrier is to be a checkpoint. Only in jobs whose ranks can come back.
    pub due: bool,
    /// In the meeting after a checkpoint: somebody has left it out. Only in such jobs.
    pub left_out: bool,
    /// Least and greatest attendance known to the sender.
    pub span: [Attendance; 2],
    /// Items sent to ranks that this token is on the way to.
    pub counts: Vec<(Rank, u64)>,
    /// What everybody must learn.
    pub notices: Vec<Notice>,
}

/// What a rank says to another once in a meeting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Pages whose copies are stale.
    pub stale: Vec<Pages>,
    /// Pages that the sender wants to be a sharer of.
    pub subscribe: Vec<(Pages, CopyMode)>,
    /// Pages that the sender is no longer a sharer of.
    pub leave: Vec<Pages>,
    /// Pages that the sender is a sharer of and fetched in this interval.
    pub fresh: Vec<Pages>,
    /// Pages of the receiver with words that the sender has operated on in this interval.
    pub operated: Vec<Pages>,
    /// Pages of the sender of which it asks whether the receiver reads what it is brought.
    pub ask: Vec<Pages>,
}

fn put_rank(w: &mut Writer<'_>, rank: Rank) {
    w.varint(u64::from(rank.0));
}

fn put_pages(w: &mut Writer<'_>, pages: Pages) {
    w.varint(u64::from(pages.first));
    w.varint(u64::from(pages.count));
}

fn rank(r: &mut Reader<'_>) -> Result<Rank, Malformed> {
    r.varint_u32().map(Rank)
}

fn pages(r: &mut Reader<'_>) -> Result<Pages, Malformed> {
    let at = r.position();
    let p = Pages { first: r.varint_u32()?, count: r.varint_u32()? };
    let limit = u64::from(u32::MAX - p.first);
    if u64::from(p.count) > limit {
        return Err(Malformed { at, why: Why::TooLarge { value: u64::from(p.count), limit } });
    }
    Ok(p)
}

fn list<T>(
    r: &mut Reader<'_>,
    least: usize,
    item: impl Fn(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let n = r.count(least)?;
    (0..n).map(|_| item(r)).collect()
}

fn put_attendance(w: &mut Writer<'_>, a: Attendance) {
    put_rank(w, a.rank);
    for n in a.purpose.0 {
        w.varint(n);
    }
}

fn attendance(r: &mut Reader<'_>) -> Result<Attendance, Malformed> {
    let rank = rank(r)?;
    let purpose = Purpose([r.varint()?, r.varint()?, r.varint()?, r.varint()?]);
    Ok(Attendance { purpose, rank })
}

/// Two attendances, of which the second is left out where it is for the same.
fn put_span(w: &mut Writer<'_>, span: [Attendance; 2]) {
    let split = span[0].purpose != span[1].purpose;
    w.u8(u8::from(split));
    put_attendance(w, span[0]);
    if split {
        put_attendance(w, span[1]);
    }
}

fn span(r: &mut Reader<'_>) -> Result<[Attendance; 2], Malformed> {
    let (at, split) = (r.position(), r.u8()?);
    if split > 1 {
        return Err(Malformed { at, why: Why::UnknownTag { tag: split } });
    }
    let least = attendance(r)?;
    Ok([least, if split == 1 { attendance(r)? } else { least }])
}

/// Flags as the bits of a byte, the first one lowest.
fn flags(set: [bool; 4]) -> u8 {
    set.iter().rev().fold(0, |bits, &flag| bits << 1 | u8::from(flag))
}

impl Token {
    /// The token's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        let mut w = Writer::new(&mut out);
        w.u32(self.meeting);
        w.u8(self.step);
        let split = self.span[0].purpose != self.span[1].purpose;
        w.u8(flags([self.away, split, self.due, self.left_out]));
        put_attendance(&mut w, self.span[0]);
        if split {
            put_attendance(&mut w, self.span[1]);
        }
        w.varint(self.counts.len() as u64);
        for &(rank, n) in &self.counts {
            put_rank(&mut w, rank);
            w.varint(n);
        }
        w.varint(self.notices.len() as u64);
        for n in &self.notices {
            put_rank(&mut w, n.origin);
            put_pages(&mut w, n.pages);
            w.varint(n.news.number());
        }
        out
    }

    /// Reads a token.
    pub fn decode(bytes: &[u8]) -> Result<Token, Malformed> {
        let mut r = Reader::new(bytes);
        let (meeting, step, flags) = (r.u32()?, r.u8()?, r.u8()?);
        if flags > 0b1111 {
            return Err(Malformed { at: r.position() - 1, why: Why::UnknownTag { tag: flags } });
        }
        let least = attendance(&mut r)?;
        let [away, split, due, left_out] = [0, 1, 2, 3].map(|bit| flags >> bit & 1 != 0);
        let most = if split { attendance(&mut r)? } else { least };
        let counts = list(&mut r, 2, |r| Ok((rank(r)?, r.varint()?)))?;
        let notices = list(&mut r, 4, |r| {
            Ok(Notice { origin: rank(r)?, pages: pages(r)?, news: News::from_number(r.varint_u32()?) })
        })?;
        r.finish()?;
        Ok(Token { meeting, step, away, due, left_out, span: [least, most], counts, notices })
    }
}

impl Control {
    /// The message's bytes, for meeting number `meeting`.
    pub fn encode(&self, meeting: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        let mut w = Writer::new(&mut out);
        w.u32(meeting);
        w.varint(self.stale.len() as u64);
        self.stale.iter().for_each(|&p| put_pages(&mut w, p));
        w.varint(self.subscribe.len() as u64);
        for &(p, mode) in &self.subscribe {
            put_pages(&mut w, p);
            w.u8(u8::from(mode == CopyMode::Update));
        }
        w.varint(self.leave.len() as u64);
        self.leave.iter().for_each(|&p| put_pages(&mut w, p));
        w.varint(self.fresh.len() as u64);
        self.fresh.iter().for_each(|&p| put_pages(&mut w, p));
        w.varint(self.operated.len() as u64);
        self.operated.iter().for_each(|&p| put_pages(&mut w, p));
        w.varint(self.ask.len() as u64);
        self.ask.iter().for_each(|&p| put_pages(&mut w, p));
        out
    }

    /// Reads a message; gives its meeting, too.
    pub fn decode(bytes: &[u8]) -> Result<(u32, Control), Malformed> {
        let mut r = Reader::new(bytes);
        let meeting = r.u32()?;
        let stale = list(&mut r, 2, pages)?;
        let subscribe = list(&mut r, 3, |r| {
            let p = pages(r)?;
            let mode = if r.u8()? & 1 == 1 { CopyMode::Update } else { CopyMode::Invalidate };
            Ok((p, mode))
        })?;
        let leave = list(&mut r, 2, pages)?;
        let fresh = list(&mut r, 2, pages)?;
        let operated = list(&mut r, 2, pages)?;
        let ask = list(&mut r, 2, pages)?;
        r.finish()?;
        Ok((meeting, Control { stale, subscribe, leave, fresh, operated, ask }))
    }
}

/// In a broadcast: all pages of the range whose home is `home` have been put into the receiver's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// Number of the meeting.
    pub meeting: u32,
    /// The pages' home.
    pub home: Rank,
}

impl Parcel {
    /// The message's bytes.
    pub fn encode(self) -> [u8; 8] {
        let mut out = [0; 8];
        out[..4].copy_from_slice(&self.meeting.to_le_bytes());
        out[4..].copy_from_slice(&self.home.0.to_le_bytes());
        out
    }

    /// Reads a message.
    pub fn decode(bytes: &[u8]) -> Result<Parcel, Malformed> {
        let mut r = Reader::new(bytes);
        let parcel = Parcel { meeting: r.u32()?, home: Rank(r.u32()?) };
        r.finish()?;
        Ok(parcel)
    }
}

/// A message with changes of pages: the meeting's number, then for each page its number and its diff.
///
/// ```text
/// u32 meeting | { u32 page | u16 length | diff } …
/// ```
#[derive(Debug)]
pub struct PageBatch;

impl PageBatch {
    /// Begins a batch in `out`, which is emptied.
    pub fn begin(out: &mut Vec<u8>, meeting: u32) {
        out.clear();
        Writer::new(out).u32(meeting);
    }

    /// Appends a page whose diff is written by `diff`, which returns its length; a page with an empty diff is
    /// left out unless `force`. Returns the length.
    pub fn push(
        out: &mut Vec<u8>,
        page: u32,
        force: bool,
        diff: impl FnOnce(&mut Vec<u8>) -> usize,
    ) -> usize {
        let start = out.len();
        let mut w = Writer::new(out);
        w.u32(page);
        w.u16(0);
        let len = diff(out);
        if len == 0 && !force {
            out.truncate(start);
            return 0;
        }
        let len16 = u16::try_from(len).expect("a diff is at most 4 KiB and a header long");
        out[start + 4..start + 6].copy_from_slice(&len16.to_le_bytes());
        len
    }

    /// Reads a batch: its meeting, and its pages with their diffs.
    pub fn read(bytes: &[u8]) -> Result<(u32, PageBatchIter<'_>), Malformed> {
        let mut r = Reader::new(bytes);
        let meeting = r.u32()?;
        Ok((meeting, PageBatchIter { rest: r }))
    }
}

/// The pages of a [`PageBatch`].
#[derive(Debug)]
pub struct PageBatchIter<'a> {
    rest: Reader<'a>,
}

impl<'a> Iterator for PageBatchIter<'a> {
    type Item = Result<(u32, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.remaining() == 0 {
            return None;
        }
        let one = (|| {
            let page = self.rest.u32()?;
            let len = usize::from(self.rest.u16()?);
            Ok((page, self.rest.bytes(len)?))
        })();
        if one.is_err() {
            self.rest = Reader::new(&[]);
        }
        Some(one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        let a = |rank, n| Attendance { purpose: Purpose([n, 2, 3, u64::MAX]), rank: Rank(rank) };
        Token {
            meeting: 77,
            step: 3,
            away: true,
            due: true,
            left_out: false,
            span: [a(1, 1), a(9, 5)],
            counts: vec![(Rank(3), 9), (Rank(1_000_000), 1)],
            notices: vec![Notice {
                origin: Rank(4),
                pages: Pages { first: 1 << 24, count: 1 },
                news: News::Moves { to: Rank(0), placed: true },
            }],
        }
    }

    #[test]
    fn messages_come_back_as_they_were_sent() {
        let t = token();
        assert_eq!(Token::decode(&t.encode()), Ok(t));
        let c = Control {
            stale: vec![Pages { first: 0, count: 3 }],
            subscribe: vec![(Pages::one(9), CopyMode::Update), (Pages::one(11), CopyMode::Invalidate)],
            leave: vec![Pages { first: 7, count: 1 }],
            fresh: vec![Pages { first: 70, count: 2 }],
            operated: vec![Pages::one(5), Pages { first: 80, count: 3 }],
            ask: vec![Pages { first: 90, count: 2 }],
        };
        assert_eq!(Control::decode(&c.encode(5)), Ok((5, c)));
    }

    #[test]
    fn every_prefix_of_a_message_is_refused() {
        let bytes = token().encode();
        for n in 0..bytes.len() {
            assert!(Token::decode(&bytes[..n]).is_err(), "{n} bytes");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(Token::decode(&longer).is_err());
    }

    #[test]
    fn a_batch_leaves_out_pages_that_did_not_change() {
        let mut out = Vec::new();
        PageBatch::begin(&mut out, 4);
        assert_eq!(PageBatch::push(&mut out, 1, false, |_| 0), 0);
        PageBatch::push(&mut out, 2, true, |_| 0);
        PageBatch::push(&mut out, 3, false, |o| {
            o.extend_from_slice(b"abc");
            3
        });
        let (meeting, pages) = PageBatch::read(&out).unwrap();
        let pages: Vec<_> = pages.map(|p| p.unwrap()).collect();
        assert_eq!((meeting, pages), (4, vec![(2, &b""[..]), (3, &b"abc"[..])]));
        let (_, mut cut) = PageBatch::read(&out[..out.len() - 1]).unwrap();
        assert!(cut.next().unwrap().is_ok());
        assert!(cut.next().unwrap().is_err());
        assert!(cut.next().is_none());
    }
}
