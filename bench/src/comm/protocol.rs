//! By which protocol messages travel: what `scash_mp` is told, so that each can be measured at every length.

use crate::Result;
use scash_mp::{Large, Options};

/// Longer than every message here.
const ALWAYS: usize = 16 << 20;

/// A protocol, or the choice that programs get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Protocol {
    /// As programs get it: by length, and by what the ranks have
    #[default]
    Default,
    /// As programs get it, from registered memory
    Registered,
    /// All messages at once: copied by their sender and by their receiver
    Eager,
    /// All messages pushed: active zero copy
    Push,
    /// All messages asked for by their receiver, and sent in pieces
    Rendezvous,
    /// All messages read by their receiver in the sender's memory, by the kernel
    Get,
    /// All messages read by their receiver in the sender's registered memory
    RegisteredGet,
    /// Short ones at once, long ones pushed
    EagerPush,
    /// Short ones at once, long ones asked for: what active zero copy is compared with
    EagerRendezvous,
}

impl Protocol {
    /// What the communicator is told. Nothing waits for room in the window: a protocol shows its own cost.
    ///
    /// # Errors
    /// The environment says what programs get, and makes no sense.
    pub(crate) fn options(self) -> Result<Options> {
        let options = Options { window: 4 * ALWAYS, ..Options::default() };
        Ok(match self {
            Protocol::Default | Protocol::Registered => Options::from_env()?,
            Protocol::Eager => Options { eager: ALWAYS, push: 0, ..options },
            Protocol::Push => Options { eager: 0, push: ALWAYS, large: Large::Push, ..options },
            Protocol::Rendezvous => Options { eager: 0, push: 0, large: Large::Rendezvous, ..options },
            Protocol::Get | Protocol::RegisteredGet => {
                Options { eager: 0, push: 0, large: Large::Get, ..options }
            }
            Protocol::EagerPush => Options { large: Large::Push, ..options },
            Protocol::EagerRendezvous => Options { push: 0, large: Large::Rendezvous, ..options },
        })
    }

    /// Whether what is sent lies in registered memory.
    pub(crate) fn is_registered(self) -> bool {
        matches!(self, Protocol::Registered | Protocol::RegisteredGet)
    }
}
