//! The launcher's way to the agent of a host: the process of the remote shell, and frames through its stdin
//! and stdout.

use super::Hosts;
use super::frames::{Cutter, Down, FROM_AGENT, MOST_PROGRAM, Up};
use super::heartbeat::HeartbeatProbe;
use super::succession::JobName;
use crate::run::exits::reap;
use crate::run::signals;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid, getppid};
use scash_comm::SecretBytes;
use scash_join::boot::Exit;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How far an agent has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgentStage {
    /// It was called.
    Calling,
    /// It has greeted, and knows what is to be run.
    Preparing,
    /// It could start its ranks.
    Ready,
    /// It may start them.
    Running,
    /// Its ranks have ended, and it has sent all that they have printed. If they may be started again, it
    /// waits for word that the job is over.
    Done,
    /// It is out of reach, or was let go.
    Gone,
}

/// What an agent is called for.
#[derive(Debug)]
pub(super) enum CallReason {
    /// To start these ranks, with all others.
    First(BTreeSet<u32>),
    /// To take part again, without the user at the terminal.
    Again,
    /// To go on with what it has kept of that job, as the agent of the host of that number.
    Orphan(JobName, u32),
    /// The same, without the user at the terminal.
    OrphanAgain(JobName, u32),
}

/// The way to an agent.
#[derive(Debug)]
pub(super) struct AgentLink {
    pub(super) name: String,
    /// The command that was called, for people.
    pub(super) command: String,
    pub(super) stage: AgentStage,
    /// Its ranks that have not ended.
    pub(super) ranks: BTreeSet<u32>,
    /// Since when nothing can come from it any more, though more was to come.
    pub(super) cut_off: Option<Instant>,
    /// Whether its host has killed processes for want of memory.
    pub(super) out_of_memory: bool,
    /// When something came from it last.
    pub(super) heard: Instant,
    /// Until when it must be ready, if it was called again.
    pub(super) ready_by: Option<Instant>,
    /// Whether it was called for what it has kept.
    pub(super) is_of_orphan: bool,
    /// Why it has not come when it was called again.
    pub(super) failure: Option<String>,
    /// By which it shows sooner that its host is gone.
    pub(super) probe: Option<HeartbeatProbe>,
    /// Whether its host has ever answered so.
    pub(super) was_probed: bool,
    /// How often the host was called before.
    pub(super) call: u32,
    child: Pid,
    /// How the remote shell's process ended.
    pub(super) exit: Option<Exit>,
    to: Option<File>,
    from: Option<File>,
    cutter: Cutter,
    /// Bytes that the pipe had no room for.
    queue: SecretBytes,
    /// A program that is sent when there is nothing else, and how much of it was.
    program: Option<(Rc<[u8]>, usize)>,
}

