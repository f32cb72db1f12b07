//! A second launcher that waits (`scash run --standby HOST`). The first one starts it by the remote shell,
//! tells it what the job is, and from then on that it is there. When it is not any more, and more than half
//! of the job's hosts say the same, the second one goes on with the job as `scash resume` does.
//!
//! ```text
//!            the pipe ends, or is silent          more than half of the hosts
//!   waits ────────────────────────────▶ asks ───────────────────────────────▶ goes on with the job
//!     ▲ │                                │ ▲ │
//!     │ │ the launcher's last word       └─┘ │ the pipe has ended, and others have a launcher
//!     │ ▼                                    ▼
//!     │ ends        it is heard again       ends
//!     └───────────────────────────────────────
//! ```
//!
//! So that not two launchers go on, each with some of the hosts, the first one leaves the job alone as well
//! when it does not reach more than half of them (`job/standby.rs`).

use super::relay::{Search, ask};
use super::succession::{Found, Succession};
use super::{BEAT, SILENCE};
use crate::run::status;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// What the launcher sends behind the description of the job, which ends with a line break: that it is there,
/// and its last word.
const THERE: u8 = b'.';
const OVER: u8 = b'x';
/// What the second launcher says when it waits: a line by itself, for a remote shell may print others.
const WAITS: &str = "scash: waits";
/// How long hosts may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long is waited before they are asked again.
const PAUSE: Duration = Duration::from_millis(500);
/// How often the same hosts are tried, if they do not have all that ranks need.
const TRIES: usize = 3;

/// Tells the second launcher what the job is, and that this one is there, until the other end of `over` is
/// dropped.
pub(super) fn tell(mut to: impl Write, succession: &Succession, over: &mpsc::Receiver<()>) -> io::Result<()> {
    to.write_all(&[&succession.encode()[..], b"\n"].concat())?;
    loop {
        let word = match over.recv_timeout(BEAT) {
            Err(mpsc::RecvTimeoutError::Timeout) | Ok(()) => THERE,
            Err(mpsc::RecvTimeoutError::Disconnected) => OVER,
        };
        to.write_all(&[word])?;
        if word == OVER {
            return Ok(());
        }
    }
}

/// Listens to the second launcher, and calls `ready` when it says that it waits.
pub(super) fn hear(from: impl Read, ready: impl Fn()) {
    // Any bytes: if nobody read on, the remote shell's command would end at its next word.
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        if line == WAITS.as_bytes() {
            ready();
        }
    }
}

/// What has come of the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    There,
    Over,
    /// It has said nothing for so long as it was waited for.
    Silent,
    /// It is gone, or the way to it is.
    Gone,
}

/// The way from the launcher.
struct Launcher<R>(R);

impl<R: Read + AsFd> Launcher<R> {
    /// Waits for news for so long.
    fn news(&mut self, most: Duration) -> News {
        let mut ready = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX)) {
            Ok(0) => return News::Silent,
            Err(nix::errno::Errno::EINTR) => return News::There,
            _ => {}
        }
        let mut words = [0; 64];
        match self.0.read(&mut words) {
            Ok(0) => News::Gone,
            Ok(length) if words[..length].contains(&OVER) => News::Over,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => News::Gone,
            Ok(_) | Err(_) => News::There,
        }
    }
}

/// Waits until the launcher at the other end of stdin is lost, and goes on with its job; returns the exit
/// status.
pub(super) fn wait() -> u8 {
    // It outlives the launcher, and the remote shell's command.
    let _ = nix::unistd::setsid();
    let _ = prctl::set_pdeathsig(None);
    // Without the buffer of standard input, which would take words that are to be waited for.
    let stdin = io::stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string());
    let waited = stdin.and_then(|stdin| {
        let mut stdin = File::from(stdin);
        let succession = description(&mut stdin)?;
        // For `scash status`: it makes no difference to anything else.
        let _ = writeln!(io::stdout(), "{WAITS}");
        wait_for(&mut Launcher(stdin), &succession)
    });
    waited.unwrap_or_else(|why| {
        crate::say(&format!("standby: {why}"));
        status::LAUNCHER
    })
}

/// What the launcher tells of the job.
fn description(from: &mut impl Read) -> Result<Succession, String> {
    let mut text = Vec::new();
    let mut byte = [0];
    while byte != *b"\n" {
        from.read_exact(&mut byte).map_err(|error| format!("what the job is: {error}"))?;
        text.extend(byte);
    }
    Succession::decode(&text)
}

fn wait_for(launcher: &mut Launcher<impl Read + AsFd>, succession: &Succession) -> Result<u8, String> {
    loop {
        let since = match launcher.news(SILENCE) {
            News::There => continue,
            News::Over => return Ok(0),
            News::Silent => None,
            News::Gone => Some(Instant::now()),
        };
        if let Some(status) = replace(launcher, succession, since)? {
            return Ok(status);
        }
    }
}

