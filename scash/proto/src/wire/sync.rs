//! Messages between two memory barriers: locks and other objects of synchronisation, and what must be known
//! with them.
//!
//! | message | from → to | carries |
//! |---|---|---|
//! | [`Ask`](SyncBody::Ask) | who wants a lock → the lock's manager | its place, what it knows, copies to renew |
//! | [`Follow`](SyncBody::Follow) | manager → who was last in the queue | who comes next, with all of that |
//! | [`Grant`](SyncBody::Grant) | releaser → next in the queue | the lock, all that is not known there, pages to renew copies by |
//! | [`Refused`](SyncBody::Refused) | who has a lock, or waits for it → who does not want to wait | whose place that is |
//! | [`Request`](SyncBody::Request) | who waits for something → the object's manager | what for, what it knows |
//! | [`Grant`](SyncBody::Grant) | manager → whose request is granted | all that is not known there |
//! | [`Signal`](SyncBody::Signal) | who lets others go on → manager | all that happened before and was not told yet. Counted, like diffs |
//! | [`Queued`](SyncBody::Queued) | manager → who wants a condition's signal | – |
//! | [`Unmake`](SyncBody::Unmake) | who destroys an object that one rank has made → its manager | – |
//! | [`Unmade`](SyncBody::Unmade) | manager → who destroys an object | who waits for it, if so |
//! | [`Absent`](SyncBody::Absent) | manager → who asks for an object that is no more | – |
//! | [`Track`](SyncBody::Track) | who has leases → their home | which pages the home is to name when it writes them. Counted, like diffs |
//!
//! Each carries the sender's epoch: a rank that has left a memory barrier may send to one that is about to
//! leave it, which keeps the message until it has.

mod brought;
mod manager;

pub use brought::{Brought, MOST_BROUGHT};
pub use manager::{Request, Signal};

use super::{Malformed, Reader, Why, Writer, list, pages, put_pages, put_rank, rank};
use crate::{Pages, Rank};

/// A place in a lock's queue: the number that the waiting rank gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuePlace {
    /// Who waits there.
    pub rank: Rank,
    /// Which of its places.
    pub ticket: u32,
}

/// Who comes next in a lock's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follower {
    /// The place.
    pub place: QueuePlace,
    /// What its rank knows.
    pub known: KnownIntervals,
    /// Waits for the lock. If not, it wants the lock now or never.
    pub patient: bool,
    /// Copies that its rank would bring up to date: at most [`MOST_BROUGHT`] pages.
    pub wants: Vec<Pages>,
}

/// How much of each rank's writing is known: a vector time, without its zeros. It begins anew at each memory
/// barrier.
pub type KnownIntervals = Vec<(Rank, u64)>;

/// What a rank wrote in one interval (or in a few that were joined): a write notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Who wrote.
    pub rank: Rank,
    /// The number of the interval, the last one if several were joined. The first after a memory barrier has
    /// number 1.
    pub number: u64,
    /// Which pages were written, as far as the rank knows: by itself, or by others before it has read them
    /// from their homes. Its own home pages of whose copies it does not know may have been, too.
    pub pages: Vec<Pages>,
    /// Home pages of the rank that it tracks for leases of others: its records from this one on name them
    /// whenever it has written them.
    pub tracked: Vec<Pages>,
}

impl Record {
    /// Whether the page is among those that were written, as far as the rank knows.
    pub fn names(&self, page: u32) -> bool {
        self.pages.iter().any(|run| run.iter().contains(&page))
    }
}

/// A message about an object of synchronisation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncMessage {
    /// Memory barriers that the sender has passed.
    pub epoch: u32,
    /// The object's number.
    pub object: u32,
    /// What about it.
    pub body: SyncBody,
}