impl AgentLink {
    /// Calls the agent of a host. The text says why that is impossible.
    pub(super) fn call(hosts: &Hosts, name: &str, call: CallReason) -> Result<AgentLink, String> {
        let mut words = words(hosts, name);
        let is_of_orphan = match &call {
            CallReason::Orphan(job, host) | CallReason::OrphanAgain(job, host) => {
                let [job, host] = [job.to_string(), host.to_string()].map(OsString::from);
                words.extend(["--of".into(), job, "--host".into(), host]);
                true
            }
            CallReason::First(_) | CallReason::Again => false,
        };
        let shown: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let shown = shown.join(" ");
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let launcher = getpid();
        let is_again = matches!(call, CallReason::Again | CallReason::OrphanAgain(..));
        if is_again {
            // A host that does not answer is no news.
            command.stderr(Stdio::null());
        }
        // SAFETY: `prepare` makes system calls only, as the child of a process with several threads must.
        unsafe { command.pre_exec(move || prepare(launcher, is_again)) };
        let mut child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                format!("there is no command `{}`: install it, or say another with --rsh", hosts.rsh[0])
            }
            _ => format!("running `{shown}`: {error}"),
        })?;
        let pid = i32::try_from(child.id()).map_err(|error| error.to_string())?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("`{shown}` has no pipes"));
        };
        let to = OwnedFd::from(to);
        fcntl(&to, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
            .map_err(|error| format!("preparing a pipe: {error}"))?;
        Ok(AgentLink {
            command: shown,
            stage: AgentStage::Calling,
            ranks: if let CallReason::First(ranks) = call { ranks } else { BTreeSet::new() },
            child: Pid::from_raw(pid),
            exit: None,
            to: Some(to.into()),
            from: Some(OwnedFd::from(from).into()),
            is_of_orphan,
            ..AgentLink::absent(name)
        })
    }

    /// That to a host which is out of reach from the start.
    pub(super) fn absent(name: &str) -> AgentLink {
        AgentLink {
            name: name.to_owned(),
            command: String::new(),
            stage: AgentStage::Gone,
            ranks: BTreeSet::new(),
            cut_off: None,
            out_of_memory: false,
            heard: Instant::now(),
            ready_by: None,
            is_of_orphan: false,
            failure: None,
            probe: None,
            was_probed: false,
            call: 0,
            child: Pid::from_raw(0),
            exit: Some(Exit::Status(0)),
            to: None,
            from: None,
            cutter: Cutter::new(FROM_AGENT),
            queue: SecretBytes::default(),
            program: None,
        }
    }

    /// That to a host which is called again later, by the same command.
    pub(super) fn put_off(&self) -> AgentLink {
        let command = self.command.clone();
        AgentLink { stage: AgentStage::Calling, command, ..AgentLink::absent(&self.name) }
    }

    /// Whether it is called later.
    pub(super) fn is_put_off(&self) -> bool {
        self.stage == AgentStage::Calling && self.ends().is_none()
    }

    /// The ends to be polled, for reading and for writing.
    pub(super) fn ends(&self) -> Option<(&File, &File)> {
        Some((self.from.as_ref()?, self.to.as_ref()?))
    }

    /// Whether it may still have something to say.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.stage, AgentStage::Done | AgentStage::Gone)
    }

    /// Whether it has answered and has not ended.
    pub(super) fn is_served(&self) -> bool {
        self.is_open() && self.stage != AgentStage::Calling
    }

    /// Whether something has come from it that was not read yet.
    pub(super) fn has_unread(&self) -> bool {
        let Some(from) = &self.from else { return false };
        let mut all = [PollFd::new(from.as_fd(), PollFlags::POLLIN)];
        let is_some = poll(&mut all, PollTimeout::ZERO).is_ok_and(|ready| ready > 0);
        is_some && all[0].revents().is_some_and(|events| events.contains(PollFlags::POLLIN))
    }

    /// If it was done, it is not any more: its ranks may be started again.
    pub(super) fn reopen(&mut self, now: Instant) {
        if self.stage == AgentStage::Done {
            (self.stage, self.heard) = (AgentStage::Running, now);
            self.cut_off = Some(now).filter(|_| self.exit.is_some() || self.from.is_none());
        }
    }

    /// Sends a frame, or keeps it until there is room. If nobody is there to read it, that shows elsewhere.
    pub(super) fn send(&mut self, down: &Down) {
        if self.to.is_some() {
            self.queue.push(&mut down.encode());
            self.flush();
        }
    }

    /// Sends a program in parts, each when the one before it has left.
    pub(super) fn send_program(&mut self, program: Rc<[u8]>) {
        self.program = Some((program, 0));
        self.flush();
    }

    /// Sends as much as there is room for.
    pub(super) fn flush(&mut self) {
        let Some(to) = &mut self.to else { return };
        loop {
            if self.queue.left().is_empty() {
                let Some(part) = next_part(&mut self.program) else { break };
                self.queue.push(&mut part.encode());
            }
            match to.write(self.queue.left()) {
                Ok(length) => self.queue.take(length),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.program = None;
                    self.queue.take(usize::MAX);
                }
            }
        }
        if self.stage == AgentStage::Gone {
            self.to = None;
        }
    }

    /// Takes what has come, when there is something to be read: frames, or word that nothing will come any
    /// more. The error says what is wrong with what came.
    pub(super) fn read(&mut self, now: Instant) -> Result<Vec<Up>, String> {
        let Some(from) = &mut self.from else { return Ok(Vec::new()) };
        let mut buffer = vec![0; 64 << 10];
        match from.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(Vec::new()),
            Ok(0) | Err(_) => {
                self.from = None;
                self.cut_off = Some(now).filter(|_| self.is_open());
            }
            Ok(length) => {
                self.heard = now;
                self.cutter.push(&mut buffer[..length]);
            }
        }
        let mut all = Vec::new();
        while let Some(frame) = self.cutter.next()? {
            all.push(Up::decode(frame)?);
        }
        Ok(all)
    }

    /// Lets the agent go: it ends its ranks, if it has any, and waits for no other launcher.
    pub(super) fn let_go(&mut self) {
        if self.stage == AgentStage::Gone {
            return;
        }
        self.program = None;
        self.send(&Down::Farewell);
        // What the pipe has no room for follows. An agent that could say nothing would not read on.
        let (from, to) = (self.from.take(), self.to.take().filter(|_| !self.queue.left().is_empty()));
        self.leave();
        (self.from, self.to) = (from, to);
    }

    /// Leaves the agent: if it has lost its launcher, it waits for another one.
    pub(super) fn leave(&mut self) {
        self.stage = AgentStage::Gone;
        (self.to, self.from, self.cut_off, self.ready_by) = (None, None, None, None);
        self.probe = None;
        self.ranks.clear();
    }

    /// Looks whether the remote shell's process has ended.
    pub(super) fn reap(&mut self, now: Instant) {
        if self.exit.is_none() {
            self.exit = reap(self.child);
            if self.exit.is_some() && self.is_open() {
                self.cut_off.get_or_insert(now);
            }
        }
    }

    /// Ends the remote shell's process.
    pub(super) fn kill(&self) {
        // A child that was not reaped keeps its number.
        if self.exit.is_none() {
            let _ = kill(self.child, Signal::SIGKILL);
        }
    }

    /// Why nothing comes from it any more.
    pub(super) fn obituary(&self) -> String {
        let AgentLink { command, .. } = self;
        let end = match self.exit {
            Some(exit) => format!("`{command}` {exit}"),
            None => format!("`{command}` has closed its output"),
        };
        match self.stage {
            AgentStage::Calling => format!(
                "no agent has answered: {end}. Does that command reach the host, and is scash there? (See --rsh and --agent PATH.)"
            ),
            _ => format!("its agent is gone, and its ranks with it: {end}"),
        }
    }
}

