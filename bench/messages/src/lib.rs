//! Message passing as programs and benchmarks use it that are compared with others: the same code over
//! [`scash_mp`] and over MPI.
//!
//! [`Messages`] is what they ask for, and no more: sends, receives, and the [`Collective`] operations.
//! [`join`] finds out which of the two a process was started with. Only communication differs then: the
//! program, its compiler and its flags are the same.
//!
//! | module | what it is |
//! |---|---|
//! | this | the trait, its typed calls, joining |
//! | `ours` | over a [`MessageJob`] |
//! | `mpi` | over an MPI library, through a shim in C (`mpi/shim.c`) that is loaded at run time |
//! | [`every_call`] | what both are held to |
//! | `spoiled` | messages with wrong bits, to see whether a program notices |
//! | [`binding`] | which processors their ranks are bound to |
//! | [`rival`] | which MPI libraries there are here, how the shim is compiled for each, and how its ranks are started |

pub mod binding;
pub mod every_call;
mod mpi;
mod ours;
pub mod rival;
mod spoiled;

use mpi::Mpi;
use scash::runtime::MessageJob;
use scash_comm::{Error, Result};
use scash_mp::{Collective, Op, Options, Reducible, Reduction};
use std::path::PathBuf;
use std::str::FromStr;

pub use spoiled::Spoiled;

/// A rank's messages, untyped. (Typed calls are methods of `dyn Messages`.)
///
/// Tags are at most 32,767, which every MPI library takes.
pub trait Messages {
    /// This rank.
    fn rank(&self) -> u32;

    /// Number of ranks.
    fn size(&self) -> u32;

    /// Sends a message, and returns when its bytes may be changed again.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    fn send_bytes(&self, to: u32, tag: u16, bytes: &[u8]) -> Result<()>;

    /// Receives a message that is as long as the memory for it.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    fn receive_bytes(&self, from: u32, tag: u16, into: &mut [u8]) -> Result<()>;

    /// Begins to send the `len` bytes at `bytes`.
    ///
    /// # Safety
    /// They are readable and unchanged until the operation is known to be over.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    unsafe fn start_send(&self, to: u32, tag: u16, bytes: *const u8, len: usize) -> Result<Request>;

    /// Begins to receive a message into the `len` bytes at `into`.
    ///
    /// # Safety
    /// They are writable, and used by nobody else, until the operation is known to be over.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    unsafe fn start_receive(&self, from: u32, tag: u16, into: *mut u8, len: usize) -> Result<Request>;

    /// Waits for the end of an operation.
    ///
    /// # Errors
    /// Why it failed.
    fn wait(&self, request: Request) -> Result<()>;

    /// Makes progress; the request again, if the operation is not over.
    ///
    /// # Errors
    /// Why it failed.
    fn test(&self, request: Request) -> Result<Option<Request>>;

    /// A place for a checkpoint where ranks can come back, which is a barrier then; elsewhere nothing.
    /// Collective.
    ///
    /// # Errors
    /// A rank is gone.
    fn checkpoint(&self) -> Result<()> {
        Ok(())
    }

    /// Plays a collective operation.
    ///
    /// # Safety
    /// `input` is readable and `output` writable for as many bytes as the operation says (see
    /// [`Collective`]), and they do not overlap.
    ///
    /// # Errors
    /// Numbers that do not fit this job, or a rank that is gone.
    unsafe fn play(&self, collective: &Collective, input: *const u8, output: *mut u8) -> Result<()>;

    /// Gives `len` bytes to each rank, and takes as many from it: [`Collective::AllToAll`] of equal parts at
    /// all ranks, for which MPI has a call of its own.
    ///
    /// # Safety
    /// `input` is readable and `output` writable for `len` bytes a rank, and they do not overlap.
    ///
    /// # Errors
    /// A rank is gone.
    unsafe fn all_to_all_bytes(&self, len: usize, input: *const u8, output: *mut u8) -> Result<()>;
}

/// An operation that was begun. It must be waited for: until then it uses memory.
#[derive(Debug)]
#[must_use = "an operation that nobody waits for is never known to be over"]
pub struct Request(StartedOperation);

#[derive(Debug)]
enum StartedOperation {
    Ours(scash_mp::Request),
    Mpi(u64),
}

