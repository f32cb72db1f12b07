//! The table of a job's objects, in memory that all its ranks share, and what may be done with one.
//!
//! Each step is made by one thread that has the object's guard. No step waits for anything, and none takes a
//! second guard: where a thread goes from a condition to a lock, it is at neither for a moment.

use super::record::{FREE, READS, Record, Request, ThreadId, WAITS, WaitSlot};
use scash_comm::shm::Parking;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Records by number, and slots; slot 0 is nobody's, so that 0 means none.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    pub(super) records: &'a [Record],
    pub(super) slots: &'a [WaitSlot],
}

/// An object whose guard the thread has, until this is dropped.
pub(super) struct Guarded<'a> {
    pub(super) table: Table<'a>,
    pub(super) record: &'a Record,
}

impl Drop for Guarded<'_> {
    #[inline]
    fn drop(&mut self) {
        Parking::unlock(&self.record.guard);
    }
}

/// What an object answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectAnswer {
    /// The thread has what it asked for.
    Granted,
    /// It has not, and waits.
    Waits,
}

/// Slots one behind the other: those of threads that go on, or are to ask for a lock. To be walked without
/// the guard; each is its thread's own again as soon as its gate is open.
#[derive(Default)]
pub(super) struct Chain {
    first: u32,
    last: u32,
}

impl Chain {
    fn push(&mut self, table: Table<'_>, slot: u32) {
        table.slot(slot).next.store(0, Relaxed);
        match self.last {
            0 => self.first = slot,
            last => table.slot(last).next.store(slot, Relaxed),
        }
        self.last = slot;
    }

    /// Takes the first slot out.
    pub(super) fn pop(&mut self, table: Table<'_>) -> Option<u32> {
        let slot = self.first;
        if slot == 0 {
            return None;
        }
        self.first = table.slot(slot).next.load(Relaxed);
        Some(slot)
    }
}

impl<'a> Table<'a> {
    /// A number that no rank has given leads to nobody's slot.
    pub(super) fn slot(self, number: u32) -> &'a WaitSlot {
        self.slots.get(number as usize).unwrap_or(&self.slots[0])
    }

    /// Takes an object's guard. `look` is called now and then, as [`Parking::lock`] does.
    #[inline]
    pub(super) fn guard<E>(
        self,
        parking: Parking,
        record: &'a Record,
        look: impl FnMut() -> Result<(), E>,
    ) -> Result<Guarded<'a>, E> {
        parking.lock(&record.guard, look)?;
        Ok(Guarded { table: self, record })
    }

    /// Lets all threads of a chain go on.
    #[inline]
    pub(super) fn open(self, mut chain: Chain) {
        while let Some(slot) = chain.pop(self) {
            Parking::open(&self.slot(slot).gate);
        }
    }

    /// The numbers of the slots that are in one of these lists: of those that wait, or of those that read.
    fn list(self, head: &AtomicU32) -> impl Iterator<Item = u32> + use<'a> {
        let mut at = head.load(Relaxed);
        std::iter::from_fn(move || {
            let slot = at;
            at = self.slot(slot).next.load(Relaxed);
            (slot != 0).then_some(slot)
        })
    }
}