/// Which hosts keep the job from starting, and by what.
pub(super) fn waited_for(links: &[AgentLink], most: Duration) -> String {
    let late: Vec<&AgentLink> = links.iter().filter(|link| link.stage != AgentStage::Ready).collect();
    let what = |link: &AgentLink| match link.stage {
        AgentStage::Calling if link.is_put_off() => "its agent does not miss its launcher yet".to_owned(),
        AgentStage::Calling => {
            format!("`{}` has not answered (does it connect, or ask for a password?)", link.command)
        }
        _ => "its agent is not ready (it looks for the program, or the program is on its way)".to_owned(),
    };
    let first = late.first().map_or(String::new(), |link| format!("host {}: {}", link.name, what(link)));
    let others: Vec<&str> = late.iter().skip(1).map(|link| link.name.as_str()).collect();
    let others = if others.is_empty() { String::new() } else { format!(", and for {}", others.join(", ")) };
    format!("{first}; waiting for it{others}, for up to {} s", most.as_secs())
}

/// The next part of a program, if any is left.
fn next_part(program: &mut Option<(Rc<[u8]>, usize)>) -> Option<Down> {
    let (bytes, sent) = program.as_mut()?;
    let part = &bytes[*sent..bytes.len().min(*sent + MOST_PROGRAM)];
    if part.is_empty() {
        *program = None;
        return None;
    }
    *sent += part.len();
    Some(Down::Program(part.to_vec()))
}

