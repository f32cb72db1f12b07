//! What this rank's threads have and wait for.

use super::Node;
use super::collective::purpose;
use super::conditions::ConditionWait;
use super::own::Unmaking;
use crate::wire::stall::{Activities, Activity, Relation};

impl Node {
    /// An object that a thread of this rank waits for, if one does: the rank must not come to a collective
    /// call then.
    pub fn awaited(&self) -> Option<u32> {
        let lock = self.sync.locks.iter().find(|(_, lock)| lock.is_awaited()).map(|(&number, _)| number);
        let wait = || self.sync.waits.first().map(ConditionWait::condition);
        let end = || self.sync.unmaking.first().map(Unmaking::object);
        lock.or_else(|| self.sync.served.awaited()).or_else(wait).or_else(end)
    }

    /// What this rank does now, as far as others may have to wait for it: told to one who has waited for
    /// long.
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
