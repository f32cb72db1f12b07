//! Hosts of which the launcher misses the heartbeat.

use super::Job;
use crate::run::hosts::heartbeat::HostHealth;
use crate::run::hosts::link::AgentStage;
use std::time::Instant;

impl Job<'_> {
    /// Asks hosts whether they are there, and notices those that are not.
    pub(super) fn probe_hosts(&mut self) {
        let now = Instant::now();
        let Some(heartbeat) = self.hosts.heartbeat.filter(|_| now >= self.next_probe) else { return };
        self.next_probe = now + heartbeat.pause();
        for host in 0..self.layout.hosts() {
            let link = self.link(host);
            if link.stage == AgentStage::Gone {
                // Nothing of it is missed any more.
                link.probe = None;
            }
            match link.probe.as_mut().map(|probe| probe.turn(heartbeat, now)) {
                None | Some(HostHealth::Unknown) => {}
                Some(HostHealth::There) => link.was_probed = true,
                Some(HostHealth::Broken) => link.probe = None,
                // Until ranks run, somebody may still plug it in.
                Some(HostHealth::Silent(_)) if self.start_by.is_some() => {}
                Some(HostHealth::Silent(silence)) => {
                    let why = format!(
                        "it has not answered for {} ms (--heartbeat): it is down, or the way to it is",
                        silence.as_millis()
                    );
                    self.lose(host, &why);
                }
            }
        }
    }
}
