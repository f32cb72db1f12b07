//! What can go wrong, in words that tell the user what to do.

use scash_proto::wire::{Attendance, Purpose};

/// Why a call of the library failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting has a value that cannot be used.
    #[error("{0}")]
    Setting(String),
    /// An argument cannot be used.
    #[error("{0}")]
    Argument(String),
    /// The system or the launcher refused something when the job was joined.
    #[error("cannot join the job: {0}")]
    Join(String),
    /// There is no room in the region.
    #[error("{0}")]
    OutOfSpace(String),
    /// What is to be destroyed is in use at a rank. Nothing was destroyed at any rank; all were told the
    /// same.
    #[error("{0}")]
    InUse(String),
    /// Ranks made different collective calls.
    #[error("{0}")]
    Mismatch(String),
    /// Another thread of this rank has left a crew ([`Dsm::crew`](crate::Dsm::crew)) that this one waits for.
    #[error("{0}")]
    Deserted(String),
    /// A rank is gone that the call needed. Every later call says the same.
    #[error("rank {rank} is gone: {why}")]
    Lost {
        /// The rank.
        rank: u32,
        /// What showed it.
        why: String,
    },
    /// The job cannot go on: what holds the shared memory failed, or a rank broke the protocol. Every later
    /// call says the same.
    #[error("{0}")]
    Broken(String),
}

/// Result of a call of the library.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a rank cannot join; if another one is gone, that is lost as at any other time.
pub(crate) fn join(e: scash_comm::Error) -> Error {
    match e {
        scash_comm::Error::Down { .. } => e.into(),
        // That may be so as long as there are the two, and the user is not to wait.
        e => Error::Join(e.to_string()),
    }
}

impl From<crate::fault::EngineError> for Error {
    fn from(e: crate::fault::EngineError) -> Self {
        Error::Broken(e.to_string())
    }
}

impl From<scash_comm::Error> for Error {
    fn from(e: scash_comm::Error) -> Self {
        match e {
            scash_comm::Error::Down { rank, why } | scash_comm::Error::OutOfReach { rank, why } => {
                Error::Lost { rank, why }
            }
            e => Error::Broken(e.to_string()),
        }
    }
}

impl From<scash_proto::node::Violation> for Error {
    fn from(e: scash_proto::node::Violation) -> Self {
        Error::Broken(e.to_string())
    }
}

impl From<scash_proto::codec::Malformed> for Error {
    fn from(e: scash_proto::codec::Malformed) -> Self {
        Error::Broken(e.to_string())
    }
}

/// Two ranks came to a meeting for different things.
pub(crate) fn mismatch(span: [Attendance; 2]) -> Error {
    let [a, b] = span.map(|who| format!("{} called {}", who.rank, call(who.purpose)));
    Error::Mismatch(format!(
        "ranks made different collective calls: {a}, {b}; all ranks must make the same calls in the same order with the same arguments"
    ))
}

fn made(count: u64, kind: u64, initial: u64) -> String {
    match kind {
        0 => format!("dsm_locks_create of {count} locks"),
        1 => format!("dsm_rwlocks_create of {count} reader-writer locks"),
        2 => format!("dsm_semaphores_create of {count} semaphores of {initial}"),
        3 => format!("dsm_conditions_create of {count} conditions"),
        _ => format!("dsm_flags_create of {count} flags"),
    }
}

fn destroyed(count: u64, kind: u64, first: u64) -> String {
    let (name, what) = match kind {
        0 => ("dsm_locks_destroy", "locks"),
        1 => ("dsm_rwlocks_destroy", "reader-writer locks"),
        2 => ("dsm_semaphores_destroy", "semaphores"),
        3 => ("dsm_conditions_destroy", "conditions"),
        _ => ("dsm_flags_destroy", "flags"),
    };
    format!("{name} of {count} {what} from {first} on")
}

/// What a program calls a collective call.
pub(crate) fn call(purpose: Purpose) -> String {
    let [_, a, b, c] = purpose.0;
    match [purpose.kind(), a, b, c] {
        [0, ..] => "dsm_barrier".to_owned(),
        [1, bytes, ..] => format!("dsm_alloc of {bytes} bytes (or with other options)"),
        [2, page, ..] => format!("dsm_free of the allocation at page {page}"),
        [4, page, pages, _] => format!("dsm_broadcast of {pages} pages from page {page}"),
        [6, count, kind, initial] => made(count, kind, initial),
        [7, count, kind, first] => destroyed(count, kind, first),
        [5, page, ..] => format!("Partition::publish of the partition at page {page}"),
        [8, page, ..] if page == u64::from(u32::MAX) => {
            "Runtime::barrier_alike with other numbers".to_owned()
        }
        [8, page, ..] => {
            format!("Dsm::turn (or the making) of arrays (or of what mutexes guard) at page {page}")
        }
        [16, combine, number, values] => {
            let name = |names: &[&'static str], n: u64| {
                usize::try_from(n).ok().and_then(|n| names.get(n).copied()).unwrap_or("?")
            };
            let combine = name(&["sum", "minimum", "maximum", "and", "or"], combine);
            let number = name(&["u64", "i64", "f64"], number);
            format!("dsm_all_reduce_{number} of {values} values for their {combine}")
        }
        [17, root, words, _] => format!("dsm_broadcast_value of {words} words from rank {root}"),
        _ => "dsm_finalize".to_owned(),
    }
}
