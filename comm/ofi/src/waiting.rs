//! How long a waiting thread spins before it gives its core away.
//!
//! A spinning thread sees an answer at once, but keeps its core from whoever produces it: so spinning pays
//! while each busy thread of this host's ranks has a core of its own, and is ruin when they outnumber cores.

use std::time::Duration;

/// Vain looks after which a thread that waits for a peer's endpoint naps.
const NAP_AFTER: u32 = 2_000;
const NAP: Duration = Duration::from_micros(50);

/// How to wait, by the number of vain looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpinRule {
    /// Whether busy threads outnumber cores.
    pub(super) is_scarce: bool,
    /// Looks that are made without giving way,
    spins: u32,
    /// and those after which a thread that waits for applications sleeps.
    looks: u32,
}

impl SpinRule {
    /// With so many busy threads on this host.
    pub(super) fn new(busy: u32) -> SpinRule {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if busy as usize <= cores {
            SpinRule { is_scarce: false, spins: 64, looks: 10_000 }
        } else {
            SpinRule { is_scarce: true, spins: 1, looks: 40 }
        }
    }

    /// Waits for a peer's endpoint.
    pub(super) fn served(self, turn: u32) {
        if turn < self.spins {
            std::hint::spin_loop();
        } else if turn < NAP_AFTER {
            std::thread::yield_now();
        } else {
            std::thread::sleep(NAP);
        }
    }

    /// Waits for applications. `false`: it is time to sleep.
    pub(super) fn idle(self, turn: u32) -> bool {
        if turn < self.spins {
            std::hint::spin_loop();
        } else if turn < self.looks {
            std::thread::yield_now();
        }
        turn < self.looks
    }
}
