//! Idle: what a thread does while nothing arrives. It spins, serves peers in the service thread's place, or
//! sleeps.

use super::{TcpEndpoint, poller};
use crate::network::{Companion, Network};
use std::time::Duration;

impl TcpEndpoint {
    /// One vain turn of a thread that waits for the companion, too. Serving lasts `limit` at most, and a
    /// sleep `longest`.
    pub(super) fn wait(&self, companion: &dyn Companion, turn: u32, limit: Duration, longest: Duration) {
        let pace = self.waits.idle;
        let has_core = pace.spins_at(poller::SERVE_AFTER);
        let looks = if has_core { poller::looks(turn) } else { turn };
        if turn > poller::SERVE_AFTER && (pace.spins_at(looks) || self.shared.service.is_needed()) {
            poller::serve(&self.shared, companion, limit, has_core);
        } else if !pace.spin(looks) {
            poller::sleep(&self.shared, companion, longest);
        }
    }
}

impl Network for TcpEndpoint {
    fn idle_with(&self, companion: &dyn Companion, turn: u32, limit: Duration) {
        self.wait(companion, turn, limit, limit);
    }

    fn rouse(&self) {
        self.shared.wakeups.delivered();
    }

    fn on_end_of_nap(&self, instead: Box<dyn Fn() + Send + Sync>) {
        self.shared.nap.have_instead(instead);
    }
}
