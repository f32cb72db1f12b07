//! What the user wants to go wrong with hosts, agents and the launcher itself (`--inject 'kill host b at
//! checkpoint 3'`): the launcher does it, or has agents do it.

use super::Job;
use crate::run::front::die;
use crate::run::hosts::Hosts;
use crate::run::hosts::frames::{Down, HostFailure};
use crate::run::hosts::heartbeat::HeartbeatProbe;
use crate::run::hosts::link::AgentStage;
use crate::run::plan::Plan;
use crate::run::{Refusal, status};
use scash_ft::inject::{HostAction, HostInjection, HostTrigger, RecoveryCounts, RecoveryMoment};
use std::net::IpAddr;
use std::time::Instant;

/// What has not gone wrong yet.
#[derive(Debug)]
pub(super) struct Failures {
    planned: Vec<HostInjection>,
    /// How far it has come, and how often, in bringing ranks back.
    moments: RecoveryCounts,
    /// When all ranks had begun.
    begun: Option<Instant>,
}

impl Failures {
    /// Of a job. Another launcher that goes on with it lets nothing fail: the one before may have done that,
    /// and would do it again and again.
    pub(super) fn of(plan: &Plan, hosts: &Hosts) -> Result<Failures, Refusal> {
        let replicas = plan.replicas.as_ref().filter(|_| hosts.former.is_none());
        let planned = replicas.map_or(Vec::new(), |replicas| replicas.host_failures.clone());
        let refuse = |wrong: &HostInjection, why: &str| {
            Err(Refusal::new(status::USAGE, format!("--inject: '{wrong}': {why}")))
        };
        for one in &planned {
            let is_known = match &one.act {
                HostAction::CutLink(link) => ends(link, &hosts.names).is_some(),
                _ => one.host().is_none_or(|host| hosts.names.iter().any(|name| name == host)),
            };
            if !is_known {
                return refuse(one, &format!("the hosts of this job are {}", hosts.names.join(", ")));
            }
            let is_cut = matches!(one.act, HostAction::CutHost(_) | HostAction::CutLink(_));
            if is_cut && hosts.heartbeat.is_none() {
                return refuse(one, "the launcher knows where hosts are by heartbeats: leave --heartbeat on");
            }
        }
        Ok(Failures { planned, moments: RecoveryCounts::default(), begun: None })
    }

    /// When the next one is due by the clock.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let after = |one: &HostInjection| match one.when {
            HostTrigger::After(time) => Some(self.begun? + time),
            HostTrigger::Checkpoint(_) | HostTrigger::Recovery(..) => None,
        };
        self.planned.iter().filter_map(after).min()
    }

    /// Takes those that are due, in the order in which the user has named them.
    fn due(&mut self, now: Instant, committed: u64) -> Vec<HostAction> {
        let begun = *self.begun.get_or_insert(now);
        let is_due = |one: &mut HostInjection| match one.when {
            HostTrigger::After(time) => now >= begun + time,
            HostTrigger::Checkpoint(number) => committed >= number,
            HostTrigger::Recovery(times, moment) => self.moments.has_passed(moment, times),
        };
        self.planned.extract_if(.., is_due).map(|one| one.act).collect()
    }
}

