//! Messages between ranks with anything wrong in them: they are read as what they say, or refused, and never
//! make the reader panic.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_proto::copyset::CopyMode;
use scash_proto::diff::{Changes, Diff};
use scash_proto::races::WriteTraces;

use scash_proto::wire::reduce::Direction;
use scash_proto::wire::stall::{Activities, Activity, Relation};
use scash_proto::wire::sync::{Brought, Follower, QueuePlace, Record, Request, Signal, SyncBody};
use scash_proto::wire::{
    Attendance, Control, News, Notice, PageBatch, Parcel, Purpose, ReduceMessage, StallMessage, SyncMessage,
    Token,
};
use scash_proto::{PAGE_SIZE, Pages, Rank};
use scash_sim::rng::Rng;

/// Messages that are tried.
const TRIES: u32 = 300_000;
/// Pages of the region that they speak of.
const PAGES: u32 = 100;

fn span() -> [Attendance; 2] {
    let of = |rank, n| Attendance { purpose: Purpose([n, 2, 3, u64::MAX]), rank: Rank(rank) };
    [of(1, 1), of(9, 5)]
}

fn token() -> Vec<u8> {
    let moves = News::Moves { to: Rank(3), placed: true };
    let notice = |first, news| Notice { origin: Rank(4), pages: Pages { first, count: 2 }, news };
    let notices = vec![notice(1 << 24, moves), notice(7, News::FirstTouch)];
    let counts = vec![(Rank(3), 9), (Rank(1_000), 1)];
    let (away, due, left_out) = (true, true, true);
    Token { meeting: 77, step: 3, away, due, left_out, span: span(), counts, notices }.encode()
}

fn control() -> Vec<u8> {
    let list = || vec![Pages { first: 0, count: 3 }, Pages { first: 300, count: 1 }];
    let subscribe = vec![(Pages::one(9), CopyMode::Update), (Pages::one(11), CopyMode::Invalidate)];
    Control { stale: list(), subscribe, leave: list(), fresh: list(), operated: list(), ask: list() }
        .encode(5)
}

fn syncs() -> Vec<Vec<u8>> {
    let known = || vec![(Rank(0), 3), (Rank(900), 1 << 30)];
    let place = QueuePlace { rank: Rank(8), ticket: 300 };
    let records = || {
        vec![
            Record { rank: Rank(2), number: 9, pages: vec![Pages { first: 7, count: 2 }], tracked: vec![] };
            2
        ]
    };
    let wants = || vec![Pages { first: 0, count: 3 }, Pages::one(300)];
    let brought = Brought { known: known(), pages: vec![1, 300], bytes: vec![7; 2 * PAGE_SIZE] };
    let bodies = [
        SyncBody::Ask { ticket: 5, known: known(), patient: true, wants: wants() },
        SyncBody::Follow {
            ticket: 9,
            next: Follower { place, known: known(), patient: false, wants: wants() },
        },
        SyncBody::Grant { ticket: 1, records: records(), brought },
        SyncBody::Refused { ticket: 70, before: place },
        SyncBody::Request { ticket: 4, request: Request::AtLeast(u64::MAX), known: known() },
        SyncBody::Queued { ticket: 1 },
        SyncBody::Unmake { ticket: 1 },
        SyncBody::Unmade { ticket: 1, user: Some(Rank(300)) },
        SyncBody::Absent { ticket: 300 },
        SyncBody::Signal { signal: Signal::Raise(1 << 40), records: records() },
    ];
    bodies.into_iter().map(|body| SyncMessage { epoch: 12, object: 3, body }.encode()).collect()
}

/// A page in which some bytes are other than 0, in one run or scattered, as a diff.
fn diff(scattered: bool) -> Vec<u8> {
    let (old, mut new) = ([0; 4096], [0; 4096]);
    let wide = if scattered { 0..2_000 } else { 100..140 };
    wide.step_by(if scattered { 3 } else { 1 }).for_each(|at| new[at] = 7);
    let mut out = Vec::new();
    Changes::between(&old, &new).encode(&new, &mut out);
    out
}

fn batch() -> Vec<u8> {
    let mut out = Vec::new();
    PageBatch::begin(&mut out, 6);
    for (page, scattered) in [(3, false), (4, true)] {
        let diff = diff(scattered);
        PageBatch::push(&mut out, page, false, |out| {
            out.extend(&diff);
            diff.len()
        });
    }
    out
}

