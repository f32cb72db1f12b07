//! The background thread: progress while the application computes, and signs of life.

use super::lock;
use super::shared::Shared;
use scash_comm::remote::LossReason;
use scash_comm::shm::AliveHook;
use scash_comm::{Error, Result};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two signs of life.
const BEAT: Duration = Duration::from_millis(250);
/// Between two looks whether peers are alive.
const LOOK: Duration = Duration::from_millis(5);
/// How long the thread leaves progress to an application that makes it itself.
const LEAVE: Duration = Duration::from_micros(200);
/// The naps of a thread that has nothing to sleep on, the first and the longest.
const SHORTEST_NAP: Duration = Duration::from_micros(20);
const LONGEST_NAP: Duration = Duration::from_micros(250);

/// Starts the thread. It takes no signals: they are for the application's threads.
pub(super) fn start(
    shared: &Arc<Shared>,
    alive: Option<AliveHook>,
    silence: Duration,
) -> Result<JoinHandle<()>> {
    use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
    let io = |source| Error::Io { what: "starting the ofi service thread (see `ulimit -u`)".into(), source };
    let shared = Arc::clone(shared);
    let mut before = SigSet::empty();
    pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&SigSet::all()), Some(&mut before))
        .map_err(|errno| io(errno.into()))?;
    let thread = std::thread::Builder::new()
        .name("scash/ofi".into())
        .spawn(move || Service { shared: &shared, watch: PeerWatch::new(alive, silence) }.run());
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None).map_err(|errno| io(errno.into()))?;
    thread.map_err(io)
}

struct Service<'a> {
    shared: &'a Shared,
    watch: PeerWatch,
}

impl Service<'_> {
    fn run(mut self) {
        let mut attended = 0;
        let mut nap = SHORTEST_NAP;
        while !self.shared.stop.load(Ordering::Acquire) {
            self.watch.look(self.shared, Instant::now());
            let attended_before =
                std::mem::replace(&mut attended, self.shared.attended.load(Ordering::Relaxed));
            if attended != attended_before {
                std::thread::sleep(LEAVE);
            } else if self.shared.run(|engine| engine.progress()) {
                nap = SHORTEST_NAP;
            } else {
                self.sleep(&mut nap);
            }
        }
    }

    /// Sleeps until there may be something to do, for a while at most.
    fn sleep(&self, nap: &mut Duration) {
        let engine = lock(&self.shared.engine);
        if !engine.net().can_sleep() {
            drop(engine);
            std::thread::sleep(*nap);
            *nap = LONGEST_NAP.min(2 * *nap);
            return;
        }
        // What waits for a peer's credits comes with a packet; what a provider did not take, with nothing.
        let limit = if engine.is_waiting() { LONGEST_NAP } else { LOOK };
        let Some(fd) = engine.net().sleeper().map(|fd| fd.as_raw_fd()) else { return };
        drop(engine);
        wait(fd, limit);
    }
}

/// Waits until a descriptor is readable. It is the engine's, which outlives this thread.
fn wait(fd: RawFd, limit: Duration) {
    let mut awaited = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let limit = libc::timespec { tv_sec: 0, tv_nsec: limit.subsec_nanos().into() };
    // SAFETY: one descriptor to wait for, and a time. That it fails, for a signal, is as good as its end.
    unsafe { libc::ppoll(&mut awaited, 1, &limit, std::ptr::null()) };
}

/// Sees to it that a peer's death is noticed. Each rank counts up a word of each peer's, by a write: where
/// that fails, the peer is gone; where the peer's own counting stops, too.
struct PeerWatch {
    alive: Option<AliveHook>,
    silence: Duration,
    looked: Instant,
    beat_at: Instant,
    beats: u64,
    /// By rank: the last count, and when it changed.
    heard: Vec<(u64, Instant)>,
}

impl PeerWatch {
    fn new(alive: Option<AliveHook>, silence: Duration) -> PeerWatch {
        let now = Instant::now();
        PeerWatch { alive, silence, looked: now, beat_at: now, beats: 0, heard: Vec::new() }
    }

    fn look(&mut self, shared: &Shared, now: Instant) {
        let pause = now - self.looked;
        if pause < LOOK {
            return;
        }
        self.looked = now;
        // If this process was stopped, it is not the others that were silent.
        if pause > self.silence / 2 {
            self.heard.clear();
        }
        let beat = now >= self.beat_at;
        if beat {
            self.beat_at = now + BEAT;
            self.beats += 1;
        }
        let beats = self.beats;
        shared.run(|engine| {
            let peers = engine.links().filter(|link| link.fate.is_none()).map(|link| link.rank);
            for rank in peers.collect::<Vec<_>>() {
                if beat {
                    engine.beat(rank, beats);
                }
                if let Some(why) = self.obituary(rank, engine.lines().beats(rank), now) {
                    engine.lose(rank, LossReason::Lost(why));
                }
            }
        });
    }

    /// Why a peer is taken to be dead, if it is.
    fn obituary(&mut self, rank: u32, beats: u64, now: Instant) -> Option<String> {
        if self.alive.as_ref().is_some_and(|alive| !alive(rank)) {
            return Some("its process has ended".into());
        }
        let index = rank as usize;
        if self.heard.len() <= index {
            self.heard.resize(index + 1, (0, now));
        }
        let (last, at) = &mut self.heard[index];
        if *last != beats {
            (*last, *at) = (beats, now);
        }
        let silent = now - *at;
        (!self.silence.is_zero() && silent > self.silence)
            .then(|| format!("it has given no sign of life for {} s", silent.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_dead_when_it_is_silent_for_too_long_or_known_to_have_ended() {
        let limit = Duration::from_secs(20);
        let mut watch = PeerWatch::new(Some(Arc::new(|rank| rank != 2)), limit);
        let start = Instant::now();
        assert_eq!(watch.obituary(1, 0, start), None);
        assert_eq!(watch.obituary(1, 1, start + limit), None);
        assert_eq!(watch.obituary(1, 1, start + 2 * limit), None);
        assert!(watch.obituary(1, 1, start + 3 * limit).unwrap().contains("no sign of life for 40 s"));
        assert!(watch.obituary(2, 1, start).unwrap().contains("has ended"));
        let mut patient = PeerWatch::new(None, Duration::ZERO);
        assert_eq!(patient.obituary(1, 0, start), None);
        assert_eq!(patient.obituary(1, 0, start + 1_000 * limit), None, "its silence has no limit");
    }
}
