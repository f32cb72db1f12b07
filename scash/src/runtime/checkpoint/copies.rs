//! Copies of this rank's store at ranks of other hosts, and those of other ranks' stores that it holds for
//! them.
//!
//! A copy is a file in memory which the agent of its host keeps, as it keeps the stores of its own ranks. A
//! rank of that host has it as a segment of its endpoint, so the owner writes it by put and fence, and nobody
//! there is asked ([`scash_ft::store::FileRange`]).

use crate::error::{Error, Result, join};
use scash_comm::descriptors::out_of_the_way;
use scash_comm::{Endpoint, Exchange, LocalSegment, PutRange, SegmentId, SharedMemory};
use scash_ft::commit::MOST_HOLDERS;
use scash_ft::store::{FileRange, HeldCopy, RankStore, vars};
use std::ffi::OsString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Most bytes that are put before it is waited for their arrival: more would be copied, to wait in memory.
const AT_ONCE: usize = 4 << 20;

/// See [the module](self).
#[derive(Debug, Default)]
pub(crate) struct StoreCopies {
    /// Those of others. They stay mapped as long as the endpoint is there.
    _held: Vec<HeldCopy>,
    /// What is registered in their place where other ranks hold more: as long, and without memory.
    _nothing: Vec<SharedMemory>,
    /// Where copies of this rank's store are.
    holders: Vec<CopyHolder>,
}

/// A rank of another host that holds a copy.
#[derive(Clone, Copy, Debug)]
struct CopyHolder {
    rank: u32,
    segment: SegmentId,
}

/// A copy that this rank is to hold, and whose it is.
struct Charge {
    owner: u32,
    file: OwnedFd,
}

