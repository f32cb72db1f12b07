//! Carrying out what a [`Node`] orders, and taking what peers send it.
//!
//! There is one [`Interpreter`], and it runs over a [`Machine`]: the runtime's (real frames, a fault engine,
//! an endpoint), the simulator's (contents, and steps that can be torn) and the benchmark's (clocks, no
//! contents). So what the simulator tests is what runs, down to the machine's single steps.
//!
//! # The rule of one look
//!
//! While an order is carried out, threads of this rank go on and store into pages that are writable, and
//! peers put bytes into frames. So:
//!
//! 1. What an order needs to know of a page's frame it learns in **one [look](Machine::look)**: a copy of the
//!    frame, in private memory. Everything that follows (the comparison, the twin's new contents, the bytes
//!    of a diff or a put) comes from that copy. A second look could show other bytes than the first. If the
//!    twin came from one look and the home's bytes from the other, a program that goes from value A to B and
//!    back to A could leave B at the home for ever: the next comparison finds A in page and twin.
//! 2. What is **stored** into a frame is stored because a *peer* has changed it (a diff, an update, the
//!    changes of a home since the twin was made), never because a look at the frame itself said so. A thread
//!    of this rank may have stored something since that look, and its store would be lost. A program without
//!    data races does not write bytes that peers change, unless something orders the writes.
//!
//! Frames that no thread of this rank can write may be stored as a whole: a page without a twin that is no
//! home page, and pages that are being fetched.

mod messages;
mod orders;
#[cfg(test)]
mod tests;

use crate::codec::Malformed;
use crate::diff::{Changes, PageBytes};
use crate::node::{Node, Outcome, Violation};
use crate::wire::Kind;
use crate::{Access, Input, PAGE_SIZE, Pages, Rank, Strided, Transfer};

/// Pages that one get brings at most: they wait in private memory until they are merged.
pub const MOST_GOT: usize = 64;

/// What a thread hears that has asked for something, or was about to destroy it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has what it asked for.
    Granted,
    /// It has only tried, and has not got it.
    Refused,
    /// The object is no more; or, if a thread of a rank waits for it, is as it was.
    Unmade(Option<Rank>),
    /// The object of that number is no more.
    Absent(u32),
}

/// What an order leaves to the thread that has it carried out.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: on to the next one.
    Next,
    /// Fetch these pages from their home, and map them for reading.
    Get(Rank, Strided),
    /// Wait until another thread has fetched the page.
    Wait(u32),
    /// Ask whose a page is.
    Claim(Claim),
    /// Execute an atomic operation.
    Operate(WordPlace),
    /// The fault is the program's own: the page belongs to no allocation.
    Denied(u32),
    /// Save what this rank has, and tell the node: [`Output::Stage`](crate::Output::Stage).
    Stage,
    /// Whether the checkpoint counts for which all ranks were ordered to stage.
    Committed(bool),
    /// The collective call is over.
    Done(Outcome),
}

/// An [`Output::Claim`](crate::Output::Claim).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The page that faulted.
    pub page: u32,
    /// The number of the claim.
    pub key: u32,
    /// Who keeps it.
    pub at: Rank,
    /// Whether this rank wants to be the home.
    pub take: bool,
}

impl Claim {
    /// What this rank's node is to know of the keeper's answer. One that is gone has none.
    pub fn answered<E>(self, home: &std::result::Result<Option<Rank>, E>) -> Input {
        match home {
            Ok(home) => Input::Claimed { page: self.page, home: *home },
            Err(_) => Input::FetchFailed(Pages::one(self.page).into()),
        }
    }
}

/// An [`Output::Operate`](crate::Output::Operate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordPlace {
    /// The page of the word.
    pub page: u32,
    /// Whose frame holds it.
    pub at: Rank,
    /// Whether the page is to be marked there first.
    pub mark: bool,
}

/// What orders work on: one rank's frames, twins, rights and peers. Each method is one step. Between two
/// steps threads of this rank and peers go on; within one they may, too.
///
/// Page numbers are those of the region, and every page that the interpreter names is one that its node has
/// named.
pub trait Machine {
    /// Why a step failed.
    type Error: From<Violation> + From<Malformed>;

