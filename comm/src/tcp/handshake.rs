//! Who is at the other end of a new connection: mutual challenge and response with the job's secret. Pure: no
//! IO, no clock.
//!
//! ```text
//! connector → acceptor   hello      opening 10 | class 2 | from 4 | to 4 | ranks 4 | abi 4 | job 8
//!                                   | nonce 32 | tag 32
//! acceptor → connector   challenge  opening 10 | nonce 32 | tag 32
//! connector → acceptor   answer     tag 32
//! acceptor → connector   welcome    magic 8
//!
//! refusal   opening 10 | why 2           in place of a challenge, to one who may be a rank, and whom
//!                                        nothing will help to call again
//!
//! opening   magic 8 | version 2, in every version; who hears another version says only its own opening,
//!           and hangs up
//! job       which job it is: the same bits at all its ranks, made of the secret
//! tag       HMAC-SHA-256(secret, whose | fields of the hello | acceptor's nonce), cut nowhere
//!           whose: "hello" (where there is no acceptor's nonce yet), "acceptor" or "connector"
//! ```
//! - A *stranger* does not get beyond the hello: its tag needs the secret. It hears nothing, or that this is
//!   another job. Nor does one who is turned away in a crowd, who may be a rank: it calls again.
//! - A *replayed* hello is answered by a new nonce, and so is never followed by the right answer; a replayed
//!   challenge has the tag of another hello.
//! - A *reflected* tag has another label. All tags cover version, class, both ranks, the number of ranks, ABI
//!   and job, so that none serves between other ranks, for another purpose or in another job.
//!
//! The secret never travels here. What follows the welcome is neither encrypted nor signed, unless that is
//! asked for: the handshake keeps out strangers, not those who can change packets on the way. If it is asked
//! for, answer and welcome are longer, by what makes keys (`noise`). Whether it is is no matter of this
//! handshake: all ranks must want the same (`join`), and none gives way.
//!
//! HMAC-SHA-256 (crates `hmac` and `sha2`): a standard with a published analysis, that a provider in another
//! language could speak too; both crates are pure Rust, need no C compiler on the boards we build for, and
//! `hmac` compares in constant time.

use super::congestion::Congestion;
use super::noise::Before;
use super::refusal::Refusal;
use super::wire::VERSION;
use crate::Secret;
use crate::remote::{u16_at, u32_at};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const MAGIC: [u8; 8] = *b"scashtcp";
const NONCE: usize = 32;
const TAG: usize = 32;
/// Bytes of a hello before its tag.
const FIELDS: usize = OPENING + 2 + 4 * 4 + 8 + NONCE;
/// Bytes of what both sides say first.
pub(super) const OPENING: usize = MAGIC.len() + 2;
/// Bytes of a hello.
pub(super) const HELLO: usize = FIELDS + TAG;
/// Bytes of a challenge behind its opening.
pub(super) const CHALLENGE: usize = NONCE + TAG;
/// Bytes of the connector's answer.
pub(super) const ANSWER: usize = TAG;
/// Bytes of the welcome.
pub(super) const WELCOME: usize = MAGIC.len();

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionClass {
    /// Puts and messages, both ways.
    Stream,
    /// The connector asks, the acceptor serves.
    ConnectorAsks,
    /// The acceptor asks, the connector serves.
    AcceptorAsks,
}

impl ConnectionClass {
    /// The connections of each pair of ranks.
    pub(super) const ALL: [ConnectionClass; 3] =
        [ConnectionClass::Stream, ConnectionClass::ConnectorAsks, ConnectionClass::AcceptorAsks];

    fn decode(number: u16) -> Option<ConnectionClass> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Bytes of a last word.
const LAST_WORD: usize = OPENING + 2;

/// What is said to one who is refused for good and may be a rank.
pub(super) fn last_word(why: &Refusal) -> Option<[u8; LAST_WORD]> {
    let mut word = [0; LAST_WORD];
    word[..OPENING].copy_from_slice(&opening());
    word[OPENING..].copy_from_slice(&why.told()?.to_le_bytes());
    Some(word)
}

/// Why the other side refuses this rank for good, if that is what it said before it hung up.
pub(super) fn refused_by(said: &[u8]) -> Option<Refusal> {
    let reason = u16::from_le_bytes(said.strip_prefix(&opening())?.try_into().ok()?);
    Refusal::heard(reason)
}

/// The job as all its ranks know it.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) size: u32,
    pub(super) abi: u32,
    pub(super) secret: Secret,
    /// Whether what follows the handshakes is encrypted.
    pub(super) encrypted: bool,
    /// How fast its connections send.
    pub(super) congestion: Congestion,
    /// Whether ranks that cannot reach each other are started again.
    pub(super) comes_back: bool,
}

impl Job {
    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.secret.bytes()).expect("HMAC takes keys of any length");
        parts.iter().for_each(|part| mac.update(part));
        mac
    }

    fn tag(&self, parts: &[&[u8]]) -> [u8; TAG] {
        self.mac(parts).finalize().into_bytes().into()
    }

    fn check(&self, parts: &[&[u8]], tag: &[u8]) -> Result<(), Refusal> {
        self.mac(parts).verify_slice(tag).map_err(|_| Refusal::Secret)
    }

    /// What both sides know before they make keys for a connection.
    fn before(&self, hello: &[u8; HELLO], nonce: &[u8]) -> Before {
        Before { psk: self.tag(&[b"keys"]), prologue: [&hello[..FIELDS], nonce].concat() }
    }

    /// What tells this job from others, and tells nothing of the secret.
    fn id(&self) -> [u8; 8] {
        *self.tag(&[b"job"]).first_chunk().expect("a tag is longer")
    }
}

