//! The end of a job on several hosts. All ranks have ended, and what they have printed since the newest
//! checkpoint is on its way. Agents know by then how the job has ended, so it needs no launcher more than to
//! print that. They keep all that they have until it is out: if some of it is lost with its host, ranks go on
//! from the newest checkpoint after all, and print it anew.
//!
//! ```text
//!            all ranks have ended: Finish        all is out: Farewell
//!   Running ────────────────────────────▶ Ended ──────────────────────▶ over
//!      ▲                                  │   ▲
//!      │ a host is lost, and not all of   │   │ the launcher is lost: another one hears from agents that the
//!      │ its ranks' output has come       │   │ job has ended
//!      └──────────────────────────────────┘   └─
//! ```

use super::survive::{Survival, missing};
use super::{FAREWELL, Job};
use crate::run::hosts::frames::Down;
use crate::run::hosts::link::{AgentLink, AgentStage};
use crate::run::hosts::printer::OutputChunk;
use crate::run::output::{OutputError, Stream};
use std::time::Instant;

impl Job<'_> {
    /// The last rank has ended.
    pub(super) fn over(&mut self) -> Instant {
        self.finish_survivors();
        *self.over_since.insert(Instant::now())
    }

    /// All ranks have ended for good: agents send what is left of what they have printed.
    fn finish_survivors(&mut self) {
        let went_on = self.supervisor.may_go_on();
        if self.survival.is_none() {
            return;
        }
        // Nobody is to come back any more, unless ranks go on after all.
        for host in (0..self.layout.hosts()).filter(|host| self.is_returning(*host)).collect::<Vec<u32>>() {
            self.link(host).let_go();
            self.not_back(host, "all ranks have ended");
        }
        let Some(Survival { recovery, is_finished, .. }) = &mut self.survival else { return };
        *is_finished = true;
        if let Some(news) = recovery.over().filter(|_| went_on) {
            crate::say(&news);
        }
        self.tell_all(&Down::Finish(self.supervisor.verdict()));
    }

    /// Another launcher, which is lost, knew that all ranks had ended, with this exit status of the job.
    pub(super) fn take_over_the_end(&mut self, status: u8) {
        crate::say("the job had ended: what it had printed and nobody has seen follows");
        if let Some(Survival { printed, recall, .. }) = &mut self.survival {
            // Agents tell, before they send it.
            printed.fill([u64::MAX; 2]);
            recall.over();
        }
        for host in 0..self.layout.hosts() {
            if self.link(host).stage == AgentStage::Ready {
                let link = self.link(host);
                link.stage = AgentStage::Running;
                link.send(&Down::Go);
            } else {
                self.unreached.insert(host);
                if let Some(Survival { recall, .. }) = &mut self.survival {
                    recall.lost(host);
                }
            }
        }
        self.supervisor.had_ended(status);
        self.over();
    }

    /// How many bytes have not come of what ranks of a host have printed that have all ended.
    pub(super) fn missing_of(&self, host: u32) -> u64 {
        let Some(Survival { come, printed, .. }) = &self.survival else { return 0 };
        let of = |rank: u32| missing(self.one_stream, come[rank as usize], printed[rank as usize]);
        self.layout.ranks_of(host).map(of).fold(0, u64::saturating_add)
    }

    /// Output could not be written. If agents outlive this launcher, they keep it for another one, which
    /// prints it when there is room again.
    pub(super) fn not_written(&mut self, trouble: OutputError) {
        // Of orders that are there it is not known yet that they end the job.
        self.take_orders();
        let (is_unread, now) = (trouble.is_unread(), Instant::now());
        if trouble.is_for_want_of_room() && self.may_be_left() {
            return self.leave_what_was_found(trouble.to_string());
        }
        if is_unread {
            self.tell_all(&Down::Shut(trouble.stream));
        }
        let mut actions = self.supervisor.unwritten(trouble, now);
        if is_unread && self.survival.is_some() {
            actions.extend(self.supervisor.end_unread(now));
        }
        self.act(actions);
    }

    /// Whether all ranks have ended for good, and all has come that those of a host have printed.
    pub(super) fn has_said_all(&self, host: u32) -> bool {
        self.is_finished() && self.missing_of(host) == 0
    }

    /// Some of what ranks had printed that have ended is lost with this host. They go on after all, and print
    /// it anew.
    pub(super) fn go_on_for_output(&mut self, host: u32) {
        let name = &self.hosts.names[host as usize];
        crate::say(&format!("not all that its ranks had printed had come from host {name}"));
        if let Some(survival) = &mut self.survival {
            survival.is_finished = false;
            // Ranks that could stay do: what they print is on its way from where they are.
            survival.moves.call_off();
        }
        self.over_since = None;
        let now = Instant::now();
        self.links.iter_mut().for_each(|link| link.reopen(now));
    }

    /// Nothing more comes of what ranks of a host have printed: what has come is printed, whole lines or not.
    pub(super) fn print_no_more_of(&mut self, host: u32) {
        let from = self.source(host);
        for rank in self.layout.ranks_of(host) {
            for stream in Stream::BOTH {
                self.printers.print(stream, OutputChunk { from, rank, bytes: Vec::new() });
            }
        }
    }

    /// Lets all agents go, and gives the commands that called them time to end.
    pub(super) fn part(&mut self) {
        // Agents that could not all be called keep what they have for the next launcher.
        let is_taken_over = self.is_taken_over();
        let is_let_go = |link: &AgentLink| {
            !is_taken_over && !matches!(link.stage, AgentStage::Calling | AgentStage::Gone)
        };
        let hosts = (0..).zip(&self.links).filter(|(_, link)| is_let_go(link)).map(|(host, _)| host);
        let hosts: Vec<u32> = hosts.collect();
        self.links.iter_mut().for_each(if is_taken_over { AgentLink::leave } else { AgentLink::let_go });
        let released = self.release_unreached();
        self.part_with_standby();
        let by = Instant::now() + FAREWELL;
        while Instant::now() < by && self.links.iter().any(|link| link.exit.is_none()) {
            std::thread::sleep(std::time::Duration::from_millis(1));
            self.links.iter_mut().for_each(AgentLink::flush);
            self.links.iter_mut().for_each(|link| link.reap(Instant::now()));
        }
        released.wait();
        self.release_again(&hosts);
    }
}
