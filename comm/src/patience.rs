//! How a thread waits for another one that nothing will wake it for.

use std::thread;
use std::time::Duration;

/// How often it yields before it sleeps. A thread that does nothing but yield can keep others from running,
/// the one that it waits for and the launcher among them: Linux 6.18 was seen to do so for 108 s.
const YIELDS: u32 = 400;

/// How long it sleeps then.
const NAP: Duration = Duration::from_micros(50);

/// One turn, the first being 0, of a wait for what another thread or rank is about to do: this thread gives
/// its core away, at first by yielding. In a signal handler, too.
pub fn give_way(turn: u32) {
    if turn < YIELDS { thread::yield_now() } else { thread::sleep(NAP) }
}
