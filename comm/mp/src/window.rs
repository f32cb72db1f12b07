//! Windows: parts of registered memory that all ranks can put to and get from.

use super::communicator::Communicator;
use super::driver::Goal;
use super::registered::Heap;
use super::span::ReceiveBuffer;
use scash_comm::{Error, Result, racing};
use std::sync::Arc;

/// Memory of all ranks that all ranks can put to and get from; see [`Communicator::window`].
///
/// Others may write it at any time, ranks and threads, so there are no slices of it. What is read, put or got
/// while it is written is any mixture of old and new bytes; that is all that can go wrong. If it is dropped
/// and not closed, its memory stays taken until the communicator is gone: others could not know.
#[derive(Debug)]
pub struct Window {
    heap: Arc<Heap>,
    rank: u32,
    /// By rank.
    parts: Vec<RankMemory>,
}

/// A rank's part: where it begins in that rank's registered memory, and how long it is.
#[derive(Clone, Copy, Debug)]
struct RankMemory {
    offset: usize,
    len: usize,
}

/// What a rank without room tells in place of an offset.
const NO_ROOM: u64 = u64::MAX;

impl Communicator {
    /// Makes `len` bytes of this rank, of registered memory
    /// ([`Options::registered`](super::Options::registered)), reachable for all. Collective; each rank may
    /// choose another length. What is in it at first is not said.
    ///
    /// # Errors
    /// A rank has no room for its part, which all are told; or a rank is gone.
    pub fn window(&self, len: usize) -> Result<Window> {
        // No checkpoint may come between the heap and its use.
        let mut engine = self.shared.engine();
        let heap = self.heap()?;
        let claimed = heap.claim(len);
        if let Ok(offset) = claimed {
            // SAFETY: the memory is mapped for as long as the communicator lives, and belongs to nobody else
            // until the window is closed.
            let place = unsafe { ReceiveBuffer::new(heap.at(offset), len) };
            // Before the others know of it.
            engine.open_window(offset, place);
        }
        drop(engine);
        let mine = [claimed.as_ref().map_or(NO_ROOM, |offset| *offset as u64), len as u64];
        let mut all = vec![0; 2 * self.size() as usize];
        self.all_gather(&mine, &mut all)?;
        let part = |card: &[u64]| Some((usize::try_from(card[0]).ok()?, usize::try_from(card[1]).ok()?));
        let parts = all.chunks(2).map(|card| part(card).filter(|_| card[0] != NO_ROOM));
        let parts: Option<Vec<RankMemory>> =
            parts.map(|part| part.map(|(offset, len)| RankMemory { offset, len })).collect();
        match (claimed, parts) {
            (Ok(_), Some(parts)) => Ok(Window { heap: Arc::clone(heap), rank: self.rank(), parts }),
            (Ok(offset), None) => {
                self.shared.engine().close_window(offset, len);
                heap.release(offset, len);
                let rank = all.chunks(2).position(|card| card[0] == NO_ROOM).unwrap_or(0);
                Err(Error::Invalid(format!(
                    "rank {rank} has no room for its part of a window: choose more registered memory (SCASH_MP_REGISTERED)"
                )))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Closes a window: when this returns, what any rank has put to it was in place, and its memory is free.
    /// Collective. Gets from it must be over at the rank that has begun them.
    ///
    /// # Errors
    /// It is another communicator's, or a rank is gone: then its memory stays taken.
    pub fn close_window(&self, window: Window) -> Result<()> {
        window.check(self)?;
        self.fence(None)?;
        self.shared.until(Goal::Gets, |engine| (!engine.has_gets()).then_some(()));
        self.barrier()?;
        let RankMemory { offset, len } = window.mine();
        self.shared.engine().close_window(offset, len);
        window.heap.release(offset, len);
        Ok(())
    }
}

impl Window {
    /// Bytes of this rank's part.
    pub fn len(&self) -> usize {
        self.mine().len
    }

    /// Whether this rank's part has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of a rank's part; 0 if there is no such rank.
    pub fn len_at(&self, rank: u32) -> usize {
        self.parts.get(rank as usize).map_or(0, |part| part.len)
    }

    /// Where this rank's part begins, aligned to pages. Valid until the window is closed and the communicator
    /// is gone. A program that reads or writes there by plain accesses sees to it that nobody else does
    /// meanwhile.
    pub fn as_ptr(&self) -> *mut u8 {
        self.heap.at(self.mine().offset)
    }

    /// Copies bytes into this rank's part.
    ///
    /// # Errors
    /// They reach beyond its end.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let offset = self.place(self.rank, offset, bytes.len())?;
        // SAFETY: inside this rank's part, of which there are only copies of this kind.
        unsafe { racing::copy(bytes.as_ptr(), self.heap.at(offset), bytes.len()) };
        Ok(())
    }

    /// Copies bytes out of this rank's part.
    ///
    /// # Errors
    /// They reach beyond its end.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        let offset = self.place(self.rank, offset, into.len())?;
        // SAFETY: as above; there are no references to it, so `into` is not in it.
        unsafe { racing::copy(self.heap.at(offset), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// An error if it was not made by this communicator.
    #[inline]
    pub(super) fn check(&self, communicator: &Communicator) -> Result<()> {
        if Arc::ptr_eq(&self.heap, communicator.heap()?) {
            return Ok(());
        }
        Err(Error::Invalid("this window was made by another communicator".to_owned()))
    }

    /// Where `len` bytes at `offset` of a rank's part are in its registered memory.
    #[inline]
    pub(super) fn place(&self, rank: u32, offset: usize, len: usize) -> Result<usize> {
        match self.parts.get(rank as usize) {
            Some(part) if offset <= part.len && len <= part.len - offset => Ok(part.offset + offset),
            part => Err(self.outside(rank, offset, len, part)),
        }
    }

    #[cold]
    fn outside(&self, rank: u32, offset: usize, len: usize, part: Option<&RankMemory>) -> Error {
        Error::Invalid(match part {
            Some(part) => format!(
                "{len} bytes at {offset} are not inside rank {rank}'s part of a window, which has {}",
                part.len
            ),
            None => format!("there is no rank {rank}: the job has {}, counted from 0", self.parts.len()),
        })
    }

    fn mine(&self) -> RankMemory {
        self.parts[self.rank as usize]
    }
}
