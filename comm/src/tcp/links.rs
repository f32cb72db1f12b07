//! What joining makes of a pair of ranks: its connections, as one of the two uses them.

use super::sealed::Connection;

/// The connections to one peer.
pub(super) struct Links {
    /// Puts and messages, both ways.
    pub(super) stream: Connection,
    /// This rank asks.
    pub(super) asks: Connection,
    /// This rank serves.
    pub(super) serves: Connection,
}