/// The command that runs the agent of a host.
pub(super) fn words(hosts: &Hosts, name: &str) -> Vec<OsString> {
    let mut words: Vec<OsString> = hosts.rsh.iter().map(Into::into).collect();
    words.extend([name.into(), quoted(&hosts.agent), "agent".into()]);
    words
}

/// A path as a word of the shell by which ssh runs commands. Most are so anyway, which also suits commands
/// that do without a shell.
pub(super) fn quoted(path: &Path) -> OsString {
    let is_plain =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+:@%,".contains(byte) || !byte.is_ascii();
    if path.as_os_str().as_bytes().iter().all(is_plain) {
        return path.into();
    }
    let mut word = OsString::from("'");
    let parts = path.as_os_str().as_bytes().split(|byte| *byte == b'\'');
    for (index, part) in parts.enumerate() {
        word.push(if index > 0 { "'\\''" } else { "" });
        word.push(std::ffi::OsStr::from_bytes(part));
    }
    word.push("'");
    word
}

/// What the child does between fork and exec.
pub(super) fn prepare(launcher: Pid, is_alone: bool) -> io::Result<()> {
    if is_alone {
        // Without a terminal it cannot ask for a password.
        nix::unistd::setsid()?;
    }
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != launcher {
        // The launcher died before it was asked for, and no signal will come.
        return Err(ErrorKind::Interrupted.into());
    }
    signals::leave_to_parent()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_leaves_in_parts_and_once() {
        let bytes: Vec<u8> = (0..2 * MOST_PROGRAM + 5).map(|i| u8::try_from(i % 251).unwrap()).collect();
        let mut program = Some((Rc::from(&bytes[..]), 0));
        let mut sent = Vec::new();
        while let Some(Down::Program(part)) = next_part(&mut program) {
            assert!(!part.is_empty() && part.len() <= MOST_PROGRAM);
            sent.extend(part);
        }
        assert!(sent == bytes && program.is_none());
    }

    #[test]
    fn an_agent_that_does_not_read_hears_later_that_it_may_go() {
        let (mut from, to) = std::io::pipe().unwrap();
        fcntl(&to, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let to = Some(File::from(OwnedFd::from(to)));
        let mut link = AgentLink { stage: AgentStage::Running, to, ..AgentLink::absent("a") };
        let piece = Down::Program(vec![7; MOST_PROGRAM]);
        let count = (1 << 20) / MOST_PROGRAM; // more than any pipe holds
        (0..count).for_each(|_| link.send(&piece));
        link.let_go();
        link.let_go();
        assert!(link.to.is_some());
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            from.read_to_end(&mut all).map(|_| all)
        });
        while link.to.is_some() {
            link.flush();
            std::thread::yield_now();
        }
        let expected = [piece.encode().repeat(count), Down::Farewell.encode()].concat();
        assert!(reader.join().unwrap().unwrap() == expected);
        // One that is gone need not hear it.
        let (from, to) = std::io::pipe().unwrap();
        drop(from);
        let to = Some(File::from(OwnedFd::from(to)));
        let mut link = AgentLink { stage: AgentStage::Running, to, ..AgentLink::absent("a") };
        link.let_go();
        assert!(link.to.is_none());
    }

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(quoted(Path::new("/usr/bin/scash")), "/usr/bin/scash");
        assert_eq!(quoted(Path::new("/my dir/it's")), r"'/my dir/it'\''s'");
    }
}
