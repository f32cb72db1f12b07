//! Over an MPI library, by a shim in C (`mpi/shim.c`) that was compiled for it, loaded at run time: who does
//! not compare needs no MPI.
//!
//! MPI itself ends the job at an error, with its own words; what the shim returns is looked at all the same.

use crate::{Messages, Request, StartedOperation};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use scash_comm::{Error, Result};
use scash_mp::{Collective, Element, Op, Reduction};
use std::ffi::c_int;
use std::path::Path;

/// A rank of an MPI job. MPI is used by one thread: this is neither `Send` nor `Sync`.
#[derive(Debug)]
pub struct Mpi {
    shim: Shim,
    rank: u32,
    size: u32,
    one_thread: std::marker::PhantomData<*const ()>,
}

/// Declares the shim's functions, and how they are found.
macro_rules! shim {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The shim's functions.
        #[derive(Debug)]
        struct Shim {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Shim {
            /// Finds all functions in a loaded shim.
            fn find(library: &Library) -> std::result::Result<Shim, libloading::Error> {
                Ok(Shim { $($name: {
                    type Function = unsafe extern "C" fn($($argument),*) $(-> $result)?;
                    // SAFETY: shim.c gives the function of this name this type.
                    *unsafe { library.get::<Function>(concat!("shim_", stringify!($name)).as_bytes()) }?
                },)* })
            }
        }
    };
}

shim! {
    init: fn() -> c_int;
    finalize: fn() -> c_int;
    rank: fn() -> c_int;
    size: fn() -> c_int;
    send: fn(*const u8, c_int, c_int, c_int) -> c_int;
    receive: fn(*mut u8, c_int, c_int, c_int) -> c_int;
    start_send: fn(*const u8, c_int, c_int, c_int, *mut u64) -> c_int;
    start_receive: fn(*mut u8, c_int, c_int, c_int, *mut u64) -> c_int;
    wait: fn(u64) -> c_int;
    test: fn(u64, *mut c_int) -> c_int;
    barrier: fn() -> c_int;
    broadcast: fn(*mut u8, c_int, c_int) -> c_int;
    reduce: fn(*const u8, *mut u8, c_int, c_int, c_int, c_int) -> c_int;
    all_reduce: fn(*const u8, *mut u8, c_int, c_int, c_int) -> c_int;
    gather: fn(*const u8, *mut u8, c_int, c_int) -> c_int;
    all_gather_v: fn(*const u8, c_int, *mut u8, *const c_int, *const c_int) -> c_int;
    all_gather: fn(*const u8, *mut u8, c_int) -> c_int;
    all_to_all: fn(*const u8, *mut u8, c_int) -> c_int;
    all_to_all_v: fn(*const u8, *const c_int, *const c_int, *mut u8, *const c_int, *const c_int) -> c_int;
    reduce_scatter: fn(*const u8, *mut u8, *const c_int, c_int, c_int) -> c_int;
}

impl Mpi {
    /// Joins the job that an MPI launcher has started this process for.
    pub(crate) fn join(shim: &Path) -> Result<Mpi> {
        let wrong = |why: String| Error::Invalid(format!("the MPI shim {}: {why}", shim.display()));
        let shim =
            load(shim).map_err(|why| wrong(format!("{why}; compile it anew, as `scash bench comm` does")))?;
        // SAFETY: once in a process, before all other calls; the lines below follow it.
        check("joining", unsafe { (shim.init)() })?;
        // SAFETY: between initialisation and the end.
        let rank = unsafe { (shim.rank)() };
        // SAFETY: as above.
        let size = unsafe { (shim.size)() };
        let number =
            |number: c_int| u32::try_from(number).map_err(|_| wrong(format!("a rank or size of {number}")));
        Ok(Mpi { rank: number(rank)?, size: number(size)?, shim, one_thread: std::marker::PhantomData })
    }

    /// Leaves the job.
    pub(crate) fn finalize(self) -> Result<()> {
        // SAFETY: nothing is called after it: `self` is gone.
        check("leaving", unsafe { (self.shim.finalize)() })
    }

