//! The text of a thread's last error.

use std::cell::UnsafeCell;
use std::ffi::c_char;
use std::fmt::{self, Write};

/// Bytes of a text, with the zero byte that ends it. What is longer is cut: it is one line for people.
const ROOM: usize = 2048;
/// What a text ends with that was cut.
const CUT: &str = "...";

/// A thread's text. It lies in one place for as long as the thread lives, so a pointer to it stays good; and
/// nothing has to be done with it when the thread ends.
struct Text(UnsafeCell<[u8; ROOM]>);

thread_local! {
    static LAST: Text = const { Text(UnsafeCell::new([0; ROOM])) };
}

/// Keeps the text of an error of the calling thread.
pub(crate) fn set(error: &impl fmt::Display) {
    LAST.with(|last| {
        let mut text = Writer { into: last.0.get().cast(), len: 0 };
        // It fails when there is no more room: then the text ends there.
        if write!(text, "{error}").is_err() {
            text.cut();
        }
        text.end();
    });
}

/// The calling thread's text: never null, and good for as long as the thread lives. `set` replaces what is
/// there.
pub(crate) fn last() -> *const c_char {
    LAST.with(|last| last.0.get().cast_const().cast())
}

/// Writes a text of the calling thread, which C may hold a pointer to: so there is no reference to it.
struct Writer {
    into: *mut u8,
    len: usize,
}

impl Writer {
    fn put(&mut self, byte: u8) {
        // SAFETY: `write_str`, `cut` and `end` put no byte behind the last of `ROOM`; the thread is alive,
        // and no other one writes here.
        unsafe { self.into.wrapping_add(self.len).write(byte) };
        self.len += 1;
    }

    /// Ends a text that was too long.
    fn cut(&mut self) {
        CUT.bytes().for_each(|byte| self.put(byte));
    }

    fn end(&mut self) {
        self.put(0);
    }
}

impl Write for Writer {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        // A text that holds a zero byte ends there for C; better all of it without.
        for letter in piece.chars().filter(|&letter| letter != '\0') {
            if self.len + letter.len_utf8() + CUT.len() >= ROOM {
                return Err(fmt::Error);
            }
            letter.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| self.put(byte));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn at(text: *const c_char) -> String {
        // SAFETY: `last` gave it in this thread: a string that ends with a zero byte, which nobody writes
        // meanwhile.
        unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
    }

    fn text() -> String {
        at(last())
    }

    #[test]
    fn each_thread_has_its_own_text() {
        assert_eq!(text(), "");
        set(&scash::Error::Argument("here".to_owned()));
        std::thread::spawn(|| {
            assert_eq!(text(), "");
            set(&scash::Error::Argument("there".to_owned()));
            assert_eq!(text(), "there");
        })
        .join()
        .unwrap();
        assert_eq!(text(), "here");
    }

    #[test]
    fn a_zero_byte_in_a_text_does_not_cut_it_short() {
        set(&scash::Error::Argument("a\0b".to_owned()));
        assert_eq!(text(), "ab");
    }

    #[test]
    fn a_pointer_to_a_text_stays_good_whatever_fails_later() {
        set(&"first");
        let early = last();
        set(&"x".repeat(ROOM / 2));
        set(&"last");
        assert_eq!(at(early), "last");
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_between_letters() {
        for (letter, width) in [("x", 1), ("é", 2), ("€", 3), ("😀", 4)] {
            for before in 0..width {
                set(&("-".repeat(before) + &letter.repeat(ROOM)));
                let text = text();
                assert!(text.ends_with(CUT) && text.len() < ROOM, "{} bytes", text.len());
                assert!(text.len() + width >= ROOM - 1, "{} bytes", text.len());
            }
        }
        set(&"y".repeat(ROOM - CUT.len() - 1));
        assert_eq!(text(), "y".repeat(ROOM - CUT.len() - 1));
    }
}
