//! Why an operation failed.

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The peer is dead or cut off.
    #[error("rank {rank} is gone: {why}")]
    Down {
        /// Its rank.
        rank: u32,
        /// What showed it.
        why: String,
    },
    /// A peer that is to connect, or to be connected to, has not answered in time, or there is no way to it.
    #[error("rank {rank} is out of reach: {why}")]
    OutOfReach {
        /// Its rank.
        rank: u32,
        /// What was tried.
        why: String,
    },
    /// The caller named a rank, segment or range that does not exist.
    #[error("{0}")]
    Invalid(String),
    /// A peer sent what no correct peer sends.
    #[error("rank {rank} broke the protocol: {why}")]
    Protocol {
        /// Its rank.
        rank: u32,
        /// What was wrong.
        why: String,
    },
    /// A message is longer than the memory that was given for it. What is in that memory is not said.
    #[error(
        "a message of {len} bytes was to be received into memory of {room}: give it more, or receive it into memory of its own"
    )]
    TooLong {
        /// Bytes of the message.
        len: usize,
        /// Bytes of the memory.
        room: usize,
    },
    /// So much that handlers of active messages have sent to a rank waits to leave that no more is kept. The
    /// message was not sent.
    #[error(
        "rank {rank} handles active messages more slowly than handlers here send it others: {held} bytes wait to leave, of {bound} that may (SCASH_MP_HELD); \
         have handlers send less, or later"
    )]
    Full {
        /// The rank that it was for.
        rank: u32,
        /// Bytes that wait to leave.
        held: usize,
        /// Bytes that may.
        bound: usize,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was being tried, and what the user can do.
        what: String,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// Result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;
