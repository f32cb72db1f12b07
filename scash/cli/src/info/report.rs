//! The findings as values. Their names are the keys of the JSON object.

use super::system;
use crate::run::{AUTO, PROVIDERS};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::Resource;
use scash::fault::{EngineKind, Finding, PAGE, Probe};
use scash::runtime::{FrameSharing, frames_asked_for};
use serde::Serialize;

/// Everything.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) version: &'static str,
    pub(super) machine: Machine,
    pub(super) engine: Selection,
    pub(super) engines: Vec<Feature>,
    pub(super) frames: Selection,
    pub(super) providers: Vec<Feature>,
    pub(super) features: Vec<Feature>,
    pub(super) limits: Vec<Limit>,
}

/// The machine. Sizes are in bytes.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    pub(super) kernel: String,
    pub(super) page_size: Option<u64>,
    pub(super) cores: usize,
    pub(super) memory: Option<u64>,
    pub(super) memory_available: Option<u64>,
    /// What the container or control group allows, if it limits memory.
    pub(super) memory_limit: Option<u64>,
    /// Size and free space of /dev/shm.
    pub(super) dev_shm: Option<(u64, u64)>,
}

/// What a job would use: the fault engine, or whose frames.
#[derive(Debug, Serialize)]
pub(super) struct Selection {
    pub(super) name: Option<&'static str>,
    pub(super) why: String,
}

/// Something that is there or not.
#[derive(Debug, Serialize)]
pub(super) struct Feature {
    pub(super) name: String,
    pub(super) available: bool,
    /// What it is or, if it is missing, why, and what to do.
    pub(super) note: Option<String>,
    /// What it is made of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) parts: Vec<Feature>,
}

/// A number that bounds jobs; `None` stands for "unlimited".
#[derive(Debug, Serialize)]
pub(super) struct Limit {
    pub(super) name: &'static str,
    pub(super) value: Option<u64>,
    /// What it means for scash.
    pub(super) note: String,
}

impl Report {
    /// Whether jobs can run here.
    pub(super) fn usable(&self) -> bool {
        self.engine.name.is_some()
            && self.features.iter().all(|feature| feature.available || !feature.is_needed())
    }
}

impl Feature {
    fn new(name: impl Into<String>, missing: Option<String>, note: Option<String>) -> Feature {
        Feature { name: name.into(), available: missing.is_none(), note: missing.or(note), parts: Vec::new() }
    }

    fn is_needed(&self) -> bool {
        NEEDED.contains(&self.name.as_str())
    }
}

/// Features without which no job runs.
const NEEDED: [&str; 3] = [PAGES, MEMFD, PIDFD];
const PAGES: &str = "4 KiB pages";
const MEMFD: &str = "memfd";
const PIDFD: &str = "pidfd";

/// Looks at everything.
pub(super) fn gather() -> Report {
    let probe = Probe::run();
    Report {
        version: env!("CARGO_PKG_VERSION"),
        machine: machine(),
        engine: choice(),
        engines: engines(&probe),
        frames: frames(),
        providers: providers(),
        features: features(&probe),
        limits: limits(&probe),
    }
}

