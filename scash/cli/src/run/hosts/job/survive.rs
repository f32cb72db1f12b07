//! What the launcher of a job on several hosts does whose ranks may die (`--replicas`): it carries out what
//! the [`Recovery`] decides, by the word of agents, which have the stores. [`Recall`] says whose word is
//! missing.

use super::Job;
use super::accusations::Accusations;
use super::moves::Moves;
use super::returns::Returns;
use crate::run::hosts::Hosts;
use crate::run::hosts::frames::{Again, Down, Up};
use crate::run::hosts::link::{AgentLink, AgentStage};
use crate::run::hosts::placement::{Continuation, CopyRule};
use crate::run::hosts::recall::Recall;
use crate::run::oom;
use crate::run::output::{self, Lengths, Stream};
use crate::run::plan::Plan;
use crate::run::recovery::{self, LauncherAction, Loss, Recovery, StoreState};
use crate::run::{Refusal, status};
use scash_comm::Secret;
use scash_ft::inject::RecoveryMoment;
use scash_ft::recovery::Unrecoverable;
use scash_ft::{Base, Epoch};
use scash_join::boot::{Exit, JobFailure, LauncherRelay, Report};
use std::collections::BTreeSet;
use std::time::Instant;

/// What a job has in which ranks may die.
#[derive(Debug)]
pub(super) struct Survival {
    pub(super) recovery: Recovery,
    pub(super) recall: Recall,
    /// Which other hosts hold copies of a store.
    pub(super) rule: CopyRule,
    /// How ranks go on, from when that is known until they are started.
    course: Option<Continuation>,
    pub(super) moves: Moves,
    pub(super) returns: Returns,
    pub(super) accusations: Accusations,
    /// By host: how much memory stores take there, as it was said last.
    pub(super) kept: Vec<u64>,
    /// The newest epoch of which ranks have told that were started last, and when.
    pub(super) committed: Option<(Epoch, Instant)>,
    /// The newest epoch of which any ranks have told, or that they went on from.
    had: Epoch,
    /// By rank: how many bytes of what it has printed have come.
    pub(super) come: Vec<Lengths>,
    /// By rank: how much it had printed when it ended.
    pub(super) printed: Vec<Lengths>,
    /// Whether agents were told that ranks will not be started again.
    pub(super) is_finished: bool,
    /// Whether the job is left to another launcher when all is printed that has come.
    waits_for_reader: bool,
    /// Hosts whose agents may have kept what this launcher, which is not the first one, does not know of.
    pub(super) may_keep: BTreeSet<u32>,
    /// Until when ranks must have ended that were recalled.
    pub(super) ended_by: Option<Instant>,
    /// Under another launcher: what ranks had been started from, by what the agents say that it has found.
    pub(super) found: Base,
}

impl Survival {
    /// That of the job, if it asks for replicas.
    pub(super) fn of(plan: &Plan, hosts: &Hosts) -> Option<Survival> {
        let replicas = plan.replicas.as_ref()?;
        Some(Survival {
            recovery: Recovery::new(plan.ranks, replicas.restarts, Base::default()),
            recall: Recall::new(hosts.layout.hosts(), plan.ranks),
            rule: hosts.copy_rule(replicas.copies),
            course: None,
            kept: vec![0; hosts.names.len()],
            committed: None,
            had: Epoch(0),
            moves: Moves::new(&hosts.layout, replicas.has_spares),
            returns: Returns::new(replicas.hosts_return),
            accusations: Accusations::default(),
            come: vec![[0; 2]; plan.ranks as usize],
            printed: vec![[0; 2]; plan.ranks as usize],
            is_finished: false,
            waits_for_reader: false,
            may_keep: BTreeSet::new(),
            ended_by: None,
            found: Base::default(),
        })
    }

    /// The newest epoch that all ranks are known to have had.
    pub(super) fn newest_had(&self) -> Epoch {
        self.had.max(self.recall.committed())
    }

