//! A rank that is gone: what its peers are told.

use scash_comm::{Endpoint, Error};

/// The error for calls that need a rank which the endpoint has lost.
pub(crate) fn error(endpoint: &dyn Endpoint, rank: u32) -> Error {
    let why = endpoint.cut(rank).unwrap_or_else(|| "it ended; its end is reported by scash run".to_owned());
    Error::Down { rank, why }
}
