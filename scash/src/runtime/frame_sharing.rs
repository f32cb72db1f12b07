//! Whether a rank's pages are frames of its own or frames that all ranks share.

use crate::fault::EngineKind;
use scash_proto::Sharing;

/// Whose frames a rank's pages have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameSharing {
    /// Its own, because the user wants that (`SCASH_SHARE=off`).
    #[default]
    Own,
    /// Those that all ranks of the job share.
    Shared,
    /// Its own, although the user has nothing against others: why.
    NotShared(&'static str),
}

impl FrameSharing {
    pub(super) fn sharing(self) -> Sharing {
        match self {
            FrameSharing::Shared => Sharing::Frames,
            FrameSharing::Own | FrameSharing::NotShared(_) => Sharing::Off,
        }
    }

    /// The engine, where `chosen` is what a rank with frames of its own has.
    pub(super) fn engine(self, chosen: EngineKind) -> EngineKind {
        match self {
            FrameSharing::Shared => EngineKind::Mprotect,
            FrameSharing::Own | FrameSharing::NotShared(_) => chosen,
        }
    }
}
