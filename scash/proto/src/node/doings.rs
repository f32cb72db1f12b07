//! What this rank's threads have and wait for, to be told to one who has waited for long.

use super::Node;
use super::collective::purpose;
use crate::wire::stall::{Deal, Doing, Doings};

impl Node {
    /// What this rank does now, as far as others may have to wait for it.
    pub fn doings(&self) -> Doings {
        let mut threads: Vec<Doing> =
            self.sync.locks.iter().flat_map(|(&object, lock)| lock.doings(object)).collect();
        threads.extend(self.sync.served.doings());
        let wait = |who, object| Doing { who, deal: Deal::Awaits, object };
        threads.extend(self.sync.waits.iter().map(|w| wait(w.who(), w.condition())));
        threads.sort_unstable();
        let meets = self.in_collective_call().then(|| purpose(self.meetings.collective));
        Doings { meets: meets.or_else(|| self.reduces()), threads }
    }
}
