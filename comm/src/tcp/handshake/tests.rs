//! A handshake succeeds between two ranks of one job, word for word, and in no other case.

use super::*;
use proptest::prelude::*;

fn job() -> Job {
    Job {
        size: 4,
        abi: 7,
        secret: Secret::from_bytes([7; 32]),
        encrypted: false,
        congestion: Congestion::System,
        comes_back: false,
    }
}

/// The part of a challenge that is answered.
fn riddle(challenge: &[u8; OPENING + CHALLENGE]) -> &[u8; CHALLENGE] {
    check_opening(challenge).unwrap();
    challenge.last_chunk().unwrap()
}

/// A hello of rank 3 to rank 1, and what rank 1 makes of it.
fn meet(job: &Job) -> (Connector<'_>, Acceptor, [u8; CHALLENGE]) {
    let connector = Connector::new(job, ConnectionClass::Stream, 3, 1).unwrap();
    let (acceptor, challenge) = Acceptor::challenge(job, 1, connector.hello).unwrap();
    (connector, acceptor, *riddle(&challenge))
}

fn refusal(hello: [u8; HELLO]) -> Refusal {
    Acceptor::challenge(&job(), 1, hello).err().unwrap()
}

/// A hello whose tag is right, after `change`.
fn signed(change: impl FnOnce(&mut [u8])) -> [u8; HELLO] {
    let mut hello = Connector::new(&job(), ConnectionClass::Stream, 3, 1).unwrap().hello;
    change(&mut hello);
    let tag = job().tag(&[b"hello", &hello[..FIELDS]]);
    hello[FIELDS..].copy_from_slice(&tag);
    hello
}

#[test]
fn two_ranks_of_a_job_accept_each_other() {
    let job = job();
    for class in ConnectionClass::ALL {
        let connector = Connector::new(&job, class, 3, 1).unwrap();
        let (acceptor, challenge) = Acceptor::challenge(&job, 1, connector.hello).unwrap();
        assert_eq!((acceptor.from, acceptor.class), (3, class));
        let answer = connector.answer(riddle(&challenge)).unwrap();
        let welcome = acceptor.accept(&job, &answer).unwrap();
        Connector::welcome(&welcome).unwrap();
    }
}

#[test]
fn neither_side_accepts_one_with_another_secret() {
    let (job, other) = (job(), Job { secret: Secret::from_bytes([8; 32]), ..job() });
    let stranger = Connector::new(&other, ConnectionClass::Stream, 3, 1).unwrap();
    assert_eq!(refusal(stranger.hello), Refusal::OtherJob);
    // It has heard which job it is; that does not help.
    let informed = |hello: &mut [u8]| hello[28..36].copy_from_slice(&job.id());
    let mut hello = stranger.hello;
    informed(&mut hello);
    assert_eq!(refusal(hello), Refusal::Secret);
    let (connector, acceptor, challenge) = meet(&job);
    let guess = other.tag(&[b"connector", &connector.hello[..FIELDS], &acceptor.nonce]);
    assert_eq!(acceptor.accept(&job, &guess), Err(Refusal::Secret));
    assert_eq!(stranger.answer(&challenge), Err(Refusal::Secret));
}

#[test]
fn a_tag_of_one_side_does_not_serve_as_the_others() {
    let job = job();
    let (connector, acceptor, challenge) = meet(&job);
    assert_eq!(acceptor.accept(&job, challenge.last_chunk().unwrap()), Err(Refusal::Secret));
    assert_eq!(acceptor.accept(&job, connector.hello.last_chunk().unwrap()), Err(Refusal::Secret));
    // The connector's own words, as its challenge.
    let answer = connector.answer(&challenge).unwrap();
    let reflected = [&challenge[..NONCE], &answer].concat().try_into().unwrap();
    assert_eq!(connector.answer(&reflected), Err(Refusal::Secret));
}

#[test]
fn a_replayed_handshake_passes_at_neither_side() {
    let job = job();
    let (connector, _, challenge) = meet(&job);
    let answer = connector.answer(&challenge).unwrap();
    // The hello is good, but the challenge is new.
    let (acceptor, again) = Acceptor::challenge(&job, 1, connector.hello).unwrap();
    assert_ne!(*riddle(&again), challenge);
    assert_eq!(acceptor.accept(&job, &answer), Err(Refusal::Secret));
    // The hello is new.
    let (next, ..) = meet(&job);
    assert_eq!(next.answer(&challenge), Err(Refusal::Secret));
}

