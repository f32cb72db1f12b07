//! The composite endpoint against the conformance suite: shared memory within hosts, tcp between them.

use scash_comm::composite::CompositeEndpoint;
use scash_comm::conformance::on_hosts;
use scash_comm::shm::ShmOptions;
use scash_comm::tcp::{TcpEndpoint, TcpOptions};
use scash_comm::{Endpoint, Exchange, Result};
use std::sync::Arc;

fn endpoint(exchange: &mut dyn Exchange) -> Result<Arc<dyn Endpoint>> {
    // In truth they all run on one.
    let options = TcpOptions { ranks_here: exchange.size(), ..TcpOptions::default() };
    let network = |exchange: &mut dyn Exchange| TcpEndpoint::between_hosts(exchange, &options);
    Ok(Arc::new(CompositeEndpoint::new(exchange, &ShmOptions::default(), network)?))
}

/// Neighbours are on different hosts: tests of two ranks go through the network, those of more through both.
mod hosts_in_turn {
    scash_comm::conformance_tests!(super::on_hosts(&[0, 1], super::endpoint));
}

/// Two ranks a host.
mod two_ranks_a_host {
    scash_comm::conformance_tests!(super::on_hosts(&[0, 0, 1, 1], super::endpoint));
}

/// Hosts of one, two and three ranks.
mod hosts_of_different_sizes {
    scash_comm::conformance_tests!(super::on_hosts(&[0, 1, 1, 2, 2, 2], super::endpoint));
}
