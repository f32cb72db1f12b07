//! How a peer came to be gone.

use super::Garbage;
use crate::Error;
use nix::errno::Errno;

/// Why a peer is no longer reachable. The first reason that is seen is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// It dropped its endpoint and said so.
    Left,
    /// Its connection failed or closed.
    Lost(String),
    /// The way to it is cut, by all that the kernel knows, and it may live on.
    Cut(String),
    /// It sent what no correct peer sends.
    Broke(String),
    /// This rank's program passed memory that the kernel cannot read or write, so the connection ends in the
    /// middle of a message.
    BadBuffer,
}

/// What became of [`LossReason::BadBuffer`].
pub const BAD_BUFFER: &str = "this rank's program passed a buffer that is not memory it may use, or shared memory that it has not touched \
                                     (dsm_touch): the connection broke off in the middle of a message";

impl LossReason {
    /// The end of a connection, without a goodbye.
    pub fn closed() -> Self {
        Self::Lost("it closed its connection without a goodbye; it has ended or was killed".into())
    }

    /// The error for a caller that needed the peer.
    pub fn error(&self, rank: u32) -> Error {
        match self {
            Self::Left => Error::Down { rank, why: "it left the job in good order".into() },
            Self::Lost(why) | Self::Cut(why) => Error::Down { rank, why: why.clone() },
            Self::BadBuffer => Error::Down { rank, why: BAD_BUFFER.into() },
            Self::Broke(why) => Error::Protocol { rank, why: why.clone() },
        }
    }
}

impl From<std::io::Error> for LossReason {
    fn from(error: std::io::Error) -> Self {
        if error.raw_os_error() == Some(libc::EFAULT) {
            return Self::BadBuffer;
        }
        match error.raw_os_error().map(Errno::from_raw).filter(is_no_way) {
            // An end of the process closes or resets its connections, even if it is killed.
            Some(errno) => Self::Cut(format!("the connection to it broke: {}", errno.desc())),
            None => Self::Lost(format!("its connection failed: {error}")),
        }
    }
}

/// Whether a connection failed so because there is no way to the other side, which may live.
pub fn is_no_way(errno: &Errno) -> bool {
    use Errno::{EHOSTDOWN, EHOSTUNREACH, ENETDOWN, ENETUNREACH, ETIMEDOUT};
    matches!(errno, ETIMEDOUT | EHOSTUNREACH | EHOSTDOWN | ENETUNREACH | ENETDOWN)
}

impl From<Garbage> for LossReason {
    fn from(garbage: Garbage) -> Self {
        Self::Broke(format!("it sent {garbage}"))
    }
}
