//! Objects that have one owner at a time, or none: those without one are *parked*.

use super::{GRAIN, Kind, PAGE, USED, bit_of};

/// Fewest bytes of an object that can be parked: its bit in the word [`PARKED`](super::PARKED) is its own
/// then.
pub const LEAST_PARKED: u64 = PAGE / 64;

/// The two bits of an object that say whether it is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParkedBits {
    /// In the word [`PARKED`](super::PARKED) of the object's page: it has no owner, and whoever clears this
    /// is the owner. No other bit of the word says anything else, whatever objects the page gets later: who
    /// clears one by mistake, and sets it again, has touched no bit by which an object is in use.
    pub parked: u64,
    /// The word with the other bit, of those of the object's page.
    pub word: u64,
    /// It was parked in the [last interval](super::PARKED_IN) in which anything of its page was, and is for
    /// others when that is over. To be changed by its owner only.
    pub fresh: u64,
}

impl ParkedBits {
    /// Those of an object that begins at this place of a page.
    pub fn of(place: u64) -> ParkedBits {
        let (word, fresh) = bit_of(place + GRAIN);
        ParkedBits { parked: 1 << (place / LEAST_PARKED), word, fresh }
    }
}

/// The bits of all objects of a page that say that they are [fresh](ParkedBits::fresh), with their words.
pub fn fresh_bits(kind: Kind) -> impl Iterator<Item = (u64, u64)> {
    let (size, count) = match kind {
        Kind::Slots(size) if u64::from(size) >= LEAST_PARKED => (u64::from(size), PAGE / u64::from(size)),
        Kind::Slots(_) | Kind::Blank => (0, 0),
        Kind::Run(_) => (PAGE, 1),
    };
    let mut all = [0; 4];
    for bits in (0..count).map(|slot| ParkedBits::of(slot * size)) {
        all[usize::try_from(bits.word - USED).unwrap_or(usize::MAX)] |= bits.fresh;
    }
    (USED..).zip(all).filter(|(_, bits)| *bits != 0)
}

#[cfg(test)]
mod tests {
    use super::super::{A_PAGE, SIZES};
    use super::*;

    #[test]
    fn bits_of_each_object_that_can_be_parked_are_its_own() {
        for size in SIZES.into_iter().filter(|&size| u64::from(size) >= LEAST_PARKED) {
            let (mut used, mut fresh, mut parked) = ([0u64; A_PAGE], [0u64; A_PAGE], 0u64);
            for place in (0..PAGE / u64::from(size)).map(|slot| slot * u64::from(size)) {
                let (word, begins) = bit_of(place);
                let bits = ParkedBits::of(place);
                assert!((USED..USED + 4).contains(&bits.word));
                assert!(bits.parked.is_power_of_two() && parked & bits.parked == 0, "{place} of {size}");
                parked |= bits.parked;
                fresh[usize::try_from(bits.word).unwrap()] |= bits.fresh;
                for (word, bit) in [(word, begins), (bits.word, bits.fresh)] {
                    let word = &mut used[usize::try_from(word).unwrap()];
                    assert!(bit.is_power_of_two() && *word & bit == 0, "{place} of {size}");
                    *word |= bit;
                }
            }
            let all: Vec<_> = (0..).zip(fresh).filter(|(_, bits)| *bits != 0).collect();
            assert_eq!(fresh_bits(Kind::Slots(size)).collect::<Vec<_>>(), all, "{size}");
        }
    }

    #[test]
    fn a_run_has_the_bits_of_the_object_that_it_is() {
        let bits = ParkedBits::of(0);
        assert_eq!(fresh_bits(Kind::Run(7)).collect::<Vec<_>>(), [(bits.word, bits.fresh)]);
        assert_eq!(fresh_bits(Kind::Slots(48)).count() + fresh_bits(Kind::Blank).count(), 0);
    }
}
