//! Homes that follow their writers.
//!
//! Where the first touch says nothing about who works on a page, because one rank fills everything before the
//! others begin, its writer pays for a twin and a diff in every interval, and the page's readers for a second
//! meeting. So a home counts the memory barriers at which one other rank alone brought changes of a page;
//! after some of them, if it does not write the page itself, it asks for the page to move there, as
//! [`Input::SetHome`](super::Input::SetHome) does, and at the next memory barrier it does.
//!
//! Pages whose writer changes would be on their way all the time. Therefore each move doubles what the next
//! one takes. Pages that the program has placed itself, by an allocation's placement or one by one, stay.

use super::Node;
use crate::page::HomePage;
use crate::{Placement, Rank};
use std::collections::BTreeMap;

/// Memory barriers with a lone writer after which it should become home. A move ends all copies and takes a
/// meeting more, so where writers change soon, pages should stay: the pattern `changing-producer` of the
/// traffic test, whose writers take turns of six intervals, takes a fifth more faults on four ranks if pages
/// move after three.
pub const MIGRATE_AFTER: u32 = 8;
/// Doublings of what a move takes, at most.
const MOST_DOUBLINGS: u8 = 5;
/// In place of a page's moves: the program has said where its home is. (Noted when it moves a page, or when a
/// page that it has placed might else move.)
const PLACED: u8 = u8::MAX;

/// What homes know of pages that others write.
#[derive(Clone, Debug)]
pub(super) struct Migration {
    /// Memory barriers with a lone writer after which a page moves for the first time; 0: no page does.
    after: u32,
    /// Home: the rank that alone wrote a page the last time, and how often in a row it did.
    lone: BTreeMap<u32, (Rank, u32)>,
    /// Of each page: how often it has moved, or [`PLACED`]. Zero-filled by the system, like the page table.
    moved: Vec<u8>,
}

impl Migration {
    pub(super) fn new(after: u32, pages: u32) -> Migration {
        Migration { after, lone: BTreeMap::new(), moved: vec![0; pages as usize] }
    }

    /// A page goes to another home.
    pub(super) fn moves(&mut self, page: u32, placed: bool) {
        self.lone.remove(&page);
        let moved = &mut self.moved[page as usize];
        *moved = match *moved {
            _ if placed => PLACED,
            PLACED => PLACED,
            n => (n + 1).min(MOST_DOUBLINGS),
        };
    }

    /// Its home has written a page.
    pub(super) fn written_at_home(&mut self, page: u32) {
        self.lone.remove(&page);
    }

    /// This rank has come back: who wrote what is to be learnt anew. What the program has placed stays.
    pub(super) fn reborn(&mut self) {
        self.lone.clear();
    }

    /// Nothing is known of a page any more.
    pub(super) fn forget(&mut self, page: u32) {
        self.lone.remove(&page);
        self.moved[page as usize] = 0;
    }

    /// One rank alone has brought changes of a page. Returns whether it is time for the page to go there.
    fn is_due(&mut self, page: u32, writer: Rank) -> bool {
        let moved = self.moved[page as usize];
        if self.after == 0 || moved == PLACED {
            return false;
        }
        let (last, times) = self.lone.entry(page).or_insert((writer, 0));
        *times = if *last == writer { times.saturating_add(1) } else { 1 };
        *last = writer;
        *times >= self.after << moved
    }
}

impl Node {
    /// What others wrote here, sorted by page, says who should be home.
    pub(super) fn follow_writers(&mut self, merged: &[(u32, Rank)]) {
        for group in merged.chunk_by(|a, b| a.0 == b.0) {
            let (page, writer) = group[0];
            if !self.is_home(page) {
                continue;
            }
            // Words that were operated on count as written by their home.
            if writer == self.cfg.rank || group.iter().any(|&(_, rank)| rank != writer) {
                self.learning.migration.lone.remove(&page);
                continue;
            }
            // Whether the home writes a page that is not tracked, nobody knows.
            // (Or of one that is tracked for leases: it was not at first.)
            let tracked = self.homes.sharers(page).is_some();
            let is_quiet = |home: HomePage| !home.is_dirty() && !home.is_ahead();
            let alone = tracked && self.table.at_home(page).is_some_and(is_quiet);
            if !(self.learning.migration.is_due(page, writer) && alone) {
                continue;
            }
            if self.moves_freely(page) {
                self.learning.migration.lone.remove(&page);
                self.counters.migrated += 1;
                self.learning.moves.entry(page).or_insert((writer, false));
            } else {
                self.learning.migration.moves(page, true);
            }
        }
    }

    fn moves_freely(&self, page: u32) -> bool {
        self.heap.find(page).is_some_and(|a| a.options.placement == Placement::FirstTouch)
    }
}
