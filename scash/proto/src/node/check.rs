//! What must be true of a node between two inputs, for those who test it.

use super::{Node, Phase};
use crate::page::Page;
use crate::page::check::Moment;

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
        let runs = matches!(self.meetings.phase, Phase::Running | Phase::Announcing) || self.is_committing();
        if self.meetings.phase == Phase::Staging
            && let Some(rule) = self.broken_image()
        {
            return Err(Broken { page: 0, rule });
        }
        let moment = Moment { runs, keeps_back: self.keeps_back() };
        let mut untracked = 0;
        for page in 0..self.table.len() {
            let word = self.table.get(page);
            if word.is_blank() {
                continue;
            }
            if self.shares_frames() {
                return Err(Broken { page, rule: "a node knows nothing of a page whose frame is shared" });
            }
            if let Some(rule) = word.broken_rule(moment).or_else(|| self.broken_list(page)) {
                return Err(Broken { page, rule });
            }
            untracked += u64::from(self.table.at_home(page).is_some_and(|page| page.is_free()));
        }
        if let Some(page) = self.table.misplaced_page() {
            return Err(Broken { page, rule: "a page is on a list exactly if its word says so" });
        }
        if untracked != self.homes.untracked() {
            return Err(Broken { page: 0, rule: "the home's writable pages that nobody caches are counted" });
        }
        Ok(())
    }

    /// The first rule about what is kept beside the words.
    fn broken_list(&self, page: u32) -> Option<&'static str> {
        let word = self.table.get(page);
        let home = match word.page() {
            Page::Home(page) => Some(page),
            _ => None,
        };
        if word.home().is_some_and(|at| (at == self.cfg.rank) != home.is_some()) {
            return Some("a home knows that it is the home, and nobody else does");
        }
        let asked = self.homes.asked.contains(&page);
        if (self.homes.sharers(page).is_some() || asked) != home.is_some_and(|home| home.is_tracked()) {
            return Some("exactly the home's pages that others cache are tracked");
        }
        if asked && self.meetings.phase == Phase::Staging {
            return Some("no page is tracked for leases when a memory barrier is over");
        }
        let predicted = home.is_some_and(|home| home.is_predicted());
        if self.meetings.phase == Phase::Running && predicted && !self.homes.predicted().contains(&page) {
            return Some("predicted pages are on the list of those");
        }
        None
    }
}
