//! Every value survives the wire, and no bytes can do worse than be refused.

use super::*;
use crate::remote::{OPERATION, Operation};
use crate::{Atomic, Rmw};
use proptest::prelude::*;

fn heads() -> impl Strategy<Value = FrameHead> {
    prop_oneof![
        (any::<u16>(), 0..=MAX_MESSAGE).prop_map(|(kind, len)| FrameHead::Message { kind, len }),
        (any::<u16>(), 0..=64u8, 1..=MAX_MESSAGE - 64).prop_map(|(kind, head, len)| FrameHead::Long {
            kind,
            head,
            len: usize::from(head) + len
        }),
        (1..=512u16).prop_map(|count| FrameHead::Puts { count }),
        (0..=4095u16).prop_map(|len| FrameHead::Padding { len }),
        Just(FrameHead::Goodbye),
    ]
}

fn requests() -> impl Strategy<Value = Request> {
    prop_oneof![
        (any::<u16>(), 1..=1023u32, any::<u64>()).prop_map(|(segment, count, position)| Request::Get {
            segment,
            count,
            position
        }),
        (any::<u16>(), any::<u64>()).prop_map(|(segment, position)| Request::Atomic { segment, position }),
        any::<u64>().prop_map(|position| Request::Fence { position }),
        any::<u64>().prop_map(|position| Request::Rouse { position }),
        Just(Request::Goodbye),
    ]
}

fn replies() -> impl Strategy<Value = Reply> {
    prop_oneof![
        any::<u64>().prop_map(|bytes| Reply::Got { bytes }),
        any::<u64>().prop_map(|position| Reply::Fenced { position }),
        any::<u64>().prop_map(|position| Reply::NotYet { position }),
        any::<u64>().prop_map(|before| Reply::Was { before }),
        Just(Reply::Goodbye),
    ]
}

/// Every kind of operation on one type of words.
fn kinds<T: Arbitrary + Copy>() -> impl Strategy<Value = Rmw<T>> {
    (0..7, any::<T>(), any::<T>()).prop_map(|(kind, a, b)| match kind {
        0 => Rmw::Load,
        1 => Rmw::Add(a),
        2 => Rmw::And(a),
        3 => Rmw::Or(a),
        4 => Rmw::Xor(a),
        5 => Rmw::Swap(a),
        _ => Rmw::CompareSwap { expected: a, new: b },
    })
}

fn operations() -> impl Strategy<Value = Operation> {
    let op = prop_oneof![kinds().prop_map(Atomic::U32), kinds().prop_map(Atomic::U64)];
    (any::<u64>(), op).prop_map(|(offset, op)| Operation { offset, op })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(head in heads(), request in requests(), reply in replies()) {
        prop_assert_eq!(FrameHead::decode(&head.encode()), Ok(Some(head)));
        prop_assert_eq!(Request::decode(&request.encode()), Ok(Some(request)));
        prop_assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
    }

    #[test]
    fn targets_and_ranges_are_read_back(segment: u16, len: u32, offset: u64, length: u64) {
        let target = PutTarget { segment, len, offset };
        prop_assert_eq!(PutTarget::decode(&target.encode()), Ok(target));
        let range = Range { offset, len: length };
        prop_assert_eq!(Range::decode(&range.encode()), range);
    }

    #[test]
    fn an_operation_is_read_back(operation in operations()) {
        prop_assert_eq!(Operation::decode(&operation.encode()), Ok(operation));
    }

    #[test]
    fn an_operation_that_is_accepted_is_exactly_what_is_written(
        code in 0..9u8, width in prop_oneof![Just(4), Just(8), any::<u8>()], mut bytes: [u8; OPERATION],
        zeros in any::<[bool; OPERATION]>(),
    ) {
        // Operations are rare among random bytes: most have many zeros.
        bytes.iter_mut().zip(zeros).for_each(|(byte, zero)| *byte *= u8::from(zero));
        for blank in [0..0, 2..8, 24..32, 20..24, 16..32] {
            bytes[blank].fill(0);
            bytes[..2].copy_from_slice(&[code, width]);
            if let Ok(operation) = Operation::decode(&bytes) {
                prop_assert_eq!(operation.encode(), bytes);
            }
        }
    }

    #[test]
    fn bytes_that_are_accepted_are_exactly_those_that_are_written(bytes: [u8; 16]) {
        if let Ok(Some(head)) = FrameHead::decode(&bytes) {
            prop_assert_eq!(&head.encode()[..], &bytes[..HEAD]);
        }
        if let Ok(Some(request)) = Request::decode(&bytes) {
            prop_assert_eq!(request.encode(), bytes);
        }
        if let Ok(reply) = Reply::decode(&bytes) {
            prop_assert_eq!(reply.encode(), bytes);
        }
        if let Ok(target) = PutTarget::decode(&bytes) {
            prop_assert_eq!(target.encode(), bytes);
        }
    }
}

#[test]
fn a_part_of_a_header_is_not_yet_one() {
    let head = FrameHead::Message { kind: 7, len: 9 }.encode();
    let requests = [Request::Fence { position: 12 }, Request::Atomic { segment: 3, position: 12 }];
    for cut in 0..HEAD {
        assert_eq!(FrameHead::decode(&head[..cut]), Ok(None));
    }
    for cut in 0..SERVICE_HEAD {
        requests.iter().for_each(|request| assert_eq!(Request::decode(&request.encode()[..cut]), Ok(None)));
    }
}

#[test]
fn lengths_and_counts_beyond_the_limits_are_refused() {
    let mut long = FrameHead::Message { kind: 0, len: 0 }.encode();
    long[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(FrameHead::decode(&long).unwrap_err().to_string().contains("4294967295 bytes"));
    assert!(FrameHead::decode(&[2, 0, 0, 0, 0, 0, 0, 0]).is_err(), "no target at all");
    assert!(FrameHead::decode(&[2, 0, 1, 2, 0, 0, 0, 0]).is_err(), "513 targets");
    let get = |count| Request::decode(&service_head(1, 0, count, 0));
    assert!(get(0).is_err());
    assert!(get(1024).is_err());
    assert!(get(1023).is_ok());
}

#[test]
fn operations_that_do_not_exist_are_refused() {
    let good = |op| Operation { offset: 16, op }.encode();
    let changed = |op, at: usize, byte| {
        let mut bytes = good(op);
        bytes[at] = byte;
        Operation::decode(&bytes)
    };
    let add = Atomic::U64(Rmw::Add(5));
    for (at, byte) in [(0, 7), (0, 255), (1, 0), (1, 2), (1, 16), (2, 1), (7, 1), (24, 1)] {
        let error = changed(add, at, byte).unwrap_err().to_string();
        assert!(error.contains("an atomic operation"), "byte {at} = {byte}: {error}");
    }
    assert!(changed(Atomic::U32(Rmw::Add(5)), 20, 1).is_err(), "an operand of more than 4 bytes");
    let swap = Atomic::U32(Rmw::CompareSwap { expected: 1, new: 2 });
    assert!(changed(swap, 28, 1).is_err(), "a new value of more than 4 bytes");
    assert!(changed(Atomic::U64(Rmw::Load), 16, 1).is_err(), "a load with an operand");
    assert!(Request::decode(&service_head(5, 0, 1, 0)).is_err(), "an operation with a count");
}
