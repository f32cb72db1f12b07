//! The conformance suite, for ranks that share memory.

use scash_comm::shm::{ShmEndpoint, ShmOptions};
use scash_comm::{Endpoint, Exchange, Result};
use std::sync::Arc;

fn endpoint(exchange: &mut dyn Exchange) -> Result<Arc<dyn Endpoint>> {
    Ok(Arc::new(ShmEndpoint::new(exchange, &ShmOptions::default())?))
}

scash_comm::conformance_tests!(endpoint);
