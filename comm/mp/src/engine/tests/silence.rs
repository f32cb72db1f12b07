//! Ranks that say nothing, and those that are given up.

use super::*;
use crate::Collective;

/// Ticks at rank 0 with what follows from them, and whom it gives up.
fn ticks(net: &mut Network, count: u32) -> Vec<u32> {
    let mut lost = Vec::new();
    for _ in 0..count {
        lost.extend(net.engines[0].tick(|_| None));
        net.carry_out(0);
        net.settle();
    }
    lost
}

#[test]
fn who_waits_for_nobody_asks_nobody() {
    let mut net = Network::new(3, OPTIONS, false);
    net.fates[1] = Fate::Stopped;
    assert_eq!(ticks(&mut net, 3 * SILENT_TICKS), []);
    assert!(net.letters.iter().flatten().all(VecDeque::is_empty));
}

#[test]
fn a_rank_that_lives_answers_and_is_waited_for_as_long_as_it_takes() {
    let mut net = Network::new(3, OPTIONS, false);
    let receive = net.receive(0, Some(1), None, own()).unwrap();
    assert_eq!(ticks(&mut net, 5 * SILENT_TICKS), []);
    let bytes = message(1, 0, 30);
    net.send(1, 0, 0, &bytes);
    net.settle();
    assert_eq!(net.outcome(0, Some(receive)).unwrap().unwrap().bytes, bytes);
}

#[test]
fn a_rank_that_is_waited_for_in_silence_is_given_up_and_no_other() {
    let bytes = message(0, 1, 2000);
    let begin: [fn(&mut Network, &[u8]); 6] = [
        |net, _| _ = net.receive(0, Some(1), None, own()).unwrap(),
        |net, _| _ = net.receive(0, None, None, own()).unwrap(),
        |net, bytes| _ = net.send(0, 1, 0, bytes).unwrap(),
        |net, _| {
            net.engines[0].has_put(1);
            net.engines[0].mark(1).unwrap();
        },
        |net, _| net.engines[0].is_probing(Some(1), true),
        |net, _| net.engines[0].is_probing(None, true),
    ];
    for begin in begin {
        let mut net = Network::new(3, OPTIONS, false);
        net.fates[1] = Fate::Stopped;
        begin(&mut net, &bytes);
        net.carry_out(0);
        assert_eq!(ticks(&mut net, SILENT_TICKS), []);
        assert_eq!(ticks(&mut net, 1), [1]);
    }
}

#[test]
fn what_moves_at_the_endpoint_is_a_sign_of_life() {
    let mut net = Network::new(2, OPTIONS, false);
    net.fates[1] = Fate::Stopped;
    for moved in 0..u64::from(3 * SILENT_TICKS) {
        assert_eq!(net.engines[0].tick(|_| Some(moved)), []);
    }
    let lost: Vec<u32> = (0..SILENT_TICKS + 2).flat_map(|_| net.engines[0].tick(|_| Some(0))).collect();
    assert_eq!(lost, [1]);
}

#[test]
fn parts_of_a_long_message_are_signs_of_life_and_of_one_that_was_given_up_are_passed_over() {
    let mut net = Network::new(2, Options { large: Large::Push, ..OPTIONS }, false);
    let bytes = message(1, 0, 500);
    net.send(1, 0, 0, &bytes);
    let receive = net.receive(0, Some(1), None, own()).unwrap();
    assert!(net.deliver(1, 0), "it is announced");
    net.fates[1] = Fate::Stopped;
    let head = MessageHead::Pushed { push: only_landing(&net.engines[0]) }.encode();
    for piece in bytes[..400].chunks(10) {
        assert_eq!(net.engines[0].tick(|_| None), []);
        arrive_in_parts(&mut net.engines[0], 1, (head.kind, head.bytes()), piece).unwrap();
    }
    let lost = (0..SILENT_TICKS + 2).flat_map(|_| {
        // The endpoint asks whenever it is looked at.
        net.engines[0].room(1, head.kind, head.bytes(), (400, 100)).unwrap();
        net.engines[0].tick(|_| None)
    });
    assert_eq!(lost.collect::<Vec<_>>(), [1]);
    net.engines[0].down(1);
    assert!(matches!(net.outcome(0, Some(receive)), Some(Err(Error::Down { rank: 1, .. }))));
    arrive_in_parts(&mut net.engines[0], 1, (head.kind, head.bytes()), &bytes[400..]).unwrap();
    assert!(!net.engines[0].peers[1].is_refused);
}

/// The number of the one push that is on its way.
fn only_landing(engine: &Engine) -> u64 {
    let all: Vec<u64> = engine.landings.keys().map(|(_, push)| push).collect();
    let [push] = all[..] else { panic!("{all:?}") };
    push
}

