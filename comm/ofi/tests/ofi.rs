//! The provider `ofi` against the conformance suite, over libfabric's own providers that need no network
//! card.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use scash_comm::{Endpoint, Exchange, Result};
use scash_ofi::{OfiEndpoint, OfiOptions, providers};
use std::sync::Arc;

/// Options for one of libfabric's providers.
fn options(provider: &str, ranks: u32) -> OfiOptions {
    OfiOptions {
        provider: Some(provider.into()),
        interface: Some("127.0.0.1".into()),
        ranks_here: ranks,
        ..OfiOptions::default()
    }
}

/// Why nothing can be tested over a provider here.
fn obstacle(provider: &str) -> Option<String> {
    match providers() {
        Err(error) => Some(error.to_string()),
        // What runs over `tcp` may be called `tcp;ofi_rxm`.
        Ok(names) if names.iter().any(|name| name.split(';').any(|part| part == provider)) => None,
        Ok(names) => Some(format!("libfabric has no provider {provider}, only {names:?}")),
    }
}

/// The suite over TCP connections, which libfabric makes.
mod tcp {
    use super::*;

    fn endpoint(exchange: &mut dyn Exchange) -> Result<Arc<dyn Endpoint>> {
        let options = options("tcp", exchange.size());
        Ok(Arc::new(OfiEndpoint::new(exchange, &options)?))
    }

    scash_comm::conformance_tests!(endpoint, unless || obstacle("tcp"));
}

/// The suite over libfabric's shared memory: nothing to sleep on, virtual addresses, writes that are waited
/// for.
mod shm {
    use super::*;

    fn endpoint(exchange: &mut dyn Exchange) -> Result<Arc<dyn Endpoint>> {
        let options = options("shm", exchange.size());
        Ok(Arc::new(OfiEndpoint::new(exchange, &options)?))
    }

    scash_comm::conformance_tests!(endpoint, unless || obstacle("shm"));
}
