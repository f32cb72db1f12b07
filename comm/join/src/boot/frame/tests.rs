use super::super::identity::Identity;
use super::*;
use proptest::prelude::*;
use std::fs::File;
use std::os::fd::AsRawFd;

fn fds(count: usize) -> Vec<OwnedFd> {
    (0..count).map(|_| File::open("/dev/null").unwrap().into()).collect()
}

/// Cuts a message and joins it again, as a socket would carry it.
fn carry(message: &Message) -> Message {
    let mut assembler = Assembler::new(Limits::FROM_LAUNCHER);
    for index in 0.. {
        let packet = message.packet(index).expect("the last packet completes the message");
        let bytes = [&packet.header[..], packet.payload].concat();
        let copies = packet.fds.iter().map(|fd| fd.try_clone().unwrap()).collect();
        if let Some(whole) = assembler.push(&bytes, copies).unwrap() {
            assert!(message.packet(index + 1).is_none());
            return whole;
        }
    }
    unreachable!()
}

fn one_packet(kind: u8, last: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x04, 0x5C, kind, last, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

fn push(bytes: &[u8]) -> Result<Option<Message>, Rubbish> {
    Assembler::new(Limits::FROM_RANK).push(bytes, Vec::new())
}

#[test]
fn a_packet_looks_as_documented() {
    let packet = packet::<OwnedFd>(LineKind::Gather, 0x0403_0201, b"blob", &[], 0).unwrap();
    assert_eq!(packet.header, [0x04, 0x5C, 4, 1, 1, 2, 3, 4, 0, 0, 0, 0, 4, 0, 0, 0]);
    assert_eq!(packet.payload, b"blob");
}

#[test]
fn messages_of_every_size_survive_cutting_and_joining() {
    for length in [0, 1, MAX_PAYLOAD - 1, MAX_PAYLOAD, MAX_PAYLOAD + 1, 3 * MAX_PAYLOAD] {
        let bytes: Vec<u8> = (0..251).cycle().take(length).collect();
        let whole =
            carry(&Message { kind: LineKind::Gather, sequence: 9, bytes: bytes.clone(), fds: Vec::new() });
        assert_eq!((whole.kind, whole.sequence), (LineKind::Gather, 9));
        assert_eq!(whole.bytes, bytes);
    }
}

#[test]
fn descriptors_beyond_the_kernels_limit_travel_in_several_packets() {
    for count in [0, 1, MAX_FDS, MAX_FDS + 1, 2 * MAX_FDS + 5] {
        let message = Message { kind: LineKind::Gather, sequence: 0, bytes: vec![7; 10], fds: fds(count) };
        assert_eq!(carry(&message).fds.len(), count);
    }
}

#[test]
fn gathered_shares_come_back_to_whom_they_belong() {
    let shares: Vec<Share> =
        vec![(b"zero".to_vec(), fds(2)), (Vec::new(), Vec::new()), (vec![3; 1 << 20], fds(1))];
    let numbers: Vec<usize> = shares.iter().map(|(_, fds)| fds.len()).collect();
    let first_fd = shares[2].1[0].as_raw_fd();
    let back = decode_gathered(3, encode_gathered(5, shares)).unwrap();
    assert_eq!(back[0].0, b"zero");
    assert_eq!(back[1].0, b"");
    assert_eq!(back[2].0, vec![3; 1 << 20]);
    assert_eq!(back.iter().map(|(_, fds)| fds.len()).collect::<Vec<_>>(), numbers);
    assert_eq!(back[2].1[0].as_raw_fd(), first_fd);
}

#[test]
fn a_gather_result_that_does_not_add_up_is_rubbish() {
    let good = encode_gathered(0, vec![(b"a".to_vec(), Vec::new()), (b"bc".to_vec(), Vec::new())]).bytes;
    let decode = |bytes: Vec<u8>, fds| {
        decode_gathered(2, Message { kind: LineKind::Gathered, sequence: 0, bytes, fds })
    };
    decode(good.clone(), Vec::new()).unwrap();
    for length in 0..good.len() {
        decode(good[..length].to_vec(), Vec::new()).unwrap_err();
    }
    decode([&good[..], b"x"].concat(), Vec::new()).unwrap_err();
    let mut too_many_fds = good.clone();
    too_many_fds[8] = 1;
    decode(too_many_fds, Vec::new()).unwrap_err();
    let mut endless = good;
    endless[0..8].fill(0xFF);
    decode(endless, Vec::new()).unwrap_err();
}

#[test]
fn rubbish_is_named() {
    let complaint = |bytes: &[u8]| push(bytes).unwrap_err().0;
    assert!(complaint(b"GET / HTTP/1.1\r\n\r\n").contains("0x4547"));
    assert!(complaint(&one_packet(0, 1, b"")).contains("unknown kind 0"));
    assert!(complaint(&one_packet(9, 1, b"")).contains("unknown kind 9"));
    assert!(complaint(&one_packet(4, 2, b"")).contains("neither full nor the last"));
    assert!(complaint(&one_packet(4, 0, b"dribble")).contains("neither full nor the last"));
    assert!(complaint(&one_packet(4, 1, b"abc")[..18]).contains("announces 3 bytes and carries 2"));
    assert!(complaint(&[]).contains("0 are left"));
    let mut promised = one_packet(4, 1, b"");
    promised[8] = 1;
    assert!(complaint(&promised).contains("announces 1 descriptors and carries 0"));
}

#[test]
fn a_message_may_not_change_its_kind_midway_nor_outgrow_its_limit() {
    let full = vec![0; MAX_PAYLOAD];
    let mut assembler = Assembler::new(Limits { bytes: 2 * MAX_PAYLOAD, fds: 0 });
    assembler.push(&one_packet(4, 0, &full), Vec::new()).unwrap();
    assembler.push(&one_packet(2, 1, b""), Vec::new()).unwrap_err();

    let mut assembler = Assembler::new(Limits { bytes: 2 * MAX_PAYLOAD, fds: 0 });
    assembler.push(&one_packet(4, 0, &full), Vec::new()).unwrap();
    assembler.push(&one_packet(4, 0, &full), Vec::new()).unwrap();
    assert!(assembler.push(&one_packet(4, 1, b"x"), Vec::new()).unwrap_err().0.contains("more than"));
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..8)) {
        let mut assembler = Assembler::new(Limits::FROM_RANK);
        for packet in packets {
            let _ = assembler.push(&packet, Vec::new());
            let _ = Identity::decode(&packet);
            let message = Message { kind: LineKind::Gathered, sequence: 0, bytes: packet, fds: Vec::new() };
            let _ = decode_gathered(3, message);
        }
    }

    #[test]
    fn changed_bytes_are_read_as_what_they_say_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let changed = |mut bytes: Vec<u8>| {
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            bytes
        };
        let shares = [&b"one"[..], b"", b"three"].map(|blob| (blob.to_vec(), Vec::new()));
        let gathered = encode_gathered(0, shares.into());
        let packet = gathered.packet(0).unwrap();
        let _ = push(&changed([&packet.header[..], packet.payload].concat()));
        let bytes = changed(gathered.bytes);
        let message = Message { kind: LineKind::Gathered, sequence: 0, bytes: bytes.clone(), fds: Vec::new() };
        if let Ok(shares) = decode_gathered(3, message) {
            prop_assert_eq!(encode_gathered(0, shares).bytes, bytes);
        }
        let identity = Identity { path: "/bin/a".into(), build: vec![1; 20], version: "1".into(), abi: 1 };
        let _ = Identity::decode(&changed(identity.encode()));
    }

    #[test]
    fn nor_do_bytes_behind_a_good_header(kind in 1u8..9, payload in prop::collection::vec(any::<u8>(), 0..64)) {
        let message = push(&one_packet(kind, 1, &payload)).unwrap().unwrap();
        prop_assert_eq!(message.kind as u8, kind);
        prop_assert_eq!(message.bytes, payload);
    }
}
