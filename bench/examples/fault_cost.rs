//! What each fault engine costs on this machine, in nanoseconds a page: faults taken and served, and changes
//! of protection.
//!
//!     cargo run --release -p scash-bench --example fault_cost [pages] [repetitions]
//!
//! A fault's figure is of the whole of it: trap, signal, the engine's call and the return. Each figure is the
//! median of the repetitions, with the smallest in parentheses.

#![expect(clippy::print_stdout, reason = "a program that prints its result")]

use std::hint::black_box;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use scash::fault::{
    Access, EngineError, EngineKind, FaultEngine, Handler, PAGE, Probe, Region, Verdict, install, open,
};

/// What the handler works on, one for each engine.
static ENGINES: [OnceLock<Box<dyn FaultEngine>>; 2] = [OnceLock::new(), OnceLock::new()];
static SOURCE: [u8; PAGE] = [1; PAGE];
/// What the handler does with a fault: one of the constants below, by the engine's number.
static SERVICE: AtomicU8 = AtomicU8::new(COPY);
static ENGINE: AtomicU8 = AtomicU8::new(0);
/// The page of the fault before.
static LAST: AtomicU32 = AtomicU32::new(u32::MAX);

const COPY: u8 = 0;
const ZERO: u8 = 1;
const RESUME: u8 = 2;
const OPEN: u8 = 3;

fn engine() -> &'static dyn FaultEngine {
    ENGINES[usize::from(ENGINE.load(Relaxed))].get().expect("set before the first fault").as_ref()
}

fn serve(page: u32, _addr: usize, access: Access, _pc: usize) -> Verdict {
    let again = LAST.swap(page, Relaxed) == page;
    let page = page..page + 1;
    let served = match SERVICE.load(Relaxed) {
        // SAFETY: SOURCE is a page.
        COPY => unsafe { engine().map_copy(page, SOURCE.as_ptr(), access) },
        ZERO => engine().map_zero(page, access),
        RESUME => engine().map(page, access),
        // The system had taken the page out of memory: there is no entry whose protection could be changed.
        _ if again => engine().map(page, access),
        _ => engine().protect(page, access),
    };
    if served.is_ok() { Verdict::Served } else { Verdict::NotOurs }
}

/// Figures by line of the table, in the order of their first measurement.
#[derive(Default)]
struct Table {
    lines: Vec<(&'static str, Vec<f64>)>,
}

impl Table {
    fn measure(&mut self, what: &'static str, pages: u32, work: impl FnOnce() -> Result<(), EngineError>) {
        let start = Instant::now();
        work().expect("every call of the benchmark is valid");
        #[expect(clippy::cast_precision_loss, reason = "a duration of seconds fits")]
        let each = start.elapsed().as_nanos() as f64 / f64::from(pages);
        match self.lines.iter_mut().find(|(name, _)| *name == what) {
            Some((_, figures)) => figures.push(each),
            None => self.lines.push((what, vec![each])),
        }
    }

    fn print(&mut self) {
        for (what, figures) in &mut self.lines {
            figures.sort_by(f64::total_cmp);
            println!("  {what:<52} {:>8.0} ({:.0})", figures[figures.len() / 2], figures[0]);
        }
    }
}

/// One engine over its region.
struct Bench {
    region: Arc<Region>,
    pages: u32,
    _handler: Handler,
}

impl Bench {
    fn new(kind: EngineKind, index: u8, pages: u32) -> Result<Self, EngineError> {
        let region = Arc::new(Region::anywhere(pages)?);
        let engine = open(kind, Arc::clone(&region))?;
        assert!(ENGINES[usize::from(index)].set(engine).is_ok());
        ENGINE.store(index, Relaxed);
        // SAFETY: `serve` asks an engine, and nothing else; the engine, which is never freed, holds the
        // region.
        let handler = unsafe { install(&region, kind, serve) }?;
        Ok(Self { region, pages, _handler: handler })
    }

    fn at(&self, page: u32) -> *mut u8 {
        self.region.app_base().wrapping_add(page as usize * PAGE)
    }

    fn read_all(&self, service: u8) -> Result<(), EngineError> {
        SERVICE.store(service, Relaxed);
        for page in 0..self.pages {
            // SAFETY: in the application view, where the handler serves what faults.
            black_box(unsafe { self.at(page).read_volatile() });
        }
        Ok(())
    }

    fn write_all(&self, service: u8) -> Result<(), EngineError> {
        SERVICE.store(service, Relaxed);
        for page in 0..self.pages {
            // SAFETY: as above.
            unsafe { self.at(page).write_volatile(1) };
        }
        Ok(())
    }

    fn each(&self, call: impl Fn(u32) -> Result<(), EngineError>) -> Result<(), EngineError> {
        (0..self.pages).try_for_each(call)
    }

