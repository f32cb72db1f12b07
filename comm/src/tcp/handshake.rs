//! Who is at the other end of a new connection: mutual challenge and response with the job's secret. Pure: no
//! IO, no clock.
//!
//! ```text
//! connector → acceptor   hello      magic 8 | version 2 | class 2 | from 4 | to 4 | ranks 4 | nonce 32
//! acceptor → connector   challenge  nonce 32 | HMAC(secret, "acceptor", hello, nonce)
//! connector → acceptor   proof      HMAC(secret, "connector", hello, nonce)
//! acceptor → connector   welcome    magic 8
//! ```
//! Both proofs cover the whole hello and both nonces, so neither can be replayed, nor moved to another pair,
//! class or job; the two labels keep one side's answer from serving as the other's. The secret itself never
//! travels here. What follows the welcome is not encrypted: the handshake keeps strangers out, not those who
//! can change packets on the way.
//!
//! HMAC-SHA-256 (crates `hmac` and `sha2`): a standard with a published analysis, that a provider in another
//! language could speak too; both crates are pure Rust, need no C compiler on the boards we build for, and
//! `hmac` compares in constant time.

use super::wire::VERSION;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const MAGIC: [u8; 8] = *b"scashtcp";
const NONCE: usize = 32;
const PROOF: usize = 32;
/// Bytes of a hello.
pub(super) const HELLO: usize = 8 + 2 + 2 + 4 + 4 + 4 + NONCE;
/// Bytes of a challenge.
pub(super) const CHALLENGE: usize = NONCE + PROOF;
/// Bytes of the connector's proof.
pub(super) const ANSWER: usize = PROOF;
/// Bytes of the welcome.
pub(super) const WELCOME: usize = MAGIC.len();

/// Shortest secret that is accepted: what is shorter can be guessed from a recorded handshake.
pub(super) const SHORTEST_SECRET: usize = 16;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Puts and messages, both ways.
    Stream,
    /// The connector asks, the acceptor serves.
    ConnectorAsks,
    /// The acceptor asks, the connector serves.
    AcceptorAsks,
}

impl Class {
    /// The connections of each pair of ranks.
    pub(super) const ALL: [Class; 3] = [Class::Stream, Class::ConnectorAsks, Class::AcceptorAsks];

    fn decode(number: u16) -> Option<Class> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// The job as all its ranks know it.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) size: u32,
    pub(super) secret: Vec<u8>,
}

impl Job {
    fn proof(&self, who: &str, hello: &[u8; HELLO], nonce: &[u8; NONCE]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes keys of any length");
        for part in [who.as_bytes(), hello, nonce] {
            mac.update(part);
        }
        mac
    }
}

/// A new random nonce.
fn nonce() -> Result<[u8; NONCE], String> {
    let mut nonce = [0; NONCE];
    getrandom::fill(&mut nonce).map_err(|error| format!("the system gives no random numbers: {error}"))?;
    Ok(nonce)
}

/// The connecting side, which has said hello.
pub(super) struct Connector<'a> {
    job: &'a Job,
    /// The hello to send.
    pub(super) hello: [u8; HELLO],
}

impl<'a> Connector<'a> {
    /// Introduces rank `from` to rank `to`.
    pub(super) fn new(job: &'a Job, class: Class, from: u32, to: u32) -> Result<Self, String> {
        let mut hello = Vec::with_capacity(HELLO);
        hello.extend(MAGIC);
        hello.extend(VERSION.to_le_bytes());
        hello.extend((class as u16).to_le_bytes());
        hello.extend(from.to_le_bytes());
        hello.extend(to.to_le_bytes());
        hello.extend(job.size.to_le_bytes());
        hello.extend(nonce()?);
        Ok(Self { job, hello: hello.try_into().expect("HELLO counts these fields") })
    }

    /// Checks that the acceptor knows the secret, and shows that this side does.
    pub(super) fn answer(&self, challenge: &[u8; CHALLENGE]) -> Result<[u8; ANSWER], String> {
        let (nonce, proof) = challenge.split_first_chunk::<NONCE>().expect("a challenge starts with a nonce");
        self.job
            .proof("acceptor", &self.hello, nonce)
            .verify_slice(proof)
            .map_err(|_| "it does not know this job's secret".to_string())?;
        Ok(self.job.proof("connector", &self.hello, nonce).finalize().into_bytes().into())
    }

    /// Checks the last word.
    pub(super) fn welcome(bytes: &[u8; WELCOME]) -> Result<(), String> {
        if *bytes == MAGIC { Ok(()) } else { Err("it does not speak this protocol".into()) }
    }
}

/// The accepting side, which has challenged a connector.
pub(super) struct Acceptor {
    hello: [u8; HELLO],
    nonce: [u8; NONCE],
    /// Who the connector says it is.
    pub(super) from: u32,
    /// What the connection is for.
    pub(super) class: Class,
}

