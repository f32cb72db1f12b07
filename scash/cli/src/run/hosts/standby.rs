//! A second launcher that waits (`scash run --standby HOST`). The first one starts it by the remote shell,
//! tells it what the job is, and from then on that it is there. When it is not any more, and more than half
//! of the job's hosts say the same, the second one goes on with the job as `scash resume` does.
//!
//! ```text
//!            the pipe ends, or is silent          more than half of the hosts that have a say
//!   waits ────────────────────────────▶ asks ───────────────────────────────▶ goes on with the job
//!     ▲ │                                │ ▲ │
//!     │ │ the launcher's last word       └─┘ │ the pipe has ended, and others have a launcher
//!     │ ▼                                    ▼
//!     │ ends        it is heard again       ends
//!     └───────────────────────────────────────
//! ```
//!
//! So that not two launchers go on, each with some of the hosts, the first one leaves the job alone as well
//! when it does not reach more than half of them (`job/standby.rs`). [`Quorum`] says which hosts have a say.

use super::quorum::{Change, Quorum};
use super::relay::ask;
use super::succession::{Found, Succession};
use super::{BEAT, SILENCE};
use crate::run::status;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::unistd::geteuid;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// What the launcher sends behind the description of the job, which ends with a line break: that it is there,
/// that a host loses its say or has it again, whose number follows in four bytes, and its last word.
const THERE: u8 = b'.';
const OUT: u8 = b'-';
const IN: u8 = b'+';
const OVER: u8 = b'x';
/// What the second launcher says when it waits, when it knows whose say has changed, and when it does not
/// reach a host, whose number follows: lines by themselves, for a remote shell may print others.
const WAITS: &str = "scash: waits";
const KNOWS: &str = "scash: knows";
const MISSES: &str = "scash: misses ";
/// How long hosts may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long is waited before they are asked again.
const PAUSE: Duration = Duration::from_millis(500);
/// How often the same hosts are tried, if they do not have all that ranks need.
const TRIES: usize = 3;

/// What the second launcher is told.
#[derive(Clone, Copy, Debug)]
pub(super) enum Word {
    Changed(Change),
    /// The job is over.
    Over,
}

/// Tells the second launcher what the job is, that this one is there, and these words; the last is Over. If
/// their other end is dropped before, the job is left to it.
pub(super) fn tell(
    mut to: impl Write,
    succession: &Succession,
    words: &mpsc::Receiver<Word>,
) -> io::Result<()> {
    to.write_all(&[&succession.encode()[..], b"\n"].concat())?;
    pass_on(to, words)
}

fn pass_on(mut to: impl Write, words: &mpsc::Receiver<Word>) -> io::Result<()> {
    loop {
        match words.recv_timeout(BEAT) {
            Ok(Word::Changed(change)) => to.write_all(&word_of(change))?,
            Ok(Word::Over) => return to.write_all(&[OVER]),
            Err(mpsc::RecvTimeoutError::Timeout) => to.write_all(&[THERE])?,
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

fn word_of(change: Change) -> Vec<u8> {
    let (word, host) = match change {
        Change::Out(host) => (OUT, host),
        Change::In(host) => (IN, host),
    };
    [&[word][..], &host.to_le_bytes()].concat()
}

/// What the second launcher says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Waits,
    Knows,
    /// The host of that number.
    Misses(u32),
}

/// Listens to the second launcher, and passes on what it says.
pub(super) fn hear(from: impl Read, says: impl Fn(Said)) {
    // Any bytes: if nobody read on, the remote shell's command would end at its next word.
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        let missed = line.strip_prefix(MISSES).and_then(|host| host.parse().ok());
        match &*line {
            WAITS => says(Said::Waits),
            KNOWS => says(Said::Knows),
            _ => missed.into_iter().for_each(|host| says(Said::Misses(host))),
        }
    }
}

/// What has come of the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    There,
    Changed(Change),
    Over,
    /// It has said nothing for so long as it was waited for.
    Silent,
    /// It is gone, or the way to it is.
    Gone,
}

/// The way from the launcher, and what has come of its next word.
struct Launcher<R> {
    from: R,
    word: Vec<u8>,
}

impl<R: Read + AsFd> Launcher<R> {
    fn new(from: R) -> Launcher<R> {
        Launcher { from, word: Vec::new() }
    }

    /// Waits for news for so long.
    fn news(&mut self, most: Duration) -> News {
        let mut ready = [PollFd::new(self.from.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX)) {
            Ok(0) => return News::Silent,
            Err(nix::errno::Errno::EINTR) => return News::There,
            _ => {}
        }
        let mut byte = [0];
        match self.from.read(&mut byte) {
            Ok(0) => News::Gone,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => News::Gone,
            Err(_) => News::There,
            Ok(_) => self.take(byte[0]),
        }
    }