impl Guarded<'_> {
    /// Whether something is granted at once: the next thread's turn is the one that came first.
    #[inline]
    pub(super) fn grants(&self, who: ThreadId, request: Request) -> bool {
        let must_queue = self.record.first.load(Relaxed) != 0 && !matches!(request, Request::AtLeast(_));
        match request.next(self.record.value.load(Relaxed)) {
            Some(next) if !must_queue => {
                self.grant(who, request, next);
                true
            }
            _ => false,
        }
    }

    #[inline]
    fn grant(&self, who: ThreadId, request: Request, next: u64) {
        self.record.value.store(next, Relaxed);
        if request.owns() {
            self.record.owner.store(who.0, Relaxed);
        }
    }

    /// Grants something at once, or lets the thread wait in its slot, which is in no list yet. A thread that
    /// gets the object to read is put into the list of readers, with its slot.
    pub(super) fn ask(&self, object: u32, slot: u32, who: ThreadId, request: Request) -> ObjectAnswer {
        let place = self.table.slot(slot);
        let granted = self.grants(who, request);
        // In one step: who looks at the slot without the guard sees it in use, from when the thread took it.
        let role = match granted {
            false => WAITS,
            true if request == Request::Read => READS,
            true => FREE,
        };
        place.note(object, role, who, request);
        if !granted {
            Parking::shut(&place.gate);
            self.append(slot);
            return ObjectAnswer::Waits;
        }
        if request == Request::Read {
            self.note_reader(slot);
        }
        ObjectAnswer::Granted
    }

    fn append(&self, slot: u32) {
        let last = self.record.last.load(Relaxed);
        self.record.last.store(slot, Relaxed);
        match last {
            0 => self.record.first.store(slot, Relaxed),
            last => self.table.slot(last).next.store(slot, Relaxed),
        }
    }

    /// Takes the first of those that wait out of the queue.
    fn take_first(&self) -> Option<u32> {
        let slot = self.record.first.load(Relaxed);
        if slot == 0 {
            return None;
        }
        let next = self.table.slot(slot).next.load(Relaxed);
        self.record.first.store(next, Relaxed);
        if next == 0 {
            self.record.last.store(0, Relaxed);
        }
        Some(slot)
    }

    fn note_reader(&self, slot: u32) {
        let place = self.table.slot(slot);
        place.role.store(READS, Relaxed);
        place.next.store(self.record.readers.load(Relaxed), Relaxed);
        self.record.readers.store(slot, Relaxed);
    }

    /// The slot of a thread that has the object to read.
    pub(super) fn reader(&self, who: ThreadId) -> Option<u32> {
        self.table.list(&self.record.readers).find(|&slot| self.table.slot(slot).who() == who)
    }

    /// The first thread that waits.
    pub(super) fn first_waiter(&self) -> Option<ThreadId> {
        let slot = self.record.first.load(Relaxed);
        (slot != 0).then(|| self.table.slot(slot).who())
    }

    /// The thread that has the object alone.
    #[inline]
    pub(super) fn owner(&self) -> Option<ThreadId> {
        let owner = self.record.owner.load(Relaxed);
        (owner != 0).then_some(ThreadId(owner))
    }

    /// The thread that has the object alone gives it back: those go on whose turn it is.
    #[inline]
    pub(super) fn disown(&self) -> Chain {
        self.record.owner.store(0, Relaxed);
        self.change(|_| 0)
    }

    /// A thread that has the object to read gives it back, and its slot with it.
    pub(super) fn has_read(&self, slot: u32) -> Chain {
        let next = self.table.slot(slot).next.load(Relaxed);
        let before =
            self.table.list(&self.record.readers).find(|&s| self.table.slot(s).next.load(Relaxed) == slot);
        match before {
            Some(before) => self.table.slot(before).next.store(next, Relaxed),
            None => self.record.readers.store(next, Relaxed),
        }
        self.table.slot(slot).role.store(FREE, Relaxed);
        self.change(|readers| readers.saturating_sub(1))
    }

    /// The object's value changes: those go on to whom it grants what they wait for.
    #[inline]
    pub(super) fn change(&self, change: impl FnOnce(u64) -> u64) -> Chain {
        self.record.value.store(change(self.record.value.load(Relaxed)), Relaxed);
        if self.record.first.load(Relaxed) == 0 { Chain::default() } else { self.let_go_on() }
    }

    /// In the order in which they came, as long as each gets what it waits for. A flag's number lets those go
    /// on for which it is large enough, whoever came before.
    fn let_go_on(&self) -> Chain {
        let mut go = Chain::default();
        let mut stay = Chain::default();
        loop {
            let slot = self.record.first.load(Relaxed);
            let place = self.table.slot(slot);
            let request = place.request();
            let next = if slot == 0 { None } else { request.next(self.record.value.load(Relaxed)) };
            let stays = slot != 0 && next.is_none() && matches!(request, Request::AtLeast(_));
            if next.is_none() && !stays {
                break;
            }
            self.take_first();
            let Some(next) = next else {
                stay.push(self.table, slot);
                continue;
            };
            self.grant(place.who(), request, next);
            if request == Request::Read {
                // Readers are a list of their own, so the slot cannot be in a chain: its gate is opened here.
                self.note_reader(slot);
                Parking::open(&place.gate);
            } else {
                place.role.store(FREE, Relaxed);
                go.push(self.table, slot);
            }
        }
        while let Some(slot) = stay.pop(self.table) {
            self.table.slot(slot).next.store(0, Relaxed);
            self.append(slot);
        }
        go
    }

    /// A condition's signal: the first that waits, or all, are to ask for their locks.
    pub(super) fn signal(&self, all: bool) -> Chain {
        let mut woken = Chain::default();
        while let Some(slot) = self.take_first() {
            woken.push(self.table, slot);
            if !all {
                break;
            }
        }
        woken
    }

    /// A thread that was woken from a condition asks for its lock, which this is. Whether it has it: its gate
    /// is to be opened then.
    pub(super) fn ask_again(&self, lock: u32, slot: u32) -> bool {
        let place = self.table.slot(slot);
        let (who, request) = (place.who(), Request::Lock);
        let granted = self.grants(who, request);
        place.note(lock, if granted { FREE } else { WAITS }, who, request);
        if !granted {
            self.append(slot);
        }
        granted
    }

    /// A thread that was woken from a condition finds that its lock, which this was, was destroyed: its gate
    /// is to be opened.
    pub(super) fn tell_gone(&self, slot: u32) {
        let place = self.table.slot(slot);
        place.note(0, FREE, place.who(), Request::Gone);
    }

    /// Whether anybody of this rank has the object alone.
    pub(super) fn is_owned_by(&self, rank: u32) -> bool {
        self.owner().is_some_and(|who| who.rank() == rank)
    }
}
