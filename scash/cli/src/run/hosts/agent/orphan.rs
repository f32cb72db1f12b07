//! What an agent does whose launcher is lost, where the job outlives that (`--linger`): it ends its ranks,
//! keeps what it has of them, and waits for another launcher ([`succession`]).
//!
//! ```text
//!             the launcher's pipe ends              another launcher connects
//!   served ───────────────────────────▶ orphan ───────────────────────────────▶ orphan, and heard
//!     ▲                                  │   ▲                                      │       │
//!     │                     time is over │   │ that one is gone                     │       │ it says Go
//!     │                                  ▼   └──────────────────────────────────────┘       │
//!     │                              the agent ends                                         │
//!     └─────────────────────────────────────────────────────────────────────────────────────┘
//! ```

use super::survival::Phase;
use super::{Agent, FOUND, LAUNCHER, trouble, watch_room};
use crate::run::Refusal;
use crate::run::hosts::SILENCE;
use crate::run::hosts::frames::{Cutter, FROM_LAUNCHER, Keeping, Up, hello};
use crate::run::hosts::succession::{self, Found, Rendezvous, Succession};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// What an agent has that outlives its launcher.
#[derive(Debug)]
pub(super) struct Orphan {
    succession: Succession,
    rendezvous: Rendezvous,
    /// Until when another launcher is waited for; `None`: there is one.
    until: Option<Instant>,
    /// Another launcher has connected, and does not know yet what is kept here.
    must_tell: bool,
    /// Who has told it to end, and knows by the end of this that it has.
    ended_by: Option<UnixStream>,
}

impl Orphan {
    pub(super) fn new(succession: Succession, host: u32) -> std::io::Result<Orphan> {
        let rendezvous = Rendezvous::open(&succession.job, host)?;
        Ok(Orphan { succession, rendezvous, until: None, must_tell: false, ended_by: None })
    }

    /// Other hosts of the job whose agents are on this machine.
    pub(super) fn others_here(&self, host: u32) -> Vec<u32> {
        succession::others_here(&self.succession.job, host)
    }
}

/// Whether nobody is at the other end.
fn has_ended(launcher: &File) -> bool {
    let mut all = [PollFd::new(launcher.as_fd(), PollFlags::empty())];
    poll(&mut all, PollTimeout::ZERO).is_ok()
        && all[0].revents().is_some_and(|events| events.contains(PollFlags::POLLHUP))
}

impl Agent {
    /// From now on the job outlives its launcher.
    pub(super) fn outlive(&mut self, orphan: Orphan) -> Result<(), Refusal> {
        self.watch(&orphan.rendezvous.listener, FOUND)?;
        self.orphan = Some(orphan);
        Ok(())
    }

    /// Whether no launcher says what is to be done.
    pub(super) fn is_orphan(&self) -> bool {
        self.orphan.as_ref().is_some_and(|orphan| orphan.until.is_some())
    }

    /// How long an orphan waits yet; not while another launcher has connected.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let until = self.orphan.as_ref()?.until.filter(|_| self.launcher.is_none())?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// The launcher is out of reach. That is the end, or another one is waited for.
    pub(super) fn lose_launcher(&mut self) {
        self.is_unheard = false;
        let survival = self.work.as_mut().filter(|work| work.begun).and_then(|work| work.survival.as_mut());
        let (Some(orphan), Some(survival)) = (&mut self.orphan, survival) else {
            self.uplink.cut();
            self.over = true;
            return;
        };
        survival.forget_launcher();
        // It may take long until ranks run again.
        survival.kept.forget_frames();
        orphan.must_tell = false;
        let launcher = self.launcher.take();
        if let Some(launcher) = &launcher {
            // It may be that of the process's standard input, which stays open.
            let _ = self.epoll.delete(launcher);
        }
        self.uplink.cut();
        // Each time anew: somebody goes on with the job.
        if launcher.is_some() || orphan.until.is_none() {
            orphan.until = Some(Instant::now() + orphan.succession.linger());
            self.end_ranks();
        }
    }

    fn end_ranks(&mut self) {
        let Some(work) = &mut self.work else { return };
        if let Some(survival) = work.survival.as_mut().filter(|survival| survival.phase == Phase::Together) {
            survival.phase = Phase::Ending;
            work.processes.signal(Signal::SIGKILL);
        }
    }

    /// An orphan that was not found in time ends.
    pub(super) fn look_at_the_clock(&mut self) {
        self.over |= self.time_left().is_some_and(|left| left.is_zero());
    }