    fn take(&mut self, byte: u8) -> News {
        self.word.push(byte);
        let host = self.word[1..].try_into().map(u32::from_le_bytes);
        let news = match (self.word[0], host) {
            (OVER, _) => News::Over,
            (OUT, Ok(host)) => News::Changed(Change::Out(host)),
            (IN, Ok(host)) => News::Changed(Change::In(host)),
            (OUT | IN, Err(_)) => return News::There,
            _ => News::There,
        };
        self.word.clear();
        news
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
        try_hosts(&succession);
        let mut quorum = succession.quorum();
        wait_for(&mut Launcher::new(stdin), &succession, &mut quorum)
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

fn wait_for(
    launcher: &mut Launcher<impl Read + AsFd>,
    succession: &Succession,
    quorum: &mut Quorum,
) -> Result<u8, String> {
    loop {
        let since = match launcher.news(SILENCE) {
            News::There => continue,
            News::Changed(change) => {
                know(quorum, change);
                continue;
            }
            News::Over => return Ok(0),
            News::Silent => None,
            News::Gone => Some(Instant::now()),
        };
        if let Some(status) = replace(launcher, succession, quorum, since)? {
            return Ok(status);
        }
    }
}

/// Looks whether it reaches the hosts, as it must when the launcher is lost, and says which it does not: then
/// it would be too late.
fn try_hosts(succession: &Succession) {
    ask_all(succession, |host, found| {
        if found.is_none_or(|found| found.is_empty()) {
            let _ = writeln!(io::stdout(), "{MISSES}{host}");
        }
    });
}

/// Asks each host what agents of the job are there, in a thread, and has what it says taken there; `None` if
/// it does not answer.
fn ask_all(succession: &Succession, take: impl Fn(u32, Option<Vec<Found>>) + Clone + Send + 'static) {
    let job = succession.job.to_string();
    for (host, name) in (0..).zip(&succession.names) {
        let (take, job, name, search) = (take.clone(), job.clone(), name.clone(), succession.search());
        // One that does not answer is nobody's business: it ends with this process.
        thread::spawn(move || take(host, ask(&job, &name, &search, Some(ANSWER)).ok()));
    }
}

/// The launcher has made a change. From now on this one goes by it, and says so.
fn know(quorum: &mut Quorum, change: Change) {
    quorum.make(change);
    // If nobody hears it, the launcher makes no other change.
    let _ = writeln!(io::stdout(), "{KNOWS}");
}

/// Goes on with the job when its hosts agree. `None`: the launcher is there after all. `gone`: since when it
/// is known to be gone.
fn replace(
    launcher: &mut Launcher<impl Read + AsFd>,
    succession: &Succession,
    quorum: &mut Quorum,
    mut gone: Option<Instant>,
) -> Result<Option<u8>, String> {
    // After that agents do not keep anything any more.
    let until = Instant::now() + SILENCE + succession.linger();
    let mut tried: Vec<BTreeSet<u32>> = Vec::new();
    while Instant::now() < until {
        let votes = votes(succession, quorum);
        let tries = tried.iter().filter(|hosts| **hosts == votes.without).count();
        if votes.are_for_this_one(quorum) && tries < TRIES {
            tried.push(votes.without.clone());
            let status = go_on(succession, quorum, &votes.without)?;
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
            News::Changed(change) => {
                know(quorum, change);
                return Ok(None);
            }
        }
    }
    Err(format!("job {} has lost its launcher, and too few of its hosts have said so", succession.job))
}

/// What hosts say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Votes {
    /// Those that miss the launcher, by their numbers.
    without: BTreeSet<u32>,
    /// How many have one.
    with: usize,
}

impl Votes {
    /// Takes what a host has answered: what its agents are.
    fn take(&mut self, host: u32, found: &[Found]) {
        match found {
            [] => {}
            all if all.iter().all(Found::misses_its_launcher) => drop(self.without.insert(host)),
            _ => self.with += 1,
        }
    }

    /// Whether more than half of the hosts that have a say miss the launcher.
    fn are_for_this_one(&self, quorum: &Quorum) -> bool {
        quorum.is_decided_by(|host| self.without.contains(&host))
    }
}

/// Asks all hosts at once.
fn votes(succession: &Succession, quorum: &Quorum) -> Votes {
    let (sender, answers) = mpsc::channel();
    ask_all(succession, move |host, found| {
        if let Some(found) = found {
            let _ = sender.send((host, found));
        }
    });
    let asked = Instant::now();
    let (mut votes, until) = (Votes::default(), asked + ANSWER);
    while let Ok((host, found)) = answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
        votes.take(host, &found);
        // Those that are lost need not be waited for; others may take as long again as these did.
        if votes.are_for_this_one(quorum) && votes.with == 0 {
            thread::sleep(PAUSE.max(asked.elapsed()));
            answers.try_iter().for_each(|(host, found)| votes.take(host, &found));
            break;
        }
    }
    votes
}

