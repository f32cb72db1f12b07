//! Children that a rank forks: they are copies of it, with its descriptors and the memory that it shares with
//! peers, and could act in its name.
//!
//! A process that joins a job asks to be told in its children ([`watch`]); from then on one load says whether
//! this is such a child ([`is_child`]). What a child may do is compute on copies, and `exec`: whatever speaks
//! to other ranks, or ends something of the rank's, looks first.
//!
//! Only `fork` tells: a process made by the bare system call, which the C library knows nothing of, is not
//! noticed.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// From now on, children of this process know that they are.
pub fn watch() {
    static ASKED: Once = Once::new();
    extern "C" fn born() {
        IS_CHILD.store(true, Ordering::Relaxed);
    }
    ASKED.call_once(|| {
        // It fails for want of memory only: then children are not noticed.
        // SAFETY: `born` does what a child of a process with threads may do, and lives as long as the
        // program.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(born)) };
    });
}

/// Whether this process is a child of one that called [`watch`].
#[inline]
pub fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// What is said to a child that calls the function `name`.
pub fn refusal(name: &str) -> String {
    format!(
        "{name} was called in a child that a rank has forked, which is no rank: let it compute on copies that were made before, or call exec"
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_child_knows_that_it_is_one_and_its_parent_that_it_is_none() {
        super::watch();
        super::watch();
        // SAFETY: the child calls nothing but what it may, and ends at once.
        match unsafe { libc::fork() } {
            // SAFETY: ends the child.
            0 => unsafe { libc::_exit(i32::from(super::is_child())) },
            child => {
                let mut status = 0;
                // SAFETY: waits for the child just made; `status` is a place for the answer.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert_eq!((libc::WEXITSTATUS(status), super::is_child()), (1, false));
            }
        }
    }
}
