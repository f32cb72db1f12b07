//! What joining makes of a pair of ranks: its connections, as one of the two uses them.

use super::sealed::NewConnection;

/// The connections to one peer.
pub(super) struct Links {
    /// Puts and messages, both ways.
    pub(super) stream: NewConnection,
    /// This rank asks.
    pub(super) asks: NewConnection,
    /// This rank serves.
    pub(super) serves: NewConnection,
}