impl Job<'_> {
    /// The launcher has come so far in bringing ranks back. Lets fail what is to fail then.
    pub(super) fn passes(&mut self, moment: RecoveryMoment) {
        self.failures.moments.pass(moment);
        self.fail();
    }

    /// Lets fail what is due.
    pub(super) fn fail(&mut self) {
        if self.failures.planned.is_empty() || self.start_by.is_some() {
            return;
        }
        let committed = self.survival.as_ref().and_then(|survival| survival.committed);
        let committed = committed.map_or(0, |(epoch, _)| epoch.0);
        for act in self.failures.due(Instant::now(), committed) {
            let done = match act {
                HostAction::KillHost(host) => self.fail_on_named(&host, HostFailure::Kill),
                HostAction::KillAgent(host) => self.fail_on_named(&host, HostFailure::KillAgent),
                HostAction::StopHost(host, time) => self.fail_on_named(&host, HostFailure::Stop(time)),
                HostAction::CutHost(host) => self.cut_host(&host),
                HostAction::CutLink(link) => self.cut_link(&link),
                HostAction::ReturnHost(host) => self.rejoin(&host).map(drop),
                HostAction::KillLauncher => die(),
            };
            if let Err(why) = done {
                crate::say(&format!("--inject: {why}"));
            }
        }
    }

    fn fail_on_named(&mut self, name: &str, failure: HostFailure) -> Result<(), String> {
        self.fail_on(self.host_of_name(name)?, failure)
    }

    fn fail_on(&mut self, host: u32, failure: HostFailure) -> Result<(), String> {
        let link = self.link(host);
        if link.stage != AgentStage::Running {
            return Err(format!("host {} is not there", link.name));
        }
        link.send(&Down::Fail(failure));
        Ok(())
    }

    /// Both ends of all its connections fall silent: what one end has sent already is not to arrive.
    fn cut_host(&mut self, name: &str) -> Result<(), String> {
        let host = self.host_of_name(name)?;
        let address = self.address(host)?;
        for other in (0..self.layout.hosts()).filter(|other| *other != host) {
            if self.link(other).stage == AgentStage::Running {
                self.fail_on(other, HostFailure::Cut(vec![address]))?;
            }
        }
        self.fail_on(host, HostFailure::Cut(Vec::new()))
    }

    fn cut_link(&mut self, link: &str) -> Result<(), String> {
        let [one, other] = ends(link, &self.hosts.names).ok_or("there is no such link")?;
        let addresses = [self.address(other)?, self.address(one)?];
        for (host, from) in [one, other].into_iter().zip(addresses) {
            self.fail_on(host, HostFailure::Cut(vec![from]))?;
        }
        Ok(())
    }

    /// By which ranks of other hosts reach those of that one.
    fn address(&mut self, host: u32) -> Result<IpAddr, String> {
        let link = self.link(host);
        let address = link.probe.as_ref().and_then(HeartbeatProbe::address);
        address.ok_or_else(|| {
            format!(
                "nothing is cut: host {} has no heartbeat by which the launcher knows its address",
                link.name
            )
        })
    }
}

/// The hosts that a link joins: their names with a hyphen between them, of which names may have some.
fn ends(link: &str, names: &[String]) -> Option<[u32; 2]> {
    let number = |end: &str| u32::try_from(names.iter().position(|name| name == end)?).ok();
    let split = |(at, _)| Some([number(&link[..at])?, number(&link[at + 1..])?]);
    link.match_indices('-').find_map(split).filter(|[one, other]| one != other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use scash_ft::inject::{AnyInjection, parse_any};
    use std::time::Duration;

    #[test]
    fn a_link_joins_two_hosts_whose_names_may_have_hyphens() {
        let names = ["a", "a-b", "b", "b-c"].map(str::to_owned);
        assert_eq!(ends("a-b", &names), Some([0, 2]));
        assert_eq!(ends("a-b-c", &names), Some([0, 3]));
        assert_eq!(ends("a-b-b-c", &names), Some([1, 3]));
        assert_eq!(["a", "b-b", "a-d", "-", ""].map(|link| ends(link, &names)), [None; 5]);
    }

    #[test]
    fn each_failure_happens_once_when_it_is_due() {
        let read = |text: &str| match parse_any(text).unwrap() {
            AnyInjection::Host(one) => one,
            AnyInjection::Rank(_) => panic!("{text}"),
        };
        let texts =
            ["kill host b at checkpoint 3", "return host b after 2s", "kill launcher at checkpoint 1"];
        let planned = texts.map(read).to_vec();
        let mut failures = Failures { planned, moments: RecoveryCounts::default(), begun: None };
        let start = Instant::now();
        assert_eq!((failures.deadline(), failures.due(start, 0)), (None, vec![]));
        assert_eq!(failures.deadline(), Some(start + Duration::from_secs(2)));
        let b = "b".to_owned();
        let both = [HostAction::KillHost(b.clone()), HostAction::KillLauncher];
        assert_eq!(failures.due(start, 4), both);
        assert_eq!(failures.due(start + Duration::from_secs(1), 5), []);
        assert_eq!(failures.due(start + Duration::from_secs(3), 5), [HostAction::ReturnHost(b)]);
        assert_eq!((failures.deadline(), failures.planned.len()), (None, 0));
    }
}
