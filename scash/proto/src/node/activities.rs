//! What this rank's threads have and wait for, to be told to one who has waited for long.

use super::Node;
use super::collective::purpose;
use crate::wire::stall::{Activities, Activity, Relation};

impl Node {
    /// What this rank does now, as far as others may have to wait for it.
    pub fn activities(&self) -> Activities {
        let mut threads: Vec<Activity> =
            self.sync.locks.iter().flat_map(|(&object, lock)| lock.activities(object)).collect();
        threads.extend(self.sync.served.activities());
        let wait = |who, object| Activity { who, relation: Relation::Awaits, object };
        threads.extend(self.sync.waits.iter().map(|w| wait(w.who(), w.condition())));
        threads.sort_unstable();
        let meets = self.in_collective_call().then(|| purpose(self.meetings.collective));
        Activities { meets: meets.or_else(|| self.reduces()), threads }
    }
}
