//! What travels between two ranks, seen and changed by a relay between them.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_comm::conformance::SharedMemory;
use scash_comm::mem_exchange::MemExchange;
use scash_comm::tcp::{TcpEndpoint, TcpOptions};
use scash_comm::{Endpoint, Error, Event, Exchange, GetRange, PutRange, Result, Secret};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

/// A test that takes longer has hung.
const LIMIT: Duration = Duration::from_secs(120);
/// What ranks say to each other, and nobody else is to read.
const WORDS: &[u8] = b"the quick brown fox jumps over the lazy dog";
const SEGMENT: usize = 1 << 16;

/// What a relay does with the bytes of a connection.
type Tamper = fn(&mut Vec<u8>);

/// Stands between two ranks.
#[derive(Default)]
struct Relay {
    /// All that went through.
    seen: Mutex<Vec<u8>>,
    /// Whether what goes through is tampered with from now on.
    awake: AtomicBool,
}

impl Relay {
    /// Where to connect instead of to `rank`. Lives as long as the process.
    fn before(self: &Arc<Self>, rank: SocketAddr, tamper: Tamper) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let relay = Arc::clone(self);
        thread::spawn(move || {
            for here in listener.incoming() {
                let (here, there) = (here.unwrap(), TcpStream::connect(rank).unwrap());
                for (from, to) in [(&here, &there), (&there, &here)] {
                    let (from, to, relay) =
                        (from.try_clone().unwrap(), to.try_clone().unwrap(), Arc::clone(&relay));
                    thread::spawn(move || relay.pass_on(from, to, tamper));
                }
            }
        });
        address
    }

    fn pass_on(&self, mut from: TcpStream, mut to: TcpStream, tamper: Tamper) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let mut bytes = buffer[..count].to_vec();
            self.seen.lock().unwrap().extend_from_slice(&bytes);
            if self.awake.load(Ordering::SeqCst) {
                tamper(&mut bytes);
            }
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    }

    fn has_seen(&self, words: &[u8]) -> bool {
        self.seen.lock().unwrap().windows(words.len()).any(|seen| seen == words)
    }
}

/// An exchange that tells all ranks to call rank 0 by way of a relay.
struct Detour {
    exchange: MemExchange,
    relay: Arc<Relay>,
    tamper: Tamper,
}

// SAFETY: the exchange's own, but for an address, of which nothing is mapped.
unsafe impl Exchange for Detour {
    fn rank(&self) -> u32 {
        self.exchange.rank()
    }

    fn size(&self) -> u32 {
        self.exchange.size()
    }

    fn secret(&self) -> &Secret {
        self.exchange.secret()
    }

    fn host(&self, rank: u32) -> u32 {
        self.exchange.host(rank)
    }

    fn all_gather(&mut self, blob: &[u8], fds: &[BorrowedFd<'_>]) -> Result<Vec<(Vec<u8>, Vec<OwnedFd>)>> {
        const HOST: &[u8] = b"127.0.0.1:";
        let mut blob = blob.to_vec();
        let address = blob.windows(HOST.len()).position(|bytes| bytes == HOST);
        if let (0, Some(at)) = (self.rank(), address) {
            let rank = String::from_utf8(blob.split_off(at)).unwrap().parse().unwrap();
            blob.extend(self.relay.before(rank, self.tamper).to_string().as_bytes());
        }
        self.exchange.all_gather(&blob, fds)
    }
}

/// One of two ranks with a relay between them. The endpoint is dropped before the memory.
struct Rank {
    endpoint: TcpEndpoint,
    segment: scash_comm::SegmentId,
    memory: SharedMemory,
    exchange: Detour,
}

impl Rank {
    fn new(mut exchange: Detour, encrypt: bool) -> Self {
        let options = TcpOptions { ranks_here: 2, encrypt, ..TcpOptions::default() };
        let endpoint = TcpEndpoint::new(&mut exchange, &options).unwrap();
        let memory = SharedMemory::new(SEGMENT).unwrap();
        // SAFETY: the memory outlives the endpoint, and gives no references.
        let segment = unsafe { endpoint.register(&mut exchange, memory.segment()) }.unwrap();
        Self { endpoint, segment, memory, exchange }
    }

    fn meet(&mut self) {
        self.exchange.all_gather(&[], &[]).unwrap();
    }

    /// Polls until something comes: a message, or nothing if the peer is gone.
    fn hear(&self) -> Option<Vec<u8>> {
        let (mut heard, mut turn) = (None, 0);
        while heard.is_none() {
            let sink = &mut |event: Event<'_>| match event {
                Event::Message { payload, .. } => heard = Some(Some(payload.to_vec())),
                Event::Part { .. } => panic!("nothing long is sent"),
                Event::Down { .. } => heard = Some(None),
            };
            self.endpoint.poll(sink).unwrap();
            self.endpoint.idle(turn, Duration::from_millis(50));
            turn += 1;
        }
        heard.unwrap()
    }

    fn say(&self, words: &[u8]) {
        self.endpoint.send(1 - self.endpoint.rank(), 0, &[words]).unwrap();
        self.endpoint.flush().unwrap();
    }

    fn get(&self, len: usize) -> Result<()> {
        let range = GetRange { offset: 0, len, dst: self.memory.at(SEGMENT / 2) };
        // SAFETY: nobody relies on these bytes meanwhile.
        unsafe { self.endpoint.get(1 - self.endpoint.rank(), self.segment, &[range]) }
    }
}

