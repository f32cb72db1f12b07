//! What a fault costs with a fault engine alone: no job, no protocol, one thread, and nothing done but what
//! makes the access succeed. Beside it the floor under which no engine goes that raises signals: a signal
//! whose handler only returns.
//!
//! The engine is the one that a rank would take: that of `SCASH_FAULT`, or the best that works. What a
//! program waits for on top of this is [`fault`](crate::fault)'s; more operations of engines shows `cargo run
//! --release -p scash-bench --example fault_cost`.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use scash::fault::{
    Access, EngineError, EngineKind, FaultEngine, Handler, PAGE, Region, Verdict, choose, install, open,
};

use crate::outcome::{Outcome, Setting, Spent, microseconds, samples};
use crate::{Error, Result};

/// Faults with the fault engine alone, and a signal's round trip: of one process, without `scash run`
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Pages in a sample, touched in order
    #[arg(long, value_name = "K", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pages: u32,

    /// Samples
    #[arg(long, value_name = "R", default_value_t = 9)]
    rounds: usize,
}

/// The engine, for the handler.
static ENGINE: OnceLock<Box<dyn FaultEngine>> = OnceLock::new();
/// What the handler is to do: map pages to be read, or give the right to write.
static ABSENT: AtomicBool = AtomicBool::new(true);
static FAULTS: AtomicU64 = AtomicU64::new(0);
/// The page of the fault before.
static LAST: AtomicU32 = AtomicU32::new(u32::MAX);

/// Measures, and says with which engine.
pub(crate) fn measure(options: &Options) -> Result<(Setting, Outcome)> {
    let wanted = std::env::var("SCASH_FAULT").ok();
    let kind = choose(wanted.as_deref()).map_err(|error| Error::NotMeasured(error.to_string()))?;
    let start = Instant::now();
    let bench = Bench::new(kind, options.pages)?;
    let (mut times, signal) = (EngineTimes::default(), Signal::new());
    for _ in 0..options.rounds {
        times.signal.push(bench.each(|_| signal.send()));
        bench.faults(&mut times)?;
    }
    let spent = Spent::without_job(start.elapsed(), FAULTS.load(Relaxed));
    let outcome = Outcome::new(spent)
        .parameter("pages", options.pages)
        .times("signal", &samples(times.signal)?)
        .times("absent_to_readable", &samples(times.read)?)
        .times("read_only_to_writable", &samples(times.write)?);
    // Not every engine can watch.
    let watched = if times.watched.is_empty() { None } else { Some(samples(times.watched)?) };
    let outcome = watched.iter().fold(outcome, |outcome, watched| outcome.times("watched_write", watched));
    Ok((Setting::without_job(kind), outcome))
}

/// Microseconds a page, or a signal, of each round.
#[derive(Default)]
struct EngineTimes {
    signal: Vec<f64>,
    read: Vec<f64>,
    write: Vec<f64>,
    watched: Vec<f64>,
}

/// The engine's region, with the handler in place.
struct Bench {
    region: Arc<Region>,
    pages: u32,
    _handler: Handler,
}

impl Bench {
    fn new(kind: EngineKind, pages: u32) -> Result<Self> {
        let region = Arc::new(Region::anywhere(pages)?);
        let engine = open(kind, Arc::clone(&region))?;
        // Pages have frames, as pages do whose bytes were fetched.
        engine.map_zero(0..pages, Access::Read)?;
        if ENGINE.set(engine).is_err() {
            return Err(Error::NotMeasured("a process measures one engine".to_owned()));
        }
        // SAFETY: `serve` takes no lock, does not allocate, and touches the engine only, which is never
        // dropped.
        let handler = unsafe { install(&region, kind, serve) }?;
        Ok(Self { region, pages, _handler: handler })
    }

    /// One sample of each fault.
    fn faults(&self, times: &mut EngineTimes) -> Result<()> {
        let (engine, all) = (engine(), 0..self.pages);
        engine.unmap(all.clone())?;
        ABSENT.store(true, Relaxed);
        times.read.push(self.each(|page| self.read(page)));
        ABSENT.store(false, Relaxed);
        times.write.push(self.each(|page| self.write(page)));
        if engine.track_async(all.clone())? {
            times.watched.push(self.each(|page| self.write(page)));
            engine.track_sync(all)?;
        }
        Ok(())
    }

    /// What one of as many turns takes as there are pages.
    fn each(&self, turn: impl Fn(u32)) -> f64 {
        microseconds(|| (0..self.pages).for_each(turn)).0 / f64::from(self.pages)
    }

    fn at(&self, page: u32) -> *mut u8 {
        self.region.app_base().wrapping_add(page as usize * PAGE)
    }

    fn read(&self, page: u32) {
        // SAFETY: a byte of the application view, which lives as long as `self.region`; `serve` makes it
        // readable.
        unsafe { self.at(page).read_volatile() };
    }

    fn write(&self, page: u32) {
        // SAFETY: as in `read`; `serve` makes it writable, and nobody has a reference to it.
        unsafe { self.at(page).write_volatile(1) };
    }
}

fn engine() -> &'static dyn FaultEngine {
    ENGINE.get().expect("`Bench::new` set it").as_ref()
}

/// Called by the fault handler.
fn serve(page: u32, _addr: usize, _access: Access, _pc: usize) -> Verdict {
    FAULTS.fetch_add(1, Relaxed);
    // An instruction that faults twice touches a page that the system has taken out of memory: there is no
    // entry whose protection could be changed.
    let again = LAST.swap(page, Relaxed) == page;
    let page = page..page + 1;
    let served: std::result::Result<(), EngineError> = if ABSENT.load(Relaxed) {
        engine().map(page, Access::Read)
    } else if again {
        engine().map(page, Access::Write)
    } else {
        engine().protect(page, Access::Write)
    };
    if served.is_ok() { Verdict::Served } else { Verdict::NotOurs }
}

/// A signal to the thread that made this, which does nothing: one system call, the way into the handler, and
/// the way back.
struct Signal {
    process: i32,
    thread: i32,
}

impl Signal {
    fn new() -> Self {
        extern "C" fn nothing(_signal: i32) {}
        // SAFETY: sets the action of a signal that nothing else in this program uses; the function does
        // nothing.
        unsafe { libc::signal(libc::SIGUSR1, nothing as *const () as usize) };
        Self { process: nix::unistd::getpid().as_raw(), thread: nix::unistd::gettid().as_raw() }
    }

    fn send(&self) {
        // SAFETY: sends a signal, whose action is set, to a thread of this process.
        unsafe { libc::syscall(libc::SYS_tgkill, self.process, self.thread, libc::SIGUSR1) };
    }
}
