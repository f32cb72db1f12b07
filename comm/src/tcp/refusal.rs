//! Why a connection is refused, and which of the reasons the other side is told.

use super::wire::VERSION;

/// Why the other end of a connection is not talked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("it does not speak this protocol")]
    Foreign,
    #[error("it speaks version {0} of the protocol, this rank version {ours}: use the same build for all ranks", ours = VERSION)]
    Version(u16),
    #[error("it belongs to another job")]
    OtherJob,
    #[error("it does not know this job's secret")]
    Secret,
    #[error("it has ABI {theirs}, this rank has ABI {ours}: use the same build for all ranks")]
    Abi { theirs: u32, ours: u32 },
    #[error("it asks for a connection of an unknown class")]
    Class,
    #[error("it says it is rank {from} of {size} looking for rank {to}")]
    Rank { from: u32, size: u32, to: u32 },
    #[error("rank {0} has that connection already")]
    Again(u32),
    #[error("rank {0} reaches this rank without TCP: start all ranks with the same provider")]
    Unexpected(u32),
    #[error("it hung up during the handshake")]
    HungUp,
    #[error("it did not complete the handshake in time")]
    Late,
    #[error("too many wait to be heard")]
    Crowd,
    #[error("all ranks are connected")]
    NotNeeded,
    #[error("it refuses this rank: {0}")]
    Refused(&'static str),
    #[error("{0}")]
    System(String),
}

/// The reasons that the other side is told, by their numbers on the wire, as who is refused reads them.
const REASONS: [&str; 5] = [
    "it belongs to another job; does an old one still run there?",
    "it has another ABI: use the same build for all ranks",
    "it knows no such rank, or no connection of that class: use the same build for all ranks",
    "it has that connection already",
    "it does not expect it to connect: start all ranks with the same provider",
];

impl Refusal {
    /// The number under which the other side is told it: only one that is refused for good and may be a rank.
    pub(super) fn told(&self) -> Option<u16> {
        match self {
            Refusal::OtherJob => Some(0),
            Refusal::Abi { .. } => Some(1),
            Refusal::Class | Refusal::Rank { .. } => Some(2),
            Refusal::Again(_) => Some(3),
            Refusal::Unexpected(_) => Some(4),
            _ => None,
        }
    }

    /// What this rank is told under that number.
    pub(super) fn heard(number: u16) -> Option<Self> {
        REASONS.get(usize::from(number)).map(|reason| Refusal::Refused(reason))
    }
}
