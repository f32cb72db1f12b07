//! What ranks tell each other before they connect, and what becomes of those who do not belong.

use super::super::congestion::Congestion;
use super::super::handshake::{CHALLENGE, ConnectionClass, Connector, HELLO, OPENING, opening, refused_by};
use super::*;
use crate::Secret;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

fn job(size: u32) -> Job {
    Job {
        size,
        abi: 5,
        secret: Secret::from_bytes([3; 32]),
        encrypted: false,
        congestion: Congestion::System,
        comes_back: false,
    }
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn card_of(address: &str) -> Vec<u8> {
    [&VERSION.to_le_bytes()[..], &5u32.to_le_bytes(), &[0], address.as_bytes()].concat()
}

fn refusal(cards: &[&[u8]]) -> String {
    let cards: Vec<_> = cards.iter().map(|card| (card.to_vec(), vec![])).collect();
    read_cards(&job(2), &cards).unwrap_err().to_string()
}

#[test]
fn an_address_that_cannot_be_read_is_shown_with_its_rank() {
    let good = card_of("127.0.0.1:4000");
    for bad in [
        "no such host",
        "127.0.0.1",
        "127.0.0.1:0",
        "0.0.0.0:4000",
        "[::]:1",
        "224.0.0.1:5",
        "127.0.0.1:70000",
        "",
    ] {
        let error = refusal(&[&good, &card_of(bad)]);
        assert!(error.contains("rank 1") && error.contains(&format!("{bad:?}")), "{error}");
    }
    let rubbish = [&good[..7], &[0xff; 300]].concat();
    assert!(refusal(&[&good, &rubbish]).len() < 1_000);
}

#[test]
fn a_card_of_another_version_or_provider_is_refused_with_its_rank() {
    let good = card_of("127.0.0.1:4000");
    let mut newer = good.clone();
    newer[0] = 8;
    assert!(refusal(&[&newer, &good]).contains("rank 0 broke the protocol: it speaks version 8"));
    for (cut, why) in
        [(0, "provider tcp"), (1, "provider tcp"), (2, "shortened"), (5, "shortened"), (6, "shortened")]
    {
        let error = refusal(&[&good, &good[..cut]]);
        assert!(error.contains("rank 1") && error.contains(why), "{error}");
    }
    assert!(refusal(&[&good]).contains("1 of 2 ranks"));
}

#[test]
fn cards_survive_the_exchange() {
    for address in ["127.0.0.1:4000", "[::1]:80"] {
        let address = address.parse().unwrap();
        assert_eq!(read_card(&job(2), &card(&job(2), address)), Ok(address));
    }
}

#[test]
fn a_rank_that_encrypts_and_one_that_does_not_say_so_to_each_other() {
    let (address, open, secret) =
        ("127.0.0.1:4000".parse().unwrap(), job(2), Job { encrypted: true, ..job(2) });
    assert_eq!(read_card(&secret, &card(&secret, address)), Ok(address));
    for (ours, theirs, expected) in [(&open, &secret, "it encrypts"), (&secret, &open, "it does not encrypt")]
    {
        let error = read_card(ours, &card(theirs, address)).unwrap_err();
        assert!(error.starts_with(expected) && error.contains("--encrypt"), "{error}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_card_or_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..100), is_ours: bool) {
        if let (true, Some(start)) = (is_ours, bytes.first_chunk_mut::<7>()) {
            start.copy_from_slice(&card_of(""));
        }
        if let Ok(address) = read_card(&job(2), &bytes) {
            prop_assert!(address.port() != 0);
        }
    }
}

/// Rank 0 of 2 receives whoever comes to the address that `visit` is given, until `visit` is over and rank 1
/// is there.
fn receive(visit: impl FnOnce(SocketAddr) + Send + 'static) -> Result<Vec<Option<Links>>> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let visitors = std::thread::spawn(move || {
        visit(address);
        connect_all(&job(2), 1, &[(0, address)], deadline(), &AtomicBool::new(false)).map_err(Option::unwrap)
    });
    let met = meet(&job(2), 0, &[None, Some(address)], listener, deadline());
    visitors.join().unwrap()?;
    met
}

