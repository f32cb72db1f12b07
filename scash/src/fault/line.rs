//! A line on stderr that is put together in a signal handler: by hand, in memory of the stack, and written by
//! one system call.

/// Bytes of a line; what is longer is cut.
const ROOM: usize = 320;

/// A line.
pub(crate) struct Line {
    text: [u8; ROOM],
    len: usize,
}

impl Line {
    /// One that begins as all lines do.
    pub(crate) fn new() -> Line {
        Line { text: [0; ROOM], len: 0 }.words("scash: ")
    }

    pub(crate) fn words(mut self, words: &str) -> Line {
        // The last byte ends the line.
        for &byte in words.as_bytes().iter().take(ROOM - 1 - self.len) {
            self.text[self.len] = byte;
            self.len += 1;
        }
        self
    }

    pub(crate) fn number(self, number: usize) -> Line {
        self.digits(digits(number, 10, &mut [0; 20]))
    }

    pub(crate) fn address(self, address: usize) -> Line {
        self.words("0x").digits(digits(address, 16, &mut [0; 16]))
    }

    fn digits(self, digits: &[u8]) -> Line {
        self.words(std::str::from_utf8(digits).unwrap_or_default())
    }

    pub(crate) fn tell(mut self) {
        self.text[self.len] = b'\n';
        scash_comm::say::say(&self.text[..=self.len]);
    }
}

/// The digits of `n`, at the end of `buffer`.
fn digits(mut n: usize, base: usize, buffer: &mut [u8]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b"0123456789abcdef"[n % base];
        n /= base;
        if n == 0 || at == 0 {
            return &buffer[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_words_numbers_and_addresses_and_is_cut_where_it_is_too_long() {
        let line = Line::new().words("rank ").number(0).words(": ").address(0xabc).number(usize::MAX);
        assert_eq!(&line.text[..line.len], format!("scash: rank 0: 0xabc{}", usize::MAX).as_bytes());
        let line = Line::new().words(&"x".repeat(2 * ROOM)).number(7);
        assert_eq!((line.len, line.text[ROOM - 2]), (ROOM - 1, b'x'));
    }

    #[test]
    fn digits_are_those_that_the_formatter_writes() {
        for n in [0, 7, 10, 255, 4096, usize::MAX >> 1] {
            assert_eq!(digits(n, 16, &mut [0; 16]), format!("{n:x}").as_bytes());
        }
        assert_eq!(digits(4_294_967_295, 10, &mut [0; 10]), b"4294967295");
    }
}
