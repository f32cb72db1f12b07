//! What other commands of the user ask of the launcher of a job on several hosts
//! ([`control`](crate::run::control)).

use super::Job;
use super::survive::Survival;
use crate::run::hosts::link::AgentStage;
use scash_ft::Epoch;
use std::fmt::Write;
use std::time::Instant;

impl Job<'_> {
    /// Answers what was asked meanwhile.
    pub(super) fn answer(&mut self) {
        while let Some(request) = self.control.as_ref().and_then(|control| control.next()) {
            let words: Vec<&str> = request.words.iter().map(String::as_str).collect();
            let answer = match words[..] {
                ["status"] => Ok(self.status()),
                ["migrate", rank, host] => self.migrate(rank, host),
                ["drain", host] => self.drain(host),
                ["rejoin", host] => self.rejoin(host),
                _ => Err("this job is of another version of scash, which knows nothing of that".to_owned()),
            };
            if let Some(control) = &self.control {
                control.answer(&request, answer);
            }
        }
    }

    /// How the job is, for people.
    fn status(&self) -> String {
        let (plan, layout) = (self.plan, &self.layout);
        let mut text = format!(
            "{}: {} ranks on {} hosts\n",
            plan.task.program.name.display(),
            plan.ranks,
            (0..layout.hosts()).filter(|host| layout.first_of(*host).is_some()).count()
        );
        if let Some(survival) = &self.survival {
            self.status_of_survivors(survival, &mut text);
        }
        for (host, link) in (0..).zip(&self.links) {
            let ranks: Vec<String> = layout.ranks_of(host).map(|rank| rank.to_string()).collect();
            let is = match link.stage {
                _ if self.is_returning(host) => "is lost, and is being called",
                AgentStage::Calling | AgentStage::Preparing | AgentStage::Ready => "is being called",
                AgentStage::Running if ranks.is_empty() => "is there, without ranks",
                AgentStage::Running => "is there",
                AgentStage::Done => "is done",
                AgentStage::Gone => "is lost",
            };
            let _ = write!(text, "host {} {is}", link.name);
            self.status_of_the_lost(host, &mut text);
            if !ranks.is_empty() {
                let _ = write!(text, "; ranks {}", ranks.join(", "));
            }
            let refused = self.survival.iter().flat_map(|survival| survival.moves.refused_at(host));
            for rank in refused.filter(|_| link.stage == AgentStage::Running) {
                let _ = write!(text, "; rank {rank} could not go on there");
            }
            let kept = self.survival.as_ref().map_or(0, |survival| survival.kept[host as usize]);
            if kept > 0 && link.stage == AgentStage::Running {
                let _ = write!(text, "; checkpoints take {} MiB", kept.div_ceil(1 << 20));
            }
            text.push('\n');
        }
        text
    }

    /// When a lost host is called again, and why it did not come.
    fn status_of_the_lost(&self, host: u32, text: &mut String) {
        let Some(survival) = self.survival.as_ref().filter(|survival| !survival.is_finished) else { return };
        if let Some(next) = survival.returns.next_call(host) {
            let next = next.saturating_duration_since(Instant::now()).as_secs_f64();
            let _ = write!(text, "; it is called again in {next:.0} s");
        }
        if let Some(failure) = &self.links[host as usize].failure {
            let _ = write!(text, " ({failure})");
        }
    }

    fn status_of_survivors(&self, survival: &Survival, text: &mut String) {
        let base = survival.recovery.base();
        if survival.recall.is_under_way() || survival.recovery.awaits_joining() {
            text.push_str("ranks are being started again\n");
        }
        let _ = match survival.committed {
            Some((epoch, when)) => {
                let ago = Instant::now().saturating_duration_since(when).as_secs_f64();
                writeln!(
                    text,
                    "incarnation {}; last checkpoint: epoch {epoch}, {ago:.1} s ago",
                    base.incarnation
                )
            }
            None if base.epoch == Epoch(0) => {
                writeln!(text, "incarnation {}; no checkpoint yet", base.incarnation)
            }
            None => writeln!(
                text,
                "incarnation {}, from epoch {}; no checkpoint since",
                base.incarnation, base.epoch
            ),
        };
        let layout = &self.layout;
        let others = (0..layout.hosts()).filter(|host| layout.first_of(*host).is_some()).count() - 1;
        let copies = (survival.rule.count as usize).min(others);
        let _ = match survival.committed {
            _ if survival.rule.count == 0 => writeln!(text, "no copies of checkpoints on other hosts"),
            _ if survival.recall.is_under_way() => writeln!(text, "copies of each checkpoint: not whole"),
            Some(_) if copies < survival.rule.count as usize => {
                writeln!(
                    text,
                    "copies of each checkpoint: {copies} of {}, as no more hosts have ranks",
                    survival.rule.count
                )
            }
            Some(_) => writeln!(text, "copies of each checkpoint: {copies}, whole"),
            None => writeln!(text, "copies of each checkpoint: {copies}, from the next one on"),
        };
        self.status_of_standby(text);
        for (rank, host) in survival.moves.wanted() {
            let name = &self.hosts.names[*host as usize];
            let _ = writeln!(text, "rank {rank} is to move to host {name} with the next checkpoint");
        }
    }
}
