//! Pages whose home this rank has not met, and how pages get homes.

use super::cached::{self, Hold};
use super::word::{BLOCK_ASKED, OPENED_IN_VAIN, Role, Word, flag};
use super::{Access, BarrierEnd, CachedPage, Gone, HomePage, Page, home};
use crate::Rank;

/// A page of nobody, as far as this rank has had to do with it. It may be read, as zeros, as a lease. (A page
/// that its allocation has placed is one of these, too, until it is used here, or at home until somebody else
/// has it.)
#[derive(Clone, Copy)]
pub(crate) struct UnclaimedPage(pub(super) Word);

impl UnclaimedPage {
    pub(super) fn describe(self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, ", no home here")?;
        if self.0.has(BLOCK_ASKED) {
            write!(f, " asked for")?;
        }
        if self.was_opened_in_vain() {
            write!(f, " opened in vain")?;
        }
        Word(self.0.0 & !(BLOCK_ASKED | OPENED_IN_VAIN)).name(f, &cached::NAMES)
    }

    /// Whether a thread of this rank asks whose the page's block is.
    pub(crate) fn ask(&mut self, asks: bool) {
        if asks {
            self.0.set(BLOCK_ASKED);
        } else {
            self.0.clear(BLOCK_ASKED);
        }
    }

    /// Whether it [was given up](HomePage::give_up) here. Whoever comes to it first after all had best be
    /// its home, also one who only reads it: it may be this rank's, and hold zeros.
    pub(crate) fn was_opened_in_vain(self) -> bool {
        self.0.has(OPENED_IN_VAIN)
    }

    /// It is read as zeros.
    pub(crate) fn read(&mut self) {
        self.0.set_access(Access::Read);
        cached::set_hold(&mut self.0, Hold::Lease);
    }

    /// The barrier ends, and with it what was read.
    fn end_interval(&mut self) -> BarrierEnd {
        let unmap = self.access() != Access::None;
        self.0.set_access(Access::None);
        cached::set_hold(&mut self.0, Hold::Nothing);
        BarrierEnd { gone: unmap, unmap, ..BarrierEnd::default() }
    }

    /// First touch: this rank is its home, and tells at the next barrier.
    pub(crate) fn claim(self, me: Rank) -> HomePage {
        let mut word = self.0.in_role(Role::Home, me);
        word.set(home::flag::CLAIMED);
        word.set_access(Access::Write);
        HomePage(word)
    }

    /// It becomes writable along with a page before it that is touched first. Only its bytes tell whether it
    /// is, too.
    pub(crate) fn claim_ahead(self, me: Rank) -> HomePage {
        let mut page = self.claim(me);
        page.0.set(home::flag::AHEAD);
        page
    }

    /// Its allocation has placed it here.
    pub(crate) fn place(self, me: Rank) -> HomePage {
        HomePage(self.0.in_role(Role::Home, me))
    }

    /// Another rank is its home. What was read as zeros stays a lease.
    pub(crate) fn learn(self, home: Rank) -> CachedPage {
        let (hold, ended) = (cached::hold(self.0), self.0.has(cached::flag::ENDED));
        let mut word = self.0.in_role(Role::Copy, home);
        cached::set_hold(&mut word, hold);
        if ended {
            word.set(cached::flag::ENDED);
        }
        CachedPage(word)
    }
}

impl HomePage {
    /// It was not touched after all.
    pub(crate) fn give_up(self) -> UnclaimedPage {
        let mut word = self.0.given_up();
        word.set(OPENED_IN_VAIN);
        UnclaimedPage(word)
    }

    /// Another rank touched it first, too: it is that one's, and what was written here goes there.
    pub(crate) fn lose(self, home: Rank) -> CachedPage {
        let mut word = self.0.in_role(Role::Copy, home);
        word.clear(flag::DIRTY);
        word.set(flag::STALE);
        CachedPage(word)
    }

    /// It moves to another rank, and nobody has copies (see [`untrack`](HomePage::untrack)).
    pub(crate) fn hand_over(self, home: Rank) -> CachedPage {
        self.lose(home)
    }
}

impl CachedPage {
    /// It moves here. Of the copy only a twin is left, until the barrier ends.
    pub(crate) fn take_over(self, me: Rank) -> HomePage {
        let mut word = self.0.in_role(Role::Home, me);
        word.clear(flag::DIRTY);
        word.set(flag::STALE);
        HomePage(word)
    }

    /// It moves from another rank to another one: what the old home knew is forgotten.
    pub(crate) fn follow(self, home: Rank) -> CachedPage {
        let mut page = self;
        page.forget_subscription();
        let written = cached::flag::CHANGED | cached::flag::PREDICTED;
        page.0.clear(cached::flag::WANTED | cached::flag::FETCHED | written);
        page.set_doubt(0);
        page.0.set(flag::STALE);
        page.0.set_home(home);
        page
    }
}

/// What happens to pages whoever their home is.
impl Page {
    /// This rank has come back, and nobody has a copy of anything. What is left is who the home is, and
    /// whether that is this rank and has used the page: then it is writable.
    pub(crate) fn reborn(self) -> Page {
        let word = Word::from(self);
        let mut page = word.role_and_home().page();
        if let Page::Home(home) = &mut page
            && word.access() != Access::None
        {
            home.open();
        }
        page
    }

    /// The end of a barrier.
    #[inline]
    pub(crate) fn end_interval(&mut self) -> BarrierEnd {
        match self {
            Page::Unclaimed(page) => page.end_interval(),
            Page::Home(page) => page.end_interval(),
            Page::Copy(page) => page.end_interval(),
        }
    }

    /// An acquire ends what was read, if anything was, or that it is to be read from home.
    pub(crate) fn end(&mut self) -> Option<Gone> {
        match self {
            Page::Unclaimed(page) => (page.access() != Access::None).then(|| cached::end(&mut page.0)),
            Page::Copy(page) => page.can_end().then(|| page.end()),
            Page::Home(_) => None,
        }
    }

    /// The frame of a page of another home, or of nobody, is given back.
    pub(crate) fn evict(&mut self) -> Gone {
        match self {
            Page::Unclaimed(page) => cached::evict(&mut page.0),
            Page::Copy(page) => page.evict(),
            Page::Home(_) => Gone::default(),
        }
    }
}