/// Goes on with the job when its hosts agree. `None`: the launcher is there after all. `gone`: since when it
/// is known to be gone.
fn replace(
    launcher: &mut Launcher<impl Read + AsFd>,
    succession: &Succession,
    mut gone: Option<Instant>,
) -> Result<Option<u8>, String> {
    // After that agents do not keep anything any more.
    let until = Instant::now() + SILENCE + succession.linger();
    let mut tried: Vec<Vec<String>> = Vec::new();
    while Instant::now() < until {
        let votes = votes(succession);
        let tries = tried.iter().filter(|hosts| **hosts == votes.without).count();
        if votes.is_decided(succession.names.len()) && tries < TRIES {
            tried.push(votes.without.clone());
            let status = go_on(succession, &votes.without)?;
            if status != status::LAUNCHER {
                return Ok(Some(status));
            }
        }
        if gone.is_some_and(|since| votes.with > 0 && since.elapsed() > SILENCE) {
            return Ok(Some(0)); // somebody else goes on with it, or it has lost only this one
        }
        match launcher.news(PAUSE) {
            // The end of the pipe is always there to be read.
            News::Gone => {
                gone.get_or_insert_with(Instant::now);
                thread::sleep(PAUSE);
            }
            News::Silent => {}
            News::Over => return Ok(Some(0)),
            News::There => return Ok(None),
        }
    }
    Err(format!("job {} has lost its launcher, and too few of its hosts have said so", succession.job))
}

/// What hosts say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Votes {
    /// Those that miss the launcher.
    without: Vec<String>,
    /// How many have one.
    with: usize,
}

impl Votes {
    /// Takes what a host has answered: what its agents are.
    fn take(&mut self, name: String, found: &[Found]) {
        match found {
            [] => {}
            all if all.iter().all(Found::misses_its_launcher) => self.without.push(name),
            _ => self.with += 1,
        }
    }

    /// Whether more than half of so many hosts miss the launcher.
    fn is_decided(&self, hosts: usize) -> bool {
        2 * self.without.len() > hosts
    }
}

/// Asks all hosts at once.
fn votes(succession: &Succession) -> Votes {
    let (sender, answers) = mpsc::channel();
    let job = succession.job.to_string();
    for name in &succession.names {
        let (sender, job, name) = (sender.clone(), job.clone(), name.clone());
        let search = succession.search();
        // One that does not answer is nobody's business: it ends with this process.
        thread::spawn(move || {
            if let Ok(found) = ask(&job, &name, &search, Some(ANSWER)) {
                let _ = sender.send((name, found));
            }
        });
    }
    drop(sender);
    let asked = Instant::now();
    let (mut votes, until) = (Votes::default(), asked + ANSWER);
    while let Ok((name, found)) = answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
        votes.take(name, &found);
        // Those that are lost need not be waited for; others may take as long again as these did.
        if votes.is_decided(succession.names.len()) && votes.with == 0 {
            thread::sleep(PAUSE.max(asked.elapsed()));
            answers.try_iter().for_each(|(name, found)| votes.take(name, &found));
            break;
        }
    }
    votes.without.sort();
    votes
}

/// Goes on with the job by these hosts, to its end; what it prints goes to files.
fn go_on(succession: &Succession, hosts: &[String]) -> Result<u8, String> {
    let Search { rsh, agent, .. } = succession.search();
    let scash = std::env::current_exe().map_err(|error| error.to_string())?;
    let (out, err) =
        outputs(succession).map_err(|error| format!("files for what the job prints: {error}"))?;
    let mut command = Command::new(scash);
    command.args(["resume", &succession.job.to_string(), "--host", &hosts.join(",")]);
    command.args(rsh.iter().flat_map(|rsh| ["--rsh", rsh]));
    if let Some(agent) = agent {
        command.arg("--agent").arg(agent);
    }
    let ended = command.stdin(Stdio::null()).stdout(out).stderr(err).status();
    let ended = ended.map_err(|error| format!("going on with the job: {error}"))?;
    Ok(ended.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(status::LAUNCHER))
}

/// Where the job prints: in its directory, or, if that takes no files, where temporary ones are.
fn outputs(succession: &Succession) -> io::Result<(File, File)> {
    let open = |directory: &Path, end: &str| {
        let path = directory.join(format!("scash-{}.{end}", succession.job));
        OpenOptions::new().create(true).append(true).open(path)
    };
    let both = |directory: PathBuf| {
        let out = open(&directory, "out")?;
        let err = if succession.is_one_stream() { out.try_clone()? } else { open(&directory, "err")? };
        Ok((out, err))
    };
    both(succession.directory()).or_else(|_: io::Error| both(std::env::temp_dir()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_launcher_is_there_until_its_last_word_or_the_end_of_the_pipe() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let mut launcher = Launcher(there);
        let soon = Duration::from_millis(10);
        assert_eq!(launcher.news(soon), News::Silent);
        here.write_all(&[THERE, THERE]).unwrap();
        assert_eq!((launcher.news(soon), launcher.news(soon)), (News::There, News::Silent));
        here.write_all(&[THERE, OVER]).unwrap();
        assert_eq!(launcher.news(soon), News::Over);
        drop(here);
        assert_eq!((launcher.news(soon), launcher.news(soon)), (News::Gone, News::Gone));
    }

    #[test]
    fn the_second_launcher_is_heard_whatever_else_a_remote_shell_prints() {
        let heard = |text: &[u8]| {
            let times = std::cell::Cell::new(0);
            hear(text, || times.set(times.get() + 1));
            times.get()
        };
        assert_eq!((heard(b"Gr\xfc\xdfe!\nscash: waits\n"), heard(b""), heard(b"who waits\n")), (1, 0, 0));
    }

    #[test]
    fn more_than_half_of_the_hosts_decide() {
        let votes = |hosts: usize| Votes { without: vec![String::new(); hosts], with: 0 };
        assert!(!votes(1).is_decided(2) && !votes(1).is_decided(3) && !votes(2).is_decided(4));
        assert!(votes(2).is_decided(3) && votes(3).is_decided(4) && votes(3).is_decided(5));
    }
}
