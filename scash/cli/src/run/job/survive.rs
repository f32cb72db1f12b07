//! What a job does whose ranks may die (`--replicas`): it carries out what the
//! [`Recovery`](crate::run::recovery::Recovery) decides.

use super::survival::Survival;
use super::{HOST, Job, LAST_LINES, failed, host, no_printing};
use crate::run::front::{SignalOrder, die};
use crate::run::oom::{self, OomKills};
use crate::run::output::{self, Printing};
use crate::run::plan::Plan;
use crate::run::processes::Processes;
use crate::run::recovery::{self, LauncherAction, Loss};
use crate::run::supervisor::WORD_OF_OTHERS;
use crate::run::{Refusal, sweep};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use scash_ft::Epoch;
use scash_ft::inject::{HostTrigger, RecoveryCounts, RecoveryMoment};
use scash_join::boot::{Exit, JobFailure};
use std::os::fd::AsFd;
use std::time::Instant;

impl Job<'_> {
    /// Starts to print what ranks will have printed that is not taken back.
    pub(super) fn print_saved(&self) -> Result<Printing, Refusal> {
        let plan = self.plan;
        let screens = output::open(plan.label, plan.ranks, output::is_one_file()).map_err(no_printing)?;
        let saved = self.survival.as_ref().map(|survival| survival.kept.output());
        let saved = saved.ok_or_else(|| no_printing(std::io::Error::other("nothing is saved")))?;
        Printing::start_saved(saved, screens).map_err(no_printing)
    }

    /// Whether the job that is resumed had ended: only what it has printed is left to be shown.
    pub(super) fn has_ended(&self) -> bool {
        self.survival.as_ref().is_some_and(|survival| survival.kept.has_ended())
    }

    /// No rank runs any more, and none will. If all went well, none is ever to be started again.
    pub(super) fn note_end(&mut self) {
        let Some(survival) = &mut self.survival else { return };
        survival.kept.forget_frames();
        if self.supervisor.verdict() == 0 {
            survival.kept.note_end();
        }
    }

    /// Starts all ranks from where they are to go on.
    pub(super) fn start_survivors(&mut self) -> Result<(), Refusal> {
        let Some(mut survival) = self.survival.take() else { return Ok(()) };
        let (base, lost) = (survival.recovery.base(), survival.recovery.starting());
        let plan = self.plan;
        let started = self.start_ranks(|rank| {
            if lost.is_some() && rank > 0 {
                dies_at(plan, &mut survival.moments, RecoveryMoment::Started);
            }
            survival.kept.setup(rank, base, lost)
        });
        if lost.is_some() && started.is_ok() {
            dies_at(plan, &mut survival.moments, RecoveryMoment::Started); // the last one
        }
        self.survival = Some(survival);
        started
    }

    /// Rank 0 has told of something: that all ranks go on again, or that they have an epoch. What they had
    /// printed then will not be taken back.
    pub(super) fn take_news(&mut self) {
        let Some(Survival { recovery, kept, .. }) = &mut self.survival else { return };
        if kept.told().resumed
            && let Some(news) = recovery.resumed(Instant::now())
        {
            crate::say(&news);
        }
        let epoch = || kept.epoch(recovery.base()).0;
        dies_if(self.plan, |when| matches!(when, HostTrigger::Checkpoint(number) if epoch() >= number));
        let lengths = kept.committed(recovery.base());
        if let (Some(lengths), Some(printing)) = (lengths, &self.printing) {
            printing.commit(&lengths);
        }
    }

    /// Says what ranks have said that cannot wait for a checkpoint.
    pub(super) fn pass_sayings_on(&mut self) {
        let Some(Survival { kept, .. }) = &mut self.survival else { return };
        while let Some(lines) = kept.user_messages.next() {
            output::say(&lines);
        }
    }

    /// An order that the terminal has given to the ranks, too, has missed those that were just being started.
    pub(super) fn for_ranks_that_may_have_missed(&self, order: SignalOrder) -> SignalOrder {
        let is_late = self.survival.as_ref().is_some_and(|survival| survival.recovery.awaits_joining());
        SignalOrder { from_terminal: order.from_terminal && !is_late, ..order }
    }

    /// The process of a rank has ended, which may be a loss.
    pub(super) fn take_survivors_exit(&mut self, rank: u32, exit: Exit) {
        // What the rank has said comes before what is said of its end.
        self.pass_sayings_on();
        let may_be_explained = matches!(exit, Exit::Status(1..)) && self.supervisor.may_go_on();
        match &mut self.survival {
            Some(Survival { recovery, held_back, .. }) if may_be_explained && !recovery.is_ending() => {
                held_back.push((Instant::now() + WORD_OF_OTHERS, rank, exit));
            }
            _ => self.judge_exit(rank, exit),
        }
    }

    /// Takes the ends that were held back, unless what may explain them is still to come.
    fn release(&mut self) {
        let may_go_on = self.supervisor.may_go_on();
        let Some(Survival { recovery, held_back, .. }) = &mut self.survival else { return };
        let is_due = |(until, ..): &(Instant, u32, Exit)| *until <= Instant::now() && !recovery.is_ending();
        if !may_go_on || held_back.first().is_some_and(is_due) {
            for (_, rank, exit) in std::mem::take(held_back) {
                self.judge_exit(rank, exit);
            }
        }
    }

    /// Lets the recovery decide what the end of a rank means.
    fn judge_exit(&mut self, rank: u32, exit: Exit) {
        let may_go_on = self.supervisor.may_go_on();
        let Some(survival) = &mut self.survival else { return };
        let is_starved = !survival.recovery.is_ending()
            && self.oom_kills.may_explain(exit.shell_status(), OomKills::until_now);
        if is_starved {
            survival.kept.forget_frames();
        }
        let hint = if is_starved { oom::HINT } else { "" };
        let loss = Loss { rank, exit, host: None, hint, with_host: None };
        let step = survival.recovery.exited(loss, may_go_on, Instant::now());
        // It cannot fail: only starting can.
        let _ = self.take_step(step);
    }

    /// Does what is due in a recovery.
    pub(super) fn recover(&mut self) -> Result<(), Refusal> {
        self.release();
        // One step may make the next one due: ranks that are to be killed may be dead already.
        loop {
            let any_run = self.processes.any_run();
            let (may_go_on, may_start) = (self.supervisor.may_go_on(), !self.supervisor.is_stopped());
            let Some(Survival { recovery, .. }) = &mut self.survival else { return Ok(()) };
            // Those that begin anew have no more to do than that.
            if recovery.base().epoch == Epoch(0)
                && recovery.awaits_joining()
                && self.host.have_all_joined()
                && let Some(news) = recovery.resumed(Instant::now())
            {
                crate::say(&news);
            }
            let step = recovery.tick(any_run, may_go_on, may_start, Instant::now());
            if step.is_none() {
                return Ok(());
            }
            self.take_step(step)?;
        }
    }

    fn take_step(&mut self, step: Option<LauncherAction>) -> Result<(), Refusal> {
        match step {
            None => {}
            Some(LauncherAction::Kill) => {
                if let Some(Survival { held_back, .. }) = &mut self.survival {
                    held_back.clear();
                }
                self.supervisor.recovering(self.plan.ranks);
                self.processes.signal(Signal::SIGKILL);
                self.passes(RecoveryMoment::Recalled);
            }
            Some(LauncherAction::ReportExits(exits)) => {
                for (rank, exit) in exits {
                    self.supervisor.exited();
                    self.host.exited(rank, exit);
                }
                self.take_failures();
            }
            Some(LauncherAction::End) => self.supervisor.gone(),
            Some(LauncherAction::Find) => return self.start_again(),
        }
        Ok(())
    }

    /// No rank runs any more. Starts all again from what they have, unless that is of no use, or an order has
    /// come meanwhile.
    fn start_again(&mut self) -> Result<(), Refusal> {
        sweep::sweep(&[]);
        self.pass_sayings_on();
        self.take_orders();
        if !self.supervisor.may_go_on() || self.supervisor.is_stopped() {
            return Ok(()); // which is another step, now or when the user continues the job
        }
        self.passes(RecoveryMoment::Ended);
        let Some(Survival { recovery, kept, moments, .. }) = &mut self.survival else { return Ok(()) };
        let before = recovery.base();
        let epoch = kept.epoch(before);
        let found = recovery.found(epoch, recovery::barrier(&kept.states(), epoch), Instant::now());
        let mut rewound = || dies_at(self.plan, moments, RecoveryMoment::Rewound);
        let lengths = found
            .and_then(|_| kept.go_back(before, &mut rewound).map_err(|why| recovery.nothing_found(&why)));
        match lengths {
            Err(failure) => {
                self.give_up(&failure);
                Ok(())
            }
            Ok(lengths) => {
                if let Some(printing) = &self.printing {
                    printing.commit(&lengths);
                }
                self.oom_kills = OomKills::until_now();
                self.epoll.delete(&self.host).map_err(failed("forgetting a descriptor"))?;
                self.host = host(self.plan)?;
                self.watch(&self.host, HOST)?;
                self.processes = Processes::default();
                self.start_survivors()?;
                Ok(())
            }
        }
    }

    /// The launcher has come so far in bringing ranks back.
    fn passes(&mut self, moment: RecoveryMoment) {
        if let Some(Survival { moments, .. }) = &mut self.survival {
            dies_at(self.plan, moments, moment);
        }
    }

    /// Ranks that were lost will not be started again.
    fn give_up(&mut self, failure: &JobFailure) {
        self.supervisor.gone();
        if let Some(printing) = &self.printing {
            printing.catch_up();
        }
        let place = failure.rank.and_then(|rank| self.place(rank));
        let actions = self.supervisor.failed(failure, place.as_deref(), Instant::now());
        self.act(actions);
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

    /// All ranks have ended for good.
    pub(super) fn say_the_rest(&mut self) {
        let went_on = self.supervisor.may_go_on();
        let Some(Survival { recovery, .. }) = &mut self.survival else { return };
        if let Some(news) = recovery.over().filter(|_| went_on) {
            crate::say(&news);
        }
    }

    /// The launcher has failed: prints what ranks have printed, if that does not take too long.
    pub(super) fn print_the_rest(&mut self) {
        let Some(printing) = self.printing.take().filter(|_| self.survival.is_some()) else { return };
        printing.finish();
        let timeout = PollTimeout::try_from(LAST_LINES).unwrap_or(PollTimeout::ZERO);
        // It is readable when all is out, or something could not be written, which nobody could be told now.
        let _ = poll(&mut [PollFd::new(printing.as_fd(), PollFlags::POLLIN)], timeout);
    }
}

/// Dies if the user wants that of a launcher that has come so far.
fn dies_at(plan: &Plan, moments: &mut RecoveryCounts, moment: RecoveryMoment) {
    moments.pass(moment);
    dies_if(
        plan,
        |when| matches!(when, HostTrigger::Recovery(times, moment) if moments.has_passed(moment, times)),
    );
}

/// Dies if the user wants that now. Nothing else fails on one host besides ranks.
fn dies_if(plan: &Plan, is_now: impl Fn(HostTrigger) -> bool) {
    let mut failures = plan.replicas.iter().flat_map(|replicas| &replicas.host_failures);
    if failures.any(|failure| is_now(failure.when)) {
        die();
    }
}
