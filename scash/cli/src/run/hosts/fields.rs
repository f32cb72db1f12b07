//! The fields of a frame: how they are written one after the other, and read again. Nothing that comes from
//! the other side is believed.

use crate::run::output::Stream;
use scash_comm::Secret;
use std::net::IpAddr;
use std::time::Duration;

/// A frame that is being written.
pub(super) struct Frame(Vec<u8>);

impl Frame {
    pub(super) fn new(kind: u8) -> Frame {
        Frame(vec![0, 0, 0, 0, kind])
    }

    pub(super) fn byte(mut self, byte: u8) -> Frame {
        self.0.push(byte);
        self
    }

    pub(super) fn number(self, number: u32) -> Frame {
        self.rest(&number.to_le_bytes())
    }

    pub(super) fn long(self, number: u64) -> Frame {
        self.rest(&number.to_le_bytes())
    }

    /// In nanoseconds.
    pub(super) fn time(self, time: Duration) -> Frame {
        self.long(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }

    /// A length; what is longer than a frame may be is found out before it is sent.
    pub(super) fn length(self, length: usize) -> Frame {
        self.number(u32::try_from(length).unwrap_or(u32::MAX))
    }

    pub(super) fn bytes(self, bytes: &[u8]) -> Frame {
        self.length(bytes.len()).rest(bytes)
    }

    pub(super) fn text(self, text: &str) -> Frame {
        self.bytes(text.as_bytes())
    }

    /// A list of addresses, each as text.
    pub(super) fn addresses(self, all: &[IpAddr]) -> Frame {
        all.iter().fold(self.length(all.len()), |frame, address| frame.text(&address.to_string()))
    }

    /// Bytes that last to the frame's end.
    pub(super) fn rest(mut self, bytes: &[u8]) -> Frame {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A secret, as the last field, with room for it from the start: a vector that grows leaves copies
    /// behind.
    pub(super) fn secret(mut self, secret: &Secret) -> Frame {
        self.0.reserve_exact(Secret::LENGTH);
        self.rest(secret.bytes())
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len() - 4).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

/// The fields of a frame that are left to be read.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Those of a frame behind its length.
    pub(super) fn of(frame: &'a [u8]) -> Self {
        Self(frame)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let Some((head, tail)) = self.0.split_at_checked(length) else {
            return Err(format!("{length} bytes expected where {} are left", self.0.len()));
        };
        self.0 = tail;
        Ok(head)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn secret(&mut self) -> Result<Secret, String> {
        let bytes = self.take(Secret::LENGTH)?.first_chunk();
        bytes.map(|bytes| Secret::from_bytes(*bytes)).ok_or_else(|| "no secret".to_owned())
    }

    pub(super) fn byte(&mut self) -> Result<u8, String> {
        Ok(self.array::<1>()?[0])
    }

    /// Whether something is so.
    pub(super) fn flag(&mut self) -> Result<bool, String> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(format!("{other} where there is 0 or 1")),
        }
    }

    pub(super) fn number(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn long(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn time(&mut self) -> Result<Duration, String> {
        self.long().map(Duration::from_nanos)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], String> {
        let length = self.number()?;
        self.take(length as usize)
    }

    /// Text that a terminal can be trusted with.
    pub(super) fn text(&mut self) -> Result<String, String> {
        let text = String::from_utf8_lossy(self.bytes()?);
        Ok(text.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect())
    }

    /// A list, whose length is believed only as far as its items come.
    pub(super) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let length = self.number()?;
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(item(self)?);
        }
        Ok(items)
    }

    pub(super) fn addresses(&mut self) -> Result<Vec<IpAddr>, String> {
        self.list(|fields| {
            let text = fields.text()?;
            text.parse().map_err(|_| format!("{text:?} is no address"))
        })
    }

    pub(super) fn stream(&mut self) -> Result<Stream, String> {
        let byte = self.byte()?;
        let stream = Stream::BOTH.into_iter().find(|stream| *stream as u8 == byte);
        stream.ok_or_else(|| format!("stream {byte}, which there is not"))
    }

    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }

    pub(super) fn end(&self) -> Result<(), String> {
        if self.0.is_empty() { Ok(()) } else { Err(format!("{} bytes too many", self.0.len())) }
    }
}
