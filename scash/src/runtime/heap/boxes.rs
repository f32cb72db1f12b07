//! Objects of the heap that have one owner at a time, or none: they are *parked* then, and the first rank or
//! thread that asks for one gets it. [Two bits](ParkedBits) beside the object's own decide.
//!
//! What the last owner wrote must be where the next one looks for it, and nothing of it may come later, over
//! what that one writes. Where ranks share frames there is one place for it. Where what is written back is at
//! home at once, parking does that, and adopting reads from there.
//!
//! In a job with barriers only, a page may have no home before the next one. So there an object is parked for
//! other ranks from that barrier on, which brings its bytes as it brings all others; the rank itself may take
//! it back before. The second bit says that an object is *fresh*: it was parked in the interval that a word
//! of its page tells. Whoever parks the first object of a page in an interval clears the bits of all others,
//! which were parked before. That word is also a lock: one rank at a time parks or adopts on a page.

use super::{Place, Runtime};
use crate::error::{Error, Result};
use crate::runtime::lock;
use crate::runtime::stall::WaitTimer;
use scash_comm::{Rmw, give_way};
use scash_proto::part::{KIND, Kind, LEAST_PARKED, PARKED_IN, ParkedBits, bit_of, fresh_bits};
use std::collections::BTreeSet;

/// Fewest bytes of an object that can be parked.
const LEAST: usize = 64;
const _: () = assert!(LEAST as u64 == LEAST_PARKED);

/// How often a rank that waits for a page's lock tries until it looks whether one is gone.
const LOOK: u32 = 64;

/// What this rank has parked in an interval: other ranks cannot adopt it before that is over.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    interval: u64,
    addresses: BTreeSet<usize>,
}

impl Fresh {
    fn parks(&mut self, address: *const u8, interval: u64) {
        if self.interval != interval {
            *self = Fresh { interval, addresses: BTreeSet::new() };
        }
        self.addresses.insert(address.addr());
    }

    fn has(&self, address: *const u8, interval: u64) -> bool {
        self.interval == interval && self.addresses.contains(&address.addr())
    }
}

impl Runtime {
    /// As [`memalign`](Self::memalign): an object with an owner, the caller.
    pub(crate) fn own_new(&self, align: usize, bytes: usize) -> Result<*mut u8> {
        let address = self.memalign(align, bytes.max(LEAST))?;
        self.guarded(|| {
            let place = self.place_of(address)?;
            let bits = ParkedBits::of(place.byte);
            self.on_word(place, bits.word, Rmw::And(!bits.both())).map(drop)
        })?;
        Ok(address)
    }

    /// The owner gives an object up.
    pub(crate) fn park(&self, address: *const u8) -> Result<()> {
        self.guarded(|| {
            self.heap.refuse_in_meetings()?;
            let place = self.place_of(address)?;
            let size = self.size_at(place)?;
            if let Some(interval) = self.interval_of_barriers() {
                return self.park_until_barrier(place, interval);
            }
            if !self.shares_frames() {
                self.write_back(address, usize::try_from(size).unwrap_or(usize::MAX))?;
            }
            let bits = ParkedBits::of(place.byte);
            self.on_word(place, bits.word, Rmw::Or(bits.parked)).map(drop)
        })
    }

    fn park_until_barrier(&self, place: Place, interval: u64) -> Result<()> {
        let bits = ParkedBits::of(place.byte);
        lock(&self.heap.fresh).parks(place.address, interval);
        self.lock_page(place, |last| {
            if last != interval {
                // The object keeps its page as it is.
                let kind = Kind::decode(self.on_word(place, KIND, Rmw::Load)?);
                for (word, bits) in fresh_bits(kind) {
                    self.on_word(place, word, Rmw::And(!bits))?;
                }
            }
            self.on_word(place, bits.word, Rmw::Or(bits.both()))?;
            Ok((interval, ()))
        })
    }