    /// Answers who has connected.
    pub(super) fn be_found(&mut self) -> Result<(), Refusal> {
        while let Some((mut stream, what)) = self.orphan.as_ref().and_then(|orphan| orphan.rendezvous.next())
        {
            match what {
                succession::WHAT => self.say_what_this_is(&mut stream),
                succession::TAKE => self.take_another(stream)?,
                succession::END => self.end_if_orphan(stream),
                _ => {}
            }
        }
        Ok(())
    }

    fn end_if_orphan(&mut self, by: UnixStream) {
        self.notice_end_of_launcher();
        // The next one may have connected, and be gone without a word.
        let is_called = self.launcher.is_some() && self.heard.elapsed() < SILENCE;
        if self.is_orphan() && !is_called {
            self.over = true;
            if let Some(orphan) = &mut self.orphan {
                orphan.ended_by = Some(by);
            }
        }
    }

    /// Of what happened at once, this may be what is looked at first.
    fn notice_end_of_launcher(&mut self) {
        if self.launcher.as_ref().is_some_and(has_ended) {
            self.lose_launcher();
        }
    }

    fn say_what_this_is(&self, stream: &mut UnixStream) {
        let (Some(orphan), Some(work)) = (&self.orphan, &self.work) else { return };
        let left = self.time_left().map(|left| left.as_secs());
        let silence = self.heard.elapsed().as_secs();
        let found = Found { succession: orphan.succession.clone(), host: work.host, left, silence };
        // Who asks may have gone.
        let _ = stream.write_all(&serde_json::to_vec(&found).unwrap_or_default());
    }

    /// Another launcher has connected.
    fn take_another(&mut self, mut stream: UnixStream) -> Result<(), Refusal> {
        self.notice_end_of_launcher();
        let silence = self.heard.elapsed();
        if self.launcher.is_some() && silence < SILENCE {
            let seconds = u32::try_from(silence.as_secs()).unwrap_or(u32::MAX);
            let served = [hello().encode(), Up::Served { seconds }.encode()].concat();
            let _ = stream.write_all(&served);
            return Ok(());
        }
        self.lose_launcher();
        let Some(orphan) = self.orphan.as_mut().filter(|_| !self.over) else { return Ok(()) };
        orphan.must_tell = true;
        let launcher = File::from(OwnedFd::from(stream));
        let up = launcher.try_clone().map_err(|error| trouble(&error))?;
        watch_room(&self.epoll, &up)?;
        self.uplink.connect(up).map_err(|error| trouble(&error))?;
        self.watch(&launcher, LAUNCHER)?;
        self.launcher = Some(launcher);
        (self.cutter, self.heard) = (Cutter::new(FROM_LAUNCHER), Instant::now());
        self.send(&hello())?;
        self.tell_what_is_kept()
    }

    /// Tells the other launcher what is kept here, when no rank runs any more.
    pub(super) fn tell_what_is_kept(&mut self) -> Result<(), Refusal> {
        let Some(work) = &self.work else { return Ok(()) };
        let Some(survival) = work.survival.as_ref().filter(|survival| survival.phase == Phase::Ended) else {
            return Ok(());
        };
        let (base, finished, is_recalled) = (survival.base, survival.finished, survival.is_recalled);
        let committed = survival.committed;
        let (layout, adopted) = (work.layout.clone(), survival.adopted.clone());
        let address = work.listener.as_ref().and_then(|listener| listener.address().ok());
        let Some(orphan) = self.orphan.as_mut().filter(|orphan| orphan.must_tell) else { return Ok(()) };
        orphan.must_tell = false;
        if let Some(address) = address {
            self.send(&Up::Listens(address))?;
        }
        let printed = self.uplink.printed();
        let kept = Keeping { base, finished, is_recalled, committed, layout, adopted, printed };
        self.send(&Up::Keeps(Box::new(kept)))
    }

    /// The other launcher has all that it needs, and is this agent's from now on.
    pub(super) fn adopt(&mut self) -> Result<(), Refusal> {
        if let Some(orphan) = &mut self.orphan {
            orphan.until = None;
        }
        // If ranks have ended for good, it must know when something is missing.
        let ranks = self.work.as_ref().map_or_else(Vec::new, |work| work.host_relay.ranks().to_vec());
        ranks.into_iter().try_for_each(|rank| self.tell_what_is_printed(rank))?;
        let opened = self.uplink.open();
        self.sent(opened).map_err(|error| trouble(&error))
    }
}