#[test]
fn what_one_says_that_was_given_up_is_not_waited_for() {
    for (large, reads) in [(Large::Auto, true), (Large::Push, false), (Large::Rendezvous, false)] {
        let mut net = Network::new(2, Options { large, ..OPTIONS }, reads);
        let (short, middling, long) = (message(1, 0, 30), message(1, 1, 300), message(1, 2, 2000));
        for bytes in [&short, &middling, &long] {
            net.send(1, 0, 0, bytes);
        }
        net.engines[0].down(1);
        net.settle();
        let receive = net.receive(0, Some(1), None, own()).unwrap();
        assert_eq!(net.outcome(0, Some(receive)).unwrap().unwrap().bytes, short);
        assert!(matches!(net.receive(0, Some(1), None, own()), Err(Error::Down { rank: 1, .. })));
        assert!(net.engines[0].landings.is_empty() && net.engines[0].unexpected.len() == 0);
    }
}

/// Begins to give each of three ranks a part of the bytes.
///
/// # Safety
/// Bytes and room stay to the end of the operation.
unsafe fn exchange(net: &mut Network, at: usize, bytes: &[u8], room: &mut [u8]) -> RequestNumber {
    let lens = vec![bytes.len() / 3; 3];
    // SAFETY: the caller's promise.
    let input = unsafe { Source::new(bytes.as_ptr(), bytes.len()) };
    // SAFETY: as above.
    let output = unsafe { ReceiveBuffer::new(room.as_mut_ptr(), room.len()) };
    let number =
        net.engines[at].start(&Collective::AllToAll { to: lens.clone(), from: lens }, input, output).unwrap();
    net.carry_out(at);
    number
}

#[test]
fn of_a_collective_operation_that_has_failed_no_message_is_kept() {
    for part in [30, 300, 2000] {
        for is_early in [false, true] {
            let mut net = Network::new(3, Options { large: Large::Push, ..OPTIONS }, false);
            let (bytes, mut rooms) = (vec![7; 3 * part], [vec![0; 3 * part], vec![0; 3 * part]]);
            // SAFETY: they live to the end of the test.
            let theirs = unsafe { exchange(&mut net, 1, &bytes, &mut rooms[1]) };
            if is_early {
                while net.deliver(1, 0) | net.piece(1, 0) {}
            }
            // Rank 2 dies before it has begun. Rank 0 knows that when it begins, and has the message of rank
            // 1 or not.
            net.kill(2, &[0; 3]);
            while net.deliver(2, 0) {}
            // SAFETY: as above.
            let mine = unsafe { exchange(&mut net, 0, &bytes, &mut rooms[0]) };
            net.settle();
            for (at, number) in [(0, mine), (1, theirs)] {
                assert!(matches!(net.outcome(at, Some(number)), Some(Err(Error::Down { rank: 2, .. }))));
                assert_eq!(net.engines[at].unexpected.len(), 0, "{part} {is_early}");
                assert!(net.engines[at].landings.is_empty());
                assert!(net.engines[at].requests.iter_mut().next().is_none());
            }
        }
    }
}

#[test]
fn a_collective_operation_fails_that_another_rank_never_begins_because_one_before_it_has_failed_there() {
    let mut net = Network::new(3, OPTIONS, false);
    let (bytes, mut rooms) = (vec![7; 9], [vec![0; 9], vec![0; 9]]);
    // SAFETY: they live to the end of the test.
    let earlier = unsafe { exchange(&mut net, 0, &bytes, &mut rooms[0]) };
    // SAFETY: as above.
    let failed = unsafe { exchange(&mut net, 0, &bytes, &mut rooms[1]) };
    let abort = MessageHead::Abort { operation: 1, culprit: 2 }.encode();
    net.letters[1][0].push_back((abort.kind, abort.bytes().to_vec()));
    net.settle();
    assert!(net.outcome(0, Some(earlier)).is_none(), "there rank 1 may still do its part");
    assert!(matches!(net.outcome(0, Some(failed)), Some(Err(Error::Down { rank: 2, .. }))));
    // SAFETY: as above.
    let later = unsafe { exchange(&mut net, 0, &bytes, &mut rooms[1]) };
    net.settle();
    assert!(matches!(net.outcome(0, Some(later)), Some(Err(Error::Down { rank: 2, .. }))));
}

#[test]
fn who_leaves_when_it_has_done_its_part_fails_no_collective_operation_of_the_others() {
    let mut net = Network::new(3, OPTIONS, false);
    let (bytes, mut rooms) = (vec![7; 9], [(); 3].map(|()| vec![0; 9]));
    // SAFETY: they live to the end of the test.
    let numbers = [2, 0, 1].map(|at| unsafe { exchange(&mut net, at, &bytes, &mut rooms[at]) });
    while net.deliver(0, 2) | net.deliver(1, 2) {}
    assert!(net.outcome(2, Some(numbers[0])).is_some_and(|outcome| outcome.is_ok()));
    net.kill(2, &[9; 3]);
    // Rank 0 learns of that before it hears from rank 1.
    while net.deliver(2, 0) {}
    net.settle();
    for (at, number) in [(0, numbers[1]), (1, numbers[2])] {
        assert!(net.outcome(at, Some(number)).is_some_and(|outcome| outcome.is_ok()));
    }
}
