//! Single orders and messages on a machine of vectors, step by step. (Whole jobs are for the simulator.)

use super::{Answer, Interpreter, MOST_GOT, Machine};
use crate::codec::Malformed;
use crate::diff::{Changes, PageBytes};
use crate::node::{Collective, Node, Violation};
use crate::wire::sync::Brought;
use crate::wire::{Kind, PageBatch};
use crate::{
    Access, AllocOptions, Config, Input, Output, PAGE_SIZE, Pages, Placement, Protocol, Rank, Transfer,
};
use std::collections::{BTreeMap, BTreeSet};

/// Why a step failed.
#[derive(Debug)]
struct Wrong;

impl From<Violation> for Wrong {
    fn from(_: Violation) -> Self {
        Wrong
    }
}

impl From<Malformed> for Wrong {
    fn from(_: Malformed) -> Self {
        Wrong
    }
}

type Done<T> = Result<T, Wrong>;

/// Rank 0 of two, home of one page, of which rank 1 has a copy that is kept up to date.
struct Memory {
    node: Node,
    frame: PageBytes,
    twin: Option<PageBytes>,
    seen: PageBytes,
    /// What rank 1 has in its frame of page 0. Its other pages begin with their number and are zeros.
    peer: PageBytes,
    /// Pages that a get had best bring.
    a_get: usize,
    /// The pages of each get.
    got: Vec<Vec<u32>>,
    /// The first byte of each other page that steps have stored.
    others: BTreeMap<u32, u8>,
    marked: bool,
    looks: u32,
    /// Kinds of messages that were sent.
    sent: Vec<Kind>,
    /// Whom each end of an interval waited for.
    waited_for: Vec<Vec<Rank>>,
    /// Stores into the frame that happen behind a look.
    behind_the_look: BTreeMap<usize, u8>,
    /// Bytes of the frame that steps have stored into.
    stored: BTreeSet<usize>,
}

impl Memory {
    fn new() -> (Interpreter, Memory) {
        let config = Config::plain(Rank(0), 2, 4);
        let mut memory = Memory {
            node: Node::new(config),
            frame: [0; PAGE_SIZE],
            twin: None,
            seen: [0; PAGE_SIZE],
            peer: [0; PAGE_SIZE],
            a_get: MOST_GOT,
            got: Vec::new(),
            others: BTreeMap::new(),
            marked: false,
            looks: 0,
            sent: Vec::new(),
            waited_for: Vec::new(),
            behind_the_look: BTreeMap::new(),
            stored: BTreeSet::new(),
        };
        // Both ranks allocate the page.
        let mut other = Node::new(Config { rank: Rank(1), ..config });
        let options = AllocOptions { placement: Placement::Rank(0), protocol: Protocol::Update, block: 1 };
        let call = Collective::Alloc(PAGE_SIZE as u64, options);
        meet(&mut memory.node, &mut other, call);
        (Interpreter::new(2), memory)
    }
}

/// Two nodes make a call that touches no page.
fn meet(first: &mut Node, second: &mut Node, call: Collective) {
    for node in [&mut *first, &mut *second] {
        node.handle(Input::Arrive(call)).expect("a correct call");
    }
    loop {
        let (order, from, to) = match first.poll_output() {
            Some(order) => (order, &mut *first, &mut *second),
            None => match second.poll_output() {
                Some(order) => (order, &mut *second, &mut *first),
                None => return,
            },
        };
        let input = match order {
            Output::Token(_, token) => to.handle(Input::Token(from.rank(), token)),
            Output::Control(_, meeting, word) => to.handle(Input::Control(from.rank(), meeting, word)),
            Output::Flushed => from.handle(Input::Flushed),
            _ => Ok(()),
        };
        input.expect("a correct peer");
    }
}

impl Machine for Memory {
    type Error = Wrong;

    fn node(&mut self) -> &mut Node {
        &mut self.node
    }

    fn transfer(&self) -> Transfer {
        Transfer::ZeroCopy
    }

    fn map_zero(&mut self, _: Pages, _: Access) -> Done<()> {
        Ok(())
    }

    fn map(&mut self, _: Pages, _: Access) -> Done<()> {
        Ok(())
    }

    fn protect(&mut self, _: Pages, _: Access) -> Done<()> {
        Ok(())
    }

    fn unmap(&mut self, _: Pages) -> Done<()> {
        Ok(())
    }

    fn discard(&mut self, _: Pages) -> Done<()> {
        Ok(())
    }

    fn watch(&mut self, _: Pages) -> Done<bool> {
        Ok(true)
    }

    fn unwatch(&mut self, _: Pages) -> Done<()> {
        Ok(())
    }

