//! Active messages and their bounds.

use super::*;

#[test]
fn active_messages_past_the_window_are_held_and_what_nobody_receives_does_not_hold_them() {
    let mut net = Network::new(2, OPTIONS, false);
    let flood = message(0, 0, 60);
    let mut called = 0;
    for _ in 0..50 {
        net.send(0, 1, 0, &flood);
        called += usize::from(net.call(0, 1, KEEP, &flood).unwrap());
    }
    assert_eq!(called, OPTIONS.window / (60 + COST) + OPTIONS.held / (60 + COST));
    net.engines[0].has_put(1);
    let mark = net.engines[0].mark(1).unwrap();
    net.carry_out(0);
    while net.deliver(0, 1) {}
    let kept = net.engines[1].peers[0].calls.debt;
    assert!(kept > 0 && kept <= OPTIONS.window, "{kept}");
    assert!(net.engines[0].is_holding(1));
    assert!(net.outcome(0, Some(mark)).is_none());
    net.settle();
    assert_eq!(net.handled[1].len(), called);
    assert!(net.outcome(0, Some(mark)).is_some_and(|outcome| outcome.is_ok()), "behind all of them");
}

#[test]
fn what_handlers_send_past_the_bound_is_refused_and_all_else_arrives() {
    let mut net = Network::new(2, OPTIONS, false);
    let flood = message(0, 0, 60);
    // Both ask for answers, and neither takes any in: credits come back for questions only.
    let most_held = OPTIONS.held / (60 + COST);
    for _ in 0..100 {
        for (from, to) in [(0, 1), (1, 0)] {
            net.call(from, to, ECHO, &flood).unwrap();
        }
        for at in [0, 1] {
            while net.deliver(1 - at, at) {}
        }
        for at in [0, 1] {
            net.run(at);
            let held = net.engines[at].peers[1 - at].held.bytes();
            assert!(held <= most_held * (60 + COST), "{held}");
        }
    }
    net.settle();
    let [asked, answered, refused] = [ECHO, KEEP, 2].map(|handler| match handler {
        2 => net.refused.iter().map(Vec::len).sum(),
        _ => net.handled.iter().flatten().filter(|call| call.handler == handler).count(),
    });
    assert!(asked > 0 && asked == answered + refused, "{asked} {answered} {refused}");
    assert!(net.engines.iter().all(|engine| engine.peers.iter().all(|peer| peer.held.is_empty())));
    assert!(net.call(0, 1, ECHO, &flood).unwrap(), "there is room again");
}

#[test]
fn a_handler_whose_answers_nobody_takes_is_refused_at_the_bound() {
    let mut net = Network::new(2, OPTIONS, false);
    let question = message(0, 0, 60);
    let kept = OPTIONS.window / (60 + COST) + OPTIONS.held / (60 + COST);
    for number in 0..2 * kept {
        assert!(net.call(0, 1, ECHO, &question).unwrap());
        // Credits for questions come back; for answers they do not, as rank 0 runs no handler.
        while net.deliver(0, 1) {}
        assert!(net.run(1));
        while net.deliver(1, 0) {}
        assert_eq!(net.refused[1].len(), (number + 1).saturating_sub(kept));
    }
    net.settle();
    assert_eq!((net.handled[0].len(), net.refused[1].len()), (kept, kept));
}

#[test]
fn an_active_message_for_an_unknown_handler_or_past_the_window_breaks_the_protocol() {
    let mut net = Network::new(2, OPTIONS, false);
    let mut says = |handler: u16, len: usize| {
        let head = MessageHead::Active { handler }.encode();
        net.engines[0].arrived(1, head.kind, &[head.bytes(), &vec![0; len]].concat())
    };
    assert!(matches!(says(2, 8), Err(Error::Protocol { rank: 1, .. })));
    assert!(says(KEEP, OPTIONS.window / 2).is_ok());
    assert!(matches!(says(KEEP, OPTIONS.window / 2), Err(Error::Protocol { rank: 1, .. })));
}
