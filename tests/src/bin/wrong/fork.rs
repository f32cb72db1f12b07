//! Children that ranks fork, and that go on as if they were ranks.

use super::Rank;
use scash::{AllocOptions, Dsm, Error, Result};
use std::process::ExitCode;

/// Each rank forks a child, which uses all that it has, and one that touches shared memory. Neither disturbs
/// anybody.
pub(crate) fn use_everything(mut rank: Rank) -> Result<ExitCode> {
    let numbers = rank.dsm.alloc::<u64>(64)?;
    let locks = rank.dsm.locks(1)?;
    let mut field = rank.dsm.partition::<u64>(64)?;
    numbers.set(&rank.dsm, rank.dsm.rank(), 7);
    rank.dsm.barrier()?;
    let refused = child(|| {
        let dsm = &mut rank.dsm;
        let told = [
            dsm.barrier(),
            dsm.alloc_with::<u8>(1, AllocOptions::default()).map(drop),
            dsm.home(numbers, 0).map(drop),
            dsm.set_home(numbers, 0..1, 0),
            dsm.write_back(numbers, 0..1),
            dsm.read_home(numbers, 0..1),
            dsm.touch(numbers, 0..1),
            dsm.name(numbers, "numbers"),
            numbers.fetch_add(dsm, 0, 1).map(drop),
            locks[0].hold(dsm).map(drop),
            dsm.reduce(scash::Combine::Sum, 1u64).map(drop),
            dsm.semaphore(1).map(drop),
            field.publish(dsm),
            dsm.free(numbers),
            dsm.destroy(&locks),
            Dsm::init().map(drop),
        ];
        told.iter().position(|told| !is_refusal(told)).map_or(0, |at| i32::try_from(at).unwrap_or(0) + 1)
    });
    let touched = child(|| i32::from(numbers.get(&rank.dsm, 0) == 7));
    rank.dsm.barrier()?;
    let is_right = (0..rank.dsm.size()).all(|r| numbers.get(&rank.dsm, r) == 7);
    // In the fields of the system's answer: the exit status is above the signal.
    assert_eq!((refused, touched, is_right), (0, libc::SIGSEGV, true));
    rank.dsm.finalize()?;
    Ok(ExitCode::SUCCESS)
}

fn is_refusal(told: &Result<()>) -> bool {
    let error = match told {
        Err(Error::Argument(text) | Error::Join(text)) => text,
        _ => return false,
    };
    error.contains("in a child that a rank has forked")
}

/// Forks a child that does something and exits as programs do, and returns how it ended.
fn child(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: makes a process; the child has this thread alone, and what other threads had locked it does not
    // use: that is what the test is about.
    match unsafe { libc::fork() } {
        0 => {
            let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: sets a limit of this process.
            unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core) };
            std::process::exit(work())
        }
        pid => {
            let mut status = 0;
            // SAFETY: waits for the child just made; `status` is a place for the answer.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
            status & !0x80
        }
    }
}
