//! Reading another process's memory: one copy within a host, whichever memory a message is in
//! (`process_vm_readv`).
//!
//! Whether that is allowed is found out when ranks meet, for each pair, by a real reading: kernels forbid it
//! for many reasons (the `ptrace_scope` of Yama, containers, user namespaces), and say so only then.

use super::Options;
use super::engine::{ReadAccess, Reading};
use scash_comm::{Error, Exchange, Result};
use std::io::IoSliceMut;
use std::sync::Once;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// The processes of ranks whose memory can be read, and what else is known of that.
#[derive(Debug)]
pub(super) struct Memories {
    pids: Vec<Option<Pid>>,
    warned: Once,
    /// What this process can read of each rank's memory, and each rank of its.
    pub(super) readable: Vec<ReadAccess>,
    pub(super) reads: Vec<ReadAccess>,
}

/// What a rank tells the others: `process 4 | address of the sample 8 | sample 8 | window 8`.
const CARD: usize = 28;

/// Finds out who can read whose memory. Collective.
pub(super) fn meet(
    exchange: &mut dyn Exchange,
    options: &Options,
    is_mapped: impl Fn(u32) -> bool,
) -> Result<Memories> {
    let mut sample = Box::new([0u8; 8]);
    getrandom::fill(&mut *sample).map_err(|error| Error::Io {
        what: "drawing random bytes".to_owned(),
        source: std::io::Error::other(error.to_string()),
    })?;
    allow();
    let address = sample.as_ptr().addr() as u64;
    let pid = std::process::id();
    let window = (options.window as u64).to_le_bytes();
    let card = [&pid.to_le_bytes()[..], &address.to_le_bytes(), &*sample, &window].concat();
    let cards = exchange.all_gather(&card, &[])?;
    let here = exchange.host(exchange.rank());
    let (mut pids, mut readable) = (Vec::new(), Vec::new());
    for (rank, (theirs, _)) in (0..).zip(&cards) {
        let card: &[u8; CARD] =
            theirs[..].try_into().map_err(|_| broken(rank, "it tells something else than its window"))?;
        if card[20..] != window {
            return Err(broken(rank, "its window differs: start all ranks with the same options"));
        }
        let pid = if exchange.host(rank) == here { read_sample(card) } else { None };
        readable.push(ReadAccess { all: pid.is_some(), registered: is_mapped(rank) });
        pids.push(pid);
    }
    let mine: Vec<u8> = readable.iter().map(|to| u8::from(to.all) | u8::from(to.registered) << 1).collect();
    let theirs = exchange.all_gather(&mine, &[])?;
    // Until now the others may have read it.
    drop(sample);
    let me = exchange.rank() as usize;
    let of_me = |(theirs, _): &(Vec<u8>, _)| {
        let bits = theirs.get(me).copied().unwrap_or(0);
        ReadAccess { all: bits & 1 != 0, registered: bits & 2 != 0 }
    };
    let reads = theirs.iter().map(of_me).collect();
    let memories = Memories { pids, warned: Once::new(), readable, reads };
    let blind = (0..).zip(&memories.pids).find(|&(rank, pid)| exchange.host(rank) == here && pid.is_none());
    if let Some((rank, _)) = blind {
        memories.warn(rank, None);
    }
    Ok(memories)
}

fn broken(rank: u32, why: &str) -> Error {
    Error::Protocol { rank, why: why.to_owned() }
}

/// The process of the rank that gave this card, if its sample can be read.
fn read_sample(card: &[u8; CARD]) -> Option<Pid> {
    let pid = i32::from_le_bytes(card[..4].try_into().ok()?);
    let base = usize::from_le_bytes(card[4..12].try_into().ok()?);
    let mut sample = [0u8; 8];
    let remote = [RemoteIoVec { base, len: sample.len() }];
    let read = process_vm_readv(Pid::from_raw(pid), &mut [IoSliceMut::new(&mut sample)], &remote);
    // Another process namespace has another process of that number.
    (read == Ok(sample.len()) && sample == card[12..20]).then_some(Pid::from_raw(pid))
}

/// Lets processes of this user read this one's memory where Yama asks for a process's own word for that.
fn allow() {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    if scope.is_ok_and(|scope| scope.trim() == "1") {
        // If the kernel does not want to, the reading of the sample shows it.
        // SAFETY: the call sets a property of the process and touches no memory.
        let _ = unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
    }
}

impl Memories {
    /// Nobody reads a process's memory but what is registered: all agree on that. A message that is offered
    /// to be read would be offered by a process that may be gone when it is.
    pub(super) fn are_left_alone(&mut self) {
        self.readable.iter_mut().chain(&mut self.reads).for_each(|reach| reach.all = false);
    }

    /// Reads another process's memory; whether all of the place was written.
    ///
    /// # Safety
    /// The place is writable, and nobody relies on what is in it.
    pub(super) unsafe fn read(&self, Reading { from, address, place }: Reading) -> bool {
        let (Some(Some(pid)), Ok(base)) = (self.pids.get(from as usize), usize::try_from(address)) else {
            return false;
        };
        let mut done = 0;
        while done < place.len() {
            let local = libc::iovec {
                iov_base: place.start().wrapping_add(done).cast(),
                iov_len: place.len() - done,
            };
            let remote = libc::iovec {
                iov_base: std::ptr::without_provenance_mut(base.wrapping_add(done)),
                iov_len: local.iov_len,
            };
            // SAFETY: the kernel writes to the place only, which the caller vouches for, and checks the other
            // address.
            let read =
                unsafe { libc::process_vm_readv(pid.as_raw(), &raw const local, 1, &raw const remote, 1, 0) };
            match usize::try_from(read) {
                Ok(read) if read > 0 => done += read,
                _ => {
                    self.warn(from, std::io::Error::last_os_error().raw_os_error());
                    return false;
                }
            }
        }
        true
    }

    /// Says once why memory could not be read, if there is something to be done about it.
    fn warn(&self, rank: u32, errno: Option<i32>) {
        // A process that has ended has no memory any more.
        if errno == Some(libc::ESRCH) {
            return;
        }
        self.warned.call_once(|| {
            let words = if errno == Some(libc::EFAULT) {
                // Either can be wrong, and its owner gets the signal of a bad access when the bytes are
                // copied.
                format!("scash: a message of rank {rank} is not where it is said to be, or has no room here: are its address and length right?\n")
            } else {
                format!(
                    "scash: the memory of rank {rank} cannot be read (process_vm_readv is not allowed: see kernel.yama.ptrace_scope, or the container's seccomp \
                     profile); long messages within this host are copied twice\n"
                )
            };
            scash_comm::say::say(&words);
        });
    }
}