/// Goes on with the job by these hosts, to its end; what it prints goes to files.
fn go_on(succession: &Succession, quorum: &Quorum, hosts: &BTreeSet<u32>) -> Result<u8, String> {
    let (out, err) =
        outputs(succession).map_err(|error| format!("files for what the job prints: {error}"))?;
    let names = &succession.names;
    let called: Vec<String> = hosts.iter().map(|host| names[*host as usize].clone()).collect();
    let mut known = succession.clone();
    known.voters = Some(quorum.members());
    let mut command = known.take_over(&called, None, None)?;
    let ended = command.stdout(out).stderr(err).status();
    let ended = ended.map_err(|error| format!("going on with the job: {error}"))?;
    Ok(ended.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(status::LAUNCHER))
}

/// Where the job prints: in its directory, or, if that takes no files, where temporary ones are, for this
/// user alone.
fn outputs(succession: &Succession) -> io::Result<(File, File)> {
    let name = format!("scash-{}", succession.job);
    let both = |open: &dyn Fn(&str) -> io::Result<File>| {
        let out = open("out")?;
        let err = if succession.is_one_stream() { out.try_clone()? } else { open("err")? };
        Ok((out, err))
    };
    let (there, temporary) = (succession.directory(), std::env::temp_dir());
    let in_directory = |end: &str| {
        let path = there.join(format!("{name}.{end}"));
        OpenOptions::new().create(true).append(true).open(path)
    };
    let in_temporary = |end: &str| open_own(&temporary.join(format!("{name}.{end}")), false);
    // Others write there, too, and know the name.
    let another = format!("{name}-{}", std::process::id());
    let by_another = |end: &str| open_own(&temporary.join(format!("{another}.{end}")), true);
    let opened = both(&in_directory).or_else(|_: io::Error| both(&in_temporary));
    opened.or_else(|_: io::Error| both(&by_another))
}

/// Opens a file to print to its end, for this user alone, perhaps a new one. One that is a link, or that
/// another user has made, is not taken.
fn open_own(path: &Path, is_new: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).create_new(is_new).append(true).mode(0o600);
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != geteuid().as_raw() || found.nlink() != 1 {
        return Err(io::Error::other(format!("{} is not a file of this user alone", path.display())));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_launcher_is_there_until_its_last_word_or_the_end_of_the_pipe() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let mut launcher = Launcher::new(there);
        let soon = Duration::from_millis(10);
        assert_eq!(launcher.news(soon), News::Silent);
        here.write_all(&[THERE, THERE]).unwrap();
        let mut next = || launcher.news(soon);
        assert_eq!([next(), next(), next()], [News::There, News::There, News::Silent]);
        here.write_all(&[word_of(Change::Out(0x2e2d_782b)), word_of(Change::In(3))].concat()).unwrap();
        let changes = [News::Changed(Change::Out(0x2e2d_782b)), News::Changed(Change::In(3))];
        let heard: Vec<News> = (0..10).map(|_| next()).filter(|news| *news != News::There).collect();
        assert_eq!(heard, changes);
        here.write_all(&[THERE, OVER]).unwrap();
        assert_eq!([next(), next()], [News::There, News::Over]);
        drop(here);
        assert_eq!((launcher.news(soon), launcher.news(soon)), (News::Gone, News::Gone));
    }

    #[test]
    fn who_leaves_the_job_to_the_second_launcher_does_not_say_that_it_is_over() {
        let told = |words: &[Word]| {
            let (sender, all) = mpsc::channel();
            words.iter().for_each(|word| sender.send(*word).unwrap());
            drop(sender);
            let mut to = Vec::new();
            pass_on(&mut to, &all).unwrap();
            to
        };
        assert_eq!((told(&[]), told(&[Word::Over])), (vec![], vec![OVER]));
        assert_eq!(told(&[Word::Changed(Change::Out(1))]), [OUT, 1, 0, 0, 0]);
    }

    #[test]
    fn the_second_launcher_is_heard_whatever_else_a_remote_shell_prints() {
        let heard = |text: &[u8]| {
            let said = std::cell::RefCell::new(Vec::new());
            hear(text, |word| said.borrow_mut().push(word));
            said.into_inner()
        };
        assert_eq!(heard(b"Gr\xfc\xdfe!\nscash: waits\nscash: knows\n"), [Said::Waits, Said::Knows]);
        assert_eq!(heard(b"scash: misses 7\nscash: misses x\n"), [Said::Misses(7)]);
        assert_eq!((heard(b""), heard(b"who waits\n")), (vec![], vec![]));
    }

    #[test]
    fn what_the_job_prints_goes_to_no_file_that_somebody_else_has_made() {
        let directory = tempfile::tempdir().unwrap();
        let [file, link, pipe] = ["out", "link", "pipe"].map(|name| directory.path().join(name));
        open_own(&file, false).unwrap().write_all(b"one ").unwrap();
        open_own(&file, false).unwrap().write_all(b"two").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"one two");
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(open_own(&file, true).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(open_own(&link, false).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(open_own(&pipe, false).is_err());
        std::fs::remove_file(&link).unwrap();
        std::fs::hard_link(&file, &link).unwrap();
        assert!(open_own(&link, false).unwrap_err().to_string().contains("not a file of this user alone"));
        std::fs::remove_file(&link).unwrap();
        if geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(1), None).unwrap();
            assert!(open_own(&file, false).is_err());
        }
    }
}