impl dyn Messages + '_ {
    /// Sends elements, and returns when they may be changed again.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    pub fn send<T: Reducible>(&self, to: u32, tag: u16, data: &[T]) -> Result<()> {
        self.send_bytes(to, tag, bytes(data))
    }

    /// Receives as many elements as there is room for.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    pub fn receive<T: Reducible>(&self, from: u32, tag: u16, into: &mut [T]) -> Result<()> {
        self.receive_bytes(from, tag, bytes_mut(into))
    }

    /// Sends and receives at the same time.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    pub fn send_receive<T: Reducible>(
        &self,
        tag: u16,
        to: u32,
        data: &[T],
        from: u32,
        into: &mut [T],
    ) -> Result<()> {
        self.exchange(tag, [(to, data)], [(from, into)])
    }

    /// Sends and receives several messages at the same time. Those between two ranks are matched in their
    /// order.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    pub fn exchange<T: Reducible, const N: usize>(
        &self,
        tag: u16,
        sends: [(u32, &[T]); N],
        receives: [(u32, &mut [T]); N],
    ) -> Result<()> {
        if let Some((to, _)) = sends.iter().find(|(to, _)| *to >= self.size()) {
            return Err(Error::Invalid(format!(
                "there is no rank {to}: the job has {}, counted from 0",
                self.size()
            )));
        }
        let receives = receives.map(|(from, into)| {
            let into = bytes_mut(into);
            // SAFETY: the memory is borrowed until this returns, and all are waited for below, whatever comes
            // of the sends.
            unsafe { self.start_receive(from, tag, into.as_mut_ptr(), into.len()) }
        });
        let sent = sends.into_iter().try_for_each(|(to, data)| self.send(to, tag, data));
        let received = receives.map(|begun| begun.and_then(|request| self.wait(request)));
        received.into_iter().collect::<Result<()>>().and(sent)
    }

    /// Returns when all ranks have called it.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn barrier(&self) -> Result<()> {
        // SAFETY: it uses no memory.
        unsafe { self.play(&Collective::Barrier, std::ptr::null(), std::ptr::null_mut()) }
    }

    /// Gives the root's elements to all.
    ///
    /// # Errors
    /// There is no such root, or a rank is gone.
    pub fn broadcast<T: Reducible>(&self, root: u32, data: &mut [T]) -> Result<()> {
        let collective = Collective::Broadcast { root, len: size_of_val(data) };
        self.play_on::<T>(&collective, &[], data)
    }

    /// Combines the elements of all ranks, one by one, into `result` at every rank.
    ///
    /// # Errors
    /// An operation that the elements do not have, or a rank that is gone.
    ///
    /// # Panics
    /// If `result` is not as long as `mine`.
    pub fn all_reduce<T: Reducible>(&self, op: Op, mine: &[T], result: &mut [T]) -> Result<()> {
        assert_eq!(mine.len(), result.len(), "as many results as elements");
        let collective = Collective::AllReduce { count: mine.len(), reduction: reduction::<T>(op)? };
        self.play_on(&collective, mine, result)
    }

    /// The numbers of all ranks, combined one by one.
    ///
    /// # Errors
    /// As for `all_reduce`.
    pub fn combined<T: Reducible, const N: usize>(&self, op: Op, mine: [T; N]) -> Result<[T; N]> {
        let mut result = mine;
        self.all_reduce(op, &mine, &mut result)?;
        Ok(result)
    }

    /// Gathers as many elements of each rank, in their order, in `all` at every rank.
    ///
    /// # Errors
    /// A rank is gone.
    ///
    /// # Panics
    /// If there is not room for all.
    pub fn all_gather<T: Reducible>(&self, mine: &[T], all: &mut [T]) -> Result<()> {
        let size = self.size() as usize;
        assert_eq!(mine.len() * size, all.len(), "room for all");
        self.play_on(&Collective::AllGather { lens: vec![size_of_val(mine); size] }, mine, all)
    }

    /// Gives part r of each rank's elements to rank r, in the order of ranks; all parts are equally long.
    ///
    /// # Errors
    /// A rank is gone.
    ///
    /// # Panics
    /// If the lengths differ, or are no multiple of the number of ranks.
    pub fn all_to_all<T: Reducible>(&self, mine: &[T], theirs: &mut [T]) -> Result<()> {
        let size = self.size() as usize;
        assert!(mine.len() == theirs.len() && mine.len().is_multiple_of(size), "equal parts");
        let len = size_of_val(mine) / size;
        // SAFETY: the memory was just found to be as long, and the elements are plain numbers, of any bits.
        unsafe { self.all_to_all_bytes(len, mine.as_ptr().cast(), theirs.as_mut_ptr().cast()) }
    }

    /// Gives the next `to[r]` elements of `mine` to each rank r, and takes the `from[r]` that it has for this
    /// one, in the order of ranks.
    ///
    /// # Errors
    /// A rank is gone.
    ///
    /// # Panics
    /// If the memory is not as long as the counts say, or there is not one for each rank.
    pub fn all_to_all_v<T: Reducible>(
        &self,
        mine: &[T],
        to: &[usize],
        theirs: &mut [T],
        from: &[usize],
    ) -> Result<()> {
        let size = self.size() as usize;
        assert!(to.len() == size && from.len() == size, "a count for each rank");
        assert!(sum(to) == mine.len() && sum(from) == theirs.len(), "elements as counted");
        let lens = |counts: &[usize]| counts.iter().map(|count| count * size_of::<T>()).collect();
        self.play_on(&Collective::AllToAll { to: lens(to), from: lens(from) }, mine, theirs)
    }

    /// Plays an operation whose lengths are those of this memory.
    fn play_on<T: Reducible>(&self, collective: &Collective, input: &[T], output: &mut [T]) -> Result<()> {
        // SAFETY: the callers have seen to the lengths, and the elements are plain numbers, of any bits.
        unsafe { self.play(collective, input.as_ptr().cast(), output.as_mut_ptr().cast()) }
    }
}