    /// When [`Job::recover`] is due. `may_go_on`: whether hosts are called again.
    pub(super) fn deadline(&self, may_go_on: bool) -> Option<Instant> {
        let returns = self.returns.deadline().filter(|_| may_go_on && !self.is_finished);
        let all = [self.recovery.deadline(), returns, self.accusations.deadline(), self.ended_by];
        all.into_iter().flatten().min()
    }
}

impl Job<'_> {
    /// Whether ranks end that are lost, or may be: what they say on their lines does not count.
    pub(super) fn is_ending(&self) -> bool {
        self.survival.as_ref().is_some_and(|survival| survival.recovery.is_ending())
    }

    /// Whether all ranks have ended for good.
    pub(super) fn is_finished(&self) -> bool {
        self.survival.as_ref().is_some_and(|survival| survival.is_finished)
    }

    /// Whether an agent may be done whose ranks have all ended.
    pub(super) fn may_be_done(&self) -> bool {
        self.survival.as_ref().is_none_or(|survival| survival.is_finished)
    }

    /// Takes a frame that agents send where ranks may die. The error says why no agent sends it.
    pub(super) fn take_of_survivors(&mut self, host: u32, up: Up) -> Result<(), String> {
        let (has_rank_0, may_go_on) = (self.is_of(0, host), self.supervisor.may_go_on());
        let Some(Survival { recovery, recall, kept, committed, had, printed, moves, .. }) =
            &mut self.survival
        else {
            return Ok(());
        };
        match up {
            // Answers that were on their way when the user ended the job, or it failed.
            Up::Rewound | Up::Piece(_) | Up::HasRead { .. } | Up::Stored(_)
                if !recall.is_under_way() && !may_go_on => {}
            Up::Store(state) => recall.store(host, state)?,
            Up::Ended => {
                recall.ended(host)?;
                self.link(host).ranks.clear();
            }
            Up::Rewound => recall.rewound(host)?,
            up @ (Up::Piece(_) | Up::HasRead { .. } | Up::Stored(_)) => {
                if let Some((other, down)) = recall.copied(host, up)? {
                    self.link(other).send(&down);
                }
            }
            Up::Resumed if has_rank_0 => {
                moves.go_on();
                if let Some(news) = recovery.resumed(Instant::now()) {
                    crate::say(&news);
                }
            }
            Up::Kept(bytes) => kept[host as usize] = bytes,
            Up::Printed { rank, lengths } if self.layout.is_on(rank, host) => {
                printed[rank as usize] = lengths
            }
            // An agent that was not told where ranks are by now.
            Up::Printed { .. } => {}
            // It was on its way when some of another host's output was lost.
            Up::Done if recall.is_under_way() => {}
            Up::Committed(epoch) if has_rank_0 => {
                *committed = Some((epoch, Instant::now()));
                *had = epoch.max(*had);
                self.tell_all(&Down::Commit(epoch));
                self.move_ranks();
            }
            Up::Said(bytes) => output::say(&String::from_utf8_lossy(&bytes)),
            up => {
                let what: String = format!("{up:?}").chars().take(60).collect();
                return Err(format!("{what} while ranks may die"));
            }
        }
        Ok(())
    }

    /// The process of a rank has ended, which may be a loss.
    pub(super) fn take_survivors_exit(&mut self, host: u32, rank: u32, exit: Exit) {
        let may_go_on = self.supervisor.may_go_on();
        let link = &self.links[host as usize];
        let is_starved = oom::is_kill(exit.shell_status()) && link.out_of_memory;
        let hint = if is_starved { oom::HINT } else { "" };
        let loss = Loss { rank, exit, host: Some(link.name.clone()), hint, with_host: None };
        let Some(Survival { recovery, .. }) = &mut self.survival else { return };
        let step = recovery.exited(loss, may_go_on, Instant::now());
        // It cannot fail: only starting can.
        let _ = self.take_step(step);
    }

    /// Does what is due in a recovery.
    pub(super) fn recover(&mut self) -> Result<(), Refusal> {
        self.do_without_hosts_whose_ranks_do_not_end();
        loop {
            let (may_go_on, may_start) = (self.supervisor.may_go_on(), !self.supervisor.is_stopped());
            let (is_unread, they_wait) = (!self.printers.are_idle(), self.wait_for_hosts());
            let Some(Survival { recovery, recall, waits_for_reader, moves, .. }) = &mut self.survival else {
                return Ok(());
            };
            if recall.is_writing() {
                return self.go_on(may_go_on, may_start);
            }
            // Those that begin anew have no more to do than that.
            if recovery.base().epoch == Epoch(0)
                && recovery.awaits_joining()
                && self.launcher_relay.have_all_joined()
                && let Some(news) = recovery.resumed(Instant::now())
            {
                moves.go_on();
                crate::say(&news);
            }
            let waits = they_wait || (*waits_for_reader && is_unread);
            let must_wait = recall.any_run() || (may_go_on && waits);
            let step = recovery.tick(must_wait, may_go_on, may_start, Instant::now());
            if step.is_none() {
                return Ok(());
            }
            self.take_step(step)?;
        }
    }

    pub(super) fn take_step(&mut self, step: Option<LauncherAction>) -> Result<(), Refusal> {
        match step {
            None => {}
            Some(LauncherAction::Kill) => {
                self.supervisor.recovering(self.plan.ranks);
                if let Some(survival) = &mut self.survival {
                    survival.recall.begin(survival.recovery.base());
                    survival.expect_ends();
                }
                self.tell_all(&Down::Recall);
                self.passes(RecoveryMoment::Recalled);
            }
            Some(LauncherAction::ReportExits(exits)) => {
                for (rank, exit) in exits {
                    self.supervisor.exited();
                    // It is the agent's, or the exit would not have come so far.
                    let _ = self.launcher_relay.take(self.layout.host_of(rank), Report::Exited(rank, exit));
                }
                self.settle();
            }
            Some(LauncherAction::End) => self.supervisor.gone(),
            Some(LauncherAction::Find) => self.find(),
        }
        Ok(())
    }

    /// No rank runs any more. Has agents make all ranks what they were, unless that is of no use, or an order
    /// has come meanwhile.
    fn find(&mut self) {
        self.take_orders();
        if !self.supervisor.may_go_on() || self.supervisor.is_stopped() {
            return; // which is another step, now or when the user continues the job
        }
        // It waits for somebody to read what is printed, and has been here.
        if !self.survival.as_ref().is_some_and(|survival| survival.waits_for_reader) {
            self.passes(RecoveryMoment::Ended);
        }
        let Some(survival) = &mut self.survival else { return };
        let Survival { recovery, recall, rule, moves, course: found, waits_for_reader, .. } = survival;
        let course = match recall.course(&self.layout, rule, moves.plan(self.printers.are_idle())) {
            Ok(course) => course,
            Err(why) => return self.nothing_found(why),
        };
        let epoch = course.plan.base.epoch;
        let barrier = recovery::barrier(&course.states, epoch);
        let planned = recovery.planned(course.plan.base, barrier, Instant::now()).and_then(|_| {
            recall.carry_out(&course, &self.layout).map_err(|why| recovery.nothing_found(&why))
        });
        match planned {
            Ok(()) => {
                if let Some((before, now)) = moves.retold(&course.layout, &self.hosts.names) {
                    recovery.retell(&before, now);
                }
                // Ranks that move have printed this, and agents keep none of it.
                let printed = Down::Commit(course.plan.base.epoch);
                (*found, *waits_for_reader) = (Some(course), false);
                self.tell_all(&printed);
            }
            Err(failure) => {
                recall.over();
                self.give_up(&failure);
            }
        }
    }

    /// No store within reach has what a rank needs.
    fn nothing_found(&mut self, why: Unrecoverable) {
        // What has come is printed first: another launcher would have it sent and print it, too.
        let is_left = self.may_be_left_to_another(why);
        let waits = is_left && !self.printers.are_idle();
        let Some(Survival { recovery, recall, waits_for_reader, .. }) = &mut self.survival else { return };
        *waits_for_reader = waits;
        if waits {
            return;
        }
        let failure = recovery.nothing_found(&why.to_string());
        recall.over();
        if is_left { self.leave_for_want_of_stores(failure) } else { self.give_up(&failure) }
    }

    /// Ranks whose host is lost go on where copies of their stores are.
    fn go_elsewhere(&mut self) {
        let Some(Survival { come, course, moves, committed, recall, .. }) = &mut self.survival else {
            return;
        };
        let Some(course) = course.take() else { return };
        moves.are_done(&self.layout, &course.layout);
        *committed = None;
        let epoch = course.plan.base.epoch;
        for state in &course.states {
            let (rank, before) = (state.rank, self.layout.host_of(state.rank));
            let host = course.layout.host_of(rank);
            if host == before && !recall.has_returned(host) {
                continue;
            }
            let [printed, kept] = state.at(epoch).map_or([[0; 2]; 2], |marked| [marked.output, marked.kept]);
            let come = &mut come[rank as usize];
            let missing = missing(self.one_stream, *come, kept);
            *come = shown(printed, kept, *come);
            if host == before && missing == 0 {
                continue; // it waited for its host, which is back
            }
            let [before, host] = [before, host].map(|host| &self.hosts.names[host as usize]);
            let mut news = format!("rank {rank} comes back on host {host}");
            if missing > 0 {
                news += &format!("; {missing} bytes that it has printed are lost with host {before}");
            }
            crate::say(&news);
        }
        self.layout = course.layout;
        self.send_home();
    }

    /// Agents make all ranks what they were. Starts them when that is done.
    fn go_on(&mut self, may_go_on: bool, may_start: bool) -> Result<(), Refusal> {
        let Some(Survival { recall, .. }) = &mut self.survival else { return Ok(()) };
        if !may_go_on {
            recall.over();
            self.supervisor.gone();
            return Ok(());
        }
        if recall.is_written() && may_start {
            return self.start_again();
        }
        if !self.have_movers_printed() {
            return Ok(());
        }
        let Some(Survival { recall, .. }) = &mut self.survival else { return Ok(()) };
        for (host, down) in recall.next_orders() {
            self.link(host).send(&down);
        }
        let Some(Survival { recall, .. }) = &mut self.survival else { return Ok(()) };
        for (host, mut all) in recall.next_round().into_iter().flatten() {
            if let Some(Survival { come, .. }) = &self.survival {
                all.iter_mut()
                    .for_each(|one| one.shown = shown(one.output, one.shown, come[one.rank as usize]));
            }
            self.link(host).send(&Down::Rewind(all));
            self.passes(RecoveryMoment::Rewound);
        }
        Ok(())
    }

    /// Has agents start all ranks, as the next incarnation.
    fn start_again(&mut self) -> Result<(), Refusal> {
        let secret = Secret::random().map_err(|error| Refusal::new(status::LAUNCHER, error.to_string()))?;
        self.go_elsewhere();
        let Some(Survival { recovery, recall, moves, may_keep, had, .. }) = &mut self.survival else {
            return Ok(());
        };
        recall.over();
        *had = recovery.base().epoch.max(*had);
        may_keep.clear();
        let now = Instant::now();
        let (first, all) = recovery.starting().unwrap_or((now, now));
        let ago = [first, all].map(|then| now.saturating_duration_since(then));
        let (layout, adopted) = (self.layout.clone(), moves.adopted());
        let again = Down::Again(Again { base: recovery.base(), ago, secret, layout, adopted });
        self.launcher_relay = LauncherRelay::new(self.layout.clone());
        self.pids.fill(None);
        self.held_back.clear();
        for (host, link) in (0..).zip(&mut self.links).filter(|(_, link)| link.stage == AgentStage::Running) {
            link.ranks = self.layout.ranks_of(host).collect();
            link.out_of_memory = false;
        }
        self.tell_all(&again);
        self.passes(RecoveryMoment::Started);
        Ok(())
    }

    /// Ranks that were lost will not be started again.
    pub(super) fn give_up(&mut self, failure: &JobFailure) {
        // What hosts keep that this launcher does not reach may be enough for another one.
        self.unreached.clear();
        self.held_back.clear();
        self.supervisor.gone();
        let place = failure.rank.and_then(|rank| self.place(rank));
        let actions = self.supervisor.failed(failure, place.as_deref(), Instant::now());
        self.act(actions);
    }

    /// Whether all is printed that ranks had printed which move from hosts that are there: agents forget it
    /// then, and another launcher could not have it from them.
    fn have_movers_printed(&self) -> bool {
        let Some(Survival { come, recall, course: Some(course), .. }) = &self.survival else { return true };
        let moves = |state: &&StoreState| {
            let before = self.layout.host_of(state.rank);
            let is_there = self.links[before as usize].stage == AgentStage::Running;
            is_there && !course.layout.is_on(state.rank, before) && !recall.has_returned(before)
        };
        let has_come = |state: &StoreState| {
            let printed = state.at(course.plan.base.epoch).map_or([0; 2], |marked| marked.output);
            missing(self.one_stream, come[state.rank as usize], printed) == 0
        };
        let mut movers = course.states.iter().filter(moves).peekable();
        movers.peek().is_none() || (self.printers.are_idle() && movers.all(has_come))
    }

    /// So much of what a rank has printed has come.
    pub(super) fn has_come(&mut self, rank: u32, stream: Stream, bytes: usize) {
        if let Some(Survival { come, .. }) = &mut self.survival {
            let come = &mut come[rank as usize][stream as usize - 1];
            *come = come.saturating_add(bytes as u64);
        }
    }

    /// A host is out of reach. Returns whether its ranks may come back elsewhere: then all are recalled.
    pub(super) fn survive_a_host(&mut self, host: u32, why: &str) -> bool {
        let is_left = |link: &AgentLink| matches!(link.stage, AgentStage::Running | AgentStage::Done);
        let others = self.links.iter().any(is_left);
        let rank = self.layout.first_of(host);
        let may_go_on = self.supervisor.may_go_on();
        let missing =
            Some(host).filter(|_| self.is_finished() && may_go_on).map(|host| self.missing_of(host));
        if missing == Some(0) {
            self.print_no_more_of(host);
            // Ranks may go on after all, when another one is lost.
            if let Some(Survival { recall, .. }) = &mut self.survival {
                recall.lost(host);
            }
            return true;
        }
        let copies = self.survival.as_ref().map_or(0, |survival| survival.rule.count);
        // Without copies, one that has nothing may go all the same, as one that was drained.
        let is_recalled = self.survival.as_ref().is_some_and(|survival| survival.recall.is_under_way());
        let has_nothing = rank.is_none() && missing.is_none() && !is_recalled;
        if copies == 0 && !has_nothing || !others || !may_go_on {
            if let Some(missing) = missing {
                let name = &self.hosts.names[host as usize];
                crate::say(&format!("{missing} bytes that its ranks have printed are lost with host {name}"));
            }
            return false;
        }
        if missing.is_some() {
            self.go_on_for_output(host);
        }
        // What an agent has that this launcher has called itself was made since, and is of no use.
        let is_of_orphan = self.links[host as usize].is_of_orphan;
        let Some(Survival { recall, may_keep, .. }) = &mut self.survival else { return false };
        if recall.is_undecided_after_another() && is_of_orphan {
            may_keep.insert(host);
        }
        recall.lost(host);
        self.held_back.retain(|(_, of, ..)| *of != host);
        let they_wait = self.expect(host);
        self.replace(host, they_wait);
        let Some(Survival { recovery, recall, .. }) = &mut self.survival else { return false };
        // One that has no ranks takes only copies along; unless ranks are on their way to it.
        let Some(rank) = rank.or(recall.is_writing().then_some(0)) else { return true };
        let with_host = Some(why.to_owned());
        let loss = Loss { rank, exit: Exit::Signal(9), host: None, hint: "", with_host };
        let step = recovery.lost_host(loss, Instant::now());
        // It cannot fail: only starting can.
        let _ = self.take_step(step);
        true
    }

    /// Whether ranks that come back can do so elsewhere than on a host that does not take them.
    pub(super) fn may_do_without(&self, host: u32) -> bool {
        let is_returning = self.start_by.is_some() || self.is_returning(host);
        let is_there = |link: &AgentLink| link.stage == AgentStage::Running;
        let others = (0..).zip(&self.links).any(|(other, link)| other != host && is_there(link));
        let copies = self.survival.as_ref().map_or(0, |survival| survival.rule.count);
        self.are_coming_back() && !is_returning && others && copies > 0
    }

    /// Whether ranks are being brought back.
    pub(super) fn are_coming_back(&self) -> bool {
        let Some(Survival { recovery, recall, .. }) = &self.survival else { return false };
        self.supervisor.may_go_on() && (recall.is_under_way() || recovery.awaits_all())
    }

    /// A host is out of reach, which ends the job also while it does not count what is said of ranks. Returns
    /// whether ranks were recalled: then all of them count as running until all have ended.
    pub(super) fn lose_in_a_recovery(&mut self, host: u32, why: &str) -> bool {
        let Some(Survival { recovery, recall, .. }) = &mut self.survival else { return false };
        recall.lost(host);
        let is_recalled = recall.is_under_way();
        if is_recalled || recovery.is_ending() {
            let failure = JobFailure { rank: None, why: why.to_owned(), status: status::LAUNCHER };
            let actions = self.supervisor.failed(&failure, None, Instant::now());
            self.act(actions);
        }
        is_recalled
    }

    /// Something has gone wrong, of which the user will be told: before that, if ranks have been started
    /// again and will not go on, of why they were.
    pub(super) fn tell_of_a_restart_in_vain(&mut self) {
        let is_news = self.supervisor.may_go_on();
        let Some(Survival { recovery, .. }) = &mut self.survival else { return };
        if let Some(news) = recovery.cut_short().filter(|_| is_news) {
            crate::say(&news);
        }
    }
}