    /// The caller becomes the owner of an object without one, which must have room for so many bytes.
    pub(crate) fn adopt(&self, address: *const u8, align: usize, bytes: usize) -> Result<()> {
        self.guarded(|| {
            self.heap.refuse_in_meetings()?;
            let place = self.place_of(address)?;
            let size = self.size_at(place)?;
            let room = usize::try_from(size).unwrap_or(usize::MAX);
            if room < bytes.max(LEAST) || !(address as usize).is_multiple_of(align) {
                return Err(Error::Argument(format!(
                    "the object at {address:p} has room for {room} bytes: it is no box of a type that has {bytes}, \
                     aligned to {align}"
                )));
            }
            if let Some(interval) = self.interval_of_barriers() {
                return self.lock_page(place, |last| {
                    Ok((last, self.adopt_parked_before(place, size, interval, last)?))
                });
            }
            let bits = ParkedBits::of(place.byte);
            let was = self.on_word(place, bits.word, Rmw::And(!bits.parked))?;
            if was & bits.parked == 0 {
                return Err(has_owner(place));
            }
            // Between the two looks others may have adopted and freed it, and the page may have got objects
            // of another size.
            if self.room_at(place).ok() != Some(size) {
                self.on_word(place, bits.word, Rmw::Or(bits.parked))?;
                return Err(self.no_object(place));
            }
            // Parked before the job had a lock. Not before it is known whose bit that is.
            if was & bits.fresh != 0 {
                self.on_word(place, bits.word, Rmw::And(!bits.fresh))?;
            }
            if self.shares_frames() { Ok(()) } else { self.read_home(address, room) }
        })
    }

    /// In a job with barriers only, with the page's lock: `last` is the last interval in which anything of
    /// the page was parked.
    fn adopt_parked_before(&self, place: Place, size: u64, interval: u64, last: u64) -> Result<()> {
        let bits = ParkedBits::of(place.byte);
        let is_mine = lock(&self.heap.fresh).has(place.address, interval);
        let mut word = self.on_word(place, bits.word, Rmw::Load)?;
        loop {
            // In this order: a page that gets another use is cleared before it has that.
            let (first, begins) = bit_of(place.byte);
            let is_there = self.on_word(place, first, Rmw::Load)? & begins != 0;
            if !is_there || self.room_at(place).ok() != Some(size) {
                return Err(self.no_object(place));
            }
            if word & bits.parked == 0 {
                return Err(has_owner(place));
            }
            if word & bits.fresh != 0 && last == interval && !is_mine {
                return Err(parked_since_the_barrier(place));
            }
            let taken = Rmw::CompareSwap { expected: word, new: word & !bits.both() };
            let found = self.on_word(place, bits.word, taken)?;
            if found == word {
                lock(&self.heap.fresh).addresses.remove(&place.address.addr());
                return Ok(());
            }
            word = found;
        }
    }

    /// Runs something that no other rank or thread does at the same time on a place's page. It gets the last
    /// interval in which something of the page was parked, and returns what that is now.
    fn lock_page<T>(&self, place: Place, run: impl FnOnce(u64) -> Result<(u64, T)>) -> Result<T> {
        // An interval, and whether a rank has the lock.
        let mut was = self.on_word(place, PARKED_IN, Rmw::Load)?;
        let (mut turn, mut stall) = (0u32, None);
        loop {
            let free = was & !1;
            let found = self.on_word(place, PARKED_IN, Rmw::CompareSwap { expected: free, new: free | 1 })?;
            if found == free {
                break;
            }
            turn += 1;
            if turn.is_multiple_of(LOOK) {
                self.look_for_news(stall.get_or_insert_with(|| WaitTimer::new(self)))?;
            }
            give_way(turn);
            was = found;
        }
        let last = (was & !1) >> 1;
        let (done, now) = match run(last) {
            Ok((now, done)) => (Ok(done), now),
            Err(error) => (Err(error), last),
        };
        let unlocked = self.on_word(place, PARKED_IN, Rmw::Swap(now << 1));
        done.and_then(|done| unlocked.map(|_| done))
    }
}

fn has_owner(place: Place) -> Error {
    Error::Argument(format!(
        "the object at {:p} has an owner: it has to be given up first, by `SharedBox::park`, for each time that \
         it is adopted",
        place.address
    ))
}

fn parked_since_the_barrier(place: Place) -> Error {
    Error::Argument(format!(
        "another rank has parked the object at {:p} since the last memory barrier: in a job that has barriers \
         only, and no locks, flags or semaphores, it can be adopted after the next one",
        place.address
    ))
}