fn reduction<T: Reducible>(op: Op) -> Result<Reduction> {
    let wrong =
        || Error::Invalid(format!("{op:?} of {:?}: only integers have bits to be combined", T::ELEMENT));
    Reduction::new(T::ELEMENT, op).ok_or_else(wrong)
}

fn sum(counts: &[usize]) -> usize {
    counts.iter().sum()
}

/// The bytes of numbers.
fn bytes<T: Reducible>(data: &[T]) -> &[u8] {
    // SAFETY: reducible types are plain numbers, without bytes of no meaning.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

fn bytes_mut<T: Reducible>(data: &mut [T]) -> &mut [u8] {
    // SAFETY: as above; and any bits are such a number.
    unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast(), size_of_val(data)) }
}

/// Over what messages travel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MessageLibrary {
    /// scash, whose launcher has started this process.
    #[default]
    Scash,
    /// The MPI library that this shim was compiled for, whose launcher has started this process.
    Mpi(PathBuf),
}

impl FromStr for MessageLibrary {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once(':') {
            None if text == "scash" => Ok(MessageLibrary::Scash),
            Some(("mpi", path)) if !path.is_empty() => Ok(MessageLibrary::Mpi(path.into())),
            _ => Err("`scash`, or `mpi:` and the path of a compiled shim".to_owned()),
        }
    }
}

/// A rank that has joined its job.
#[derive(Debug)]
pub enum Joined {
    /// One of scash.
    Scash(MessageJob),
    /// One of MPI.
    Mpi(Mpi),
}

/// Joins the job that this process was started for. Once a process.
///
/// # Errors
/// Not started by a launcher, ranks that do not reach each other, or a shim that cannot be loaded.
pub fn join(over: &MessageLibrary, options: Options) -> Result<Joined> {
    match over {
        MessageLibrary::Scash => MessageJob::from_env(options).map(Joined::Scash),
        MessageLibrary::Mpi(shim) => Mpi::join(shim).map(Joined::Mpi),
    }
}

impl Joined {
    /// The rank's messages.
    pub fn messages(&self) -> &(dyn Messages + 'static) {
        match self {
            Joined::Scash(job) => job,
            Joined::Mpi(mpi) => mpi,
        }
    }

    /// Leaves the job. Collective.
    ///
    /// # Errors
    /// A rank is gone, or the launcher.
    pub fn finalize(self) -> Result<()> {
        match self {
            Joined::Scash(job) => job.finalize(),
            Joined::Mpi(mpi) => mpi.finalize(),
        }
    }
}