    fn written(&mut self, _: Pages, _: &mut Vec<Pages>) -> Done<()> {
        Ok(())
    }

    fn look(&mut self, _: u32) -> Done<()> {
        self.looks += 1;
        self.seen = self.frame;
        std::mem::take(&mut self.behind_the_look).into_iter().for_each(|(at, byte)| self.frame[at] = byte);
        Ok(())
    }

    fn seen(&self) -> &PageBytes {
        &self.seen
    }

    fn differences(&mut self, _: u32) -> Done<Changes> {
        self.twin.as_ref().map(|twin| Changes::between(twin, &self.seen)).ok_or(Wrong)
    }

    fn store(&mut self, page: u32, offset: usize, bytes: &[u8]) -> Done<()> {
        if page != 0 {
            self.others.insert(page, bytes[0]);
            return Ok(());
        }
        self.frame[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.stored.extend(offset..offset + bytes.len());
        Ok(())
    }

    fn make_twin(&mut self, _: u32) -> Done<()> {
        self.twin = Some(self.frame);
        Ok(())
    }

    fn twin(&mut self, page: u32) -> Done<Option<&mut PageBytes>> {
        Ok(self.twin.as_mut().filter(|_| page == 0))
    }

    fn twin_what_was_seen(&mut self, _: u32) -> Done<()> {
        self.twin = Some(self.seen);
        Ok(())
    }

    fn drop_twin(&mut self, _: u32) -> Done<()> {
        self.twin = None;
        Ok(())
    }

    fn put_seen(&mut self, _: Rank, _: u32, changes: &Changes) -> Done<()> {
        changes.runs().for_each(|run| self.peer[run.range()].copy_from_slice(&self.seen[run.range()]));
        Ok(())
    }

    fn put_seen_if_cheap(&mut self, to: Rank, page: u32, changes: &Changes) -> Done<bool> {
        self.put_seen(to, page, changes).map(|()| true)
    }

    fn put_pages(&mut self, _: Rank, _: Pages) -> Done<()> {
        self.peer = self.frame;
        Ok(())
    }

    fn pages_a_get(&self, _: Rank) -> usize {
        self.a_get
    }

    fn get_pages(&mut self, _: Rank, pages: &[u32], into: &mut [PageBytes]) -> Done<()> {
        for (&page, into) in pages.iter().zip(into) {
            *into = if page == 0 { self.peer } else { [0; PAGE_SIZE] };
            into[0] = u8::try_from(page).map_err(|_| Wrong)?;
        }
        self.got.push(pages.to_vec());
        Ok(())
    }

    fn send(&mut self, _: Rank, kind: Kind, _: &[u8]) -> Done<()> {
        self.sent.push(kind);
        Ok(())
    }

    fn come(&mut self, _: u64, _: Option<u64>) -> Done<()> {
        Ok(())
    }

    fn flush(&mut self) -> Done<()> {
        Ok(())
    }

    fn close(&mut self, put_to: &mut Vec<Rank>, _: Option<Rank>) -> Done<bool> {
        self.waited_for.push(std::mem::take(put_to));
        Ok(false)
    }

    fn is_full(&mut self, _: usize) -> bool {
        false
    }

    fn mark_all(&mut self, _: Rank) -> Done<()> {
        Ok(())
    }

    fn is_marked(&mut self, _: u32) -> bool {
        self.marked
    }

    fn forget_claims(&mut self, _: Pages) -> Done<()> {
        Ok(())
    }

    fn answer(&mut self, _: u32, _: u64, _: Answer) -> Done<()> {
        Ok(())
    }

    fn stalled(&mut self, _: Rank, _: &[u8]) -> Done<()> {
        Ok(())
    }

    fn hear(&mut self, _: Rank, _: &[u8]) -> Done<()> {
        Ok(())
    }
}

/// A rank that believed a peer's bytes to be its own would bring them to others again, when they may be old.
#[test]
fn a_merged_diff_goes_into_the_frame_and_into_the_twin() {
    let (mut interpreter, mut memory) = Memory::new();
    memory.twin = Some(memory.frame);
    // What this rank wrote itself is not in the twin.
    memory.frame[0] = 1;
    let (mut theirs, mut batch) = ([0; PAGE_SIZE], Vec::new());
    theirs[100..108].fill(7);
    PageBatch::begin(&mut batch, memory.node.meeting());
    PageBatch::push(&mut batch, 0, true, |out| crate::diff::encode(&[0; PAGE_SIZE], &theirs, out));
    interpreter.take(&mut memory, Rank(1), Kind::Diff.number(), &batch).expect("a correct diff");
    assert_eq!((memory.frame[0], &memory.frame[100..108]), (1, &[7; 8][..]));
    assert_eq!(memory.twin, Some(theirs));
    assert_eq!(memory.stored, (100..108).collect(), "nothing around a peer's bytes is stored");
}

/// Some rank operates on a word of the page: sharers get it when all have come, since it may still change.
#[test]
fn a_marked_page_is_brought_to_nobody_before_all_have_come() {
    for marked in [false, true] {
        let (mut interpreter, mut memory) = Memory::new();
        memory.node.handle(Input::Arrive(Collective::Barrier)).expect("a correct call");
        assert!(memory.node.pushes_early());
        (memory.twin, memory.marked) = (Some(memory.frame), marked);
        memory.frame[8] = 1;
        interpreter.carry_out(&mut memory, Output::Push(0)).expect("a page with a twin");
        let is_known = memory.twin == Some(memory.frame);
        assert_eq!(is_known, !marked, "what was not brought to anybody is still to be found");
    }
}

#[test]
fn what_is_put_and_what_the_twin_becomes_are_what_one_look_saw() {
    let (mut interpreter, mut memory) = Memory::new();
    memory.twin = Some(memory.frame);
    memory.frame[8] = 1;
    // The program goes on.
    memory.behind_the_look = BTreeMap::from([(8, 2), (16, 3)]);
    interpreter.carry_out(&mut memory, Output::PutDiff { page: 0, to: Rank(1) }).expect("a page with a twin");
    assert_eq!((memory.looks, memory.peer[8], memory.peer[16]), (1, 1, 0));
    assert_eq!(memory.twin.map(|twin| (twin[8], twin[16])), Some((1, 0)));
    // It goes back: nothing is left to be put, and the home is right.
    memory.frame[8] = 1;
    memory.frame[16] = 0;
    interpreter.carry_out(&mut memory, Output::PutDiff { page: 0, to: Rank(1) }).expect("a page with a twin");
    assert_eq!(memory.peer, memory.frame);
}

#[test]
fn of_a_renewed_page_only_bytes_that_its_home_has_changed_are_stored() {
    let (mut interpreter, mut memory) = Memory::new();
    memory.twin = Some(memory.frame);
    memory.frame[8] = 1;
    memory.peer[100..104].fill(9);
    interpreter
        .carry_out(
            &mut memory,
            Output::Refresh { pages: vec![0], from: Rank(1), brought: Brought::default() },
        )
        .expect("a page with a twin");
    assert_eq!(memory.stored, (100..104).collect());
    assert_eq!((memory.looks, memory.frame[8], memory.frame[100]), (0, 1, 9));
    assert_eq!(memory.twin, Some(memory.peer), "what the home has is not this rank's change");
}

#[test]
fn pages_that_are_renewed_together_come_in_as_few_gets_as_may_bring_them() {
    let numbers = 1..151u8;
    let pages: Vec<u32> = numbers.clone().map(u32::from).collect();
    for (a_get, gets) in [(0, 150), (1, 150), (10, 15), (64, 3), (usize::MAX, 3)] {
        let (mut interpreter, mut memory) = Memory::new();
        memory.a_get = a_get;
        let order = Output::Refresh { pages: pages.clone(), from: Rank(1), brought: Brought::default() };
        interpreter.carry_out(&mut memory, order).expect("pages of a peer");
        assert_eq!((memory.got.len(), memory.got.concat()), (gets, pages.clone()), "{a_get} pages a get");
        assert!(memory.got.iter().all(|got| got.len() <= MOST_GOT));
        let own = numbers.clone().map(|number| (number.into(), number)).collect();
        assert_eq!(memory.others, own, "each page has its home's bytes, and no other page's");
    }
}

/// A thread that writes back waits without the core. Another one that hands a lock on meanwhile must wait,
/// too: the lock's next holder could fetch what was there before.
#[test]
fn the_end_of_an_interval_waits_once_for_each_home_also_if_another_thread_does() {
    let (mut interpreter, mut memory) = Memory::new();
    for byte in [1, 2] {
        memory.twin = Some([0; PAGE_SIZE]);
        memory.frame[8] = byte;
        interpreter
            .carry_out(&mut memory, Output::PutDiff { page: 0, to: Rank(1) })
            .expect("a page with a twin");
    }
    assert_eq!(interpreter.unfenced(), [Rank(1)]);
    for _ in 0..2 {
        interpreter.carry_out(&mut memory, Output::Closed { next: None }).expect("the end of an interval");
    }
    assert_eq!(memory.waited_for, [vec![Rank(1)], vec![]]);
}
