//! How long a waiting thread spins before it sleeps.
//!
//! A spinning thread sees an answer at once; a sleeping one costs tens of microseconds to wake on another
//! core, but leaves its core to whoever produces the answer. So spinning pays while each busy thread of this
//! host's ranks has a core of its own, and is ruin when they outnumber cores.

use super::sys;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A sleep ends at the latest after this; the waiting thread then looks again, and goes on sleeping.
const NAP: Duration = Duration::from_secs(1);

/// Vain looks after which a spinning thread offers its core now and then,
const POLITE_AFTER: u32 = 64;
/// and how often. If it shares the core after all with the thread that it waits for (other programs run,
/// too), it would otherwise spin until its time slice is over; if it does not, the offer costs a fraction of
/// a microsecond.
const POLITE_EVERY: u32 = 32;

/// How a thread waits, by the number of its vain looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Vain looks after which it no longer spins,
    spins: u32,
    /// and after which it no longer yields, but sleeps.
    yields: u32,
}

impl Pace {
    /// Sleeps at once.
    pub(super) const BLOCKING: Pace = Pace { spins: 0, yields: 0 };

    /// The pace of a thread that waits for other ranks' applications, with so many busy threads on so
    /// many cores. A look takes about a quarter of a microsecond.
    pub(super) fn idle(busy: u32, cores: u32) -> Self {
        if busy <= cores { Self { spins: 20_000, yields: 0 } } else { Self { spins: 1, yields: 40 } }
    }

    /// The pace of a thread that waits for a peer's service thread.
    pub(super) fn served(busy: u32, cores: u32) -> Self {
        if busy <= cores { Self { spins: 200, yields: 0 } } else { Self { spins: 0, yields: 2 } }
    }

    /// Whether a thread spins after `turn` vain looks.
    pub(super) fn spins_at(self, turn: u32) -> bool {
        turn < self.spins
    }

    /// Spins or yields, if that is what to do after `turn` vain looks. `false` means sleep.
    pub(super) fn spin(self, turn: u32) -> bool {
        let is_polite = turn >= POLITE_AFTER && turn.is_multiple_of(POLITE_EVERY);
        if turn < self.spins && !is_polite {
            std::hint::spin_loop();
        } else if turn < self.spins.max(self.yields) {
            sys::yield_core();
        } else {
            return false;
        }
        true
    }

    /// Waits for `events` on `socket`, in the way that `turn` vain looks call for.
    pub(super) fn pause(self, socket: BorrowedFd<'_>, events: libc::c_short, turn: u32) {
        if !self.spin(turn) {
            sys::wait(&mut [sys::awaited(socket, events)], NAP);
        }
    }
}

/// How to wait for what.
pub(super) struct Waits {
    /// For other ranks' applications.
    pub(super) idle: Pace,
    /// For a peer's service thread.
    pub(super) served: Pace,
    /// Whether busy threads outnumber cores.
    pub(super) is_scarce: bool,
}

impl Waits {
    /// With so many busy threads on the cores that this process may use.
    pub(super) fn new(busy: u32) -> Self {
        let cores = std::thread::available_parallelism();
        let cores = cores.map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX));
        Self { idle: Pace::idle(busy, cores), served: Pace::served(busy, cores), is_scarce: busy > cores }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_a_core_each_threads_spin_for_long_and_do_not_where_they_outnumber_cores() {
        let spins = |busy| [Pace::idle(busy, 4), Pace::served(busy, 4)].map(|pace| pace.spins);
        assert_eq!((spins(4), spins(5)), ([20_000, 200], [1, 0]));
    }
}
