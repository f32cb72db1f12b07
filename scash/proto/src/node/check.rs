//! What must be true of a node between two inputs, for those who test it.

use super::{Node, Phase};
use crate::page::check::{Place, Role};
use crate::page::{Access, flag};

/// A rule that a page's word breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which page.
    pub page: u32,
    /// What should be true.
    pub rule: &'static str,
}

impl Node {
    /// The first rule that is broken, if one is. Takes a while: it looks at all pages.
    pub fn check(&self) -> Result<(), Broken> {
        let mut untracked = 0;
        for page in 0..self.table.len() {
            let word = self.table.get(page);
            if word.0 == 0 {
                continue;
            }
            let place = self.place_of(page);
            if let Some(rule) = word.broken_rule(place).or_else(|| self.broken_list(page, place.role)) {
                return Err(Broken { page, rule });
            }
            let free = word.access() == Access::Write && !word.has(flag::TRACKED | flag::STALE);
            untracked += u64::from(place.role == Role::Home && free);
        }
        if untracked != self.untracked {
            return Err(Broken { page: 0, rule: "the home's writable pages that nobody caches are counted" });
        }
        Ok(())
    }

    fn place_of(&self, page: u32) -> Place {
        let role = match self.home(page) {
            None => Role::Unclaimed,
            Some(home) if home == self.cfg.rank => Role::Home,
            Some(_) => Role::Copy,
        };
        let runs = matches!(self.phase, Phase::Running | Phase::Announcing);
        Place { role, runs, keeps_back: self.keeps_back() }
    }

    /// The first rule about what is kept beside the words.
    fn broken_list(&self, page: u32, role: Role) -> Option<&'static str> {
        let word = self.table.get(page);
        if self.directory.contains_key(&page) != (role == Role::Home && word.has(flag::TRACKED)) {
            return Some("exactly the home's pages that others cache are tracked");
        }
        if self.phase == Phase::Running && word.has(flag::PREDICTED) && !self.predicted.contains(&page) {
            return Some("predicted pages are on the list of those");
        }
        None
    }
}
