//! Running a launcher to its end.

use std::fmt;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

/// Whatever takes longer hangs.
const LIMIT: Duration = Duration::from_secs(180);

/// What a launcher leaves to look at.
#[derive(Debug)]
pub(crate) struct Ended {
    what: String,
    /// Its exit status, or 128 + the signal that killed it.
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: status {}\nstdout:\n{}\nstderr:\n{}", self.what, self.status, self.out, self.err)
    }
}

/// The command of a launcher, if it is installed.
pub(crate) fn launcher(name: &str, package: &str) -> Option<Command> {
    if find(name).is_none() {
        eprintln!("skipped: jobs of {name}: it is not installed (Debian: apt-get install {package})");
        return None;
    }
    Some(Command::new(name))
}

/// Where a command lies.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Daemons lie where not every user looks.
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    directories.map(|directory| directory.join(name)).find(|file| file.is_file())
}

/// The example `ring`, brought up to date.
pub(crate) fn ring() -> &'static Path {
    static RING: OnceLock<PathBuf> = OnceLock::new();
    RING.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let profile = test.ancestors().nth(2).unwrap();
        let name = match profile.file_name().unwrap().to_str().unwrap() {
            "debug" => "dev",
            other => other,
        };
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "-p", "scash-comm", "--example", "ring", "--profile", name]);
        cargo.arg("--target-dir").arg(profile.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(cargo.status().unwrap().success(), "cargo cannot build the example `ring`");
        profile.join("examples/ring")
    })
}

/// Runs a command to its end.
pub(crate) fn run(mut command: Command) -> Ended {
    let what = format!("{command:?}");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().unwrap();
    let (out, err) = (reader(child.stdout.take().unwrap()), reader(child.stderr.take().unwrap()));
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if started.elapsed() > LIMIT {
            end_group(&mut child);
            break None;
        }
        sleep(Duration::from_millis(5));
    };
    let text = |reader: JoinHandle<Vec<u8>>| String::from_utf8_lossy(&reader.join().unwrap()).into_owned();
    let code = status.map_or(-1, |status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap()));
    let ended = Ended { what, status: code, out: text(out), err: text(err) };
    assert!(status.is_some(), "it hangs: {ended}");
    ended
}

/// Kills a process that leads a group, and its group.
fn end_group(child: &mut Child) {
    let group = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
    child.wait().unwrap();
}

fn reader(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        bytes
    })
}
