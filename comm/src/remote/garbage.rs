//! Reading numbers out of bytes that a peer sent, and the error for bytes that make no sense.

/// Bytes that no correct peer sends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Garbage(pub(crate) String);

/// Garbage, with what was wrong.
pub(crate) fn garbage<T>(why: impl Into<String>) -> Result<T, Garbage> {
    Err(Garbage(why.into()))
}

/// The little-endian number at `at`, all of whose bytes are there.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// As [`u16_at`].
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// As [`u16_at`].
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}
