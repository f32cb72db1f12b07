//! Which protocol serves messages to a rank.

use super::Engine;
use crate::{Large, Options};

/// What the options say of it, or what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Protocols {
    /// Bytes of the longest message that travels at once.
    pub(crate) eager: usize,
    /// Bytes of the longest message that is pushed.
    pub(crate) push: usize,
    /// The protocols of longer ones than `eager`.
    pub(crate) large: Large,
}

impl Protocols {
    pub(super) fn of(options: &Options) -> Self {
        Self { eager: options.eager, push: options.push, large: options.large }
    }
}

impl Engine {
    /// Which protocols serve messages to a rank.
    pub(crate) fn protocols(&self, to: u32) -> Protocols {
        self.peers[to as usize].protocols
    }

    /// From now on these serve messages to a rank. It need not know: a receiver takes what comes.
    pub(crate) fn set_protocols(&mut self, to: u32, protocols: Protocols) {
        self.peers[to as usize].protocols = protocols;
    }

    /// Whether a message of that length that is short enough to leave at once may be pushed to a rank
    /// instead.
    pub(crate) fn pushes(&self, to: u32, len: usize) -> bool {
        let Protocols { push, large, .. } = self.peers[to as usize].protocols;
        matches!(large, Large::Auto | Large::Push) && (1..=push).contains(&len)
    }

    /// Whether messages to a rank travel through shared memory.
    pub(crate) fn is_near(&self, rank: u32) -> bool {
        self.groups.includes(rank)
    }

    /// Whether a rank can read all of this process's memory.
    pub(crate) fn is_readable(&self, by: u32) -> bool {
        self.peers[by as usize].reads.all
    }
}
