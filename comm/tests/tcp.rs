//! The provider `tcp` against the conformance suite.

use scash_comm::tcp::{TcpEndpoint, TcpOptions};
use scash_comm::{Endpoint, Exchange, Result};
use std::sync::Arc;

fn endpoint(exchange: &mut dyn Exchange) -> Result<Arc<dyn Endpoint>> {
    let options = TcpOptions { ranks_here: exchange.size(), ..TcpOptions::default() };
    Ok(Arc::new(TcpEndpoint::new(exchange, &options)?))
}

scash_comm::conformance_tests!(endpoint);