    /// The node whose orders these are.
    fn node(&mut self) -> &mut Node;
    /// How changed pages reach their sharers.
    fn transfer(&self) -> Transfer;

    /// Gives frames, zeroed if new, and access.
    fn map_zero(&mut self, pages: Pages, access: Access) -> Result<(), Self::Error>;
    /// Gives access to pages whose frames hold what they should.
    fn map(&mut self, pages: Pages, access: Access) -> Result<(), Self::Error>;
    /// Changes the access of mapped pages.
    fn protect(&mut self, pages: Pages, access: Access) -> Result<(), Self::Error>;
    /// Takes all access; the frames stay.
    fn unmap(&mut self, pages: Pages) -> Result<(), Self::Error>;
    /// Takes all access, and the frames.
    fn discard(&mut self, pages: Pages) -> Result<(), Self::Error>;
    /// Remembers from now on which of these pages, which are writable, are written. `false` if the system
    /// cannot: the pages have read access then.
    fn watch(&mut self, pages: Pages) -> Result<bool, Self::Error>;
    /// Ends that; the pages stay writable.
    fn unwatch(&mut self, pages: Pages) -> Result<(), Self::Error>;
    /// Appends to `found` those of these pages that were written since they were watched, or since the last
    /// call, as far as they are watched.
    fn written(&mut self, pages: Pages, found: &mut Vec<Pages>) -> Result<(), Self::Error>;
    /// Pages that were nobody's were allocated.
    fn admit(&mut self, pages: Pages) -> Result<(), Self::Error> {
        let _ = pages;
        Ok(())
    }

    /// Copies the page's frame out: [`seen`](Self::seen) until the next look.
    fn look(&mut self, page: u32) -> Result<(), Self::Error>;
    /// What the last look saw.
    fn seen(&self) -> &PageBytes;
    /// The bytes in which the last look, which was at this page, differs from the page's twin.
    fn differences(&mut self, page: u32) -> Result<Changes, Self::Error>;
    /// Stores bytes into the page's frame, and nothing around them.
    fn store(&mut self, page: u32, offset: usize, bytes: &[u8]) -> Result<(), Self::Error>;
    /// Copies the page's frame to a twin: to the one that it has, if it has one.
    fn make_twin(&mut self, page: u32) -> Result<(), Self::Error>;
    /// The page's twin, if it has one, to be changed.
    fn twin(&mut self, page: u32) -> Result<Option<&mut PageBytes>, Self::Error>;
    /// The page's twin is from now on what the last look, which was at this page, saw.
    fn twin_what_was_seen(&mut self, page: u32) -> Result<(), Self::Error>;
    /// Forgets the page's twin.
    fn drop_twin(&mut self, page: u32) -> Result<(), Self::Error>;

    /// Puts bytes of the last look, which was at this page, into a peer's frame. What is put is what was
    /// seen, however the frame changes until it is there.
    fn put_seen(&mut self, to: Rank, page: u32, changes: &Changes) -> Result<(), Self::Error>;
    /// The same, where that is cheaper than a message. `false`, and nothing was put, where it is not.
    fn put_seen_if_cheap(&mut self, to: Rank, page: u32, changes: &Changes) -> Result<bool, Self::Error>;
    /// Puts whole pages into a peer's frames. All ranks are in the barrier, so nobody writes them.
    fn put_pages(&mut self, to: Rank, pages: Pages) -> Result<(), Self::Error>;
    /// How many pages of a peer one get had best bring: many where it takes a round trip, one where it is a
    /// copy.
    fn pages_a_get(&self, from: Rank) -> usize;
    /// Copies pages of a peer's frames, at most [`MOST_GOT`], with all that this rank has put there: each to
    /// its place.
    fn get_pages(&mut self, from: Rank, pages: &[u32], into: &mut [PageBytes]) -> Result<(), Self::Error>;
    /// Sends a message.
    fn send(&mut self, to: Rank, kind: Kind, bytes: &[u8]) -> Result<(), Self::Error>;
    /// Tells all ranks that this one has come to a call: [`Output::Come`](crate::Output::Come). Never called
    /// where ranks have no words that all see ([`Config::board`](crate::Config::board)).
    fn come(&mut self, call: u64, digest: Option<u64>) -> Result<(), Self::Error>;
    /// Hands over what was put.
    fn flush(&mut self) -> Result<(), Self::Error>;
    /// All that was put into the frames of these ranks is to be in place, and the list emptied. `false` if
    /// that takes time: the machine tells the node [`Input::Closed`] when what it put
    /// meanwhile is in place as well, but for what it put to `next`: the record that is made then names that,
    /// too.
    fn close(&mut self, put_to: &mut Vec<Rank>, next: Option<Rank>) -> Result<bool, Self::Error>;
    /// Whether a batch of pages of so many bytes is to be sent.
    fn is_full(&mut self, bytes: usize) -> bool;
    /// Marks all pages of a home, for this epoch.
    fn mark_all(&mut self, home: Rank) -> Result<(), Self::Error>;
    /// Whether somebody has marked this home page in this epoch, or all.
    fn is_marked(&mut self, page: u32) -> bool;
    /// Forgets the claims of these pages that are kept here.
    fn forget_claims(&mut self, pages: Pages) -> Result<(), Self::Error>;

