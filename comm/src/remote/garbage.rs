//! Reading numbers out of bytes that a peer sent, and the error for bytes that make no sense.

/// Bytes that no correct peer sends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Garbage(pub String);

/// Garbage, with what was wrong.
///
/// # Errors
/// Always.
pub fn garbage<T>(why: impl Into<String>) -> Result<T, Garbage> {
    Err(Garbage(why.into()))
}

/// The little-endian number at `at`.
///
/// # Panics
/// If not all of its bytes are there.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// As [`u16_at`].
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// As [`u16_at`].
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}
