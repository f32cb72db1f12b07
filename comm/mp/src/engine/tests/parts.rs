//! Eager messages whose bytes come in parts: from where they arrive to where they belong.

use super::*;
use crate::Status;

const FROM: u32 = 0;
const STATUS: Status = Status { source: FROM, tag: 3, len: 60 };

/// An eager message that has left rank 0, and its receiver, with what is posted there.
struct Scene {
    net: Network,
    bytes: Vec<u8>,
    kind: u16,
    head: Vec<u8>,
}

impl Scene {
    fn new() -> Self {
        let (mut net, bytes) = (Network::new(2, OPTIONS, false), message(0, 1, STATUS.len));
        assert!(net.send(0, 1, STATUS.tag, &bytes).is_none(), "it is over at once");
        let (kind, mut head) = net.letters[0][1].pop_front().unwrap();
        head.truncate(head.len() - bytes.len());
        Self { net, bytes, kind, head }
    }

    fn engine(&mut self) -> &mut Engine {
        &mut self.net.engines[1]
    }

    fn receive(&mut self, into: Destination) -> RequestNumber {
        self.net.receive(1, Some(FROM), Some(STATUS.tag), into).unwrap()
    }

    /// Where the bytes from `at` on go.
    fn room(&mut self, at: usize) -> Result<Option<ReceiveBuffer>> {
        let (kind, head, left) = (self.kind, self.head.clone(), STATUS.len - at);
        self.engine().room(FROM, kind, &head, (at, left))
    }

    /// The bytes from `at` to `end` come.
    fn come(&mut self, at: usize, end: usize) -> Option<ReceiveBuffer> {
        let room = self.room(at).unwrap();
        if let Some(room) = room {
            room.store(0, &self.bytes[at..end]);
        }
        let (kind, head) = (self.kind, self.head.clone());
        // SAFETY: just now.
        unsafe { self.engine().was_stored(FROM, kind, &head, end - at) };
        room
    }

    fn outcome(&mut self, number: RequestNumber) -> Option<Outcome> {
        self.net.outcome(1, Some(number))
    }

    /// Nothing is kept, and what was lent is owed.
    fn check_rest(&mut self) {
        assert!(self.engine().landings.is_empty() && self.engine().unexpected.len() == 0);
        assert_eq!(self.engine().peers[0].messages.debt, STATUS.len + COST);
    }
}

fn place(room: &mut [u8]) -> Destination {
    // SAFETY: tests keep the room to their end.
    Destination::Room(unsafe { ReceiveBuffer::new(room.as_mut_ptr(), room.len()) })
}

#[test]
fn the_bytes_of_a_message_that_is_expected_go_where_its_receive_wants_them() {
    let (mut scene, mut room) = (Scene::new(), [0; 100]);
    let receive = scene.receive(place(&mut room));
    assert_eq!(scene.room(0).unwrap(), scene.room(0).unwrap(), "nothing has come, and it is asked again");
    let first = scene.come(0, 20).unwrap();
    assert_eq!((first.start().cast_const(), first.len()), (room.as_ptr(), STATUS.len));
    assert!(scene.outcome(receive).is_none(), "there is more to come");
    scene.come(20, STATUS.len);
    assert_eq!(scene.outcome(receive).unwrap().unwrap().status, STATUS);
    assert_eq!(room[..STATUS.len], scene.bytes);
    scene.check_rest();
}

#[test]
fn the_bytes_of_one_that_is_not_expected_go_into_what_is_kept_of_it() {
    // The receive is posted when so much is here.
    for here in [20, STATUS.len] {
        let mut scene = Scene::new();
        scene.come(0, here);
        assert_eq!(scene.engine().probe(Pattern { context: 0, source: None, tag: None }), Some(STATUS));
        let receive = scene.receive(own());
        if here < STATUS.len {
            scene.come(here, STATUS.len);
        }
        let ended = scene.outcome(receive).unwrap().unwrap();
        assert_eq!((ended.status, &ended.bytes), (STATUS, &scene.bytes));
        scene.check_rest();
    }
}

#[test]
fn one_that_is_too_long_for_its_receive_fails_it_and_goes_nowhere() {
    let (mut scene, mut room) = (Scene::new(), [0; STATUS.len - 1]);
    let receive = scene.receive(place(&mut room));
    assert_eq!(scene.come(0, 20), None);
    assert_eq!(scene.come(20, STATUS.len), None);
    assert!(matches!(scene.outcome(receive), Some(Err(Error::TooLong { len: 60, room: 59 }))));
    assert_eq!(room, [0; STATUS.len - 1]);
    scene.check_rest();
}

#[test]
fn one_whose_sender_goes_in_the_middle_of_it_fails_its_receive_or_is_forgotten() {
    for is_expected in [true, false] {
        let mut scene = Scene::new();
        let receive = is_expected.then(|| scene.receive(own()));
        scene.come(0, 20);
        scene.engine().down(FROM);
        scene.check_rest();
        if let Some(receive) = receive {
            assert!(matches!(scene.outcome(receive), Some(Err(Error::Down { rank: FROM, .. }))));
        }
        assert_eq!(scene.come(20, STATUS.len), None, "the rest of it is passed over");
        scene.check_rest();
    }
}

#[test]
fn one_whose_sender_was_given_up_before_can_still_be_received() {
    let mut scene = Scene::new();
    scene.engine().down(FROM);
    scene.come(0, 20);
    scene.come(20, STATUS.len);
    let receive = scene.receive(own());
    assert_eq!(scene.outcome(receive).unwrap().unwrap().bytes, scene.bytes);
}

#[test]
fn parts_that_do_not_follow_one_another_are_refused() {
    let mut scene = Scene::new();
    assert!(scene.room(1).is_err(), "it has not begun");
    scene.come(0, 20);
    assert!(scene.room(19).is_err(), "more than there was");
    let push = MessageHead::Push { context: 0, tag: 0, len: 10, push: 0 }.encode();
    assert!(scene.engine().arrived(FROM, push.kind, push.bytes()).is_err(), "a push has a number");
}

/// What a rank says that pushes messages of these lengths under these numbers.
fn pushed(pushes: &[(u64, u64)]) -> Result<()> {
    let mut net = Network::new(2, OPTIONS, false);
    pushes.iter().try_for_each(|&(len, push)| {
        let head = MessageHead::Push { context: 0, tag: 0, len, push }.encode();
        net.engines[0].arrived(1, head.kind, head.bytes())
    })
}

#[test]
fn pushes_of_no_bytes_and_two_under_one_number_are_refused() {
    assert!(pushed(&[(100, 7), (100, 8)]).is_ok());
    for wrong in [&[(0, 7)][..], &[(100, 7), (100, 7)]] {
        assert!(matches!(pushed(wrong), Err(Error::Protocol { rank: 1, .. })), "{wrong:?}");
    }
}
