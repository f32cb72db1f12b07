//! Where ranks that share memory meet without messages.

/// A word of a rank on a [`Board`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Up to which meeting the rank has come. Their numbers rise.
    Arrived,
    /// Up to which the rank says they are over. Only the first rank's counts.
    Released,
}

impl Mark {
    /// Both.
    pub const ALL: [Mark; 2] = [Mark::Arrived, Mark::Released];
}

/// Words of ranks that share memory: each rank writes its own, and all of them read them, without any message
/// (after MMP, whose network hardware counts who has come to a barrier; Aoki and others 2006). A mark's words
/// count up from 0.
pub trait Board {
    /// The ranks that have words here, in rising order, this one among them. It stays the same.
    fn ranks(&self) -> Vec<u32>;

    /// Writes this rank's word, and gives what is [`reached`](Self::reached) then. What this thread has
    /// written before is seen by who sees the word. Of ranks that post at the same time, the result of one at
    /// least includes what all of them post.
    fn post(&self, mark: Mark, count: u64) -> u64;

    /// What all have posted at least, of [`Mark::Arrived`]; what the first rank has, of [`Mark::Released`].
    fn reached(&self, mark: Mark) -> u64;

    /// Wakes those of that rank's threads that sleep at its endpoint, after something was posted; the rank by
    /// its place in [`ranks`](Self::ranks).
    fn wake(&self, place: usize);

    /// From now on, it is news for [`idle`](crate::Endpoint::idle) if [`reached`](Self::reached) gives so
    /// much, or nothing is.
    fn expect(&self, mark: Mark, count: Option<u64>);

    /// A thread has seen what was expected: others of this rank may be asleep who wait for what follows from
    /// that.
    fn noticed(&self);

    /// Writes what this rank comes for, and wakes those for whom that decides [`agreed`](Self::agreed). What
    /// this thread has written before is seen by who sees it. If this rank [has words](Coming::with_words),
    /// nothing is news of it; otherwise it is news for [`idle`](crate::Endpoint::idle) that something is
    /// decided, until it is.
    fn come(&self, coming: Coming);

    /// How the call stands that this rank [came](Self::come) to without words: whether all have come to it,
    /// for the same and without words. `None`: not yet all, and nobody that is here has words or came for
    /// something else.
    fn agreed(&self) -> Option<bool>;
}

/// What a rank comes for, to a call that all ranks make together: a word on the [`Board`].
///
/// A rank comes to one call after the other, and their numbers rise. Nobody leaves one before all have come
/// to it, and who does so because all [agree](Board::agreed) comes to the next number then. So where one rank
/// waits for that, the others are at its call, before it, or one ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coming(u64);

/// A word's highest bits are the last ones of a number, and its lowest one says that the rank has come to
/// something. Between them is a digest; zeros stand for words.
const NUMBER_BITS: u32 = 16;
const NUMBER: u64 = (1 << NUMBER_BITS) - 1;

impl Coming {
    /// To the call of that number, with something to say that only messages can.
    pub fn with_words(number: u64) -> Self {
        Self(number << (64 - NUMBER_BITS) | 1)
    }

    /// To the call of that number, with nothing to say but what the rank came for, as a digest.
    pub fn without_words(number: u64, digest: u64) -> Self {
        let digest = (digest >> (NUMBER_BITS + 1)).max(1);
        Self(Self::with_words(number).0 | digest << 1)
    }

    /// As it is written.
    pub fn word(self) -> u64 {
        self.0
    }

    /// What was [written](Self::word), if anything was.
    pub fn of_word(word: u64) -> Option<Self> {
        (word != 0).then_some(Self(word))
    }

    /// Whether the rank has nothing to say.
    pub fn is_without_words(self) -> bool {
        self.0 << NUMBER_BITS != 1 << NUMBER_BITS
    }

    /// Whether this rank waits for all to agree in a call to which the other came.
    pub fn waits_in_call_of(self, other: Self) -> bool {
        self.is_without_words() && self.number() == other.number()
    }

    fn number(self) -> u64 {
        self.0 >> (64 - NUMBER_BITS)
    }

    /// See [`Board::agreed`]: as this rank has come, without words, and the others.
    #[inline]
    pub fn agrees(self, others: impl Iterator<Item = Option<Self>>) -> Option<bool> {
        let next = (self.number() + 1) & NUMBER;
        let mut all = true;
        for other in others {
            match other {
                Some(other) if other.number() == self.number() => {
                    if other != self {
                        return Some(false);
                    }
                }
                Some(other) if other.number() == next => {}
                _ => all = false,
            }
        }
        all.then_some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u64) -> Coming {
        Coming::without_words(number, 7 << 40)
    }

    #[test]
    fn ranks_agree_that_came_to_the_same_call_for_the_same_or_are_a_call_ahead() {
        let agreed = |others: &[Coming]| at(9).agrees(others.iter().copied().map(Some));
        assert_eq!(agreed(&[at(9), at(9)]), Some(true));
        assert_eq!(agreed(&[at(9), at(10)]), Some(true));
        assert_eq!(agreed(&[Coming::with_words(10), at(9)]), Some(true), "it has words for the next one");
        assert_eq!(agreed(&[at(9), at(8)]), None);
        assert_eq!(agreed(&[at(8), Coming::with_words(9)]), Some(false));
        assert_eq!(agreed(&[Coming::without_words(9, 8 << 40), at(8)]), Some(false));
    }

    #[test]
    fn whoever_has_not_come_to_anything_is_ahead_of_nobody() {
        for number in [1, NUMBER - 1, NUMBER, NUMBER + 1] {
            assert_eq!(at(number).agrees([Coming::of_word(0)].into_iter()), None);
        }
    }

    #[test]
    fn numbers_may_pass_the_bits_that_are_kept() {
        let agreed = |one, other| at(one).agrees([Coming::of_word(at(other).word())].into_iter());
        assert_eq!(agreed(NUMBER, NUMBER + 1), Some(true));
        assert_eq!(agreed(NUMBER + 1, NUMBER), None);
    }

    #[test]
    fn no_digest_is_taken_for_words() {
        for digest in [0, 1, u64::MAX] {
            assert!(Coming::without_words(u64::MAX, digest).is_without_words());
        }
        assert!(!Coming::with_words(u64::MAX).is_without_words());
    }
}