    /// Takes a rank that exists.
    fn peer(&self, rank: u32) -> Result<c_int> {
        if rank >= self.size {
            return Err(Error::Invalid(format!(
                "there is no rank {rank}: the job has {}, counted from 0",
                self.size
            )));
        }
        int(rank as usize)
    }
}

fn load(shim: &Path) -> std::result::Result<Shim, libloading::Error> {
    // Open MPI's plug-ins look for the library's own symbols among all that are visible.
    // SAFETY: the library's constructors run: those of a library that the user has named.
    let library = unsafe { Library::open(Some(shim), RTLD_NOW | RTLD_GLOBAL) }?;
    let found = Shim::find(&library)?;
    // It is never unloaded: MPI may have threads and hooks of its own.
    std::mem::forget(library);
    Ok(found)
}

fn check(what: &str, outcome: c_int) -> Result<()> {
    // MPI_SUCCESS is 0 by the standard.
    if outcome == 0 {
        Ok(())
    } else {
        Err(Error::Invalid(format!("MPI: {what} failed with error {outcome}")))
    }
}

/// A count as MPI takes it.
fn int(count: usize) -> Result<c_int> {
    c_int::try_from(count)
        .map_err(|_| Error::Invalid(format!("MPI counts to {}: {count} are too many", c_int::MAX)))
}

/// Lengths, and the places where they begin, as MPI takes them.
fn lengths(lens: &[usize]) -> Result<(Vec<c_int>, Vec<c_int>)> {
    let mut end = 0;
    let places = lens.iter().map(|len| {
        let place = int(end);
        end += len;
        place
    });
    let places = places.collect::<Result<_>>()?;
    Ok((lens.iter().map(|&len| int(len)).collect::<Result<_>>()?, places))
}

/// The numbers of element and operation in the shim's tables.
fn numbers(reduction: Reduction) -> (c_int, c_int) {
    let element = match reduction.element() {
        Element::I8 => 0,
        Element::U8 => 1,
        Element::I16 => 2,
        Element::U16 => 3,
        Element::I32 => 4,
        Element::U32 => 5,
        Element::I64 => 6,
        Element::U64 => 7,
        Element::F32 => 8,
        Element::F64 => 9,
    };
    let operation = match reduction.op() {
        Op::Sum => 0,
        Op::Product => 1,
        Op::Min => 2,
        Op::Max => 3,
        Op::And => 4,
        Op::Or => 5,
        Op::Xor => 6,
    };
    (element, operation)
}

impl Messages for Mpi {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn send_bytes(&self, to: u32, tag: u16, bytes: &[u8]) -> Result<()> {
        // SAFETY: the bytes are borrowed until it returns.
        check("a send", unsafe {
            (self.shim.send)(bytes.as_ptr(), int(bytes.len())?, self.peer(to)?, tag.into())
        })
    }

    fn receive_bytes(&self, from: u32, tag: u16, into: &mut [u8]) -> Result<()> {
        let (len, from) = (int(into.len())?, self.peer(from)?);
        // SAFETY: the memory is borrowed until it returns.
        check("a receive", unsafe { (self.shim.receive)(into.as_mut_ptr(), len, from, tag.into()) })
    }

    unsafe fn start_send(&self, to: u32, tag: u16, bytes: *const u8, len: usize) -> Result<Request> {
        let (len, to, mut request) = (int(len)?, self.peer(to)?, 0);
        // SAFETY: the caller's promise.
        check("a send", unsafe { (self.shim.start_send)(bytes, len, to, tag.into(), &raw mut request) })?;
        Ok(Request(StartedOperation::Mpi(request)))
    }

    unsafe fn start_receive(&self, from: u32, tag: u16, into: *mut u8, len: usize) -> Result<Request> {
        let (len, from, mut request) = (int(len)?, self.peer(from)?, 0);
        // SAFETY: the caller's promise.
        check("a receive", unsafe {
            (self.shim.start_receive)(into, len, from, tag.into(), &raw mut request)
        })?;
        Ok(Request(StartedOperation::Mpi(request)))
    }

    fn wait(&self, request: Request) -> Result<()> {
        let request = own(request)?;
        // SAFETY: the shim has given the request, and it is used once.
        check("a wait", unsafe { (self.shim.wait)(request) })
    }

