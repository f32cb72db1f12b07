//! Making progress: what completed, what may go now (`outgoing`), what has arrived (`incoming`), what was
//! read (`reads`). One lock guards all of this, and nothing under it waits or calls the caller.

mod incoming;
mod outgoing;
mod reads;

use super::inbox::Inbox;
use super::lines::PeerLines;
use super::link::PeerLink;
use super::log;
use super::net::{Net, Reaped, RemoteAddress};
use super::slots::{Slot, Slots};
use super::sys::CqMsgEntry;
use scash_comm::Result;
use scash_comm::remote::{LossReason, Segments};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// Completions taken at a time, and how often before others get their turn.
const BATCH: usize = 32;
const BATCHES: u32 = 4;
/// Announcements under way to one peer.
const MOST_ANNOUNCING: u32 = 2;
/// Slots a peer beyond its share: for announcements, a sign of life, packets that only acknowledge, and a
/// read, for which two ranks that have much to send to each other may both keep back what the other sends.
pub(super) const BESIDE: u32 = 9;

/// What a slot is for.
#[derive(Clone, Copy)]
enum SlotUse {
    /// Free, being filled, or waiting for its turn.
    Idle,
    Receive,
    Packet(u32),
    Write(u32),
    Announcement(u32),
    Beat(u32),
    Read {
        from: u32,
        state: ReadState,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadState {
    Waited,
    Abandoned,
    Done,
    Failed,
}

/// How many slots there are for what, by the size of the job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Packets from one rank to another that are not taken yet.
    pub(super) credits: u32,
    /// Slots that one peer's queue, operations and reads hold at most.
    pub(super) share: usize,
    /// Receives posted,
    receives: u32,
    /// and slots altogether.
    pub(super) slots: u32,
}

impl Sizes {
    /// Ranks must agree on the credits, and do since they agree on the size. Large jobs get less a peer.
    pub(super) fn new(size: u32) -> Sizes {
        let peers = size.saturating_sub(1).max(1);
        let credits = (256 / peers).clamp(4, 16);
        let share = (1_024 / peers).clamp(8, 32);
        // A peer acknowledges half a round of credits at a time, so no more than two packets do only that.
        let receives = peers.saturating_mul(credits + 4);
        let slots = receives.saturating_add(peers.saturating_mul(share + BESIDE));
        Sizes { credits, share: share as usize, receives, slots }
    }
}

/// Everything that the endpoint's threads share and change.
pub(super) struct Engine {
    // Closed before the memory that it uses is freed.
    net: Net,
    slots: Slots,
    lines: PeerLines,
    uses: Box<[SlotUse]>,
    /// By rank; none for this one.
    links: Vec<Option<PeerLink>>,
    /// Ranks that something waits to go to.
    todo: Vec<u32>,
    segments: Arc<Segments>,
    pub(super) inbox: Inbox,
    sizes: Sizes,
    rank: u32,
    /// Whether a stranger's packet was told of.
    told_of_strangers: bool,
}

impl Engine {
    /// An engine without peers, that receives already. Gives the place of its lines, too.
    pub(super) fn new(
        mut net: Net,
        sizes: Sizes,
        rank: u32,
        size: u32,
        segments: Arc<Segments>,
    ) -> Result<(Engine, RemoteAddress)> {
        let slots = Slots::new(sizes.slots);
        let (memory, len) = slots.memory();
        // SAFETY: the slots are freed after the net is closed; there are references only to slots that no
        // operation uses.
        unsafe { net.register_local(memory, len) }?;
        let lines = PeerLines::new(size);
        let (memory, len) = lines.memory();
        // SAFETY: as above; references are to atomics only.
        let region = unsafe { net.register(memory, len, super::sys::REMOTE_WRITE) }?;
        let mut engine = Engine {
            net,
            slots,
            lines,
            uses: vec![SlotUse::Idle; sizes.slots as usize].into(),
            links: (0..size).map(|_| None).collect(),
            todo: Vec::new(),
            segments,
            inbox: Inbox::default(),
            sizes,
            rank,
            told_of_strangers: false,
        };
        for _ in 0..if size > 1 { sizes.receives } else { 0 } {
            let slot = engine.slots.claim().expect("made with as many");
            engine.receive(slot)?;
        }
        Ok((engine, region))
    }

    pub(super) fn net(&self) -> &Net {
        &self.net
    }

    pub(super) fn net_mut(&mut self) -> &mut Net {
        &mut self.net
    }

    pub(super) fn lines(&self) -> &PeerLines {
        &self.lines
    }

    pub(super) fn add(&mut self, link: PeerLink) {
        let rank = link.rank as usize;
        self.links[rank] = Some(link);
    }