/// `u32 meeting | u8 lost`, then a trace: `u32 page | u8 put | number | known | site | diff | old bytes`.
fn write_traces() -> Vec<u8> {
    let diff = diff(false);
    let head = [6, 0, 0, 0, 0, 9, 0, 0, 0, 0, 2, 1, 3, 4, 4, b'm', b'a', b'i', b'n'];
    [&head[..], &[u8::try_from(diff.len()).unwrap()], &diff, &[0; 40]].concat()
}

/// A message of each kind.
fn messages() -> Vec<Vec<u8>> {
    let reduce =
        ReduceMessage { epoch: 1, number: 300, direction: Direction::Up, span: span(), values: vec![5; 4] };
    let activity = Activity { who: 7, relation: Relation::Awaits, object: 70_000 };
    let activities = Activities { meets: Some(Purpose([1, 2, 3, 4])), threads: vec![activity; 3] };
    let parcel = Parcel { meeting: 4, home: Rank(2) };
    let mut all = vec![token(), control(), batch(), write_traces(), diff(false), diff(true)];
    all.extend([reduce.encode(), StallMessage::Answer(activities).encode(), parcel.encode().to_vec()]);
    all.extend(syncs());
    all
}

/// Takes the bytes for a message of every kind in turn. Returns as how many kinds they pass.
fn read(bytes: &[u8]) -> usize {
    let mut passes = 0;
    /// Whoever is told what this reader has read reads the same. (A few texts have a shorter form.)
    macro_rules! check {
        ($read:expr, $write:expr) => {
            if let Ok(message) = $read(bytes) {
                let told = $write(&message);
                assert_eq!($read(&told).map(|same| $write(&same)), Ok(told), "{bytes:02x?}");
                passes += 1;
            }
        };
    }
    check!(Token::decode, Token::encode);
    check!(Control::decode, |(meeting, control): &(u32, Control)| control.encode(*meeting));
    check!(Parcel::decode, |parcel: &Parcel| parcel.encode());
    check!(SyncMessage::decode, SyncMessage::encode);
    check!(ReduceMessage::decode, ReduceMessage::encode);
    check!(StallMessage::decode, StallMessage::encode);
    passes += usize::from(WriteTraces::decode(Rank(1), PAGES, bytes).is_ok());
    let merge = |diff: &[u8]| Diff::parse(diff).map(|diff| diff.apply(&mut [1; 4096])).is_ok();
    let merged =
        PageBatch::read(bytes).map(|(_, pages)| pages.flatten().filter(|&(_, diff)| merge(diff)).count());
    passes + usize::from(merge(bytes)) + usize::from(merged.is_ok_and(|pages| pages > 0))
}

/// Changes a message in one to three places: bytes become others, come in addition, or are gone.
fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.between(1, 3) {
        let length = u32::try_from(bytes.len()).unwrap();
        let at = rng.below(length + 1) as usize;
        let byte =
            if rng.chance(50) { rng.pick(&[0, 1, 0x7f, 0x80, 0xff]) } else { rng.bits().to_le_bytes()[0] };
        match (rng.below(5), bytes.get_mut(at)) {
            (0, Some(place)) => *place = byte,
            (1, Some(place)) => *place ^= 1 << rng.below(8),
            (2, _) => bytes.truncate(at),
            (3, Some(_)) => drop(bytes.remove(at)),
            _ => bytes.insert(at, byte),
        }
    }
}

#[test]
fn good_messages_pass() {
    for message in messages() {
        assert!(read(&message) > 0, "{message:02x?}");
    }
}

#[test]
fn no_message_however_changed_makes_a_reader_panic() {
    let (messages, mut rng) = (messages(), Rng::new(1));
    let passed = (0..TRIES).filter(|_| {
        let mut bytes = messages[rng.below(u32::try_from(messages.len()).unwrap()) as usize].clone();
        mutate(&mut rng, &mut bytes);
        read(&bytes) > 0
    });
    let passed = passed.count();
    assert!(passed > 1_000 && passed < TRIES as usize, "{passed} passed: neither all nor none should");
}

#[test]
fn no_random_bytes_make_a_reader_panic() {
    let mut rng = Rng::new(2);
    for _ in 0..TRIES {
        let length = rng.below(60);
        // Small numbers are what messages are made of.
        let most = rng.pick(&[2, 10, 255]);
        let bytes: Vec<u8> = (0..length).map(|_| u8::try_from(rng.between(0, most)).unwrap()).collect();
        read(&bytes);
    }
}