fn machine() -> Machine {
    Machine {
        kernel: system::kernel(),
        page_size: system::page_size(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory: system::meminfo("MemTotal"),
        memory_available: system::meminfo("MemAvailable"),
        memory_limit: system::memory_limit(),
        dev_shm: system::file_system("/dev/shm"),
    }
}

fn choice() -> Selection {
    let wanted = std::env::var_os("SCASH_FAULT").filter(|name| !name.is_empty());
    // What is not text is no engine's name, and is said so.
    let wanted = wanted.map(|name| name.to_string_lossy().into_owned());
    match scash::fault::choose(wanted.as_deref()) {
        Ok(kind) if wanted.is_some() => {
            Selection { name: Some(kind.name()), why: "SCASH_FAULT asks for it".into() }
        }
        Ok(kind) if kind == EngineKind::ALL[0] => {
            Selection { name: Some(kind.name()), why: "the fastest, and it works here".into() }
        }
        Ok(kind) => Selection { name: Some(kind.name()), why: "the fastest that works here".into() },
        Err(error) => Selection { name: None, why: error.to_string() },
    }
}

fn frames() -> Selection {
    match frames_asked_for(|name| std::env::var_os(name)) {
        Ok(FrameSharing::Own) => Selection {
            name: Some("each rank's own"),
            why: "SCASH_SHARE=off; otherwise all ranks of a job of one host over shm share frames".into(),
        },
        Ok(FrameSharing::Shared) => Selection {
            name: Some("shared"),
            why: "by all ranks of a job of one host over shm, which uses mprotect; \
                  SCASH_SHARE=off gives each its own"
                .into(),
        },
        Ok(FrameSharing::NotShared(why)) => Selection { name: Some("each rank's own"), why: why.to_owned() },
        Err(error) => Selection { name: None, why: error.to_string() },
    }
}

fn engines(probe: &Probe) -> Vec<Feature> {
    let describe = |kind| match kind {
        EngineKind::Uffd => {
            "userfaultfd: any number of pages, faults served in the faulting thread".to_owned()
        }
        EngineKind::Mprotect => {
            let most =
                probe.max_map_count.map_or_else(|| "65530 by default".into(), |count| count.to_string());
            format!(
                "page protection: at most vm.max_map_count = {most} alternations between neighbouring pages"
            )
        }
    };
    let engine = |kind: EngineKind| {
        Feature::new(kind.name(), probe.engine(kind).missing.clone(), Some(describe(kind)))
    };
    let mut engines: Vec<Feature> = EngineKind::ALL.into_iter().map(engine).collect();
    engines[0].parts = parts(&probe.uffd_parts);
    engines
}

fn parts(findings: &[Finding]) -> Vec<Feature> {
    findings.iter().map(|finding| Feature::new(finding.name, finding.missing.clone(), None)).collect()
}

fn providers() -> Vec<Feature> {
    let obstacle = |name: &str| {
        match name {
        "tcp" => std::net::TcpListener::bind(("127.0.0.1", 0))
            .err()
            .map(|error| format!("no socket can listen on 127.0.0.1: {error} (is the loopback interface up? `ip link set lo up`)")),
        "ofi" => fabrics().err(),
        _ => no_memfd(),
    }
    };
    let provider =
        |(name, what): (&'static str, &str)| Feature::new(name, obstacle(name), Some(what.to_owned()));
    let all = PROVIDERS.into_iter().filter(|(name, _)| *name != AUTO);
    let mut providers: Vec<Feature> = all.map(provider).collect();
    if let (Some(ofi), Ok(fabrics)) =
        (providers.iter_mut().find(|provider| provider.name == "ofi"), fabrics())
    {
        ofi.parts = fabrics;
    }
    providers
}

/// libfabric's own providers that can carry a job here, best first, or why there are none.
#[cfg(feature = "ofi")]
fn fabrics() -> Result<Vec<Feature>, String> {
    let (names, version) = scash_ofi::providers()
        .and_then(|names| Ok((names, scash_ofi::version()?)))
        .map_err(|e| e.to_string())?;
    if names.is_empty() {
        return Err(format!("libfabric {version} has no provider here that can carry a job (see `fi_info`)"));
    }
    let note = format!("SCASH_OFI chooses it; of libfabric {version}");
    Ok(names.into_iter().map(|name| Feature::new(name, None, Some(note.clone()))).collect())
}

#[cfg(not(feature = "ofi"))]
fn fabrics() -> Result<Vec<Feature>, String> {
    Err("not in this build: build with the cargo feature `ofi`".to_owned())
}

fn no_memfd() -> Option<String> {
    let tried = memfd_create(c"scash-info", MFdFlags::MFD_CLOEXEC);
    tried.err().map(|error| {
        format!("memfd_create failed: {error}; it needs Linux 3.17, and a container's seccomp profile must allow it")
    })
}

fn features(probe: &Probe) -> Vec<Feature> {
    let size = system::page_size();
    let odd_pages = (size != u64::try_from(PAGE).ok()).then(|| {
        let size = size.map_or_else(|| "unknown".into(), |size| size.to_string());
        format!("this kernel's page size is {size}; scash needs one built with {PAGE}-byte pages")
    });
    let no_pidfd = crate::run::pidfd_works().err().map(|error| {
        format!(
            "pidfd_open failed: {error}; it needs Linux 5.3, and a container's seccomp profile must allow it"
        )
    });
    let mut tracking = Feature::new(probe.tracking.name, probe.tracking.missing.clone(), None);
    tracking.parts = parts(&probe.tracking_parts);
    vec![
        Feature::new(PAGES, odd_pages, None),
        Feature::new(
            MEMFD,
            no_memfd(),
            Some("shared memory without names: nothing can stay in /dev/shm".into()),
        ),
        Feature::new(PIDFD, no_pidfd, None),
        tracking,
    ]
}

fn limits(probe: &Probe) -> Vec<Limit> {
    let mut limits = Vec::new();
    if let Some((_, hard)) = system::limit(Resource::RLIMIT_NOFILE) {
        let ranks =
            hard.map_or_else(|| "any number of".into(), |hard| crate::run::ranks_for(hard).to_string());
        limits.push(Limit {
            name: "open files",
            value: hard,
            note: format!("enough for {ranks} ranks (`ulimit -Hn`)"),
        });
    }
    if let Some((soft, _)) = system::limit(Resource::RLIMIT_NPROC) {
        limits.push(Limit {
            name: "processes",
            value: soft,
            note: "ranks and their threads count (`ulimit -u`)".into(),
        });
    }
    if let Some((soft, _)) = system::limit(Resource::RLIMIT_AS) {
        let note = match soft {
            None => "a region is reserved as address space",
            Some(_) => "too small a limit refuses a region: `ulimit -v unlimited`",
        };
        limits.push(Limit { name: "address space", value: soft, note: note.into() });
    }
    limits.push(Limit {
        name: "vm.max_map_count",
        value: probe.max_map_count,
        note: "bounds the mprotect engine; raise it with `sysctl vm.max_map_count=1000000`".into(),
    });
    limits
}
