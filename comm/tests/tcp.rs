//! The provider `tcp` against the conformance suite: as it is, and encrypted.

use scash_comm::tcp::{TcpEndpoint, TcpOptions};
use scash_comm::{Endpoint, Exchange, Result};
use std::sync::Arc;

fn endpoint(exchange: &mut dyn Exchange, encrypt: bool) -> Result<Arc<dyn Endpoint>> {
    let options = TcpOptions { ranks_here: exchange.size(), encrypt, ..TcpOptions::default() };
    Ok(Arc::new(TcpEndpoint::new(exchange, &options)?))
}

scash_comm::conformance_tests!(|exchange: &mut dyn Exchange| endpoint(exchange, false));

mod encrypted {
    use super::endpoint;
    use scash_comm::Exchange;

    scash_comm::conformance_tests!(|exchange: &mut dyn Exchange| endpoint(exchange, true));
}
