//! Whose frames a rank's pages have.

use crate::fault::Kind;
use scash_proto::Sharing;

/// Whose frames a rank's pages have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frames {
    /// Its own, because the user wants that (`SCASH_SHARE=off`).
    #[default]
    Own,
    /// Those that all ranks of the job share.
    Shared,
    /// Its own, although the user has nothing against others: why.
    NotShared(&'static str),
}

impl Frames {
    pub(super) fn sharing(self) -> Sharing {
        match self {
            Frames::Shared => Sharing::Frames,
            Frames::Own | Frames::NotShared(_) => Sharing::Off,
        }
    }

    /// The engine, where `chosen` is what a rank with frames of its own has.
    pub(super) fn engine(self, chosen: Kind) -> Kind {
        match self {
            Frames::Shared => Kind::Mprotect,
            Frames::Own | Frames::NotShared(_) => chosen,
        }
    }
}