impl StoreCopies {
    /// Registers the copies that this rank holds, and learns which ranks hold its own. Collective.
    ///
    /// # Errors
    /// What the launcher has given are no stores, or none of one length; or ranks hold copies for ranks that
    /// there are not.
    pub(crate) fn join(
        exchange: &mut dyn Exchange,
        endpoint: &dyn Endpoint,
        store: &RankStore,
        var: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<StoreCopies> {
        let len = usize::try_from(store.len()).unwrap_or(usize::MAX);
        let mut mine = store.len().to_le_bytes().to_vec();
        let mut held = Vec::new();
        for Charge { owner, file } in charges(&var(vars::HELD).unwrap_or_default())? {
            mine.extend(owner.to_le_bytes());
            let copy = HeldCopy::open(file);
            let copy = copy.map_err(|e| Error::Join(format!("the copy of rank {owner}'s store: {e}")))?;
            if copy.len() != len {
                return Err(Error::Join(format!("the copy of rank {owner}'s store has another length")));
            }
            held.push(copy);
        }
        let told = exchange.all_gather(&mine, &[]).map_err(join)?;
        let owners = owners(&told, endpoint.size(), store.len())?;
        let mut copies = StoreCopies { _held: Vec::new(), _nothing: Vec::new(), holders: Vec::new() };
        for number in 0..owners.iter().map(Vec::len).max().unwrap_or(0) {
            let memory = match held.get(number) {
                Some(held) => LocalSegment { base: held.base(), len, fd: held.file().as_raw_fd() },
                None => {
                    copies._nothing.push(SharedMemory::new(len).map_err(join)?);
                    copies._nothing[copies._nothing.len() - 1].segment()
                }
            };
            // SAFETY: both stay mapped as long as the endpoint, beside which this value is kept; nobody has
            // references to them.
            let segment = unsafe { endpoint.register(exchange, memory) }.map_err(join)?;
            let holds = |(_, owners): &(u32, &Vec<u32>)| owners.get(number) == Some(&endpoint.rank());
            let holders = (0..).zip(&owners).filter(holds).map(|(rank, _)| CopyHolder { rank, segment });
            copies.holders.extend(holders);
        }
        copies._held = held;
        if copies.holders.len() >= usize::from(MOST_HOLDERS) {
            return Err(Error::Join(format!("{} ranks hold this one's store", copies.holders.len())));
        }
        Ok(copies)
    }

    /// How many holders the store has, this host among them.
    pub(super) fn count(&self) -> u8 {
        u8::try_from(self.holders.len() + 1).unwrap_or(MOST_HOLDERS)
    }

    /// Sends what a copy lacks of the epoch that is staged, or all of it; not its mark. Holder 0 is the
    /// store.
    pub(super) fn send(
        &self,
        endpoint: &dyn Endpoint,
        holder: u8,
        store: &mut RankStore,
        all: bool,
    ) -> Result<()> {
        let mut on_their_way = 0;
        store.changes(all, |piece| {
            on_their_way += piece.len;
            self.put(endpoint, holder, piece)?;
            if on_their_way >= AT_ONCE {
                on_their_way = 0;
                self.fence(endpoint, holder)?;
            }
            Ok(())
        })
    }

    /// Sends the mark as it is now, and waits until it has arrived.
    pub(super) fn mark(&self, endpoint: &dyn Endpoint, holder: u8, store: &RankStore) -> Result<()> {
        self.put(endpoint, holder, store.mark_piece())?;
        self.fence(endpoint, holder)
    }

    /// Waits until all has arrived that was sent.
    pub(super) fn fence(&self, endpoint: &dyn Endpoint, holder: u8) -> Result<()> {
        let CopyHolder { rank, .. } = self.holder(holder)?;
        endpoint.flush()?;
        Ok(endpoint.fence(rank)?)
    }

    fn put(&self, endpoint: &dyn Endpoint, holder: u8, piece: FileRange) -> Result<()> {
        let CopyHolder { rank, segment } = self.holder(holder)?;
        let FileRange { offset, bytes, len } = piece;
        // SAFETY: the bytes are those of the store, which changes only when what is staged has arrived.
        Ok(unsafe { endpoint.put(rank, segment, &[PutRange { offset, len, src: bytes }]) }?)
    }

    fn holder(&self, number: u8) -> Result<CopyHolder> {
        let holder = number.checked_sub(1).and_then(|index| self.holders.get(usize::from(index)));
        holder.copied().ok_or_else(|| Error::Broken(format!("the store has no holder {number}")))
    }
}

/// What the launcher has given: `4:1234,5:1235`.
fn charges(text: &OsString) -> Result<Vec<Charge>> {
    let wrong =
        || Error::Join(format!("{}={}: ranks and descriptors are expected", vars::HELD, text.display()));
    let one = |word: &str| {
        let (owner, file) = word.split_once(':')?;
        let (owner, file) = (owner.parse().ok()?, file.parse::<RawFd>().ok().filter(|file| *file > 2)?);
        // SAFETY: the launcher has given it to this process, and nobody else knows it; if not, calls with it
        // fail.
        Some(Charge { owner, file: out_of_the_way(unsafe { OwnedFd::from_raw_fd(file) }) })
    };
    let words = text.to_str().ok_or_else(wrong)?.split(',').filter(|word| !word.is_empty());
    words.map(|word| one(word).ok_or_else(wrong)).collect()
}

/// Whose stores each rank says that it holds, where all must be as long.
fn owners(told: &[(Vec<u8>, Vec<OwnedFd>)], size: u32, len: u64) -> Result<Vec<Vec<u32>>> {
    let of = |(rank, (told, _)): (u32, &(Vec<u8>, Vec<OwnedFd>))| {
        let (theirs, told) = told.split_first_chunk().unwrap_or((&[0; 8], &[]));
        if u64::from_le_bytes(*theirs) != len {
            return Err(Error::Join(format!(
                "the store of rank {rank} has another length than that of this one: set `ulimit -f` alike on all hosts"
            )));
        }
        let (words, rest) = told.as_chunks::<4>();
        let owners: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let is_right = rest.is_empty() && owners.iter().all(|owner| *owner < size && *owner != rank);
        is_right.then_some(owners).ok_or_else(|| {
            Error::Join(format!("rank {rank} holds stores of ranks that are none, or its own"))
        })
    };
    (0..).zip(told).map(of).collect()
}
