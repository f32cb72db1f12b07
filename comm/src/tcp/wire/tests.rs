//! Every value survives the wire, and no bytes can do worse than be refused.

use super::*;
use proptest::prelude::*;

fn heads() -> impl Strategy<Value = Head> {
    prop_oneof![
        (any::<u16>(), 0..=MAX_MESSAGE).prop_map(|(kind, len)| Head::Message { kind, len }),
        (1..=512u16).prop_map(|count| Head::Puts { count }),
        Just(Head::Goodbye),
    ]
}

fn requests() -> impl Strategy<Value = Request> {
    prop_oneof![
        (any::<u16>(), 1..=1023u32, any::<u64>()).prop_map(|(segment, count, position)| Request::Get {
            segment,
            count,
            position
        }),
        any::<u64>().prop_map(|position| Request::Fence { position }),
        Just(Request::Goodbye),
    ]
}

fn replies() -> impl Strategy<Value = Reply> {
    prop_oneof![
        any::<u64>().prop_map(|bytes| Reply::Got { bytes }),
        any::<u64>().prop_map(|position| Reply::Fenced { position }),
        any::<u64>().prop_map(|position| Reply::Behind { position }),
        Just(Reply::Goodbye),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(head in heads(), request in requests(), reply in replies()) {
        prop_assert_eq!(Head::decode(&head.encode()), Ok(Some(head)));
        prop_assert_eq!(Request::decode(&request.encode()), Ok(Some(request)));
        prop_assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
    }

    #[test]
    fn targets_and_ranges_are_read_back(segment: u16, len: u32, offset: u64, length: u64) {
        let target = Target { segment, len, offset };
        prop_assert_eq!(Target::decode(&target.encode()), Ok(target));
        let range = Range { offset, len: length };
        prop_assert_eq!(Range::decode(&range.encode()), range);
    }

    #[test]
    fn bytes_that_are_accepted_are_exactly_those_that_are_written(bytes: [u8; 16]) {
        if let Ok(Some(head)) = Head::decode(&bytes) {
            prop_assert_eq!(&head.encode()[..], &bytes[..HEAD]);
        }
        if let Ok(Some(request)) = Request::decode(&bytes) {
            prop_assert_eq!(request.encode(), bytes);
        }
        if let Ok(reply) = Reply::decode(&bytes) {
            prop_assert_eq!(reply.encode(), bytes);
        }
        if let Ok(target) = Target::decode(&bytes) {
            prop_assert_eq!(target.encode(), bytes);
        }
    }
}

#[test]
fn a_part_of_a_header_is_not_yet_one() {
    let head = Head::Message { kind: 7, len: 9 }.encode();
    let request = Request::Fence { position: 12 }.encode();
    for cut in 0..HEAD {
        assert_eq!(Head::decode(&head[..cut]), Ok(None));
    }
    for cut in 0..SERVICE_HEAD {
        assert_eq!(Request::decode(&request[..cut]), Ok(None));
    }
}

#[test]
fn lengths_and_counts_beyond_the_limits_are_refused() {
    let mut long = Head::Message { kind: 0, len: 0 }.encode();
    long[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(Head::decode(&long).unwrap_err().to_string().contains("4294967295 bytes"));
    assert!(Head::decode(&[2, 0, 0, 0, 0, 0, 0, 0]).is_err(), "no target at all");
    assert!(Head::decode(&[2, 0, 1, 2, 0, 0, 0, 0]).is_err(), "513 targets");
    let get = |count| Request::decode(&service_head(1, 0, count, 0));
    assert!(get(0).is_err());
    assert!(get(1024).is_err());
    assert!(get(1023).is_ok());
}
