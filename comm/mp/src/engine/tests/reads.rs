//! Long messages, which are left to who has the time to read them.

use super::super::LONG;
use super::*;

/// Two pieces and a half.
const LEN: usize = 5 * READ_PIECE / 2;

/// A receive at rank 1, and a long message of rank 0 that was offered for it: both their numbers, and the
/// message.
fn offered(net: &mut Network) -> (RequestNumber, RequestNumber, Vec<u8>) {
    let bytes = message(0, 1, LEN);
    let receive = net.receive(1, Some(0), None, own()).unwrap();
    let send = net.send(0, 1, 0, &bytes).unwrap();
    assert!(net.deliver(0, 1));
    (receive, send, bytes)
}

/// What rank 1 has said to rank 0 and is on its way.
fn answers(net: &Network) -> Vec<MessageHead> {
    net.letters[1][0].iter().map(|(kind, letter)| MessageHead::decode(*kind, letter).unwrap().0).collect()
}

#[test]
fn a_long_message_is_read_piece_by_piece_and_its_sender_hears_of_the_last() {
    let mut net = Network::new(2, OPTIONS, true);
    let (receive, send, bytes) = offered(&mut net);
    for left in [2, 1, 0] {
        assert!(net.outcome(1, Some(receive)).is_none() && answers(&net).is_empty(), "{left} pieces left");
        assert!(net.read_aside(1));
    }
    assert!(!net.read_aside(1) && !net.engines[1].has_reads());
    assert!(net.outcome(1, Some(receive)).unwrap().unwrap().bytes == bytes);
    assert_eq!(answers(&net), [MessageHead::Done { send: send.0 }]);
    net.settle();
    assert!(net.outcome(0, Some(send)).unwrap().is_ok());
}

#[test]
fn a_thread_that_waits_says_so_and_reads_it_all() {
    let mut net = Network::new(2, OPTIONS, true);
    let (receive, send, bytes) = offered(&mut net);
    assert_eq!(net.engines[0].unheard(send), Some(1));
    assert_eq!(net.engines[1].next_read(), Some(receive));
    net.engines[1].is_read_at_once(receive);
    net.carry_out(1);
    assert_eq!(answers(&net), [MessageHead::Reading { send: send.0 }]);
    assert!(net.deliver(1, 0));
    assert_eq!(net.engines[0].unheard(send), None);
    net.read(1, receive);
    net.carry_out(1);
    assert_eq!(answers(&net), [MessageHead::Done { send: send.0 }]);
    assert!(net.outcome(1, Some(receive)).unwrap().unwrap().bytes == bytes);
}

#[test]
fn what_a_thread_waits_to_have_sent_is_brought_to_one_that_waits_through_shared_memory() {
    // Whether they share memory, and a thread waits at the sender, who is awake; and some of the message has
    // been read already.
    for (is_near, waits, is_awake, is_half_read) in [
        (true, true, true, false),
        (false, true, true, false),
        (true, false, true, false),
        (true, true, false, false),
        (true, true, true, true),
    ] {
        let mut net = Network::on(&[0, u32::from(!is_near)], false, OPTIONS, true);
        let bytes = message(0, 1, LEN);
        let receive = net.receive(1, Some(0), None, own()).unwrap();
        // SAFETY: the bytes are kept to the end of the round.
        let source = unsafe { Source::new(bytes.as_ptr(), bytes.len()) };
        let send = net.engines[0].send(1, 0, 1, source, waits).unwrap().unwrap();
        net.carry_out(0);
        assert!(net.deliver(0, 1));
        assert!(!is_half_read || net.read_aside(1));
        let is_brought = net.engines[1].is_brought(receive, |sender| sender == 0 && is_awake);
        assert_eq!(is_brought, is_near && waits && is_awake && !is_half_read);
        net.carry_out(1);
        if is_brought {
            assert_eq!(answers(&net), [MessageHead::Accept { send: send.0, receive: receive.0 }]);
            assert!(!net.engines[1].has_reads());
            net.settle();
        } else {
            net.read(1, receive);
        }
        assert!(net.outcome(1, Some(receive)).unwrap().unwrap().bytes == bytes);
        assert!(net.engines[1].peers[0].readable.all, "it could have been read");
    }
}

