//! Sealed bytes arrive as they were sent, or not at all.

use super::super::noise::Before;
use super::*;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// The two ends of one direction.
fn ends() -> (Outlet, Inlet) {
    let before = Before { psk: [7; 32], prologue: b"between these two".to_vec() };
    let (exchange, offer) = before.offer().unwrap();
    let (theirs, reply) = before.reply(&offer).unwrap();
    let ours = exchange.finish(&reply).unwrap();
    let [ours, theirs] = [ours, theirs].map(|keys| {
        let (_, outlet, inlet) =
            NewConnection { socket: UnixStream::pair().unwrap().0.into(), keys: Some(keys) }.split();
        (outlet, inlet)
    });
    (ours.0, theirs.1)
}

/// What travels when this is sent, offered in parts of the given lengths (the last one again and again).
fn sealed(outlet: &mut Outlet, bytes: &[u8], parts: &[usize]) -> Vec<u8> {
    let (here, mut there) = UnixStream::pair().unwrap();
    there.set_nonblocking(true).unwrap();
    let (mut wire, mut parts, mut left) = (Vec::new(), parts.iter().copied(), bytes);
    while !left.is_empty() {
        let part = parts.next().unwrap_or(left.len()).clamp(1, left.len());
        let middle = part / 3;
        let mut pieces = [(0, middle), (middle, 0), (middle, part - middle)]
            .map(|(at, len)| sys::piece(left[at..].as_ptr(), len));
        let mut rest = &mut pieces[..];
        while !rest.is_empty() {
            // SAFETY: the pieces are parts of `bytes`.
            let taken = unsafe { outlet.send(here.as_fd(), rest) }.unwrap();
            rest = sys::advance(rest, taken.unwrap_or(0));
            let _ = there
                .read_to_end(&mut wire)
                .map_err(|error| assert_eq!(error.kind(), io::ErrorKind::WouldBlock));
        }
        left = &left[part..];
    }
    wire
}

/// What comes out at the other end of what travels in such parts, by calls with so much room each, and how it
/// ended.
fn opened(inlet: &mut Inlet, mut wire: &[u8], parts: &[usize], room: usize) -> (Vec<u8>, Option<LossReason>) {
    let (here, mut there) = UnixStream::pair().unwrap();
    let (mut out, mut buffer, mut parts) = (Vec::new(), vec![0; room], parts.iter().copied());
    loop {
        let part = parts.next().unwrap_or(60_000).clamp(1, 60_000).min(wire.len());
        there.write_all(&wire[..part]).unwrap();
        wire = &wire[part..];
        if part == 0 {
            there.shutdown(std::net::Shutdown::Write).unwrap();
        }
        loop {
            let pieces = [
                sys::piece(buffer.as_mut_ptr(), room / 2),
                sys::piece(buffer[room / 2..].as_mut_ptr(), room - room / 2),
            ];
            // SAFETY: the pieces are parts of `buffer`, which is ours.
            match unsafe { inlet.receive(here.as_fd(), &pieces) } {
                Err(fate) => return (out, Some(fate)),
                Ok(Some(0)) => return (out, None),
                Ok(count) => out.extend(&buffer[..count.unwrap_or(0)]),
            }
            if !inlet.holds() && part > 0 {
                break;
            }
        }
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from((i * 7 + i / 251) % 256).unwrap()).collect()
}

/// The records that travel.
fn records(wire: &[u8]) -> Vec<&[u8]> {
    let (mut rest, mut records) = (wire, Vec::new());
    while !rest.is_empty() {
        let (record, behind) = rest.split_at(LENGTH + usize::from(u16_at(rest, 0)));
        records.push(record);
        rest = behind;
    }
    records
}

