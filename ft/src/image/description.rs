//! What an index says of a process beside its pages: written without allocating, read with every length
//! checked.

use std::slice;

/// Raised when what is written changes.
pub(super) const VERSION: u64 = 5;

/// Plain data of an image: any bytes are a value, none is padding.
///
/// # Safety
/// That is so.
pub(super) unsafe trait Record: Copy {}

// SAFETY: it is a number.
unsafe impl Record for u64 {}

/// Writes a description.
pub(super) struct Writer {
    at: *mut u8,
    len: usize,
    room: usize,
}

/// There is no room for the description.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoRoom;

impl Writer {
    /// # Safety
    /// `room` bytes from `at` on, a multiple of 8, belong to the writer as long as it lives.
    pub(super) unsafe fn new((at, room): (*mut u8, usize)) -> Writer {
        Writer { at, len: 0, room }
    }

    /// Bytes that were written.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn record<T: Record>(&mut self, record: &T) -> Result<(), NoRoom> {
        // SAFETY: a record is bytes without padding.
        self.raw(unsafe { slice::from_raw_parts((&raw const *record).cast(), size_of::<T>()) })
    }

    pub(super) fn number(&mut self, number: u64) -> Result<(), NoRoom> {
        self.record(&number)
    }

    /// Bytes, with their number in front and a zero behind.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        self.number(bytes.len() as u64)?;
        self.raw(bytes)?;
        let zeros = [0; 8];
        self.raw(&zeros[bytes.len() % 8..])
    }

    fn raw(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        if bytes.len() > self.room - self.len {
            return Err(NoRoom);
        }
        let to = self.at.wrapping_add(self.len);
        // SAFETY: there is room for them, which is the writer's.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.len += bytes.len();
        Ok(())
    }
}

/// Reads a description.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next record; `None` if the description ends before.
    pub(super) fn record<T: Record>(&mut self) -> Option<T> {
        let (record, rest) = self.0.split_at_checked(size_of::<T>())?;
        self.0 = rest;
        // SAFETY: there are so many bytes, and any bytes are a record.
        Some(unsafe { record.as_ptr().cast::<T>().read_unaligned() })
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        self.record()
    }

    /// The next bytes, behind which a zero lies.
    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let padded = len.checked_add(8 - len % 8)?;
        let (bytes, rest) = self.0.split_at_checked(padded)?;
        self.0 = rest;
        Some(&bytes[..len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_a_description_that_was_cut_short_is_none() {
        let mut room = [0u64; 32];
        // SAFETY: the room is this function's.
        let mut writer = unsafe { Writer::new((room.as_mut_ptr().cast(), 256)) };
        writer.number(7).unwrap();
        for text in [&b""[..], b"1234567", b"12345678"] {
            writer.bytes(text).unwrap();
        }
        assert!(writer.bytes(&[0; 256]).is_err());
        let len = writer.len();
        let all: Vec<u8> = room.iter().flat_map(|word| word.to_le_bytes()).take(len).collect();
        let read = |bytes: &[u8]| {
            let mut reader = Reader(bytes);
            let number = reader.number()?;
            let texts = [reader.bytes()?, reader.bytes()?, reader.bytes()?].map(<[u8]>::to_vec);
            Some((number, texts))
        };
        assert_eq!(read(&all), Some((7, [vec![], b"1234567".to_vec(), b"12345678".to_vec()])));
        // The last zeros are not read.
        assert!((0..56).all(|len| read(&all[..len]).is_none()));
    }
}
