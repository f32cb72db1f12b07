//! What ranks tell each other before they connect, and what becomes of those who do not belong.

use super::super::handshake::HELLO;
use super::*;
use std::sync::mpsc;

const SECRET: [u8; 32] = [3; 32];

fn card(address: &str) -> Vec<u8> {
    Card { secret: vec![], given: true, address: address.into() }.encode()
}

fn options(secret: Option<&[u8]>) -> TcpOptions {
    TcpOptions { secret: secret.map(<[u8]>::to_vec), ..TcpOptions::default() }
}

fn refusal(cards: &[&[u8]], secret: Option<&[u8]>) -> String {
    read_cards(cards, 2, &options(secret)).unwrap_err().to_string()
}

#[test]
fn an_address_that_cannot_be_read_is_shown_with_its_rank() {
    let good = card("127.0.0.1:4000");
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
        let error = refusal(&[&good, &card(bad)], Some(&SECRET));
        assert!(error.contains("rank 1") && error.contains(&format!("{bad:?}")), "{error}");
    }
    let rubbish = [&[1, 0, 1, 0][..], &[0xff; 300]].concat();
    assert!(refusal(&[&good, &rubbish], Some(&SECRET)).len() < 1_000);
}

#[test]
fn a_card_of_another_version_or_provider_is_refused_with_its_rank() {
    let good = card("127.0.0.1:4000");
    let mut newer = good.clone();
    newer[0] = 7;
    assert!(
        refusal(&[&newer, &good], Some(&SECRET)).contains("rank 0 broke the protocol: it gave version 7")
    );
    for cut in 0..4 {
        let error = refusal(&[&good, &good[..cut]], Some(&SECRET));
        assert!(error.contains("rank 1") && error.contains("provider tcp"), "{error}");
    }
    assert!(refusal(&[&good, &[1, 0, 1, 200, 5]], Some(&SECRET)).contains("rank 1"));
    assert!(refusal(&[&good], Some(&SECRET)).contains("1 of 2 ranks"));
}

#[test]
fn a_secret_is_given_to_all_ranks_or_to_none() {
    let with = card("127.0.0.1:4000");
    let without = Card { secret: vec![], given: false, address: "127.0.0.1:4001".into() }.encode();
    assert!(refusal(&[&with, &without], Some(&SECRET)).contains("give it to all ranks or to none"));
    assert!(refusal(&[&with, &without], None).contains("give it to all ranks or to none"));
    assert!(refusal(&[&without, &without], None).contains("rank 0"), "rank 0 made none");
    let made = Card { secret: SECRET.to_vec(), given: false, address: "127.0.0.1:4000".into() }.encode();
    let (addresses, secret) = read_cards(&[&made, &without], 2, &options(None)).unwrap();
    assert_eq!((addresses[1].port(), secret), (4001, SECRET.to_vec()));
}

#[test]
fn cards_survive_the_exchange() {
    for secret in [vec![], SECRET.to_vec()] {
        let card = Card { secret, given: false, address: "[::1]:80".into() };
        assert_eq!(Card::decode(&card.encode()), Ok(card));
    }
}

/// Rank 0 of 2 receives whoever comes to the address that `visit` is given, until `visit` is over and rank 1
/// is there.
fn receive(visit: impl FnOnce(SocketAddr) + Send + 'static) -> Result<Vec<Option<Links>>> {
    let job = Job { size: 2, secret: SECRET.to_vec() };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let there = job.clone();
    let visitors = std::thread::spawn(move || {
        visit(address);
        connect_all(&there, 1, &[address], deadline, &AtomicBool::new(false)).map_err(Option::unwrap)
    });
    let met = meet(&job, 0, &[address, address], listener, deadline);
    visitors.join().unwrap()?;
    met
}

#[test]
fn strangers_do_not_keep_a_rank_from_joining() {
    let links = receive(|address| {
        let call = |bytes: &[u8]| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        };
        let job = Job { size: 2, secret: vec![4; 32] };
        let hello = Connector::new(&job, Class::Stream, 1, 0).unwrap().hello;
        // Those who hang up at once, who say nothing, too little, rubbish, or far too much.
        drop(call(&[]));
        drop(call(&hello[..10]));
        let silent = [call(&[]), call(&hello[..HELLO - 1]), call(&[0x55; HELLO])];
        let mut flood = call(&hello);
        while flood.write_all(&[0; 10_000]).is_ok() {}
        // One who knows all but the secret.
        let mut imposter = call(&hello);
        let mut answer = [0; CHALLENGE];
        imposter.read_exact(&mut answer).unwrap();
        imposter.write_all(&answer[..ANSWER]).unwrap();
        assert_eq!(imposter.read(&mut [0]).unwrap_or(0), 0, "it was let in");
        drop(silent);
        // More of them than are heard at once: the oldest have to make room.
        let crowd: Vec<_> = (0..80).map(|_| call(&[])).collect();
        drop(crowd);
    });
    let links = links.unwrap();
    assert!(links[0].is_none() && links[1].is_some());
}

#[test]
fn the_listener_is_closed_once_all_are_there() {
    let (told, address) = mpsc::channel();
    receive(move |address| told.send(address).unwrap()).unwrap();
    let late = TcpStream::connect(address.recv().unwrap());
    assert_eq!(late.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_rank_does_not_connect_to_an_imposter() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let imposter = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.read_exact(&mut [0; HELLO]).unwrap();
        stream.write_all(&[9; CHALLENGE]).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "it was answered");
    });
    let job = Job { size: 2, secret: SECRET.to_vec() };
    let deadline = Instant::now() + Duration::from_secs(60);
    let error = connect(&job, 1, 0, Class::Stream, address, deadline).unwrap_err();
    assert!(error.contains("does not know this job's secret"), "{error}");
    imposter.join().unwrap();
}

#[test]
fn ranks_that_do_not_come_are_named() {
    let job = Job { size: 3, secret: SECRET.to_vec() };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let error = meet(&job, 0, &[address; 3], listener, Instant::now()).err().unwrap().to_string();
    assert!(error.contains("rank 1") && error.contains("1 others"), "{error}");
    let error =
        connect_all(&job, 1, &[address], Instant::now() + Duration::from_secs(60), &AtomicBool::new(false));
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
