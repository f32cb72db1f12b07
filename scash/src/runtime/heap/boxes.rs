//! Objects of the heap that have one owner at a time, or none: they are *parked* then, and the first rank or
//! thread that asks for one gets it. A bit beside the object's own decides.

use super::{Place, Runtime};
use crate::error::{Error, Result};
use scash_comm::Rmw;
use scash_proto::part::{GRAIN, PARKED, bit_of};

/// Fewest bytes of an object that can be parked: the bit belongs to its second grain.
const LEAST: usize = 32;
const _: () = assert!(LEAST as u64 == 2 * GRAIN);

impl Runtime {
    /// As [`memalign`](Self::memalign): an object with an owner, the caller.
    pub(crate) fn own_new(&self, align: usize, bytes: usize) -> Result<*mut u8> {
        let address = self.memalign(align, bytes.max(LEAST))?;
        self.guarded(|| self.on_parked(self.place_of(address)?, |bit| Rmw::And(!bit)))?;
        Ok(address)
    }

    /// The owner gives an object up. What this rank wrote in it is where the next owner looks for it.
    pub(crate) fn park(&self, address: *const u8) -> Result<()> {
        self.guarded(|| {
            self.heap.refuse_in_meetings()?;
            let place = self.place_of(address)?;
            let size = self.size_at(place)?;
            if !self.shares_frames() {
                self.write_back(address, usize::try_from(size).unwrap_or(usize::MAX))?;
            }
            self.on_parked(place, Rmw::Or).map(drop)
        })
    }

    /// The caller becomes the owner of an object without one, which must have room for so many bytes.
    pub(crate) fn adopt(&self, address: *const u8, align: usize, bytes: usize) -> Result<()> {
        self.guarded(|| {
            self.heap.refuse_in_meetings()?;
            let place = self.place_of(address)?;
            let size = usize::try_from(self.size_at(place)?).unwrap_or(usize::MAX);
            if size < bytes.max(LEAST) || !(address as usize).is_multiple_of(align) {
                return Err(Error::Argument(format!(
                    "the object at {address:p} has room for {size} bytes: it is no box of a type that has {bytes}, aligned to {align}"
                )));
            }
            let was_parked = self.on_parked(place, |bit| Rmw::And(!bit))?;
            // Between the two looks others may have adopted and freed it, and the page may have got objects
            // of another size.
            if was_parked && self.room_at(place).ok() != Some(size as u64) {
                self.on_parked(place, Rmw::Or)?;
                return Err(self.no_object(place));
            }
            if !was_parked {
                return Err(Error::Argument(format!(
                    "the object at {address:p} has an owner: it has to be given up first, by `SharedBox::park`, for each time \
                     that it is adopted"
                )));
            }
            if self.shares_frames() { Ok(()) } else { self.see_what_is_at_home(address, size) }
        })
    }

    /// Changes the bit of an object that says that it is parked. Whether it was set.
    fn on_parked(&self, place: Place, op: impl FnOnce(u64) -> Rmw<u64>) -> Result<bool> {
        let (word, bit) = bit_of(place.byte + PARKED * GRAIN);
        Ok(self.on_word(place, word, op(bit))? & bit != 0)
    }
}
