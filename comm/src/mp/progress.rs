//! The thread that makes progress when no application thread does.
//!
//! Application threads that wait or test make progress themselves: nothing is handed from thread to thread, which would cost a waking of 18 to 60 µs. The helper looks every
//! [`LOOK`] whether that was so; if it was not, it takes over and sleeps at the endpoint, until something arrives. It takes over at once if it is roused: by a rank whose long message nobody reads
//! here, or by an application thread that leaves one to be read (`engine::reads`). It also counts the ticks in which ranks give signs of life (`engine::silence`).

use super::driver::{SLEEPY, Shared};
use crate::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time without progress by the application after which the helper takes over.
const LOOK: Duration = Duration::from_millis(1);
/// Time between two looks at who still lives, while the application makes progress: what it has to do with some must not keep it from noticing that another one has died.
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
            .name("scash-progress".to_owned())
            .spawn(move || help(&shared, &told))
            .map_err(|source| Error::Io { what: "starting a thread".to_owned(), source })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
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
    let (mut ticked, mut watched) = (Instant::now(), Instant::now());
    while !stop.load(Ordering::Acquire) {
        // However late this is: time in which this process did not run is not held against others.
        if shared.tick_length().is_some_and(|length| ticked.elapsed() >= length) {
            shared.tick();
            ticked = Instant::now();
        }
        let drives = shared.drives();
        if drives != known || shared.is_waited_for() {
            known = drives;
            if watched.elapsed() >= WATCH {
                shared.endpoint().look_after_peers();
                watched = Instant::now();
            }
            if shared.endpoint().nap(LOOK) {
                known = shared.drives();
            }
            continue;
        }
        if let Some(limit) = shared.help_out() {
            shared.idle(SLEEPY, limit.min(LONGEST_SLEEP));
        }
    }
}