#[test]
fn a_handshake_serves_between_no_other_ranks_and_in_no_other_job() {
    let job = job();
    let (connector, acceptor, challenge) = meet(&job);
    let answer = connector.answer(&challenge).unwrap();
    let others: [fn(&mut [u8]); 4] =
        [|hello| hello[10] = 1, |hello| hello[12] = 2, |hello| hello[16] = 0, |hello| hello[24] = 8];
    for change in others {
        let hello = signed(change);
        let moved = Connector { job: &job, hello };
        assert_eq!(moved.answer(&challenge), Err(Refusal::Secret));
        let moved = Acceptor { hello, nonce: acceptor.nonce, from: acceptor.from, class: acceptor.class };
        assert_eq!(moved.accept(&job, &answer), Err(Refusal::Secret));
    }
}

#[test]
fn no_flipped_bit_of_a_handshake_passes() {
    let job = job();
    let (connector, acceptor, challenge) = meet(&job);
    for bit in 0..HELLO * 8 {
        let mut hello = connector.hello;
        hello[bit / 8] ^= 1 << (bit % 8);
        assert!(Acceptor::challenge(&job, 1, hello).is_err(), "bit {bit} of the hello");
    }
    for bit in 0..CHALLENGE * 8 {
        let mut flipped = challenge;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(connector.answer(&flipped).is_err(), "bit {bit} of the challenge");
    }
    let answer = connector.answer(&challenge).unwrap();
    for bit in 0..ANSWER * 8 {
        let mut flipped = answer;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(acceptor.accept(&job, &flipped).is_err(), "bit {bit} of the answer");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_its_reason() {
    assert!(matches!(refusal(signed(|hello| hello[16] = 2)), Refusal::Rank { from: 3, size: 4, to: 2 }));
    assert!(matches!(refusal(signed(|hello| hello[20] = 5)), Refusal::Rank { size: 5, .. }));
    let lower = refusal(signed(|hello| hello[12] = 0));
    assert!(
        matches!(lower, Refusal::Rank { from: 0, .. }),
        "lower ranks are connected to, they do not connect"
    );
    assert!(matches!(refusal(signed(|hello| hello[12] = 4)), Refusal::Rank { from: 4, .. }));
    assert_eq!(refusal(signed(|hello| hello[10] = 3)), Refusal::Class);
    assert_eq!(refusal(signed(|hello| hello[24] = 8)), Refusal::Abi { theirs: 8, ours: 7 });
    assert_eq!(refusal(signed(|hello| hello[8] = 99)), Refusal::Version(99));
    assert_eq!(refusal([b'G'; HELLO]), Refusal::Foreign);
}

#[test]
fn a_stranger_is_known_by_its_first_bytes_and_another_version_as_soon_as_it_is_said() {
    for length in 0..OPENING {
        assert_eq!(check_opening(&opening()[..length]), Ok(()));
    }
    assert_eq!(check_opening(b"G"), Err(Refusal::Foreign));
    assert_eq!(check_opening(b"scashTCP"), Err(Refusal::Foreign));
    assert_eq!(check_opening(b"scashtcp\x02\x01"), Err(Refusal::Version(0x0102)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn random_bytes_are_refused(mut bytes: [[u8; 10]; HELLO / 10], known in 0..=FIELDS) {
        let bytes = bytes.as_flattened_mut();
        let job = job();
        let (connector, acceptor, _) = meet(&job);
        // The more of it is right, the more there is to be seen through.
        bytes[..known].copy_from_slice(&connector.hello[..known]);
        prop_assert!(Acceptor::challenge(&job, 1, bytes.try_into().unwrap()).is_err());
        prop_assert!(connector.answer(bytes.first_chunk().unwrap()).is_err());
        prop_assert!(acceptor.accept(&job, bytes.last_chunk().unwrap()).is_err());
        prop_assert!(Connector::welcome(bytes.last_chunk().unwrap()).is_err());
    }
}
