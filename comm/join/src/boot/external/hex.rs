//! Bytes as text.

/// Bytes as text that every launcher passes on.
pub(super) fn hex(bytes: &[u8]) -> String {
    // With room for all: secrets are written so, and a text that grows leaves copies behind.
    let mut text = String::with_capacity(2 * bytes.len());
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    bytes.iter().for_each(|byte| text.extend([digit(byte >> 4), digit(byte & 15)]));
    text
}

/// The inverse of [`hex`].
pub(super) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}