/// Plays `body` at two ranks with a relay between them that tampers as said. Returns the relay.
fn relayed(encrypt: bool, tamper: Tamper, body: impl Fn(Rank, &Relay) + Send + Sync + 'static) -> Arc<Relay> {
    let (relay, body, (done, verdicts)) = (Arc::new(Relay::default()), Arc::new(body), mpsc::channel());
    for exchange in MemExchange::ranks(2) {
        let (relay, body, done) = (Arc::clone(&relay), Arc::clone(&body), done.clone());
        thread::spawn(move || {
            let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let exchange = Detour { exchange, relay: Arc::clone(&relay), tamper };
                body(Rank::new(exchange, encrypt), &relay);
            }));
            // The receiver is gone if the other rank has failed.
            let _ = done.send(verdict);
        });
    }
    for _ in 0..2 {
        let verdict = verdicts.recv_timeout(LIMIT).expect("the ranks hang");
        verdict.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
    relay
}

/// A rank's words, said in such a way.
fn words_of(rank: u32, way: &str) -> Vec<u8> {
    [WORDS, format!(" {way} of rank {rank}").as_bytes()].concat()
}

const WAYS: [&str; 3] = ["message", "put", "get"];

/// Both ranks say their words by a message, a put and a get.
fn talk(mut rank: Rank) {
    let (me, peer) = (rank.endpoint.rank(), 1 - rank.endpoint.rank());
    rank.say(&words_of(me, "message"));
    assert_eq!(rank.hear(), Some(words_of(peer, "message")));
    let mine = words_of(me, "put");
    let range = PutRange { offset: 4096, len: mine.len(), src: mine.as_ptr() };
    // SAFETY: `mine` lives and does not change until after the flush in `fence`.
    unsafe { rank.endpoint.put(peer, rank.segment, &[range]) }.unwrap();
    rank.endpoint.fence(peer).unwrap();
    rank.memory.write(0, &words_of(me, "get"));
    rank.meet();
    assert_eq!(rank.memory.read(4096, mine.len()), words_of(peer, "put"));
    rank.get(mine.len()).unwrap();
    assert_eq!(rank.memory.read(SEGMENT / 2, mine.len()), words_of(peer, "get"));
    rank.meet();
}

#[test]
fn who_listens_reads_everything_that_is_not_encrypted_and_nothing_that_is() {
    for encrypt in [false, true] {
        let relay = relayed(encrypt, |_| (), |rank, _| talk(rank));
        for (rank, way) in (0..2).flat_map(|rank| WAYS.map(|way| (rank, way))) {
            let words = words_of(rank, way);
            assert_eq!(relay.has_seen(&words), !encrypt, "{way} of rank {rank}");
            assert_eq!(relay.has_seen(&words[..8]), !encrypt, "{way} of rank {rank}");
        }
    }
}

/// What both ranks say of each other when a relay tampers with their encrypted traffic from a certain moment
/// on. (One of them may see no more than that the other hangs up.)
fn complaints(tamper: Tamper) -> Vec<Error> {
    let complaints = Arc::new(Mutex::new(Vec::new()));
    let said = Arc::clone(&complaints);
    relayed(true, tamper, move |mut rank, relay| {
        rank.say(b"before");
        assert_eq!(rank.hear().unwrap(), b"before");
        rank.meet();
        relay.awake.store(true, Ordering::SeqCst);
        rank.meet();
        rank.say(b"tampered with");
        let heard: Vec<_> = std::iter::from_fn(|| rank.hear()).collect();
        assert!(heard.is_empty() || heard == [b"tampered with"], "{heard:?}");
        said.lock().unwrap().push(rank.get(1).unwrap_err());
        rank.meet();
    });
    std::mem::take(&mut *complaints.lock().unwrap())
}

#[test]
fn who_changes_repeats_or_leaves_out_bytes_ends_the_connection_and_the_reason_is_told() {
    let tampers: [(&str, Tamper); 3] = [
        ("a flipped bit", |bytes| *bytes.last_mut().unwrap() ^= 1),
        ("a repeated record", |bytes| bytes.extend_from_within(..)),
        ("another length", |bytes| bytes[..2].fill(0xff)),
    ];
    for (what, tamper) in tampers {
        let complaints = complaints(tamper);
        let told = complaints
            .iter()
            .any(|error| matches!(error, Error::Protocol { why, .. } if why.contains("encrypted record")));
        assert!(told, "{what}: {complaints:?}");
    }
}

#[test]
fn ranks_that_do_not_all_encrypt_do_not_form_a_job() {
    let ranks = MemExchange::ranks(2).into_iter().map(|mut exchange| {
        thread::spawn(move || {
            let options = TcpOptions { encrypt: exchange.rank() == 0, ..TcpOptions::default() };
            TcpEndpoint::new(&mut exchange, &options).map(drop).unwrap_err().to_string()
        })
    });
    let errors: Vec<_> = ranks.collect::<Vec<_>>().into_iter().map(|rank| rank.join().unwrap()).collect();
    assert!(errors[0].contains("rank 1") && errors[0].contains("does not encrypt"), "{}", errors[0]);
    assert!(errors[1].contains("rank 0") && errors[1].contains("it encrypts"), "{}", errors[1]);
}