/// See [the table](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncBody {
    /// The sender joins the queue of a lock.
    Ask {
        /// The number of its place.
        ticket: u32,
        /// What it knows.
        known: KnownIntervals,
        /// Waits for the lock. If not, it wants the lock now or never.
        patient: bool,
        /// Copies that it would bring up to date: at most [`MOST_BROUGHT`] pages.
        wants: Vec<Pages>,
    },
    /// Behind one of the receiver's places comes this one.
    Follow {
        /// The receiver's place.
        ticket: u32,
        /// Who comes next.
        next: Follower,
    },
    /// The lock is the receiver's, or what it waits for has come.
    Grant {
        /// The receiver's place or request.
        ticket: u32,
        /// What happened before.
        records: Vec<Record>,
        /// What the sender's frames hold of pages that the receiver wants.
        brought: Brought,
    },
    /// The receiver did not want to wait, and would have to.
    Refused {
        /// The receiver's place.
        ticket: u32,
        /// The place before it.
        before: QueuePlace,
    },
    /// A thread waits for something.
    Request {
        /// The number of the request.
        ticket: u32,
        /// For what.
        request: Request,
        /// What its rank knows.
        known: KnownIntervals,
    },
    /// The receiver's request for a signal is in the queue.
    Queued {
        /// The number of the request.
        ticket: u32,
    },
    /// A thread lets others go on.
    Signal {
        /// How.
        signal: Signal,
        /// What happened before.
        records: Vec<Record>,
    },
    /// A thread destroys an object that one rank has made, and has it, if it can be had.
    Unmake {
        /// The sender's place or request.
        ticket: u32,
    },
    /// An object is no more; or it is as it was, because a thread waits for it.
    Unmade {
        /// The receiver's place or request.
        ticket: u32,
        /// The rank of that thread.
        user: Option<Rank>,
    },
    /// There is no such object any more.
    Absent {
        /// The receiver's place or request.
        ticket: u32,
    },
    /// The sender has leases of these pages, whose home is the receiver, and has renewed them in vain. Of no
    /// object.
    Track {
        /// Which pages.
        pages: Vec<Pages>,
    },
}

fn put_place(w: &mut Writer<'_>, place: QueuePlace) {
    put_rank(w, place.rank);
    w.varint(u64::from(place.ticket));
}

fn place(r: &mut Reader<'_>) -> Result<QueuePlace, Malformed> {
    Ok(QueuePlace { rank: rank(r)?, ticket: r.varint_u32()? })
}

pub(crate) fn put_known(w: &mut Writer<'_>, known: &KnownIntervals) {
    w.varint(known.len() as u64);
    for &(rank, number) in known {
        put_rank(w, rank);
        w.varint(number);
    }
}

pub(crate) fn known(r: &mut Reader<'_>) -> Result<KnownIntervals, Malformed> {
    list(r, 2, |r| Ok((rank(r)?, r.varint()?)))
}

fn put_record(w: &mut Writer<'_>, record: &Record) {
    put_rank(w, record.rank);
    w.varint(record.number);
    // The lowest bit says whether a second list follows, which most records do not have.
    w.varint((record.pages.len() as u64) << 1 | u64::from(!record.tracked.is_empty()));
    record.pages.iter().for_each(|&run| put_pages(w, run));
    if !record.tracked.is_empty() {
        put_runs(w, &record.tracked);
    }
}

fn put_runs(w: &mut Writer<'_>, runs: &[Pages]) {
    w.varint(runs.len() as u64);
    runs.iter().for_each(|&run| put_pages(w, run));
}

fn put_records(w: &mut Writer<'_>, records: &[Record]) {
    w.varint(records.len() as u64);
    records.iter().for_each(|r| put_record(w, r));
}

fn record(r: &mut Reader<'_>) -> Result<Record, Malformed> {
    let (rank, number) = (rank(r)?, r.varint()?);
    let (at, head) = (r.position(), r.varint()?);
    let (runs, has_tracked) = (head >> 1, head & 1 == 1);
    let limit = r.remaining() as u64 / 2;
    if runs > limit {
        return Err(Malformed { at, why: Why::TooLarge { value: runs, limit } });
    }
    let pages_written = (0..runs).map(|_| pages(r)).collect::<Result<_, _>>()?;
    let tracked = if has_tracked { list(r, 2, pages)? } else { Vec::new() };
    Ok(Record { rank, number, pages: pages_written, tracked })
}

