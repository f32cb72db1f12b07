//! Ranks have their memory at the same addresses in each incarnation: an image is restored where it was.

use crate::run::{Refusal, status};
use nix::errno::Errno;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, rlim_t, setrlimit};

/// Most bytes of a stack where the user sets no limit: the kernel lays memory out by the limit.
const STACK: rlim_t = 1 << 30;

fn refuse(what: &str) -> impl Fn(Errno) -> Refusal + '_ {
    move |error: Errno| Refusal::new(status::LAUNCHER, format!("{what}: {}", error.desc()))
}

/// The limit of stacks that ranks are to have, in bytes: that of this process.
pub(super) fn stack() -> Result<rlim_t, Refusal> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_STACK).map_err(refuse("reading the limit of stacks"))?;
    Ok(if soft == RLIM_INFINITY { hard.min(STACK) } else { soft })
}

/// Sets this process up so that processes it starts get their memory where others got it that it has started,
/// or that were started on other hosts: the kernel draws no addresses, and the limit of stacks is this one.
pub(super) fn fix(stack: rlim_t) -> Result<(), Refusal> {
    no_random_addresses().map_err(refuse(
        "ranks must have the same addresses (--replicas, --checkpoint-dir, --no-aslr), and random ones cannot be \
         switched off here (personality, which some containers forbid: docker run --security-opt seccomp=unconfined)",
    ))?;
    let (_, hard) = getrlimit(Resource::RLIMIT_STACK).map_err(refuse("reading the limit of stacks"))?;
    if stack > hard {
        let why = format!(
            "ranks of all hosts must have stacks of one limit, which is {} KiB where the job began, and at most {} KiB \
             here: raise it here (`ulimit -Hs`), or lower it there (`ulimit -s`)",
            stack >> 10,
            hard >> 10
        );
        return Err(Refusal::new(status::LAUNCHER, why));
    }
    setrlimit(Resource::RLIMIT_STACK, stack, hard).map_err(refuse("fixing the limit of stacks"))
}

/// What the process started with stays as it is; what it executes from now on has no random addresses.
fn no_random_addresses() -> Result<(), Errno> {
    /// Asks.
    const NOTHING: libc::c_ulong = 0xffff_ffff;
    let set = |flags: libc::c_ulong| {
        // SAFETY: the call takes flags of this process.
        Errno::result(unsafe { libc::personality(flags) })
    };
    let now = libc::c_ulong::from(set(NOTHING)?.cast_unsigned());
    set(now | libc::c_ulong::from(libc::ADDR_NO_RANDOMIZE.cast_unsigned())).map(drop)
}
