//! Sends that are taken back, and sends that nobody waits for.

use super::*;

#[test]
fn a_send_is_taken_back_or_received_and_never_both() {
    let bytes = message(0, 1, 2000);
    // The offer arrives first, or a receive that it meets; the withdrawal is on its way meanwhile.
    for is_matched in [false, true] {
        for reads in [false, true] {
            let mut net = Network::new(2, OPTIONS, reads);
            let send = net.send(0, 1, 0, &bytes).unwrap();
            let early = is_matched.then(|| net.receive(1, None, None, own()).unwrap());
            assert!(net.engines[0].withdraw(send) && net.engines[0].withdraw(send));
            net.carry_out(0);
            assert_eq!(net.engines[0].was_withdrawn(send), None);
            net.settle();
            assert_eq!(net.engines[0].was_withdrawn(send), Some(!is_matched));
            match early {
                Some(receive) => {
                    assert_eq!(net.outcome(1, Some(receive)).unwrap().unwrap().bytes, bytes);
                    assert!(net.outcome(0, Some(send)).unwrap().is_ok());
                }
                None => assert_eq!(net.engines[1].unexpected.len(), 0),
            }
            assert!(net.engines[0].requests.iter_mut().next().is_none());
        }
    }
}

#[test]
fn taking_a_send_back_takes_no_longer_among_many_offers() {
    let looks = |offers: usize, which: usize| {
        let mut net = Network::new(2, Options { large: Large::Rendezvous, ..OPTIONS }, false);
        let bytes = message(0, 0, 600);
        let sends: Vec<_> = (0..offers).map(|_| net.send(0, 1, 0, &bytes).unwrap()).collect();
        net.settle();
        let before = net.engines[1].unexpected.looks.get();
        assert!(net.engines[0].withdraw(sends[which]));
        net.settle();
        assert_eq!(net.engines[0].was_withdrawn(sends[which]), Some(true));
        assert_eq!(net.engines[1].unexpected.len(), offers - 1);
        net.engines[1].unexpected.looks.get() - before
    };
    let few = looks(2, 0);
    let many = if cfg!(miri) { 60 } else { 2000 };
    assert!([0, many / 3, many - 1].into_iter().all(|which| looks(many, which) == few), "{few}");
}

/// A rank that lies must not end what another one may still read.
#[test]
fn only_the_rank_that_was_offered_a_message_says_that_its_offer_is_withdrawn() {
    let bytes = message(0, 1, 2000);
    let mut net = Network::new(3, OPTIONS, true);
    let send = net.send(0, 1, 0, &bytes).unwrap();
    let withdrawn = MessageHead::Withdrawn { send: send.0 }.encode();
    // Not before this rank has asked for it, either.
    assert!(matches!(
        net.engines[0].arrived(1, withdrawn.kind, withdrawn.bytes()),
        Err(Error::Protocol { rank: 1, .. })
    ));
    let mut net = Network::new(3, OPTIONS, true);
    let send = net.send(0, 1, 0, &bytes).unwrap();
    assert!(net.engines[0].withdraw(send));
    let withdrawn = MessageHead::Withdrawn { send: send.0 }.encode();
    let said = net.engines[0].arrived(2, withdrawn.kind, withdrawn.bytes());
    assert!(matches!(said, Err(Error::Protocol { rank: 2, .. })));
    assert_eq!(net.engines[0].was_withdrawn(send), None, "rank 1 may be reading it");
    assert!(net.engines[0].arrived(1, withdrawn.kind, withdrawn.bytes()).is_ok());
    assert_eq!(net.engines[0].was_withdrawn(send), Some(true));
}

#[test]
fn a_send_that_nobody_waits_for_keeps_its_bytes_until_it_is_over_and_is_told_as_lost() {
    for (large, reads) in [(Large::Auto, true), (Large::Push, false), (Large::Rendezvous, false)] {
        let mut net = Network::new(2, Options { large, ..OPTIONS }, reads);
        let lens = [3, 60, 500, 2000];
        for (number, len) in lens.into_iter().enumerate() {
            net.engines[0].send_and_forget(1, 0, 0, message(0, number, len)).unwrap();
            net.carry_out(0);
        }
        net.settle();
        for (number, len) in lens.into_iter().enumerate() {
            let receive = net.receive(1, None, None, own()).unwrap();
            net.settle();
            let ended = net.outcome(1, Some(receive)).unwrap().unwrap();
            assert_eq!(ended.bytes, message(0, number, len));
        }
        assert!(net.engines[0].forgotten(1).is_empty() && net.engines[0].forgotten.is_empty());
        assert!(net.engines[0].requests.iter_mut().next().is_none());
        let mark = net.engines[0].fence(1).unwrap().unwrap();
        net.carry_out(0);
        net.settle();
        assert!(net.outcome(0, Some(mark)).unwrap().is_ok());
        net.engines[0].send_and_forget(1, 0, 0, message(0, 9, 2000)).unwrap();
        net.engines[0].down(1);
        assert!(net.engines[0].forgotten.is_empty());
        assert!(matches!(net.engines[0].fence(1), Some(Err(Error::Down { rank: 1, .. }))));
        assert!(net.engines[0].fence(1).is_none(), "it is told once");
    }
}
