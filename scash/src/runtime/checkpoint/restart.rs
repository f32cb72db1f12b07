//! How long a restart took, part by part.

use scash_ft::Moment;
use scash_ft::store::vars;
use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

/// What the newest restart of this rank took (`scash run --replicas`), from the moment on that the launcher
/// knew of a death: each part begins where the one before ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestartTime {
    /// Until the processes of all ranks had ended.
    pub end: Duration,
    /// Until this rank's new process began.
    pub start: Duration,
    /// Until it had its private memory.
    pub image: Duration,
    /// Until it had shared memory, and connections to the others.
    pub join: Duration,
    /// Until the shared pages that it answers for were in their frames.
    pub shared: Duration,
    /// Until all ranks had theirs, and computed again.
    pub resume: Duration,
}

impl RestartTime {
    /// From the death on.
    pub fn all(&self) -> Duration {
        self.end + self.start + self.image + self.join + self.shared + self.resume
    }
}

impl fmt::Display for RestartTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.3?}: end {:.3?}, start {:.3?}, image {:.3?}, join {:.3?}, shared {:.3?}, resume {:.3?}",
            self.all(),
            self.end,
            self.start,
            self.image,
            self.join,
            self.shared,
            self.resume
        )
    }
}

/// Times the parts of a restart.
pub(super) struct RestartWatch {
    last: Moment,
    pub(super) time: RestartTime,
}

impl RestartWatch {
    /// Goes on from what launcher and restorer have noted.
    pub(super) fn new(var: &dyn Fn(&str) -> Option<OsString>) -> RestartWatch {
        let read = || {
            let [lost, began] = [vars::LOST, vars::BEGAN].map(|name| var(name)?.into_string().ok());
            let lost = lost?;
            let (first, all) = lost.split_once(',')?;
            let read = |text: &str| text.parse::<Moment>().ok();
            Some((read(first)?, read(all)?, read(&began?)?))
        };
        let now = Moment::now();
        // A job that is gone on with later has lost no time.
        let (first, all, began) = read().unwrap_or((now, now, now));
        let time = RestartTime {
            end: all.since(first),
            start: began.since(all),
            image: now.since(began),
            ..RestartTime::default()
        };
        RestartWatch { last: now, time }
    }

    /// Since the last time that this was asked.
    pub(super) fn lap(&mut self) -> Duration {
        let now = Moment::now();
        now.since(std::mem::replace(&mut self.last, now))
    }
}
