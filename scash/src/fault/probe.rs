//! What this kernel and this container allow, found by trying: each engine is built over a tiny region and
//! made to map, refuse, protect and give back a page. Feature bits only serve to say why something failed.
//!
//! No signal is needed for that: a system call on a page that the engine withholds fails with EFAULT, which
//! is a fault without a victim.

use std::fmt;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use super::mprotect::max_map_count;
use super::scan::Pagemap;
use super::uffd::sys::{Userfaultfd, feature};
use super::{Access, EngineError, EngineKind, PAGE, Region, open};

/// Something that the kernel offers, or does not.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What it is.
    pub name: &'static str,
    /// A sentence on why it is missing, and what to do about it; `None` if it is there.
    pub missing: Option<String>,
}

impl Finding {
    /// Whether it is there.
    pub fn is_there(&self) -> bool {
        self.missing.is_none()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.missing {
            None => write!(f, "{}: yes", self.name),
            Some(why) => write!(f, "{}: no: {why}", self.name),
        }
    }
}

/// All that was found.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The uffd engine as a whole, tried.
    pub uffd: Finding,
    /// What it is made of.
    pub uffd_parts: Vec<Finding>,
    /// The mprotect engine, tried.
    pub mprotect: Finding,
    /// Tracking of writes without faults, tried: asynchronous write protection and its scan.
    pub tracking: Finding,
    /// What tracking is made of.
    pub tracking_parts: Vec<Finding>,
    /// How many mappings a process may have: what bounds the mprotect engine.
    pub max_map_count: Option<u64>,
}

/// The parts of the uffd engine: bit, name, and the kernel that brought it.
const PARTS: [(u64, &str, &str); 4] = [
    (feature::MISSING_SHMEM, "faults on absent pages of a memfd", "4.11"),
    (feature::SIGBUS, "faults as SIGBUS in the faulting thread", "4.14"),
    (feature::MINOR_SHMEM, "faults on unmapped pages of a memfd", "5.14"),
    (feature::WP_SHMEM, "write protection in a memfd", "5.19"),
];

impl Probe {
    /// Looks and tries. Takes a fraction of a millisecond.
    pub fn run() -> Self {
        let features = Userfaultfd::features();
        let mut uffd_parts = vec![Finding {
            name: "userfaultfd for user-mode faults",
            missing: features.as_ref().err().map(why_no_userfaultfd),
        }];
        let features = features.unwrap_or(0);
        uffd_parts.extend(PARTS.map(|(bit, name, since)| feature_finding(features, bit, name, since)));
        let pagemap = Pagemap::open().and_then(|pagemap| pagemap.check());
        let tracking_parts = vec![
            feature_finding(features, feature::WP_ASYNC, "asynchronous write protection", "6.7"),
            Finding { name: "PAGEMAP_SCAN", missing: pagemap.err().as_ref().map(why_no_scan) },
        ];
        Self {
            uffd: conclude(EngineKind::Uffd.name(), &uffd_parts, try_engine(EngineKind::Uffd)),
            mprotect: conclude(EngineKind::Mprotect.name(), &[], try_engine(EngineKind::Mprotect)),
            tracking: conclude("tracking of writes without faults", &tracking_parts, try_tracking()),
            uffd_parts,
            tracking_parts,
            max_map_count: max_map_count(),
        }
    }

    /// What was found about an engine.
    pub fn engine(&self, kind: EngineKind) -> &Finding {
        match kind {
            EngineKind::Uffd => &self.uffd,
            EngineKind::Mprotect => &self.mprotect,
        }
    }
}

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub enum ChooseError {
    /// `SCASH_FAULT` names none.
    #[error(
        "SCASH_FAULT={0}: there is no such fault engine; there are uffd and mprotect (unset it, and scash chooses)"
    )]
    Unknown(String),
    /// `SCASH_FAULT` names one that does not work here.
    #[error("SCASH_FAULT={0}: this engine does not work here: {1} (unset SCASH_FAULT, and scash chooses)")]
    Unavailable(&'static str, String),
    /// None works here.
    #[error("no fault engine works here: uffd: {uffd}; mprotect: {mprotect}")]
    NoneWorks {
        /// What is wrong with uffd.
        uffd: String,
        /// What is wrong with mprotect.
        mprotect: String,
    },
}

/// The engine to use: the one that `wanted` (the value of `SCASH_FAULT`) names, else the best that works.
pub fn choose(wanted: Option<&str>) -> Result<EngineKind, ChooseError> {
    let wanted = match wanted.filter(|name| !name.is_empty()) {
        None => None,
        Some(name) => {
            let kind = EngineKind::ALL.into_iter().find(|kind| kind.name() == name);
            Some(kind.ok_or_else(|| ChooseError::Unknown(name.to_owned()))?)
        }
    };
    decide(wanted, &Probe::run())
}

fn decide(wanted: Option<EngineKind>, probe: &Probe) -> Result<EngineKind, ChooseError> {
    if let Some(kind) = wanted {
        return match &probe.engine(kind).missing {
            None => Ok(kind),
            Some(why) => Err(ChooseError::Unavailable(kind.name(), why.clone())),
        };
    }
    let why = |kind| probe.engine(kind).missing.clone().unwrap_or_default();
    EngineKind::ALL.into_iter().find(|kind| probe.engine(*kind).is_there()).ok_or_else(|| {
        ChooseError::NoneWorks { uffd: why(EngineKind::Uffd), mprotect: why(EngineKind::Mprotect) }
    })
}