impl Acceptor {
    /// Reads a hello and makes the challenge to answer it with.
    pub(super) fn challenge(
        job: &Job,
        me: u32,
        hello: [u8; HELLO],
    ) -> Result<(Self, [u8; CHALLENGE]), String> {
        let (magic, rest) = hello.split_first_chunk::<8>().expect("a hello starts with the magic");
        let small = |at: usize| u16::from_le_bytes([rest[at], rest[at + 1]]);
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| rest[at + i]));
        if *magic != MAGIC {
            return Err("it does not speak this protocol".into());
        }
        if small(0) != VERSION {
            return Err(format!(
                "it speaks version {} of the protocol, this rank version {VERSION}",
                small(0)
            ));
        }
        let (from, to, size) = (word(4), word(8), word(12));
        let class = Class::decode(small(2)).ok_or("it asks for a connection of an unknown class")?;
        if to != me || size != job.size || from <= me || from >= size {
            return Err(format!("it says it is rank {from} of {size} looking for rank {to}"));
        }
        let nonce = nonce()?;
        let proof = job.proof("acceptor", &hello, &nonce).finalize().into_bytes();
        let mut challenge = [0; CHALLENGE];
        challenge[..NONCE].copy_from_slice(&nonce);
        challenge[NONCE..].copy_from_slice(&proof);
        Ok((Self { hello, nonce, from, class }, challenge))
    }

    /// Checks the connector's proof; returns the welcome.
    pub(super) fn accept(&self, job: &Job, answer: &[u8; ANSWER]) -> Result<[u8; WELCOME], String> {
        job.proof("connector", &self.hello, &self.nonce)
            .verify_slice(answer)
            .map_err(|_| "it does not know this job's secret".to_string())?;
        Ok(MAGIC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Job { size: 4, secret: vec![7; 32] }
    }

    #[test]
    fn two_ranks_of_a_job_accept_each_other() {
        let job = job();
        for class in Class::ALL {
            let connector = Connector::new(&job, class, 3, 1).unwrap();
            let (acceptor, challenge) = Acceptor::challenge(&job, 1, connector.hello).unwrap();
            assert_eq!((acceptor.from, acceptor.class), (3, class));
            let answer = connector.answer(&challenge).unwrap();
            let welcome = acceptor.accept(&job, &answer).unwrap();
            Connector::welcome(&welcome).unwrap();
        }
    }

    #[test]
    fn neither_side_accepts_one_with_another_secret() {
        let (job, other) = (job(), Job { size: 4, secret: vec![8; 32] });
        let stranger = Connector::new(&other, Class::Stream, 3, 1).unwrap();
        let (acceptor, challenge) = Acceptor::challenge(&job, 1, stranger.hello).unwrap();
        assert!(stranger.answer(&challenge).unwrap_err().contains("secret"));
        let guess = other.proof("connector", &stranger.hello, &acceptor.nonce).finalize().into_bytes().into();
        assert!(acceptor.accept(&job, &guess).unwrap_err().contains("secret"));
    }

    #[test]
    fn an_acceptors_proof_does_not_serve_as_a_connectors() {
        let job = job();
        let connector = Connector::new(&job, Class::Stream, 3, 1).unwrap();
        let (acceptor, challenge) = Acceptor::challenge(&job, 1, connector.hello).unwrap();
        let reflected = challenge[NONCE..].try_into().unwrap();
        assert!(acceptor.accept(&job, &reflected).is_err());
    }

    #[test]
    fn no_flipped_bit_of_a_handshake_passes() {
        let job = job();
        let connector = Connector::new(&job, Class::ConnectorAsks, 3, 1).unwrap();
        for bit in 0..HELLO * 8 {
            let mut hello = connector.hello;
            hello[bit / 8] ^= 1 << (bit % 8);
            let passed = Acceptor::challenge(&job, 1, hello)
                .is_ok_and(|(_, challenge)| connector.answer(&challenge).is_ok());
            assert!(!passed, "bit {bit} of the hello");
        }
        let (acceptor, challenge) = Acceptor::challenge(&job, 1, connector.hello).unwrap();
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
    fn a_hello_of_another_size_rank_or_version_is_refused_with_its_reason() {
        let job = job();
        let hello = |from, to| Connector::new(&job, Class::Stream, from, to).unwrap().hello;
        let refusal = |hello| Acceptor::challenge(&job, 1, hello).err().unwrap();
        assert!(refusal(hello(3, 2)).contains("looking for rank 2"));
        assert!(refusal(hello(0, 1)).contains("rank 0"), "lower ranks are connected to, they do not connect");
        assert!(refusal(hello(4, 1)).contains("rank 4 of 4"));
        let mut newer = hello(3, 1);
        newer[8] = 9;
        assert!(refusal(newer).contains("version 9"));
        assert!(refusal([b'G'; HELLO]).contains("does not speak"));
    }
}