/// How much of what a rank has printed has not come.
pub(super) fn missing(one_stream: bool, come: Lengths, printed: Lengths) -> u64 {
    let streams = if one_stream { 1 } else { 2 };
    let missing = (0..streams).map(|stream| printed[stream].saturating_sub(come[stream]));
    missing.fold(0, u64::saturating_add)
}

/// A rank comes to a host that has what it had printed from `kept` on, and goes on behind `printed`; so much
/// has come, if anybody knows. From where on it is to be printed.
fn shown(printed: Lengths, kept: Lengths, come: Lengths) -> Lengths {
    let of = |stream: usize| match come[stream] {
        // What of that the launcher had printed that is lost, nobody knows.
        u64::MAX => printed[stream],
        come => come.max(kept[stream]),
    };
    [of(0), of(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_not_come_is_printed_where_the_rank_goes_on_as_far_as_it_is_there() {
        let printed = [100, 7];
        assert_eq!(shown(printed, [40, 0], [60, 7]), [60, 7], "the rest is there");
        assert_eq!(shown(printed, [80, 7], [60, 0]), [80, 7], "something is lost");
        assert_eq!(shown(printed, [40, 0], [120, 9]), [120, 9], "it has been farther before");
        assert_eq!(shown(printed, [40, 0], [u64::MAX; 2]), printed);
        assert_eq!(missing(false, [60, 0], [80, 7]), 27);
        assert_eq!(missing(true, [60, 0], [80, 7]), 20);
        assert_eq!(missing(false, [0, 0], [u64::MAX; 2]), u64::MAX, "nobody knows how much");
    }
}