    /// A peer.
    pub(super) fn link(&mut self, rank: u32) -> &mut PeerLink {
        self.links[rank as usize].as_mut().expect("only peers are asked for")
    }

    pub(super) fn links(&mut self) -> impl Iterator<Item = &mut PeerLink> {
        self.links.iter_mut().flatten()
    }

    /// A peer that is there, or why it is not; and what its queue needs.
    pub(super) fn peer(&mut self, rank: u32) -> Result<(&mut PeerLink, &mut Slots, usize)> {
        let link = self.links[rank as usize].as_mut().expect("only peers are asked for");
        match &link.fate {
            Some(fate) => Err(fate.error(rank)),
            None => Ok((link, &mut self.slots, self.sizes.share)),
        }
    }

    /// Makes progress: takes completions, and starts what may go.
    pub(super) fn progress(&mut self) -> bool {
        let mut entries = [CqMsgEntry { op_context: std::ptr::null_mut(), flags: 0, len: 0 }; BATCH];
        let mut any = false;
        for _ in 0..BATCHES {
            match self.net.reap(&mut entries) {
                Reaped::Nothing => break,
                Reaped::Failed(context, error) => self.failed(context, error),
                Reaped::Done(count) => {
                    entries[..count].iter().for_each(|entry| self.completed(entry.op_context, entry.len));
                }
            }
            any = true;
        }
        for at in (0..self.todo.len()).rev() {
            let rank = self.todo[at];
            self.pump(rank);
            if !self.has_work(rank) {
                self.todo.swap_remove(at);
            }
        }
        any
    }

    fn free(&mut self, rank: u32, slot: Slot) {
        self.slots.release(slot);
        self.link(rank).slots -= 1;
    }

    /// An operation is over.
    fn completed(&mut self, context: *mut c_void, len: usize) {
        let Some(slot) = self.slots.of_context(context) else { return };
        match std::mem::replace(&mut self.uses[slot.index()], SlotUse::Idle) {
            SlotUse::Idle => {}
            SlotUse::Receive => self.arrived(slot, len),
            other => self.over(slot, other),
        }
    }

    /// An operation that this rank began at a peer is over, one way or the other.
    fn over(&mut self, slot: Slot, what: SlotUse) {
        match what {
            SlotUse::Idle | SlotUse::Receive => {}
            SlotUse::Packet(rank) => {
                self.link(rank).sending -= 1;
                self.free(rank, slot);
            }
            SlotUse::Write(rank) => {
                self.link(rank).writing -= 1;
                self.free(rank, slot);
            }
            SlotUse::Announcement(rank) => {
                self.link(rank).announcing -= 1;
                self.slots.release(slot);
            }
            SlotUse::Beat(rank) => {
                self.link(rank).beating = false;
                self.slots.release(slot);
            }
            SlotUse::Read { from, state: ReadState::Abandoned } => self.free(from, slot),
            SlotUse::Read { from, .. } => {
                self.link(from).moved += 1;
                self.uses[slot.index()] = SlotUse::Read { from, state: ReadState::Done };
            }
        }
    }

    /// An operation has failed.
    fn failed(&mut self, context: *mut c_void, error: c_int) {
        let Some(slot) = self.slots.of_context(context) else { return };
        let what = std::mem::replace(&mut self.uses[slot.index()], SlotUse::Idle);
        let rank = match what {
            SlotUse::Idle => return,
            // Nobody knows who sent it. If it was a peer, its next packet shows that one is missing.
            SlotUse::Receive => return self.receive_again(slot),
            SlotUse::Packet(rank)
            | SlotUse::Write(rank)
            | SlotUse::Announcement(rank)
            | SlotUse::Beat(rank) => rank,
            SlotUse::Read { from, .. } => from,
        };
        let why = self.net.text(error);
        self.lose(rank, LossReason::Lost(format!("an operation on it failed: {why}")));
        match what {
            // What it should have read is not there.
            SlotUse::Read { state: ReadState::Waited, .. } => {
                self.uses[slot.index()] = SlotUse::Read { from: rank, state: ReadState::Failed }
            }
            other => self.over(slot, other),
        }
    }

    /// A peer is gone.
    pub(super) fn lose(&mut self, rank: u32, fate: LossReason) {
        let link = self.links[rank as usize].as_mut().expect("only peers are lost");
        if let (LossReason::Broke(why), None) = (&fate, &link.fate) {
            log(format_args!("rank {rank} is cut off: {why}"));
        }
        link.lose(fate, &mut self.slots);
        self.link_down(rank);
    }

    fn link_down(&mut self, rank: u32) {
        if let Some(link) = &mut self.links[rank as usize] {
            link.tell_down(&mut self.inbox);
        }
    }
}
