//! What the ranks of a job know and nobody else does.

use crate::{Error, Result};
use std::fmt;

/// The secret of a job: random bits that its launcher draws, and that every rank is told through its own line to the
/// launcher (see [`crate::boot`]). It stands in no file, on no command line and in no environment.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; Secret::LENGTH]);

impl Secret {
    /// Bytes of a secret: 256 bits, which nobody guesses from recorded handshakes.
    pub const LENGTH: usize = 32;

    /// A new one.
    pub fn random() -> Result<Secret> {
        let mut bytes = [0; Self::LENGTH];
        getrandom::fill(&mut bytes).map_err(|error| Error::Io {
            what: "drawing the job's secret from the system's random numbers".into(),
            source: std::io::Error::other(error.to_string()),
        })?;
        Ok(Secret(bytes))
    }

    /// The secret that another process of the job has drawn, and gave to this one.
    pub fn from_bytes(bytes: [u8; Self::LENGTH]) -> Secret {
        Secret(bytes)
    }

    /// Its bits, for a process of the job that is to have them.
    pub fn bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    /// Without the secret: such texts end up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_jobs_have_the_same_secret_and_no_log_has_any() {
        let secret = Secret::random().unwrap();
        assert_ne!(secret, Secret::random().unwrap());
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
