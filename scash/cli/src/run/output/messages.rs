//! What this command has to say itself, on the screen that is its stderr. It is kept until it is out, and a
//! thread says it: whoever reads may be slow, as a pager is that shows the first page, and the job is not to
//! wait. Whoever has the screen says what is kept before anything else ([`Screen`](super::screen::Screen)),
//! so that it does not come after all that ranks print.

use super::screen::{Shared, lock};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a message may take to be out before its author does something else. So most come before what
/// ranks print because of what is done next.
const SOON: Duration = Duration::from_millis(50);

/// Messages that are not out, oldest first.
#[derive(Debug, Default)]
pub(super) struct Messages {
    kept: Mutex<VecDeque<String>>,
    changed: Condvar,
}

impl Messages {
    /// Starts the thread that says what is kept for a screen.
    pub(super) fn start(self: &Arc<Messages>, screen: Shared) -> io::Result<()> {
        let messages = Arc::clone(self);
        thread::Builder::new().name("messages".into()).spawn(move || {
            loop {
                drop(messages.wait_while(VecDeque::is_empty));
                lock(&screen).say_all();
            }
        })?;
        Ok(())
    }

    /// Says whole lines. Waits a little for them to be out, unless others wait already.
    pub(super) fn say(&self, lines: &str) {
        let is_first = {
            let mut kept = self.lock();
            kept.push_back(lines.to_owned());
            kept.len() == 1
        };
        self.changed.notify_all();
        if is_first {
            self.wait(SOON);
        }
    }

    /// Waits until all is out, for so long at most. Returns whether it is.
    pub(super) fn wait(&self, most: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), most, |kept| !kept.is_empty());
        let (kept, _) = waited.unwrap_or_else(PoisonError::into_inner);
        kept.is_empty()
    }

    /// The oldest one.
    pub(super) fn first(&self) -> Option<String> {
        self.lock().front().cloned()
    }

    /// It is out.
    pub(super) fn first_is_out(&self) {
        self.lock().pop_front();
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, is: impl Fn(&VecDeque<String>) -> bool) -> MutexGuard<'_, VecDeque<String>> {
        self.changed.wait_while(self.lock(), |kept| is(kept)).unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::screen::Screen;
    use super::*;
    use std::io::Read;
    use std::time::Instant;

    fn message(number: usize) -> String {
        format!("message {number} {}\n", "x".repeat(1000))
    }

    #[test]
    fn nobody_waits_for_a_reader_and_all_messages_come_in_their_order() {
        let (mut reader, pipe) = std::io::pipe().unwrap();
        let messages = Arc::new(Messages::default());
        let screen = Screen::new(pipe.into(), false, 1, Some(Arc::clone(&messages)));
        messages.start(Arc::new(Mutex::new(screen))).unwrap();
        let all: Vec<String> = (0..1000).map(message).collect(); // more than any pipe holds
        let started = Instant::now();
        all.iter().for_each(|message| messages.say(message));
        assert!(!messages.wait(Duration::ZERO));
        assert!(started.elapsed() < Duration::from_secs(20), "it has waited for each of them");
        let expected = all.concat();
        let mut text = vec![0; expected.len()];
        reader.read_exact(&mut text).unwrap();
        assert!(text == expected.as_bytes());
        assert!(messages.wait(Duration::from_secs(60)));
    }

    #[test]
    fn messages_come_before_what_ranks_print_next() {
        let (mut reader, pipe) = std::io::pipe().unwrap();
        let messages = Arc::new(Messages::default());
        let mut screen = Screen::new(pipe.into(), false, 1, Some(Arc::clone(&messages)));
        messages.say("a message\n"); // no thread says it
        screen.take(0, b"a line\n").unwrap();
        assert!(messages.wait(Duration::ZERO));
        drop(screen);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "a message\na line\n");
    }
}
