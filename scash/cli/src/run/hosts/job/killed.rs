//! Ranks that were killed, and do not end: a kernel lets no process go that waits for a file server or a
//! device which does not answer. All others wait for them, as they may still write into stores; but not for
//! ever, if ranks can go on without their hosts.

use super::Job;
use super::survive::Survival;
use std::time::{Duration, Instant};

/// How long they may take until it is asked whether the others can do without them. Memory takes time to be
/// given back: a guess is ten seconds for a hundred GiB.
const END: Duration = Duration::from_secs(60);
/// How long what an agent has said may take to be read.
const READ: Duration = Duration::from_secs(1);

impl Survival {
    /// Ranks were told to end.
    pub(super) fn expect_ends(&mut self) {
        self.ended_by = Some(Instant::now() + END);
    }
}

impl Job<'_> {
    /// Does without hosts whose ranks do not end, if that is possible.
    pub(super) fn do_without_hosts_whose_ranks_do_not_end(&mut self) {
        let Some(survival) = &mut self.survival else { return };
        if !survival.recall.any_run() {
            survival.ended_by = None;
        }
        if survival.ended_by.take_if(|by| Instant::now() >= *by).is_none() {
            return;
        }
        let silent = survival.recall.silent();
        if silent.iter().any(|host| self.links[*host as usize].has_unread()) {
            survival.ended_by = Some(Instant::now() + READ);
            return;
        }
        let names = silent.iter().map(|host| self.hosts.names[*host as usize].as_str());
        let names = names.collect::<Vec<&str>>().join(", ");
        let why = format!("its ranks were killed, and have not ended after {} s", END.as_secs());
        let they_wait = survival.returns.have_ranks_wait();
        let wishes = survival.moves.without_wanted();
        if they_wait || !survival.recall.can_do_without(&silent, &self.layout, &survival.rule, wishes) {
            crate::say(&format!("host {names}: {why}; all others wait for that"));
            survival.expect_ends();
            return;
        }
        for host in silent {
            let may_go_on = self.supervisor.may_go_on();
            let Some(survival) = self.survival.as_mut().filter(|_| may_go_on) else { return };
            // Another agent would have its ranks beside those.
            survival.returns.leave_out(host);
            self.lose(host, &why);
        }
    }
}