    /// One repetition of everything.
    fn repeat(&self, table: &mut Table) -> Result<(), EngineError> {
        self.absent(table)?;
        self.protections(table)?;
        self.zeroes(table)?;
        self.tracked(table)
    }

    fn absent(&self, table: &mut Table) -> Result<(), EngineError> {
        let (pages, all) = (self.pages, 0..self.pages);
        let engine = engine();
        engine.discard(all.clone())?;
        table.measure("absent -> readable, no frame (fault, map_copy)", pages, || self.read_all(COPY));
        table.measure("unmap, one range", pages, || engine.unmap(all.clone()));
        table.measure("absent -> readable, frame (fault, map_copy)", pages, || self.read_all(COPY));
        table.measure("unmap, page by page", pages, || self.each(|page| engine.unmap(page..page + 1)));
        table.measure("absent -> readable, frame (fault, map)", pages, || self.read_all(RESUME));
        engine.unmap(all.clone())?;
        table.measure("map, page by page (no fault)", pages, || {
            self.each(|page| engine.map(page..page + 1, Access::Read))
        });
        engine.unmap(all.clone())?;
        table.measure("map, one range (no fault)", pages, || engine.map(all.clone(), Access::Read));
        Ok(())
    }

    fn protections(&self, table: &mut Table) -> Result<(), EngineError> {
        let (pages, all) = (self.pages, 0..self.pages);
        let engine = engine();
        table.measure("read-only -> writable (fault, protect)", pages, || self.write_all(OPEN));
        table.measure("protect again, page by page", pages, || {
            self.each(|page| engine.protect(page..page + 1, Access::Read))
        });
        table.measure("open, one range", pages, || engine.protect(all.clone(), Access::Write));
        self.write_all(OPEN)?;
        table.measure("protect again, one range", pages, || engine.protect(all.clone(), Access::Read));
        table.measure("discard, one range", pages, || engine.discard(all.clone()));
        Ok(())
    }

    fn zeroes(&self, table: &mut Table) -> Result<(), EngineError> {
        let (pages, all) = (self.pages, 0..self.pages);
        let engine = engine();
        table.measure("absent -> writable, zero (fault, map_zero)", pages, || self.write_all(ZERO));
        engine.discard(all.clone())?;
        table.measure("absent -> readable, zero (fault, map_zero)", pages, || self.read_all(ZERO));
        engine.discard(all.clone())?;
        table.measure("map_zero to write, one range (no fault)", pages, || {
            engine.map_zero(all.clone(), Access::Write)
        });
        engine.discard(all.clone())?;
        table.measure("map_zero to read, one range (no fault)", pages, || {
            engine.map_zero(all.clone(), Access::Read)
        });
        Ok(())
    }

    fn tracked(&self, table: &mut Table) -> Result<(), EngineError> {
        let (pages, all) = (self.pages, 0..self.pages);
        let engine = engine();
        engine.map(all.clone(), Access::Write)?;
        self.write_all(OPEN)?;
        let mut runs = Vec::with_capacity(4);
        if !engine.track_async(all.clone())? {
            return Ok(());
        }
        table.measure("tracked: first write (no signal)", pages, || self.write_all(OPEN));
        table.measure("tracked: scan, all written", pages, || engine.written(all.clone(), &mut runs));
        table.measure("tracked: scan, none written", pages, || engine.written(all.clone(), &mut runs));
        table.measure("tracked: end", pages, || engine.track_sync(all.clone()));
        Ok(())
    }
}

/// What no engine can go below, for the scale of the rest.
fn floor(table: &mut Table, pages: u32) {
    extern "C" fn nothing(_signal: i32) {}
    // SAFETY: sets the action of a signal that nothing else here uses.
    unsafe { libc::signal(libc::SIGUSR1, nothing as *const () as usize) };
    let (process, thread) = (std::process::id(), nix::unistd::gettid().as_raw());
    table.measure("a signal to oneself, and back", pages, || {
        for _ in 0..pages {
            // SAFETY: sends a signal to this thread.
            unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1) };
        }
        Ok(())
    });
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u32>());
    let pages = args.next().transpose()?.unwrap_or(4096);
    let repetitions = args.next().transpose()?.unwrap_or(15);
    let mut table = Table::default();
    (0..repetitions).for_each(|_| floor(&mut table, pages));
    println!("this machine, ns, median of {repetitions} (smallest)");
    table.print();
    let probe = Probe::run();
    for (index, kind) in (0..).zip(EngineKind::ALL) {
        if let Some(why) = &probe.engine(kind).missing {
            println!("{}: not here: {why}", kind.name());
            continue;
        }
        let bench = Bench::new(kind, index, pages)?;
        let mut table = Table::default();
        for _ in 0..repetitions {
            bench.repeat(&mut table)?;
        }
        println!("{}, ns a page, {pages} pages, median of {repetitions} (smallest)", kind.name());
        table.print();
    }
    Ok(())
}
