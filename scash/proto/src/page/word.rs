//! The bits of a page's word, and the facts that every page has.

use crate::Rank;

/// What the application may do with a page now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Every access faults.
    None,
    /// Reads succeed, writes fault.
    Read,
    /// Nothing faults.
    Write,
}

/// Most ranks that a page word can name.
pub const MAX_RANKS: u32 = (1 << 20) - 1;

const HOME: u64 = (1 << 20) - 1;
const ACCESS_SHIFT: u32 = 20;
const ROLE_SHIFT: u32 = 22;
const ROLE: u64 = 0b11 << ROLE_SHIFT;
/// The facts that only homes, or only copies have.
const OWN_FACTS: u64 = u64::MAX << 31;

/// Facts that a page has whoever its home is.
pub(super) mod flag {
    /// On the list of pages that the next barrier looks at.
    pub(in crate::page) const LISTED: u64 = 1 << 24;
    /// On the list of pages that may have been written since they were last brought home, or last noticed at
    /// home.
    pub(in crate::page) const OPEN: u64 = 1 << 25;
    /// On the list of copies that their homes do not know of.
    pub(in crate::page) const LEASED: u64 = 1 << 26;
    /// A thread of this rank is fetching it, or asks whose it is.
    pub(in crate::page) const FETCHING: u64 = 1 << 27;
    /// Has a twin.
    pub(in crate::page) const TWIN: u64 = 1 << 28;
    /// Written in this interval while that was to be noticed.
    pub(in crate::page) const DIRTY: u64 = 1 << 29;
    /// What is mapped here ends with this memory barrier.
    pub(in crate::page) const STALE: u64 = 1 << 30;
}

/// A fact that only unclaimed pages have, and that goes when they get a home: a thread of this rank asks
/// whose the block is.
pub(super) const BLOCK_ASKED: u64 = 1 << 31;
/// Another one: it was opened here along with a page before it, and not touched, or with zeros.
pub(super) const OPENED_IN_VAIN: u64 = 1 << 40;

/// What a rank is to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Unclaimed = 0,
    Home = 1,
    Copy = 2,
}

/// One page's word, by value.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Word(pub(super) u64);

impl Word {
    /// Nothing is known of the page.
    pub(crate) fn is_blank(self) -> bool {
        self.0 == 0
    }

    pub(super) fn role(self) -> Role {
        match (self.0 & ROLE) >> ROLE_SHIFT {
            0 => Role::Unclaimed,
            1 => Role::Home,
            _ => Role::Copy,
        }
    }

    /// The same page in another role: facts that only go with the old one are gone.
    pub(super) fn in_role(self, role: Role, home: Rank) -> Word {
        let mut word = Word(self.0 & !(OWN_FACTS | ROLE) | (role as u64) << ROLE_SHIFT);
        word.set_home(home);
        word
    }

    /// The same page, of nobody, and out of view.
    pub(super) fn given_up(self) -> Word {
        let mut word = Word(self.0 & !(OWN_FACTS | ROLE | HOME));
        word.set_access(Access::None);
        word
    }

    /// Who is the home, and what this rank is to the page, and nothing else.
    pub(super) fn role_and_home(self) -> Word {
        Word(self.0 & (ROLE | HOME))
    }

    /// The home that this rank has met.
    pub(crate) fn home(self) -> Option<Rank> {
        let h = u32::try_from(self.0 & HOME).unwrap_or(0);
        h.checked_sub(1).map(Rank)
    }

    pub(super) fn set_home(&mut self, home: Rank) {
        self.set_field(0, HOME, u64::from(home.0) + 1);
    }

    pub(crate) fn access(self) -> Access {
        match self.0 >> ACCESS_SHIFT & 0b11 {
            0 => Access::None,
            1 => Access::Read,
            _ => Access::Write,
        }
    }

    pub(super) fn set_access(&mut self, access: Access) {
        self.set_field(ACCESS_SHIFT, 0b11, access as u64);
    }

    /// Whether a thread of this rank is fetching the page, or asks whose it is.
    pub(crate) fn is_fetching(self) -> bool {
        self.has(flag::FETCHING) || self.role() == Role::Unclaimed && self.has(BLOCK_ASKED)
    }

    pub(crate) fn set_fetching(&mut self, fetching: bool) {
        self.0 = if fetching { self.0 | flag::FETCHING } else { self.0 & !flag::FETCHING };
    }

    pub(crate) fn has_twin(self) -> bool {
        self.has(flag::TWIN)
    }

    /// Whether it was written in this interval while that was to be noticed.
    pub(crate) fn is_dirty(self) -> bool {
        self.has(flag::DIRTY)
    }

    pub(super) fn has(self, flags: u64) -> bool {
        self.0 & flags != 0
    }

    pub(super) fn set(&mut self, flags: u64) {
        self.0 |= flags;
    }

    pub(super) fn clear(&mut self, flags: u64) {
        self.0 &= !flags;
    }

    pub(super) fn field(self, shift: u32, mask: u64) -> u64 {
        self.0 >> shift & mask
    }

    pub(super) fn set_field(&mut self, shift: u32, mask: u64, value: u64) {
        self.0 = (self.0 & !(mask << shift)) | (value & mask) << shift;
    }

    /// Writes the names of flags that are set.
    pub(super) fn name(self, f: &mut std::fmt::Formatter<'_>, names: &[(u64, &str)]) -> std::fmt::Result {
        names.iter().filter(|(bit, _)| self.has(*bit)).try_for_each(|(_, name)| write!(f, " {name}"))
    }
}
