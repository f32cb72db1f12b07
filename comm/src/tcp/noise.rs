//! Keys for the traffic of one connection, agreed upon during its handshake. Pure: no IO, no clock.
//!
//! Two messages of the Noise Protocol Framework (revision 34), pattern `NNpsk0`: both sides make a key pair
//! for this connection only (X25519), and mix what the pairs give with a key that both have before, made of
//! the job's secret. They travel behind the handshake's answer and welcome, so that they cost no round trip:
//!
//! ```text
//! connector → acceptor   answer     tag 32 | offer: public key 32, tag 16
//! acceptor → connector   welcome    magic 8 | reply: public key 32, tag 16
//! ```
//! - Who does not know the secret can make neither of the two messages.
//! - The *prologue*, which both sides must have alike, is the hello's fields and the acceptor's nonce: the
//!   keys serve this connection of these two ranks for this purpose, and no other.
//! - *Forward secrecy*: the pairs are forgotten when the keys are there. An attacker who records the traffic
//!   and learns the job's secret later can read nothing of it.
//!
//! ChaCha20-Poly1305 rather than AES-GCM, although that is faster where processors have instructions for it:
//! it needs none, takes the same time for all data without them, and its keys last for any number of records,
//! where those of AES-GCM would have to be changed in a long job (RFC 8446, 5.5).

use super::refusal::Refusal;
use snow::{Builder, HandshakeState, StatelessTransportState};

/// The pattern of the exchange, the curve, the cipher and the hash.
const PROTOCOL: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Bytes of the cipher's tag, by which each record is longer than what is in it.
pub(super) const TAG: usize = 16;
/// Bytes of an offer, and of a reply.
pub(super) const OFFER: usize = 32 + TAG;

/// What both sides know of the connection before they have its keys.
pub(super) struct Before {
    /// A key made of the job's secret.
    pub(super) psk: [u8; 32],
    /// What must be the same at both sides.
    pub(super) prologue: Vec<u8>,
}

impl Before {
    fn builder(&self) -> Result<Builder<'_>, Refusal> {
        let protocol = PROTOCOL.parse().map_err(system)?;
        let builder = Builder::new(protocol).psk(0, &self.psk).map_err(system)?;
        builder.prologue(&self.prologue).map_err(system)
    }

    /// What the connecting side says.
    pub(super) fn offer(&self) -> Result<(NoiseExchange, [u8; OFFER]), Refusal> {
        let mut state = self.builder()?.build_initiator().map_err(system)?;
        let mut offer = [0; OFFER];
        state.write_message(&[], &mut offer).map_err(system)?;
        Ok((NoiseExchange(state), offer))
    }

    /// What the accepting side answers, which has the keys then.
    pub(super) fn reply(&self, offer: &[u8; OFFER]) -> Result<(Keys, [u8; OFFER]), Refusal> {
        let mut state = self.builder()?.build_responder().map_err(system)?;
        state.read_message(offer, &mut []).map_err(|_| Refusal::Secret)?;
        let mut reply = [0; OFFER];
        state.write_message(&[], &mut reply).map_err(system)?;
        Ok((Keys(state.into_stateless_transport_mode().map_err(system)?), reply))
    }
}

/// The connecting side's exchange, which waits for the reply.
pub(super) struct NoiseExchange(HandshakeState);

impl NoiseExchange {
    /// The keys, if the reply is from a rank of this job.
    pub(super) fn finish(mut self, reply: &[u8; OFFER]) -> Result<Keys, Refusal> {
        self.0.read_message(reply, &mut []).map_err(|_| Refusal::Secret)?;
        Ok(Keys(self.0.into_stateless_transport_mode().map_err(system)?))
    }
}

/// The keys of one connection, one for each direction.
pub(super) struct Keys(StatelessTransportState);

impl Keys {
    /// Encrypts what is to be the `number`th record of this side into `record`, which is as long as that and
    /// the tag. No two records have one number.
    pub(super) fn seal(&self, number: u64, plain: &[u8], record: &mut [u8]) -> Result<(), snow::Error> {
        self.0.write_message(number, plain, record).map(drop)
    }

    /// Decrypts what must be the `number`th record of the other side into the first bytes of `plain`, and
    /// returns how many those are.
    pub(super) fn open(&self, number: u64, record: &[u8], plain: &mut [u8]) -> Result<usize, snow::Error> {
        self.0.read_message(number, record, plain)
    }
}

/// What went wrong although nobody else was asked.
#[allow(clippy::needless_pass_by_value, reason = "the shape that `map_err` takes")]
fn system(error: snow::Error) -> Refusal {
    Refusal::System(format!("making keys for the connection: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before(psk: u8, prologue: &[u8]) -> Before {
        Before { psk: [psk; 32], prologue: prologue.to_vec() }
    }

    #[test]
    fn two_that_know_the_same_have_keys_for_both_directions_and_never_the_same_twice() {
        let mut offers = Vec::new();
        for _ in 0..2 {
            let (exchange, offer) = before(1, b"here").offer().unwrap();
            let (theirs, reply) = before(1, b"here").reply(&offer).unwrap();
            let ours = exchange.finish(&reply).unwrap();
            for (from, to) in [(&ours, &theirs), (&theirs, &ours)] {
                let (mut record, mut plain) = ([0; 4 + TAG], [0; 4 + TAG]);
                from.seal(7, b"word", &mut record).unwrap();
                assert_eq!(to.open(7, &record, &mut plain), Ok(4));
                assert_eq!(&plain[..4], b"word");
                assert!(to.open(8, &record, &mut plain).is_err(), "another place in the stream");
                assert!(from.open(7, &record, &mut plain).is_err(), "a record sent back to its sender");
            }
            offers.push(offer);
        }
        assert_ne!(offers[0], offers[1]);
    }

    #[test]
    fn one_with_another_secret_or_for_another_connection_gets_no_keys() {
        let (_, offer) = before(1, b"here").offer().unwrap();
        for other in [before(2, b"here"), before(1, b"there")] {
            assert_eq!(other.reply(&offer).err(), Some(Refusal::Secret));
        }
        let (exchange, offer) = before(1, b"here").offer().unwrap();
        let (_, mut reply) = before(1, b"here").reply(&offer).unwrap();
        reply[OFFER - 1] ^= 1;
        assert_eq!(exchange.finish(&reply).err(), Some(Refusal::Secret));
    }
}