/// What comes out of these bytes in place of a wire that three sends have made, and the first send's bytes.
fn mistreated(change: impl FnOnce(&[&[u8]]) -> Vec<u8>) -> (Vec<u8>, Option<LossReason>, Vec<u8>) {
    let (mut outlet, mut inlet) = ends();
    let sent = bytes(300);
    let wire = sealed(&mut outlet, &sent, &[100, 100, 100]);
    let (out, fate) = opened(&mut inlet, &change(&records(&wire)), &[], 1000);
    (out, fate, sent)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn what_is_sealed_arrives_however_it_is_cut_and_whatever_room_there_is(
        len in 0..150_000usize,
        offered in prop::collection::vec(1..70_000usize, 1..10),
        cuts in prop::collection::vec(prop_oneof![1..40usize, 1..60_000usize], 0..50),
        room in prop_oneof![2..100usize, 1_000..200_000usize],
    ) {
        let ((mut outlet, mut inlet), sent) = (ends(), bytes(len));
        let wire = sealed(&mut outlet, &sent, &offered);
        prop_assert!(opened(&mut inlet, &wire, &cuts, room) == (sent, None));
    }

    #[test]
    fn after_a_flipped_bit_nothing_comes_out_any_more(at: prop::sample::Index, bit in 0..8u32) {
        let (mut outlet, mut inlet) = ends();
        let sent = bytes(50_000);
        let mut wire = sealed(&mut outlet, &sent, &[20_000, 7, 300]);
        let at = at.index(wire.len());
        let before: usize = records(&wire)
            .iter()
            .scan(0, |end, record| { *end += record.len(); Some((*end, record.len())) })
            .take_while(|(end, _)| *end <= at)
            .map(|(_, len)| len - LENGTH - TAG)
            .sum();
        wire[at] ^= 1 << bit;
        let (out, fate) = opened(&mut inlet, &wire, &[], 1 << 20);
        prop_assert!(out == sent[..before], "{} bytes instead of {before}", out.len());
        prop_assert!(matches!(fate, Some(LossReason::Broke(_) | LossReason::Lost(_))), "{fate:?}");
    }

    #[test]
    fn any_bytes_from_anybody_end_the_connection_and_bring_nothing(
        wire in prop::collection::vec(any::<u8>(), 1..2_000), starts_well: bool, cuts in prop::collection::vec(1..100usize, 0..9),
    ) {
        let (_, mut inlet) = ends();
        let mut wire = wire;
        if let (true, Some(length)) = (starts_well, wire.first_chunk_mut::<LENGTH>()) {
            *length = 40u16.to_le_bytes();
        }
        let (out, fate) = opened(&mut inlet, &wire, &cuts, 100);
        prop_assert!(out.is_empty() && fate.is_some());
    }
}

#[test]
fn a_record_that_is_repeated_left_out_or_moved_does_not_decrypt() {
    type Change = fn(&[&[u8]]) -> Vec<u8>;
    let changes: [(&str, Change, usize); 4] = [
        ("repeated", |records| [records[0], records[0], records[1]].concat(), 100),
        ("left out", |records| [records[0], records[2]].concat(), 100),
        ("moved", |records| [records[1], records[0], records[2]].concat(), 0),
        ("cut and glued", |records| [&records[0][..50], records[1]].concat(), 0),
    ];
    for (what, change, whole) in changes {
        let (out, fate, sent) = mistreated(change);
        assert_eq!(out, sent[..whole], "{what}");
        let Some(LossReason::Broke(why)) = fate else { panic!("{what}: {fate:?}") };
        assert!(why.contains("does not decrypt"), "{what}: {why}");
    }
}

#[test]
fn a_stream_that_ends_within_a_record_was_cut_and_one_that_ends_between_records_is_at_its_end() {
    let (out, fate, sent) = mistreated(|records| [records[0], &records[1][..60]].concat());
    assert_eq!(out, sent[..100]);
    assert!(
        matches!(&fate, Some(LossReason::Lost(why)) if why.contains("within an encrypted record")),
        "{fate:?}"
    );
    let (out, fate, sent) = mistreated(|records| records[0].to_vec());
    assert_eq!((&out[..], fate), (&sent[..100], None));
}

#[test]
fn a_length_that_no_record_has_is_refused_before_the_record_comes() {
    for len in [0, 1, TAG, MOST + 1, usize::from(u16::MAX)] {
        let (_, mut inlet) = ends();
        let wire = u16::try_from(len).unwrap().to_le_bytes();
        let (out, fate) = opened(&mut inlet, &wire, &[], 100);
        assert!(out.is_empty());
        assert!(
            matches!(&fate, Some(LossReason::Broke(why)) if why.contains(&format!("of {len} bytes"))),
            "{fate:?}"
        );
    }
}

#[test]
fn what_came_before_a_bad_record_is_handed_out_first_and_the_rest_is_not_forgotten() {
    let ((mut outlet, mut inlet), (here, mut there)) = (ends(), UnixStream::pair().unwrap());
    let mut wire = sealed(&mut outlet, b"good", &[]);
    wire.extend([0xff; 2]);
    there.write_all(&wire).unwrap();
    let mut room = [0; 100];
    let pieces = [sys::piece(room.as_mut_ptr(), room.len())];
    // SAFETY: the piece is `room`.
    assert_eq!(unsafe { inlet.receive(here.as_fd(), &pieces) }, Ok(Some(4)));
    assert!(inlet.holds(), "the socket has nothing, and tells nobody");
    // SAFETY: the piece is `room`.
    assert!(matches!(unsafe { inlet.receive(here.as_fd(), &pieces) }, Err(LossReason::Broke(_))));
}

#[test]
fn a_record_costs_as_many_bytes_as_its_length_and_its_tag_and_says_nothing_else() {
    let (mut outlet, _) = ends();
    let wire = sealed(&mut outlet, &vec![b'x'; 2 * FULL + 1], &[]);
    assert_eq!(
        records(&wire).iter().map(|record| record.len()).collect::<Vec<_>>(),
        [FULL, FULL, 1].map(|len| LENGTH + len + TAG)
    );
    assert!(!wire.windows(8).any(|bytes| bytes == b"xxxxxxxx"));
}
