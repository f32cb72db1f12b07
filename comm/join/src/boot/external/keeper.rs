//! A process that another launcher has started, and that keeps a rank as its child (`scash rank`). It speaks
//! with the launcher; the rank has a line and nothing else, as under `scash run`. So a rank can be saved and
//! come back in another job of the launcher: what PMI's socket and PMIx's library and threads are to a
//! process is in no image.
//!
//! Keepers meet as ranks do ([`discovery`](super::discovery)), agree on what their ranks begin from by words
//! that the launcher keeps for them ([`Gathering::exchange`]), and then make the lines.

use super::discovery::{self, Standing};
use super::space::Space;
use super::{Service, SharedSpace, enter, find_space, lead, lock, settings, timeout};
use crate::boot::rank_lines::variables;
use crate::boot::{Invitation, Settings, alone, io};
use crate::setting::setting;
use nix::sys::eventfd::{EfdFlags, EventFd};
use scash_comm::{Error, Result};
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The processes of another launcher's job, which have met, and are no ranks yet.
pub struct Gathering {
    space: Box<dyn Space>,
    place: Standing,
    settings: Settings,
    timeout: Duration,
    /// Exchanges so far.
    exchanges: u32,
    /// Whether the launcher has not yet answered.
    is_waiting: bool,
}

impl Gathering {
    /// Meets the other processes of the job that `var` tells of, which looks up environment variables; `None`
    /// if no launcher has started this process.
    ///
    /// # Errors
    /// They do not come, or a launcher has started several processes and keeps no words for them.
    pub fn find(var: &dyn Fn(&str) -> Option<OsString>) -> Result<Option<Gathering>> {
        let (settings, timeout) = (settings(var)?, timeout(var)?);
        let interface = setting("SCASH_INTERFACE", var("SCASH_INTERFACE"))?;
        let deadline = Instant::now() + timeout;
        let Some(space) = find_space(var, deadline)? else {
            return alone::check_launcher(var).map(|()| None);
        };
        Gathering::meet(space, settings, interface.as_deref(), timeout).map(Some)
    }

    pub(super) fn meet(
        mut space: Box<dyn Space>,
        settings: Settings,
        interface: Option<&str>,
        timeout: Duration,
    ) -> Result<Gathering> {
        let place = discovery::meet(&mut *space, interface, Instant::now() + timeout)?;
        Ok(Gathering { space, place, settings, timeout, exchanges: 0, is_waiting: false })
    }

    /// The rank that this process is to keep.
    pub fn rank(&self) -> u32 {
        self.place.rank
    }

    /// Ranks of the job.
    pub fn size(&self) -> u32 {
        self.place.layout.size()
    }

    /// Hosts on which they are.
    pub fn hosts(&self) -> u32 {
        self.place.layout.hosts()
    }

    /// Gives a word, of printable ASCII without spaces, to all, and returns those of all, by rank. `longer`:
    /// what others may need besides the time in which processes must find each other.
    ///
    /// # Errors
    /// Not all have given theirs in time.
    pub fn exchange(&mut self, word: &str, longer: Duration) -> Result<Vec<String>> {
        let (round, rank) = (self.exchanges, self.place.rank);
        self.exchanges += 1;
        let key = |rank: u32| format!("scash.word.{round}.{rank}");
        self.space.put(&key(rank), word)?;
        let time = self.timeout + longer;
        self.is_waiting = true;
        if !self.space.fence(Instant::now() + time)? {
            return Err(Error::Invalid(format!(
                "not all {} processes of this job have come so far within {} s (SCASH_JOIN says how many seconds they have)",
                self.size(),
                time.as_secs()
            )));
        }
        self.is_waiting = false;
        (0..self.size()).map(|rank| self.space.get(rank, &key(rank)).map(|word| word.to_string())).collect()
    }

    /// Ends what has not begun: the launcher need not wonder at the end of this process.
    pub fn leave(mut self) {
        // It wonders, if that fails.
        if !self.is_waiting {
            let _ = self.space.finalize();
        }
    }

    /// Makes the line of this process's rank; that of rank 0 serves the others.
    ///
    /// # Errors
    /// A process is gone, or does not come.
    pub fn begin(self) -> Result<Keeper> {
        let Gathering { space, place, settings, timeout, .. } = self;
        let deadline = Instant::now() + timeout;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let ended = EventFd::from_value_and_flags(0, flags).map_err(io("making an eventfd"))?;
        let space: SharedSpace = Arc::new(Mutex::new(space));
        let (line, _, mut service, rank, size) = if place.is_lead() {
            let own = ended.as_fd().try_clone_to_owned();
            let own = own.map_err(|source| Error::Io {
                what: "duplicating a descriptor (raise `ulimit -n`)".into(),
                source,
            })?;
            lead::begin(place, &settings, space, Some(own), deadline)?
        } else {
            enter(&place, &space, deadline)?
        };
        let env = variables(rank, size, line.as_fd(), &settings)?;
        let lead = service.lead_process.take();
        Ok(Keeper { rank, size, invitation: Some(Invitation { line, env }), service, lead, ended })
    }
}

/// A process that keeps a rank as its child.
#[derive(Debug)]
pub struct Keeper {
    rank: u32,
    size: u32,
    invitation: Option<Invitation>,
    service: Service,
    /// At others than rank 0's: the process that serves them.
    lead: Option<OwnedFd>,
    /// Tells the thread that serves the ranks of the end of this one's.
    ended: EventFd,
}

impl Keeper {
    /// The rank that it keeps.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks of the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// What its rank is to be started with; `None` the second time.
    pub fn invitation(&mut self) -> Option<Invitation> {
        self.invitation.take()
    }

    /// Readable when the keeper of rank 0 has ended, which serves the other ranks; `None` at that one.
    pub fn lead(&self) -> Option<BorrowedFd<'_>> {
        self.lead.as_ref().map(OwnedFd::as_fd)
    }

    /// The rank's process has ended. The others learn of it now, or by the end of this process.
    pub fn ended(&self) {
        // Its counter does not come to its end.
        let _ = self.ended.write(1);
    }

    /// This process is done: the launcher need not wonder at its end. That of rank 0 calls this when the
    /// others have ended.
    ///
    /// # Errors
    /// The launcher is gone, or refuses.
    pub fn leave(self) -> Result<()> {
        lock(&self.service.space).finalize()
    }
}
