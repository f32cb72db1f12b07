//! How the ranks of a job get to know each other: through the start-up exchange, each gives its address and
//! the place of its lines.

use super::OfiOptions;
use super::engine::{Engine, Sizes};
use super::lines::PeerLines;
use super::link::{Identity, PeerLink};
use super::net::{Net, RemoteAddress};
use super::wire::Token;
use scash_comm::remote::{Segments, u32_at, u64_at};
use scash_comm::{Error, Exchange, Result, Secret};
use std::sync::Arc;

/// Version of everything that ranks say to each other here. Ranks that differ do not form a job.
const VERSION: u32 = 1;
/// Bytes of a card before the provider's name: `version 4 | ABI 4 | place of the lines 8 + 8 | length of the
/// name 8`.
const FIXED: usize = 32;

/// Opens this rank's endpoint, and enters all peers.
pub(super) fn join(
    exchange: &mut dyn Exchange,
    options: &OfiOptions,
    segments: Arc<Segments>,
) -> Result<Engine> {
    let (me, size) = (exchange.rank(), exchange.size());
    let sizes = Sizes::new(size);
    let net = Net::open(options, sizes.slots as usize)?;
    // From here on, packets are received: whoever knows this rank's address may send.
    let (mut engine, lines) = Engine::new(net, sizes, me, size, segments)?;
    let own = Card { lines, provider: engine.net().provider(), address: engine.net().address()? };
    let secret = exchange.secret().clone();
    let cards = exchange.all_gather(&own.encode(options.abi), &[])?;
    if cards.len() != size as usize {
        return Err(Error::Invalid(format!("the start-up exchange gave {} of {size} ranks", cards.len())));
    }
    for (rank, (card, _)) in (0..size).zip(&cards).filter(|(rank, _)| *rank != me) {
        let card = Card::decode(card, options.abi).and_then(|card| card.fits(&own, engine.net()));
        let card = card.map_err(|why| Error::Protocol { rank, why })?;
        let identity = identity(&secret, me, rank, &card, engine.net_mut())?;
        engine.add(PeerLink::new(rank, identity));
    }
    Ok(engine)
}

fn identity(secret: &Secret, me: u32, rank: u32, card: &Card, net: &mut Net) -> Result<Identity> {
    Ok(Identity {
        address: net.enter(&card.address)?,
        to: Token::new(secret, me, rank),
        from: Token::new(secret, rank, me),
        line: PeerLines::line(card.lines, me),
    })
}

/// What a rank tells all others about itself.
struct Card {
    lines: RemoteAddress,
    provider: String,
    address: Vec<u8>,
}

impl Card {
    fn encode(&self, abi: u32) -> Vec<u8> {
        let numbers = [self.lines.address, self.lines.key, self.provider.len() as u64];
        let mut bytes = [VERSION.to_le_bytes(), abi.to_le_bytes()].concat();
        numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend(self.provider.bytes());
        bytes.extend(&self.address);
        bytes
    }

    fn decode(bytes: &[u8], abi: u32) -> std::result::Result<Card, String> {
        let (fixed, rest) = bytes
            .split_first_chunk::<FIXED>()
            .ok_or("it gave something else than its address; do all ranks use the provider ofi?")?;
        let (version, theirs) = (u32_at(fixed, 0), u32_at(fixed, 4));
        if (version, theirs) != (VERSION, abi) {
            return Err(format!(
                "it has version {version} of the protocol and ABI {theirs}, this rank {VERSION} and {abi}: \
                 use the same build for all ranks"
            ));
        }
        let name = usize::try_from(u64_at(fixed, 24)).ok();
        let (name, address) =
            name.and_then(|len| rest.split_at_checked(len)).ok_or("it gave a shortened card")?;
        let lines = RemoteAddress { address: u64_at(fixed, 8), key: u64_at(fixed, 16) };
        Ok(Card { lines, provider: String::from_utf8_lossy(name).into_owned(), address: address.to_vec() })
    }

    /// Whether this rank and that one can talk.
    fn fits(self, own: &Card, net: &Net) -> std::result::Result<Card, String> {
        if self.provider != own.provider {
            return Err(format!(
                "its libfabric chose the provider {:?}, this rank's {:?}: name one for all by SCASH_OFI",
                self.provider, own.provider
            ));
        }
        if !net.is_address(&self.address, &own.address) {
            return Err(format!(
                "its address has {} bytes, this rank's {}",
                self.address.len(),
                own.address.len()
            ));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> Card {
        let lines = RemoteAddress { address: 7, key: 8 };
        Card { lines, provider: "tcp".into(), address: vec![1, 2, 3] }
    }

    #[test]
    fn a_card_says_what_was_written_on_it() {
        let read = Card::decode(&card().encode(5), 5).unwrap();
        assert_eq!((read.lines.address, read.lines.key), (7, 8));
        assert_eq!((read.provider.as_str(), &read.address[..]), ("tcp", &[1, 2, 3][..]));
    }

    #[test]
    fn cards_of_other_builds_and_broken_cards_are_refused() {
        let card = card().encode(5);
        assert!(Card::decode(&card, 6).err().unwrap().contains("the same build"));
        for len in 0..FIXED {
            assert!(Card::decode(&card[..len], 5).err().unwrap().contains("provider ofi"));
        }
        assert!(Card::decode(&card[..FIXED + 1], 5).err().unwrap().contains("shortened"));
        let mut long = card;
        long[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Card::decode(&long, 5).is_err());
    }
}
