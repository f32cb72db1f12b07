//! Objects of the heap that have one owner at a time, or none: they are *parked* then, and the first rank or
//! thread that asks for one gets it. [Two bits](ParkedBits) beside the object's own decide. Safe code may ask
//! for any address, at any time: also for an object that is gone, whose page has others since.
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
use scash_proto::part::{KIND, Kind, LEAST_PARKED, PARKED, PARKED_IN, ParkedBits, fresh_bits};
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
        let _at_words = self.heap.come_to_words()?;
        let address = self.memalign(align, bytes.max(LEAST))?;
        self.guarded(|| {
            let place = self.place_of(address)?;
            self.on_word(place, PARKED, Rmw::And(!ParkedBits::of(place.byte).parked))?;
            self.forget_that_fresh(place)
        })?;
        Ok(address)
    }

    /// The owner gives an object up.
    pub(crate) fn park(&self, address: *const u8) -> Result<()> {
        self.guarded(|| {
            let _at_words = self.heap.come_to_words()?;
            let place = self.place_of(address)?;
            let size = self.size_at(place)?;
            if let Some(interval) = self.interval_of_barriers() {
                return self.park_until_barrier(place, interval);
            }
            if !self.shares_frames() {
                self.write_back(address, usize::try_from(size).unwrap_or(usize::MAX))?;
            }
            self.on_word(place, PARKED, Rmw::Or(ParkedBits::of(place.byte).parked)).map(drop)
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
            self.on_word(place, bits.word, Rmw::Or(bits.fresh))?;
            self.on_word(place, PARKED, Rmw::Or(bits.parked))?;
            Ok((interval, ()))
        })
    }

    /// The caller becomes the owner of an object without one, which must have room for so many bytes.
    pub(crate) fn adopt(&self, address: *const u8, align: usize, bytes: usize) -> Result<()> {
        self.guarded(|| {
            let _at_words = self.heap.come_to_words()?;
            let place = self.place_of(address)?;
            // Before it is looked at what is there: whatever comes between changes this word.
            let parked = self.on_word(place, PARKED, Rmw::Load)?;
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
            // Of one that was parked before the job had a lock, the other bit stays: nobody looks at it.
            self.take_parked(place, size, parked)?;
            if self.shares_frames() { Ok(()) } else { self.read_home(address, room) }
        })
    }

    /// Makes the caller the owner of an object that is parked. `parked` is what the word was before it was
    /// found out that an object of this size is there.
    fn take_parked(&self, place: Place, size: u64, mut parked: u64) -> Result<()> {
        let bit = ParkedBits::of(place.byte).parked;
        loop {
            if parked & bit == 0 {
                return Err(has_owner(place));
            }
            let taken = Rmw::CompareSwap { expected: parked, new: parked & !bit };
            let found = self.on_word(place, PARKED, taken)?;
            if found == parked {
                break;
            }
            parked = found;
        }
        // Others may have adopted and freed it, and the page may have got objects of another size, of which
        // one was parked. It stays where it is: nobody frees what is parked.
        if self.room_at(place).ok() != Some(size) {
            self.on_word(place, PARKED, Rmw::Or(bit))?;
            return Err(self.no_object(place));
        }
        Ok(())
    }

    /// In a job with barriers only, with the page's lock: `last` is the last interval in which anything of
    /// the page was parked.
    fn adopt_parked_before(&self, place: Place, size: u64, interval: u64, last: u64) -> Result<()> {
        let bits = ParkedBits::of(place.byte);
        let parked = self.on_word(place, PARKED, Rmw::Load)?;
        if self.size_at(place).ok() != Some(size) {
            return Err(self.no_object(place));
        }
        let is_mine = lock(&self.heap.fresh).has(place.address, interval);
        if parked & bits.parked != 0 && last == interval && !is_mine {
            let fresh = self.on_word(place, bits.word, Rmw::Load)? & bits.fresh;
            if fresh != 0 {
                return Err(parked_since_the_barrier(place));
            }
        }
        self.take_parked(place, size, parked)?;
        self.forget_that_fresh(place)?;
        lock(&self.heap.fresh).addresses.remove(&place.address.addr());
        Ok(())
    }

    /// By the owner.
    fn forget_that_fresh(&self, place: Place) -> Result<()> {
        let bits = ParkedBits::of(place.byte);
        self.on_word(place, bits.word, Rmw::And(!bits.fresh)).map(drop)
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