/// Tags of the kinds for those who do not wait.
const ASK_NOW: u8 = 4;
const FOLLOW_NOW: u8 = 5;
/// The tags of the kinds that have no number of a place or request.
const SIGNAL: u8 = 8;
const TRACK: u8 = 9;

impl SyncMessage {
    /// The message's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        let mut w = Writer::new(&mut out);
        w.u32(self.epoch);
        w.varint(u64::from(self.object));
        match &self.body {
            SyncBody::Ask { ticket, known, patient, wants } => {
                w.u8(if *patient { 0 } else { ASK_NOW });
                w.varint(u64::from(*ticket));
                put_known(&mut w, known);
                put_runs(&mut w, wants);
            }
            SyncBody::Follow { ticket, next } => {
                w.u8(if next.patient { 1 } else { FOLLOW_NOW });
                w.varint(u64::from(*ticket));
                put_place(&mut w, next.place);
                put_known(&mut w, &next.known);
                put_runs(&mut w, &next.wants);
            }
            SyncBody::Grant { ticket, records, brought } => {
                w.u8(2);
                w.varint(u64::from(*ticket));
                put_records(&mut w, records);
                brought.put(&mut w);
            }
            SyncBody::Refused { ticket, before } => {
                w.u8(3);
                w.varint(u64::from(*ticket));
                put_place(&mut w, *before);
            }
            SyncBody::Request { ticket, request, known } => {
                w.u8(6);
                w.varint(u64::from(*ticket));
                manager::put_request(&mut w, *request);
                put_known(&mut w, known);
            }
            SyncBody::Queued { ticket } => {
                w.u8(7);
                w.varint(u64::from(*ticket));
            }
            SyncBody::Signal { signal, records } => {
                w.u8(SIGNAL);
                manager::put_signal(&mut w, *signal);
                put_records(&mut w, records);
            }
            SyncBody::Unmake { ticket } => {
                w.u8(10);
                w.varint(u64::from(*ticket));
            }
            SyncBody::Unmade { ticket, user } => {
                w.u8(if user.is_some() { 12 } else { 11 });
                w.varint(u64::from(*ticket));
                user.iter().for_each(|&user| put_rank(&mut w, user));
            }
            SyncBody::Absent { ticket } => {
                w.u8(13);
                w.varint(u64::from(*ticket));
            }
            SyncBody::Track { pages } => {
                w.u8(TRACK);
                put_runs(&mut w, pages);
            }
        }
        out
    }

    /// Reads a message.
    pub fn decode(bytes: &[u8]) -> Result<SyncMessage, Malformed> {
        let mut r = Reader::new(bytes);
        let epoch = r.u32()?;
        let object = r.varint_u32()?;
        let at = r.position();
        let kind = r.u8()?;
        let ticket = if matches!(kind, SIGNAL | TRACK) { 0 } else { r.varint_u32()? };
        let body = match kind {
            0 | ASK_NOW => {
                let (known, wants) = (known(&mut r)?, list(&mut r, 2, pages)?);
                SyncBody::Ask { ticket, known, patient: kind == 0, wants }
            }
            1 | FOLLOW_NOW => {
                let (place, known, wants) = (place(&mut r)?, known(&mut r)?, list(&mut r, 2, pages)?);
                SyncBody::Follow { ticket, next: Follower { place, known, patient: kind == 1, wants } }
            }
            2 => {
                let (records, brought) = (list(&mut r, 3, record)?, Brought::read(&mut r)?);
                SyncBody::Grant { ticket, records, brought }
            }
            3 => SyncBody::Refused { ticket, before: place(&mut r)? },
            6 => SyncBody::Request { ticket, request: manager::request(&mut r)?, known: known(&mut r)? },
            7 => SyncBody::Queued { ticket },
            SIGNAL => {
                SyncBody::Signal { signal: manager::signal(&mut r)?, records: list(&mut r, 3, record)? }
            }
            10 => SyncBody::Unmake { ticket },
            11 => SyncBody::Unmade { ticket, user: None },
            12 => SyncBody::Unmade { ticket, user: Some(rank(&mut r)?) },
            13 => SyncBody::Absent { ticket },
            TRACK => SyncBody::Track { pages: list(&mut r, 2, pages)? },
            tag => return Err(Malformed { at, why: Why::UnknownTag { tag } }),
        };
        r.finish()?;
        Ok(SyncMessage { epoch, object, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE_SIZE;

    fn messages() -> Vec<SyncMessage> {
        let known = vec![(Rank(0), 3), (Rank(900), 1 << 40)];
        let next = |patient| Follower {
            place: QueuePlace { rank: Rank(8), ticket: 300 },
            known: known.clone(),
            patient,
            wants: vec![Pages::one(1 << 24)],
        };
        let record = |rank, number| Record {
            rank: Rank(rank),
            number,
            pages: vec![Pages { first: 7, count: 2 }, Pages::one(1 << 24)],
            tracked: if number > 1 { vec![Pages { first: 90, count: 300 }] } else { vec![] },
        };
        let brought = Brought {
            known: known.clone(),
            pages: vec![7, 1 << 24],
            bytes: (0..=255).cycle().take(2 * PAGE_SIZE).collect(),
        };
        let bodies = [
            SyncBody::Ask { ticket: 5, known: known.clone(), patient: true, wants: Vec::new() },
            SyncBody::Ask { ticket: 5, known: vec![], patient: false, wants: Vec::new() },
            SyncBody::Follow { ticket: 0, next: next(true) },
            SyncBody::Follow { ticket: 9, next: next(false) },
            SyncBody::Queued { ticket: 1 },
            SyncBody::Unmake { ticket: 1 },
            SyncBody::Unmade { ticket: 1, user: None },
            SyncBody::Unmade { ticket: 1, user: Some(Rank(300)) },
            SyncBody::Absent { ticket: 300 },
            SyncBody::Refused { ticket: 70, before: QueuePlace { rank: Rank(2), ticket: 0 } },
            SyncBody::Grant { ticket: 1, records: vec![record(2, 1), record(70_000, 1 << 40)], brought },
            SyncBody::Grant { ticket: 1, records: vec![], brought: Brought::default() },
            SyncBody::Track { pages: vec![Pages { first: 7, count: 2 }, Pages::one(1 << 24)] },
        ];
        let requests =
            [Request::Read, Request::Write, Request::Take, Request::Wakeup, Request::AtLeast(u64::MAX)]
                .map(|request| SyncBody::Request { ticket: 4, request, known: known.clone() });
        let signals = [
            Signal::HasRead,
            Signal::HasWritten,
            Signal::Post(7),
            Signal::WakeOne,
            Signal::WakeAll,
            Signal::Raise(1 << 40),
        ]
        .map(|signal| SyncBody::Signal { signal, records: vec![record(2, 1)] });
        let all = bodies.into_iter().chain(requests).chain(signals);
        all.map(|body| SyncMessage { epoch: 12, object: 3, body }).collect()
    }

    #[test]
    fn messages_come_back_as_they_were_sent() {
        for message in messages() {
            assert_eq!(SyncMessage::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn every_prefix_of_a_message_is_refused_and_so_is_an_unknown_kind() {
        for message in messages() {
            let mut bytes = message.encode();
            for n in 0..bytes.len() {
                assert!(SyncMessage::decode(&bytes[..n]).is_err(), "{n} bytes of {message:?}");
            }
            bytes[5] = 77;
            assert!(SyncMessage::decode(&bytes).is_err());
        }
    }
}
