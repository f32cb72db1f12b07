//! What the tests of the fault engines share: a process for each case, and ways to look at a page without a
//! fault.
//!
//! Fault handlers belong to a process, and some cases end one. So each case of a test runs in a process of
//! its own: the test's binary starts itself again, told by an environment variable which case to run. Each
//! has a time limit.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use scash::fault::{EngineKind, FaultEngine, Handler, PAGE, Probe, Region, Serve, install, open};

/// Tells a child which case to run.
const CASE: &str = "SCASH_FAULT_TEST_CASE";
const LIMIT: Duration = Duration::from_secs(120);
/// How a child ends whose case went well: not as one that did not find its test.
pub(crate) const DONE: i32 = 42;
/// The user "nobody".
const NOBODY: u32 = 65534;

/// The engines that the kernel has the parts for; loud about the others.
pub(crate) fn engines() -> Vec<EngineKind> {
    let parts = Probe::run().uffd_parts;
    let missing = parts.iter().find(|part| !part.is_there());
    if let Some(part) = missing {
        eprintln!("skipped for uffd: {part}");
    }
    EngineKind::ALL.into_iter().filter(|kind| *kind == EngineKind::Mprotect || missing.is_none()).collect()
}

/// Runs `body` with each engine, as the user who runs the test and as an unprivileged one, and expects it to
/// return.
pub(crate) fn with_each_engine(test: &str, body: fn(EngineKind)) {
    for kind in engines() {
        case(test, kind.name(), || body(kind), expect_success);
        let unprivileged = format!("{} as nobody", kind.name());
        case(
            test,
            &unprivileged,
            || {
                if drop_privileges() {
                    body(kind)
                }
            },
            expect_success,
        );
    }
}

pub(crate) fn expect_success(status: ExitStatus) {
    assert_eq!(status.code(), Some(DONE), "{status}");
}

/// Runs `body` with each engine, and expects it to be killed by the signal that `killer` gives.
pub(crate) fn killed_with_each_engine(test: &str, body: fn(EngineKind), killer: fn(EngineKind) -> i32) {
    for kind in engines() {
        let without_core = || {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: sets a limit of this process.
            unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
            body(kind);
        };
        let expect =
            |status: ExitStatus| assert_eq!(status.signal(), Some(killer(kind)), "{}: {status}", kind.name());
        case(test, kind.name(), without_core, expect);
    }
}

/// Runs one case in a process of its own and checks how that ended.
pub(crate) fn case(test: &str, name: &str, body: impl FnOnce(), check: impl FnOnce(ExitStatus)) {
    if let Ok(wanted) = std::env::var(CASE) {
        if wanted == name {
            body();
            // At once: an orderly exit takes the main thread's alternate stack away, on which it may still be
            // handling the signal by which `setuid` reaches every thread.
            // SAFETY: ends the process.
            unsafe { libc::_exit(DONE) };
        }
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CASE, name)
        .spawn()
        .unwrap();
    let deadline = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("{test}, {name}: no end after {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    eprintln!("{test}, {name}: {status}");
    check(status);
}

/// The process that runs the test: this one, or the one that started it for a case.
pub(crate) fn test_process() -> u32 {
    if std::env::var_os(CASE).is_some() { std::os::unix::process::parent_id() } else { std::process::id() }
}

pub(crate) fn is_root() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::geteuid() == 0 }
}

/// Becomes an unprivileged user; `false` if the process already is one (and the case would be the same
/// again).
pub(crate) fn drop_privileges() -> bool {
    if !is_root() {
        return false;
    }
    // SAFETY: changes the user of this process.
    assert_eq!(unsafe { libc::setuid(NOBODY) }, 0);
    // Changing the user hides /proc/self from it; a program that is started by that user has it.
    // SAFETY: sets a flag of this process.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) }, 0);
    true
}

/// The engine and region of this process.
pub(crate) struct World {
    pub(crate) region: Arc<Region>,
    pub(crate) engine: Box<dyn FaultEngine>,
}

static WORLD: OnceLock<World> = OnceLock::new();

/// The engine and region of this process, after [`start`].
pub(crate) fn world() -> &'static World {
    WORLD.get().expect("started")
}

/// Sets up a region of `pages` pages whose faults go to `serve`, which is to ask the engine and note what it
/// has seen, and nothing else.
pub(crate) fn start(kind: EngineKind, pages: u32, serve: Serve) -> (&'static World, Handler) {
    let region = Arc::new(Region::anywhere(pages).unwrap());
    let engine = open(kind, Arc::clone(&region)).unwrap();
    assert!(WORLD.set(World { region, engine }).is_ok(), "one world a process");
    // SAFETY: `serve` is one of these tests' own, as described; the world is never freed.
    let handler = unsafe { install(&world().region, kind, serve) }.unwrap();
    (world(), handler)
}

impl World {
    /// An address in the application view.
    pub(crate) fn app(&self, page: u32, offset: usize) -> *mut u8 {
        self.region.app_base().wrapping_add(page as usize * PAGE + offset)
    }

    /// An address in the runtime view.
    pub(crate) fn runtime(&self, page: u32, offset: usize) -> *mut u8 {
        self.region.runtime_base().wrapping_add(page as usize * PAGE + offset)
    }
}

/// Reads a byte of the application view as a program does.
pub(crate) fn read(at: *const u8) -> u8 {
    // SAFETY: in the application view, whose faults are served.
    unsafe { at.read_volatile() }
}

/// Writes a byte of the application view as a program does.
pub(crate) fn write(at: *mut u8, byte: u8) {
    // SAFETY: in the application view, whose faults are served.
    unsafe { at.write_volatile(byte) }
}

/// Looks at pages through system calls, which fail where an instruction would fault.
pub(crate) struct Looker {
    out: PipeReader,
    into: PipeWriter,
}

impl Looker {
    pub(crate) fn new() -> Self {
        let (out, into) = pipe().unwrap();
        Self { out, into }
    }

    /// The byte at an address, if it may be read.
    pub(crate) fn read(&self, at: *const u8) -> Option<u8> {
        // SAFETY: the kernel reads one byte, or fails.
        let readable = unsafe { libc::write(self.into.as_raw_fd(), at.cast(), 1) } == 1;
        let mut byte = 0;
        (readable && self.take(&mut byte)).then_some(byte)
    }

    /// Writes a byte to an address, if it may be written.
    pub(crate) fn write(&self, at: *mut u8, byte: u8) -> bool {
        (&self.into).write_all(&[byte]).unwrap();
        let written = self.take(at);
        if !written {
            assert!(self.take(&mut 0), "the byte is still in the pipe");
        }
        written
    }

    fn take(&self, at: *mut u8) -> bool {
        // SAFETY: the kernel writes one byte, to a local or the application view, or fails.
        unsafe { libc::read(self.out.as_raw_fd(), at.cast(), 1) == 1 }
    }
}