    fn test(&self, request: Request) -> Result<Option<Request>> {
        let (request, mut over) = (own(request)?, 0);
        // SAFETY: the shim has given the request, which is given back only if it is not over.
        check("a test", unsafe { (self.shim.test)(request, &raw mut over) })?;
        Ok(if over == 0 { Some(Request(StartedOperation::Mpi(request))) } else { None })
    }

    unsafe fn play(&self, collective: &Collective, input: *const u8, output: *mut u8) -> Result<()> {
        let shim = &self.shim;
        let (input, output) = somewhere(input, output);
        let outcome = match collective {
            // SAFETY: it uses no memory.
            Collective::Barrier => unsafe { (shim.barrier)() },
            Collective::Broadcast { root, len } => {
                let (len, root) = (int(*len)?, self.peer(*root)?);
                // SAFETY: the caller's promise.
                unsafe { (shim.broadcast)(output, len, root) }
            }
            Collective::Reduce { root, count, reduction } => {
                let (count, root, (element, op)) = (int(*count)?, self.peer(*root)?, numbers(*reduction));
                // SAFETY: the caller's promise.
                unsafe { (shim.reduce)(input, output, count, element, op, root) }
            }
            Collective::AllReduce { count, reduction } => {
                let (count, (element, op)) = (int(*count)?, numbers(*reduction));
                // SAFETY: the caller's promise.
                unsafe { (shim.all_reduce)(input, output, count, element, op) }
            }
            Collective::Gather { root, len } => {
                let (len, root) = (int(*len)?, self.peer(*root)?);
                // SAFETY: the caller's promise.
                unsafe { (shim.gather)(input, output, len, root) }
            }
            Collective::AllGather { lens } if lens.iter().all(|len| *len == lens[0]) => {
                let len = int(lens[0])?;
                // SAFETY: the caller's promise.
                unsafe { (shim.all_gather)(input, output, len) }
            }
            Collective::AllGather { lens } => {
                let (lens, places) = lengths(lens)?;
                let own = lens[self.rank as usize];
                // SAFETY: the caller's promise.
                unsafe { (shim.all_gather_v)(input, own, output, lens.as_ptr(), places.as_ptr()) }
            }
            Collective::AllToAll { to, from } => {
                let ((to, gives), (from, gets)) = (lengths(to)?, lengths(from)?);
                let (to, gives, from, gets) = (to.as_ptr(), gives.as_ptr(), from.as_ptr(), gets.as_ptr());
                // SAFETY: the caller's promise.
                unsafe { (shim.all_to_all_v)(input, to, gives, output, from, gets) }
            }
            Collective::ReduceScatter { counts, reduction } => {
                let ((counts, _), (element, op)) = (lengths(counts)?, numbers(*reduction));
                // SAFETY: the caller's promise.
                unsafe { (shim.reduce_scatter)(input, output, counts.as_ptr(), element, op) }
            }
        };
        check("a collective operation", outcome)
    }

    unsafe fn all_to_all_bytes(&self, len: usize, input: *const u8, output: *mut u8) -> Result<()> {
        let (len, (input, output)) = (int(len)?, somewhere(input, output));
        // SAFETY: the caller's promise.
        check("an all-to-all", unsafe { (self.shim.all_to_all)(input, output, len) })
    }
}

/// Empty memory has an address near 0 in Rust. One of these means something else to MPI (`MPI_IN_PLACE`), so
/// it gets others, at which nothing is read or written.
fn somewhere(input: *const u8, output: *mut u8) -> (*const u8, *mut u8) {
    static NOTHING: [u8; 2] = [0; 2];
    let [first, second] = NOTHING.each_ref().map(std::ptr::from_ref);
    let is_real = |address: usize| address >= 4096;
    (
        if is_real(input.addr()) { input } else { first },
        if is_real(output.addr()) { output } else { second.cast_mut() },
    )
}

fn own(request: Request) -> Result<u64> {
    match request.0 {
        StartedOperation::Mpi(request) => Ok(request),
        StartedOperation::Ours(_) => Err(Error::Invalid("a request of scash is none of MPI".to_owned())),
    }
}