/// A whole is there if it worked; if not, a missing part is the better explanation.
fn conclude(name: &'static str, parts: &[Finding], tried: Result<(), String>) -> Finding {
    let missing = tried.err().map(|failure| {
        let part = parts.iter().find_map(|part| Some(format!("{}: {}", part.name, part.missing.as_ref()?)));
        part.unwrap_or(failure)
    });
    Finding { name, missing }
}

fn feature_finding(features: u64, bit: u64, name: &'static str, since: &str) -> Finding {
    let missing = (features & bit == 0).then(|| format!("needs Linux {since} or newer, and userfaultfd"));
    Finding { name, missing }
}

fn why_no_userfaultfd(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "refused by a seccomp profile or security module, as in many containers \
             (vm.unprivileged_userfaultfd does not matter: scash only asks for faults of user-mode code); allow the system \
             call userfaultfd, or give the container the device /dev/userfaultfd"
            .to_owned(),
        Some(libc::ENOSYS) => "this kernel is built without CONFIG_USERFAULTFD, or a sandbox hides it".to_owned(),
        Some(libc::EINVAL) => "needs Linux 5.11 or newer".to_owned(),
        _ => format!("the system call userfaultfd failed: {error}"),
    }
}

fn why_no_scan(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOTTY | libc::EINVAL) => "needs Linux 6.7 or newer".to_owned(),
        Some(libc::EACCES | libc::EPERM) => {
            "/proc/self/pagemap may not be opened: a container, or a process that \
             changed its user and is not dumpable since"
                .to_owned()
        }
        _ => format!("/proc/self/pagemap: {error}"),
    }
}

/// Tries what the runtime will do, and says which step failed.
fn try_engine(kind: EngineKind) -> Result<(), String> {
    let region = Arc::new(Region::anywhere(4).map_err(|e| e.to_string())?);
    let engine = open(kind, Arc::clone(&region)).map_err(|e| e.to_string())?;
    let trial = Trial::new(&region).map_err(|e| e.to_string())?;
    let step = |done: Result<(), EngineError>| done.map_err(|e| e.to_string());
    trial.expect("at first", None)?;
    step(engine.map_zero(0..4, Access::Read))?;
    trial.expect("mapped to be read", Some(Access::Read))?;
    step(engine.protect(1..3, Access::Write))?;
    trial.expect("opened", Some(Access::Write))?;
    step(engine.protect(0..4, Access::Read))?;
    trial.expect("protected", Some(Access::Read))?;
    step(engine.unmap(0..4))?;
    trial.expect("unmapped", None)?;
    step(engine.map(1..2, Access::Write))?;
    trial.expect("mapped again", Some(Access::Write))?;
    step(engine.discard(0..4))?;
    trial.expect("discarded", None)?;
    let bytes = [7u8; PAGE];
    // SAFETY: `bytes` is a page.
    step(unsafe { engine.map_copy(1..2, bytes.as_ptr(), Access::Read) })?;
    trial.expect("filled", Some(Access::Read))
}

fn try_tracking() -> Result<(), String> {
    let region = Arc::new(Region::anywhere(4).map_err(|e| e.to_string())?);
    let engine = open(EngineKind::Uffd, Arc::clone(&region)).map_err(|e| e.to_string())?;
    let trial = Trial::new(&region).map_err(|e| e.to_string())?;
    let mut written = Vec::new();
    let mut steps = || -> Result<bool, EngineError> {
        engine.map_zero(0..4, Access::Write)?;
        let tracked = engine.track_async(0..4)?;
        if tracked {
            trial.writable();
            engine.written(0..4, &mut written)?;
            engine.written(0..4, &mut written)?;
            engine.track_sync(0..4)?;
        }
        Ok(tracked)
    };
    match steps().map_err(|e| e.to_string())? {
        false => Err("the kernel does not offer it".to_owned()),
        true if matches!(written.as_slice(), [run] if *run == (TRIED..TRIED + 1)) => Ok(()),
        true => Err(format!("a write to page {TRIED} was reported as {written:?}")),
    }
}

/// The page that is tried.
const TRIED: u32 = 1;

/// Accesses one page of a region by system calls, which fail where an instruction would fault.
struct Trial {
    page: *mut u8,
    out: PipeReader,
    into: PipeWriter,
}

impl Trial {
    fn new(region: &Region) -> io::Result<Self> {
        let (out, into) = io::pipe()?;
        Ok(Self { page: region.app_base().wrapping_add(TRIED as usize * PAGE), out, into })
    }

    fn expect(&self, when: &str, expected: Option<Access>) -> Result<(), String> {
        let found = match (self.readable(), self.writable()) {
            (_, true) => Some(Access::Write),
            (true, false) => Some(Access::Read),
            (false, false) => None,
        };
        if found == expected {
            return Ok(());
        }
        Err(format!("a page gives the wrong access when {when}: {found:?} in place of {expected:?}"))
    }

    fn readable(&self) -> bool {
        // SAFETY: the kernel reads one byte of the application view, or fails.
        let readable = unsafe { libc::write(self.into.as_raw_fd(), self.page.cast(), 1) } == 1;
        readable && self.take(&mut 0)
    }

    fn writable(&self) -> bool {
        if (&self.into).write(&[1]).is_err() {
            return false;
        }
        // The application view belongs to the probe, which has no reference into it.
        let written = self.take(self.page);
        if !written {
            self.take(&mut 0);
        }
        written
    }

    /// Takes one byte out of the pipe, to `at`.
    fn take(&self, at: *mut u8) -> bool {
        // SAFETY: the kernel writes one byte to `at`, a local or the application view, or fails.
        unsafe { libc::read(self.out.as_raw_fd(), at.cast(), 1) == 1 }
    }
}

#[cfg(test)]
mod tests;