/// Says these bytes to whoever listens there.
fn call(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

/// What the other side says until it hangs up.
fn last_words(mut stream: TcpStream) -> Vec<u8> {
    let mut words = Vec::new();
    // A reset is as good as an end.
    let _ = stream.read_to_end(&mut words);
    words
}

fn hello_of(job: &Job) -> [u8; HELLO] {
    Connector::new(job, ConnectionClass::Stream, 1, 0).unwrap().hello
}

#[test]
fn strangers_do_not_keep_a_rank_from_joining() {
    let links = receive(|address| {
        let hello = hello_of(&Job { secret: Secret::from_bytes([4; 32]), ..job(2) });
        // Those who hang up at once, who say nothing, too little, rubbish, or far too much.
        drop(call(address, &[]));
        drop(call(address, &hello[..10]));
        let silent = [call(address, &[]), call(address, &hello[..HELLO - 1])];
        assert_eq!(last_words(call(address, &[0x55])), []);
        let mut flood = call(address, &hello);
        while flood.write_all(&[0; 10_000]).is_ok() {}
        // One who knows all but the secret: it may be a rank of another job, and hears no more than that it
        // is.
        assert!(refused_by(&last_words(call(address, &hello))).is_some());
        let mut informed = hello_of(&job(2));
        informed[HELLO - 1] ^= 1;
        assert_eq!(last_words(call(address, &informed)), [], "it was answered");
        drop(silent);
    });
    let links = links.unwrap();
    assert!(links[0].is_none() && links[1].is_some());
}

#[test]
fn who_has_recorded_a_handshake_is_not_let_in() {
    receive(|address| {
        let (job, mut record) = (job(2), Vec::new());
        // The words of a rank whose connection broke when it had said them all: its place is still free.
        let connector = Connector::new(&job, ConnectionClass::AcceptorAsks, 1, 0).unwrap();
        for attempt in 0..3 {
            let mut stream = call(address, &connector.hello);
            let mut challenge = [0; OPENING + CHALLENGE];
            stream.read_exact(&mut challenge).unwrap();
            if attempt == 0 {
                record = connector.answer(challenge.last_chunk().unwrap()).unwrap().to_vec();
                continue;
            }
            stream.write_all(&record).unwrap();
            assert_eq!(last_words(stream), [], "it was welcomed");
        }
        // The acceptor's own tag, sent back to it.
        let mut stream = call(address, &connector.hello);
        let mut challenge = [0; OPENING + CHALLENGE];
        stream.read_exact(&mut challenge).unwrap();
        stream.write_all(challenge.last_chunk::<32>().unwrap()).unwrap();
        assert_eq!(last_words(stream), [], "it was welcomed");
    })
    .unwrap();
}

#[test]
fn a_thousand_who_say_nothing_do_not_keep_a_rank_from_joining() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most.min(4096), most).unwrap();
    let (held, holds) = mpsc::channel();
    receive(move |address| {
        let crowd: Vec<_> = (0..1_000).map(|_| call(address, &[])).collect();
        held.send(crowd).unwrap();
    })
    .unwrap();
    assert_eq!(holds.recv().unwrap().len(), 1_000, "they were there all the time");
}

#[test]
fn a_rank_that_is_turned_away_calls_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let called = std::thread::spawn(move || {
        for attempt in 0..3 {
            let (mut stream, _) = listener.accept().unwrap();
            if attempt > 0 {
                stream.read_exact(&mut [0; HELLO]).unwrap();
            }
        }
        meet(&job(2), 0, &[None, Some(address)], listener, deadline()).map(drop)
    });
    connect_all(&job(2), 1, &[(0, address)], deadline(), &AtomicBool::new(false))
        .map_err(Option::unwrap)
        .unwrap();
    called.join().unwrap().unwrap();
}

#[test]
fn a_crowd_that_never_ends_does_not_keep_a_rank_from_joining() {
    receive(|address| {
        for _ in 0..3 {
            // Until the listener is closed.
            std::thread::spawn(move || {
                let mut crowd = VecDeque::new();
                while let Ok(stream) = TcpStream::connect(address) {
                    crowd.push_back(stream);
                    crowd.truncate(100);
                }
            });
        }
    })
    .unwrap();
}

#[test]
fn one_of_another_version_hears_which_this_is() {
    receive(|address| {
        let mut hello = hello_of(&job(2));
        hello[8] = 77;
        // It may have a shorter hello.
        for said in [HELLO, 60, OPENING] {
            assert_eq!(last_words(call(address, &hello[..said])), opening());
        }
    })
    .unwrap();
}

#[test]
fn the_listener_is_closed_once_all_are_there() {
    let (told, address) = mpsc::channel();
    receive(move |address| told.send(address).unwrap()).unwrap();
    let late = TcpStream::connect(address.recv().unwrap());
    assert_eq!(late.unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn ranks_that_do_not_come_are_named() {
    let job = job(3);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let error = meet(&job, 0, &[None, Some(address), Some(address)], listener, Instant::now())
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("rank 1") && error.contains("1 others"), "{error}");
    let error = connect_all(&job, 1, &[(0, address)], deadline(), &AtomicBool::new(false));
    let error = error.err().flatten().unwrap().to_string();
    assert!(error.contains("rank 0") && error.contains(&address.to_string()), "{error}");
}

#[test]
fn a_bad_address_to_listen_on_is_refused_with_what_to_do() {
    let listen_on = |bind: &str, port| {
        let bind = bind.to_string();
        listen(&TcpOptions { bind, port, ..TcpOptions::default() }).map(drop).unwrap_err().to_string()
    };
    for bind in ["", "no such host!", "300.1.2.3", "0.0.0.0", "::", "192.0.2.1"] {
        let error = listen_on(bind, 0);
        assert!(
            error.contains(&format!("`{bind}`")) && error.contains("give an address of this host"),
            "{error}"
        );
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = listen_on("127.0.0.1", port);
    assert!(error.contains(&format!("port {port} of 127.0.0.1 is in use: choose another")), "{error}");
}