    /// A thread has its answer.
    fn answer(&mut self, object: u32, who: u64, answer: Answer) -> Result<(), Self::Error>;
    /// A peer asks, or says, who waits for whom.
    fn stalled(&mut self, from: Rank, payload: &[u8]) -> Result<(), Self::Error>;

    /// Whether data races are looked for. What follows is called only then.
    fn looks_for_races(&self) -> bool {
        false
    }
    /// The last look at a page differs from its twin (or from zeros, if it has none). `met`: what the home's
    /// frame holds, if the changes are to be put there.
    fn note(&mut self, page: u32, changes: &Changes, met: Option<&PageBytes>) -> Result<(), Self::Error> {
        let _ = (page, changes, met);
        Ok(())
    }
    /// A diff of a peer is about to be merged into a page.
    fn merging(&mut self, from: Rank, meeting: u32, page: u32) -> Result<(), Self::Error> {
        let _ = (from, meeting, page);
        Ok(())
    }
    /// An interval ends: there may be memory set aside for what faults note.
    fn make_room(&mut self) {}
    /// See [`Output::SendWrites`](crate::Output::SendWrites).
    fn send_writes(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
    /// See [`Output::CompareWrites`](crate::Output::CompareWrites).
    fn compare_writes(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
    /// A peer tells what it has written. Called whether or not data races are looked for here.
    fn hear(&mut self, from: Rank, payload: &[u8]) -> Result<(), Self::Error>;

    /// So many bytes were written down as a diff: for machines that count what work costs.
    fn wrote_diff(&mut self, bytes: usize) {
        let _ = bytes;
    }
}

/// What is between orders: pages on their way in messages, and ranks to which something was put.
#[derive(Clone, Debug)]
pub struct Interpreter {
    /// Diffs on their way home, and changes on their way to sharers, by receiver.
    batches: Vec<Batch>,
    /// Ranks that something was put to which nobody has waited for.
    put_to: Vec<Rank>,
    /// Pages of a peer: one at first, later as many as a get has brought.
    theirs: Vec<PageBytes>,
    encoded: Vec<u8>,
    sharers: Vec<Rank>,
    found: Vec<Pages>,
}

/// Pages for one receiver that leave together.
#[derive(Clone, Debug)]
struct Batch {
    to: Rank,
    kind: Kind,
    bytes: Vec<u8>,
}

impl Interpreter {
    /// At the beginning of a job. `ranks`: to how many peers something may be put, and not be waited for,
    /// without memory being asked for.
    pub fn new(ranks: u32) -> Interpreter {
        Interpreter {
            batches: Vec::new(),
            // Pages may be given up in a fault, where nothing allocates.
            put_to: Vec::with_capacity(ranks as usize),
            theirs: vec![[0; PAGE_SIZE]],
            encoded: Vec::new(),
            sharers: Vec::new(),
            found: Vec::new(),
        }
    }

    /// The ranks that something was put to since it was last waited for. The end of an interval waits for
    /// these puts, too, if a thread waits for them before: another thread, which hands a lock on, does not
    /// know how far it is.
    pub fn unfenced(&self) -> &[Rank] {
        &self.put_to
    }
}
