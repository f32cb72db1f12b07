//! Whether copies are read that are kept up to date.
//!
//! A home that brings its changes to a copy cannot see whether it is read, and the copy's rank cannot see how
//! often something is brought. So the home counts how often it has brought a page, and now and then asks. Who
//! is asked takes its copy out of view; when it is read, it says so at the next memory barrier, by
//! subscribing once more. Somebody who has said nothing until the page was brought [`IN_VAIN`] times more is
//! only told of the next write, like a sharer in invalidate mode, and has to fetch the page if it wants it.
//!
//! A page that is not written is not asked about: its copies cost nothing. One that is read all the time is
//! asked about more and more seldom.

use super::{Node, Protocol};
use crate::copyset::CopyMode;
use crate::{Pages, Rank};

/// Times that a page is brought, or written without a change, until its home asks for the first time whether
/// it is read; doubled each time that all have read it.
const FIRST_ASK: u64 = 4;
/// Doublings at most.
const MOST_DOUBLINGS: u64 = 4;
/// Times that a page is brought after the question, until a rank that has not answered gets it no more.
const IN_VAIN: u64 = 8;

impl Node {
    /// A page of ours is brought to its sharers, but for one; or it was written for them without a change.
    pub(super) fn brought(&mut self, page: u32, except: Option<Rank>) {
        if self.protocol(page) != Protocol::Adaptive {
            return;
        }
        let Some(mut home) = self.table.at_home(page) else { return };
        let times = home.brought();
        let asked = self.homes.unanswered.contains_key(&page);
        if asked && times >= IN_VAIN {
            self.homes.in_vain.push(page);
        }
        let asks = !asked && times >= FIRST_ASK << home.trust().min(MOST_DOUBLINGS);
        if asks {
            home.forget_brought();
        }
        self.table.put(page, home);
        if asks {
            self.ask_whether_read(page, except);
        }
    }

    fn ask_whether_read(&mut self, page: u32, except: Option<Rank>) {
        let sharers: Vec<Rank> = self.update_sharers(page).filter(|&r| Some(r) != except).collect();
        for &rank in &sharers {
            self.meetings.now.say(rank, |c| Pages::append(&mut c.ask, page));
        }
        let sharers = sharers.into_iter().map(|rank| (rank.0, CopyMode::Update)).collect();
        self.homes.unanswered.insert(page, sharers);
    }

    /// The barrier ends: those who have not answered in time are told of the next write, as others are that
    /// want it so. (Not sooner: what is ordered to be brought to them in this barrier is.)
    pub(super) fn bring_no_more(&mut self) {
        for page in std::mem::take(&mut self.homes.in_vain) {
            let Some(silent) = self.homes.unanswered.remove(&page) else { continue };
            self.table.change_home(page, |home| home.found_read(false));
            silent.iter().for_each(|(rank, _)| self.homes.tell_only(page, Rank(rank)));
        }
    }

    /// A rank uses its copy of a page of ours, or has none any more.
    pub(super) fn answers(&mut self, page: u32, rank: Rank) {
        let Some(silent) = self.homes.unanswered.get_mut(&page) else { return };
        silent.remove(rank.0);
        if silent.is_empty() {
            self.homes.unanswered.remove(&page);
            self.table.change_home(page, |home| home.found_read(true));
        }
    }

    /// In the end of a barrier, homes ask whether these pages are read.
    pub(super) fn look_whether_read(&mut self, pages: &[Pages], unmap: &mut Vec<u32>) {
        for page in pages.iter().flat_map(|p| p.iter()) {
            if self.table.change_copy(page, |copy| copy.ask()) == Some(true) {
                unmap.push(page);
            }
        }
    }
}
