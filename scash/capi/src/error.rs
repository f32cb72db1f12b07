//! The text of a thread's last error.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// What is said when a thread asks while it is being taken down.
const TOO_LATE: &CStr = c"this thread is ending: its last error is forgotten";

/// Keeps the text of an error of the calling thread.
pub(crate) fn set(error: &impl std::fmt::Display) {
    // A text that holds a zero byte ends there for C; better all of it without.
    let text = error.to_string().replace('\0', "");
    let text = CString::new(text).unwrap_or_default();
    // If the thread is ending, nobody can ask for the text.
    let _ = LAST.try_with(|last| last.replace(text));
}

/// The calling thread's text: never null, and good until `set` is called by the same thread.
pub(crate) fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(TOO_LATE.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> String {
        // SAFETY: `last` gives a string that ends with a zero byte, and nobody sets another meanwhile.
        unsafe { CStr::from_ptr(last()) }.to_str().unwrap().to_owned()
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
}