/// What both sides say first.
pub(super) fn opening() -> [u8; OPENING] {
    let mut opening = [0; OPENING];
    opening[..MAGIC.len()].copy_from_slice(&MAGIC);
    opening[MAGIC.len()..].copy_from_slice(&VERSION.to_le_bytes());
    opening
}

/// Checks the first bytes that the other side says, as far as they have come.
pub(super) fn check_opening(said: &[u8]) -> Result<(), Refusal> {
    let (magic, rest) = said.split_at(said.len().min(MAGIC.len()));
    if !MAGIC.starts_with(magic) {
        return Err(Refusal::Foreign);
    }
    match rest.first_chunk().map(|version| u16::from_le_bytes(*version)) {
        Some(version) if version != VERSION => Err(Refusal::Version(version)),
        _ => Ok(()),
    }
}

/// A new random nonce.
fn nonce() -> Result<[u8; NONCE], Refusal> {
    let mut nonce = [0; NONCE];
    getrandom::fill(&mut nonce)
        .map_err(|error| Refusal::System(format!("the system gives no random numbers: {error}")))?;
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
    pub(super) fn new(job: &'a Job, class: ConnectionClass, from: u32, to: u32) -> Result<Self, Refusal> {
        let mut hello = Vec::with_capacity(HELLO);
        hello.extend(opening());
        hello.extend((class as u16).to_le_bytes());
        for number in [from, to, job.size, job.abi] {
            hello.extend(number.to_le_bytes());
        }
        hello.extend(job.id());
        hello.extend(nonce()?);
        hello.extend(job.tag(&[b"hello", &hello]));
        Ok(Self { job, hello: hello.try_into().expect("HELLO counts these fields") })
    }

    /// Checks that the acceptor knows the secret, and shows that this side does.
    pub(super) fn answer(&self, challenge: &[u8; CHALLENGE]) -> Result<[u8; ANSWER], Refusal> {
        let (nonce, tag) = challenge.split_at(NONCE);
        self.job.check(&[b"acceptor", &self.hello[..FIELDS], nonce], tag)?;
        Ok(self.job.tag(&[b"connector", &self.hello[..FIELDS], nonce]))
    }

    /// Whether the connection needs keys.
    pub(super) fn encrypts(&self) -> bool {
        self.job.encrypted
    }

    /// From what the keys are made that the challenged connection has.
    pub(super) fn before_keys(&self, challenge: &[u8; CHALLENGE]) -> Before {
        self.job.before(&self.hello, &challenge[..NONCE])
    }

    /// Checks the last word.
    pub(super) fn welcome(bytes: &[u8; WELCOME]) -> Result<(), Refusal> {
        if *bytes == MAGIC { Ok(()) } else { Err(Refusal::Foreign) }
    }
}

/// The accepting side, which has challenged a connector.
pub(super) struct Acceptor {
    hello: [u8; HELLO],
    nonce: [u8; NONCE],
    /// Who the connector is, if it answers.
    pub(super) from: u32,
    /// What the connection is for.
    pub(super) class: ConnectionClass,
}

impl Acceptor {
    /// Checks a hello and makes the challenge to answer it with, its opening included.
    pub(super) fn challenge(
        job: &Job,
        me: u32,
        hello: [u8; HELLO],
    ) -> Result<(Self, [u8; OPENING + CHALLENGE]), Refusal> {
        check_opening(&hello)?;
        let (fields, tag) = hello.split_at(FIELDS);
        let [from, to, size, abi] = [12, 16, 20, 24].map(|at| u32_at(fields, at));
        if fields[28..36] != job.id() {
            return Err(Refusal::OtherJob);
        }
        job.check(&[b"hello", fields], tag)?;
        if abi != job.abi {
            return Err(Refusal::Abi { theirs: abi, ours: job.abi });
        }
        let class = ConnectionClass::decode(u16_at(fields, 10)).ok_or(Refusal::Class)?;
        if to != me || size != job.size || from <= me || from >= size {
            return Err(Refusal::Rank { from, size, to });
        }
        let nonce = nonce()?;
        let tag = job.tag(&[b"acceptor", fields, &nonce]);
        let challenge = [&opening()[..], &nonce, &tag].concat().try_into().expect("CHALLENGE counts these");
        Ok((Self { hello, nonce, from, class }, challenge))
    }

    /// Checks the connector's answer; returns the welcome.
    pub(super) fn accept(&self, job: &Job, answer: &[u8; ANSWER]) -> Result<[u8; WELCOME], Refusal> {
        job.check(&[b"connector", &self.hello[..FIELDS], &self.nonce], answer)?;
        Ok(MAGIC)
    }

    /// From what the keys are made that the connection has.
    pub(super) fn before_keys(&self, job: &Job) -> Before {
        job.before(&self.hello, &self.nonce)
    }
}

#[cfg(test)]
mod tests;
