//! CRIU, which dumps and restores processes of Linux, for comparison: a process with as much private memory
//! as ours, dumped into memory (`/dev/shm`) and restored from there.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The program, of which it is known that it works here.
pub(super) struct Criu {
    path: PathBuf,
    /// As it says: `4.2`.
    version: String,
}

/// How long it takes to write the memory that is dumped, at the most.
const SOON: Duration = Duration::from_secs(60);

impl Criu {
    /// That program.
    ///
    /// # Errors
    /// It cannot be started, or says that it does not work here, in words for the user.
    pub(super) fn new(path: &Path) -> Result<Criu, String> {
        let mut criu = Criu { path: path.to_owned(), version: String::new() };
        criu.run(criu.command("check"))?;
        let said = criu.run(criu.command("--version"))?.stdout;
        let said = String::from_utf8_lossy(&said).into_owned();
        criu.version = said.lines().find_map(|line| line.strip_prefix("Version: ")).unwrap_or("").to_owned();
        Ok(criu)
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Dumps a process with so much memory, and restores it: ms of both. `micro` is `scash-micro`.
    ///
    /// # Errors
    /// It did not do so, in words for the user.
    pub(super) fn dump_and_restore(&self, micro: &Path, size: &str) -> Result<[f64; 2], String> {
        let room =
            tempfile::tempdir_in("/dev/shm").map_err(|error| format!("no room in /dev/shm: {error}"))?;
        let (ready, number) = (room.path().join("ready"), room.path().join("number"));
        let mut process = Held::start(micro, size, &ready)?;
        let pid = process.0.id().to_string();
        let mut dump = self.command("dump");
        dump.args(["--shell-job", "--tree", &pid, "--images-dir"]).arg(room.path());
        let dumped = self.timed(dump)?;
        process.end(); // the dump has killed it
        let mut restore = self.command("restore");
        restore.args(["--shell-job", "--restore-detached", "--pidfile"]).arg(&number);
        restore.arg("--images-dir").arg(room.path());
        let restored = self.timed(restore);
        let number = std::fs::read_to_string(&number).ok().and_then(|number| number.trim().parse().ok());
        let killed =
            number.filter(|&number| number > 1).map(|number| kill(Pid::from_raw(number), Signal::SIGKILL));
        match killed {
            Some(Ok(())) => Ok([dumped, restored?]),
            _ => Err(restored.err().unwrap_or_else(|| self.failed("restored no process"))),
        }
    }

    fn command(&self, what: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.arg(what).stdin(Stdio::null());
        command
    }

    fn timed(&self, command: Command) -> Result<f64, String> {
        let start = Instant::now();
        self.run(command)?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }

    fn run(&self, mut command: Command) -> Result<Output, String> {
        let done = command.output().map_err(|error| self.failed(&format!("cannot be started: {error}")))?;
        if done.status.success() {
            return Ok(done);
        }
        let said = [done.stdout, done.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let last = said.trim_end().lines().next_back().unwrap_or("it says nothing").to_owned();
        let what = command.get_args().next().unwrap_or_default().display();
        Err(self.failed(&format!("{what}: {}: {last}", done.status)))
    }

    fn failed(&self, why: &str) -> String {
        format!("{}: {why}", self.path.display())
    }
}

/// A process with memory to be dumped.
struct Held(Child);

impl Held {
    fn start(micro: &Path, size: &str, ready: &Path) -> Result<Held, String> {
        let mut command = Command::new(micro);
        command.args(["hold", "--private", size]).arg(ready);
        // A pipe or a terminal would be in no image of it.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("cannot start {}: {error}", micro.display()))?;
        let mut held = Held(child);
        let start = Instant::now();
        while !ready.exists() {
            if start.elapsed() > SOON || !matches!(held.0.try_wait(), Ok(None)) {
                return Err(format!("`scash-micro hold --private {size}` did not get its memory"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(held)
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.end();
    }
}
