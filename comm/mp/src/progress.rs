//! The thread that makes progress when no application thread does.
//!
//! Application threads that wait or test make progress themselves: nothing is handed from thread to thread,
//! which would cost a waking of 18 to 60 µs. The helper looks every [`LOOK`] or a little more whether that
//! was so; if it was not, it takes over and sleeps at the endpoint, until something arrives. It takes over at
//! once if it is roused: by a rank whose long message nobody reads here, or by an application thread that
//! leaves one to be read (`engine::reads`). It also counts the ticks in which ranks give signs of life
//! (`engine::silence`).

use super::driver::{SLEEPY, Shared};
use scash_comm::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time without progress by the application after which the helper takes over,
const LOOK: Duration = Duration::from_millis(1);
/// and what that grows to where it takes over in vain: each time costs the application some tens of
/// microseconds when it comes back.
const LONGEST_LOOK: Duration = Duration::from_millis(4);
/// Time between two looks at who still lives, while the application makes progress: what it has to do with
/// some must not keep it from noticing that another one has died.
const WATCH: Duration = Duration::from_millis(4);
/// The longest sleep at the endpoint; bounds how long the end of the communicator may wait for the helper's.
const LONGEST_SLEEP: Duration = Duration::from_millis(10);

/// The helper of a communicator; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Helper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    pub(super) fn start(shared: Arc<Shared>) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("scash/progress".to_owned())
            .spawn(move || help(&shared, &told))
            .map_err(|source| Error::Io { what: "starting a thread".to_owned(), source })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // A child that the rank has forked has not its threads.
        if scash_comm::forked::is_child() {
            return std::mem::forget(self.thread.take());
        }
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It does not panic; and if it did, there is nothing to be done about it here.
            let _ = thread.join();
        }
    }
}

fn help(shared: &Shared, stop: &AtomicBool) {
    shared.cores.are_of_this_thread();
    let mut known = shared.drives();
    let mut look = LOOK;
    // Since it took over, whether that was of use.
    let mut helped = None;
    let (mut ticked, mut watched) = (Instant::now(), Instant::now());
    while !stop.load(Ordering::Acquire) {
        // However late this is: time in which this process did not run is not held against others.
        if ticked.elapsed() >= shared.tick_length() {
            shared.tick();
            ticked = Instant::now();
        }
        let drives = shared.drives();
        if drives != known || shared.is_waited_for() {
            known = drives;
            look = next_look(look, helped.take());
            if watched.elapsed() >= WATCH {
                shared.endpoint().look_after_peers();
                watched = Instant::now();
            }
            if shared.endpoint().nap(look) {
                known = shared.drives();
            }
            continue;
        }
        let limit = shared.help_out();
        helped = Some(helped == Some(true) || limit.is_none());
        if let Some(limit) = limit {
            shared.idle(SLEEPY, limit.min(LONGEST_SLEEP));
        }
    }
    shared.cores.are_of_nobody();
}

/// After how long the helper takes over next, if it did after `look` and was of use then, or not.
fn next_look(look: Duration, helped: Option<bool>) -> Duration {
    match helped {
        None => look,
        Some(true) => LOOK,
        Some(false) => (2 * look).min(LONGEST_LOOK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_helps_in_vain_looks_less_often_until_it_is_of_use() {
        let mut look = LOOK;
        for _ in 0..9 {
            look = next_look(look, Some(false));
        }
        assert_eq!((look, next_look(look, None)), (LONGEST_LOOK, LONGEST_LOOK));
        assert_eq!(next_look(look, Some(true)), LOOK);
    }
}