#[test]
fn who_comes_to_wait_reads_the_rest_and_wakes_nobody_for_that() {
    let mut net = Network::new(2, OPTIONS, true);
    let (receive, send, bytes) = offered(&mut net);
    assert!(net.read_aside(1));
    net.engines[1].is_read_at_once(receive);
    net.carry_out(1);
    assert!(answers(&net).is_empty(), "the sender sleeps, and its core may be the helper's");
    net.read(1, receive);
    net.carry_out(1);
    assert_eq!(answers(&net), [MessageHead::Done { send: send.0 }]);
    assert!(net.outcome(1, Some(receive)).unwrap().unwrap().bytes == bytes);
}

#[test]
fn of_a_long_message_that_was_asked_for_something_should_come() {
    for (len, expected) in [(LONG, Some(0)), (LONG - 1, None)] {
        let mut net = Network::new(2, OPTIONS, false);
        let bytes = message(0, 1, len);
        let receive = net.receive(1, Some(0), None, own()).unwrap();
        let send = net.send(0, 1, 0, &bytes).unwrap();
        assert!(net.deliver(0, 1));
        assert_eq!(net.engines[1].unheard(receive), expected, "{len} bytes");
        net.settle();
        assert_eq!(net.engines[1].unheard(receive), None);
        assert!(net.outcome(0, Some(send)).unwrap().is_ok());
        assert!(net.outcome(1, Some(receive)).unwrap().unwrap().bytes == bytes);
    }
}

#[test]
fn only_of_long_messages_something_should_be_heard() {
    for (len, reads, expected) in [(LONG, true, Some(1)), (LONG - 1, true, None), (LONG, false, Some(1))] {
        let mut net = Network::new(2, OPTIONS, reads);
        let bytes = message(0, 1, len);
        let send = net.send(0, 1, 0, &bytes).unwrap();
        assert_eq!(net.engines[0].unheard(send), expected, "{len} bytes, {reads}");
    }
}

#[test]
fn a_receive_is_not_over_while_somebody_writes_there() {
    let mut net = Network::new(2, OPTIONS, true);
    let (receive, _, _bytes) = offered(&mut net);
    let (claimed, reading) = net.engines[1].claim(READ_PIECE).unwrap();
    assert_eq!((claimed, reading.place.len()), (receive, READ_PIECE));
    // No one else writes there meanwhile.
    assert!(net.engines[1].claim(READ_PIECE).is_none() && net.engines[1].next_read().is_none());
    net.engines[1].down(0);
    assert!(net.outcome(1, Some(receive)).is_none());
    net.read_there(1, claimed, reading);
    assert!(matches!(net.outcome(1, Some(receive)), Some(Err(Error::Down { rank: 0, .. }))));
    assert!(!net.read_aside(1) && !net.engines[1].has_reads());
}

#[test]
fn a_message_that_can_be_read_no_further_is_asked_for_from_its_beginning() {
    let mut net = Network::new(2, OPTIONS, true);
    let (receive, send, bytes) = offered(&mut net);
    assert!(net.read_aside(1));
    let (claimed, _) = net.engines[1].claim(READ_PIECE).unwrap();
    // SAFETY: it is said not to be done.
    unsafe { net.engines[1].was_read(claimed, None) };
    net.carry_out(1);
    assert_eq!(answers(&net), [MessageHead::Accept { send: send.0, receive: receive.0 }]);
    net.settle();
    assert!(net.outcome(1, Some(receive)).unwrap().unwrap().bytes == bytes);
    assert!(net.outcome(0, Some(send)).unwrap().is_ok());
}
