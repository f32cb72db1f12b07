//! Bytes of a wire message: a writer that cannot fail and a reader that believes nothing.
//!
//! All integers are little-endian. Numbers that are mostly small travel as *varints* (LEB128): seven bits a
//! byte, lowest first, the top bit saying that another byte follows.
//!
//! ```text
//!            1 byte         2 bytes                    10 bytes
//!   varint   0vvvvvvv       1vvvvvvv 0vvvvvvv    …     1vvvvvvv × 9, 0000000v
//!   blob     varint length, then that many bytes
//! ```
//!
//! **Invariant:** a value has exactly one encoding. The reader refuses varints that are longer than they need
//! be, so two messages are equal if and only if their bytes are.
//!
//! **Invariant:** nothing that a peer sends makes the reader panic or makes its caller reserve more memory
//! than the message could fill: lengths and counts are compared with what is left of the message before they
//! are handed out.

use std::fmt;

#[cfg(test)]
mod tests;

/// Appends values to a byte vector.
///
/// ```
/// use scash_proto::codec::{Reader, Writer};
///
/// let mut message = Vec::new();
/// let mut w = Writer::new(&mut message);
/// w.u8(7);
/// w.varint(300);
/// w.blob(b"page");
///
/// let mut r = Reader::new(&message);
/// assert_eq!((r.u8()?, r.varint()?, r.blob()?), (7, 300, &b"page"[..]));
/// r.finish()?;
/// # Ok::<(), scash_proto::codec::Malformed>(())
/// ```
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Appends to `out`, leaving what is already there.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    /// Appends two bytes, lowest first.
    pub fn u16(&mut self, value: u16) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends four bytes, lowest first.
    pub fn u32(&mut self, value: u32) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends eight bytes, lowest first.
    pub fn u64(&mut self, value: u64) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a number in as few bytes as it needs, one to ten.
    pub fn varint(&mut self, value: u64) {
        let mut rest = value;
        while rest >= 0x80 {
            self.out.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        self.out.push((rest & 0x7f) as u8);
    }

    /// Appends bytes whose number the reader knows by other means.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends bytes preceded by their number.
    pub fn blob(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }
}

/// Takes values off the front of a message, checking each.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// Length of the whole message, so that an error can say where it is.
    total: usize,
}

impl<'a> Reader<'a> {
    /// Reads `message` from its beginning.
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message, total: message.len() }
    }

    /// Number of bytes read so far.
    pub fn position(&self) -> usize {
        self.total - self.rest.len()
    }

    /// Number of bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Takes one byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(u8::from_le_bytes)
    }

    /// Takes two bytes, lowest first.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    /// Takes four bytes, lowest first.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    /// Takes eight bytes, lowest first.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// Takes a varint.
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let start = self.position();
        let mut value = 0u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.u8()?;
            let part = u64::from(byte & 0x7f);
            let lost = (part << shift) >> shift != part;
            let overlong = byte == 0 && shift > 0;
            if lost || overlong {
                return Err(Malformed { at: start, why: Why::BadVarint });
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed { at: start, why: Why::BadVarint })
    }

    /// Takes a varint that must fit 32 bits.
    pub fn varint_u32(&mut self) -> Result<u32, Malformed> {
        let start = self.position();
        let value = self.varint()?;
        u32::try_from(value)
            .map_err(|_| Malformed { at: start, why: Why::TooLarge { value, limit: u64::from(u32::MAX) } })
    }

    /// Takes the number of items that follow, each of which takes at least `item_bytes` bytes. A number of
    /// items that the rest of the message cannot hold is refused, so the result may size a vector.
    pub fn count(&mut self, item_bytes: usize) -> Result<usize, Malformed> {
        let start = self.position();
        let value = self.varint()?;
        let limit = self.rest.len() / item_bytes.max(1);
        usize::try_from(value)
            .ok()
            .filter(|&count| count <= limit)
            .ok_or(Malformed { at: start, why: Why::TooLarge { value, limit: limit as u64 } })
    }

    /// Takes `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let short = Malformed { at: self.position(), why: Why::Short { wanted: len, left: self.rest.len() } };
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Takes a varint length and then that many bytes.
    pub fn blob(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.count(1)?;
        self.bytes(len)
    }

    /// Takes an array of `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let short = Malformed { at: self.position(), why: Why::Short { wanted: N, left: self.rest.len() } };
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(short)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// Ends the reading: bytes that nobody asked for are an error too.
    pub fn finish(self) -> Result<(), Malformed> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(Malformed { at: self.position(), why: Why::Trailing { left } }),
        }
    }
}

/// A message that does not follow its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Where in the message the value begins that could not be read, in bytes.
    pub at: usize,
    /// What is wrong with it.
    pub why: Why,
}

/// What is wrong with a malformed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The message ends before the value does.
    Short {
        /// Bytes the value takes.
        wanted: usize,
        /// Bytes the message still has.
        left: usize,
    },
    /// A varint of more than 64 bits, or one padded with zeros.
    BadVarint,
    /// A number larger than its place allows.
    TooLarge {
        /// The number sent.
        value: u64,
        /// The largest number allowed there.
        limit: u64,
    },
    /// Bytes after the end of the message.
    Trailing {
        /// How many.
        left: usize,
    },
    /// A byte that names no variant of what is read here: a kind of message, a mode.
    UnknownTag {
        /// The byte sent.
        tag: u8,
    },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed message at byte {}: ", self.at)?;
        match self.why {
            Why::Short { wanted, left } => write!(f, "{wanted} bytes expected, {left} left"),
            Why::BadVarint => write!(f, "a variable-length number that is too long"),
            Why::TooLarge { value, limit } => write!(f, "{value} where at most {limit} can be"),
            Why::Trailing { left } => write!(f, "{left} bytes too many"),
            Why::UnknownTag { tag } => write!(f, "unknown tag {tag}"),
        }?;
        write!(f, "; do all ranks run the same version?")
    }
}

impl std::error::Error for Malformed {}
