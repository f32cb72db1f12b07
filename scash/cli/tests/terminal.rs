//! A job in the foreground of a terminal: what the user types reaches the ranks as it would reach any
//! program.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{LIMIT, script};
use nix::pty::openpty;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

/// A terminal with a command in its foreground.
struct Terminal {
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
    child: Child,
}

/// Starts a command as the leader of a session whose terminal is a new one.
fn terminal(mut command: Command) -> Terminal {
    let pty = openpty(None, None).unwrap();
    let terminal = || Stdio::from(pty.slave.try_clone().unwrap());
    command.stdin(terminal()).stdout(terminal()).stderr(terminal());
    // SAFETY: `own_terminal` makes two system calls.
    unsafe { command.pre_exec(own_terminal) };
    let child = command.spawn().unwrap();
    let mut output = File::from(pty.master.try_clone().unwrap());
    let (sender, screen) = channel();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        // A terminal whose last user is gone reports an error.
        while let Ok(length @ 1..) = output.read(&mut buffer) {
            if sender.send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    Terminal { keyboard: pty.master.into(), screen, seen: String::new(), child }
}

/// Makes stdin the terminal of a new session, which this process leads.
fn own_terminal() -> std::io::Result<()> {
    nix::unistd::setsid()?;
    // SAFETY: the call takes a number.
    let result = unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) };
    nix::errno::Errno::result(result)?;
    Ok(())
}

impl Terminal {
    fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen has shown `word` so many times.
    fn shows(&mut self, word: &str, times: usize) {
        while self.seen.matches(word).count() < times {
            let bytes =
                self.screen.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("no {word} on: {}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
    }

    /// The exit status, and all that was on the screen.
    fn end(mut self) -> (Option<i32>, String) {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(started.elapsed() < LIMIT, "it hangs; the screen: {}", self.seen);
            thread::sleep(std::time::Duration::from_millis(2));
        };
        while let Ok(bytes) = self.screen.recv_timeout(std::time::Duration::from_millis(100)) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
        (status.code(), std::mem::take(&mut self.seen))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn ctrl_c_reaches_every_rank_once() {
    let loop_forever = "while :; do sleep 0.01; done";
    let mut terminal = terminal(script(
        "-n 3",
        &format!("n=0; trap 'n=$((n+1))' INT; trap 'echo got $n; exit 0' USR1; echo up; {loop_forever}"),
    ));
    terminal.shows("up", 3);
    terminal.type_in("\x03");
    terminal.shows("^C", 1);
    // Whatever was sent to the ranks twice has come before what is sent to them now.
    thread::sleep(std::time::Duration::from_millis(300));
    common::kill("USR1", i32::try_from(terminal.child.id()).unwrap());
    terminal.shows("got 1", 3);
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn ctrl_c_ends_a_job_without_a_word() {
    let mut terminal = terminal(script("-n 2", "echo up; exec sleep 60"));
    terminal.shows("up", 2);
    terminal.type_in("\x03");
    let (status, screen) = terminal.end();
    assert_eq!(status, Some(130));
    assert!(!screen.contains("scash:"), "{screen}");
}

#[test]
fn rank_0_reads_from_the_terminal() {
    let mut terminal = terminal(script(
        "-n 2",
        "echo up; read line && echo rank $SCASH_RANK read $line; [ -t 0 ] && echo terminal",
    ));
    terminal.shows("up", 2);
    terminal.type_in("some words\n");
    terminal.shows("rank 0 read some words", 1);
    terminal.shows("terminal", 1);
    assert!(!terminal.end().1.contains("rank 1 read"));
}

#[test]
fn ctrl_z_stops_a_job_and_fg_continues_it() {
    let inner = script("-n 2", "echo up; read line; echo rank $SCASH_RANK goes on");
    let words: Vec<_> = inner.get_args().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let job = format!("{} {}", inner.get_program().to_str().unwrap(), words.join(" "));
    let mut shell = Command::new("/bin/sh");
    // 148 is 128 + SIGTSTP: the shell has seen that its job was stopped.
    shell.args(["-c", &format!("set -m; {job}; echo status $?; fg; echo in the end $?")]);
    let mut terminal = terminal(shell);
    terminal.shows("up", 2);
    terminal.shows("rank 1 goes on", 1);
    terminal.type_in("\x1a");
    terminal.shows("status 148", 1);
    terminal.type_in("a line\n");
    terminal.shows("rank 0 goes on", 1);
    terminal.shows("in the end 0", 1);
    terminal.end();
}

#[test]
fn ranks_that_die_all_the_time_are_not_started_again_while_their_job_is_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("started").display().to_string();
    let text = format!("echo >> {mark}; sleep 0.01; kill -9 $$");
    let inner = script("--replicas 1 --restarts 1000000 -n 2", &text);
    let words: Vec<_> = inner.get_args().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let job = format!("{} {} < /dev/null", inner.get_program().to_str().unwrap(), words.join(" "));
    let count = format!("sleep 0.3; echo count $(wc -c < {mark}).");
    let mut shell = Command::new("/bin/sh");
    let after = "echo status $?; COUNT; COUNT; fg; echo in the end $?".replace("COUNT", &count);
    shell.args(["-c", &format!("set -m; {job}; {after}")]);
    let mut terminal = terminal(shell);
    let wait_for = |starts: usize| {
        let begun = Instant::now();
        while std::fs::read(&mark).map_or(0, |marks| marks.len()) < starts {
            assert!(begun.elapsed() < LIMIT, "no rank starts");
            thread::sleep(std::time::Duration::from_millis(1));
        }
    };
    wait_for(20);
    terminal.type_in("\x1a");
    terminal.shows("status 148", 1);
    terminal.shows("count ", 2);
    wait_for(std::fs::read(&mark).unwrap().len() + 20);
    terminal.type_in("\x03");
    terminal.shows("in the end 13", 1); // 130, or 137 if a rank has killed itself after the interrupt
    let screen = terminal.end().1;
    let counts: Vec<&str> =
        screen.split("count ").skip(1).map(|rest| rest.split('.').next().unwrap()).collect();
    assert_eq!(counts[0], counts[1], "{screen}");
}

#[test]
fn lines_of_several_ranks_are_whole_on_a_terminal_and_ranks_see_that_it_is_one() {
    let text = "[ -t 1 ] && [ -t 2 ] && i=100 && while [ $i -lt 200 ]; do printf \"<$SCASH_RANK \"; printf '%s>\\n' $i; i=$((i+1)); done";
    let (status, screen) = terminal(script("-n 3", text)).end();
    assert_eq!(status, Some(0));
    let mut lines: Vec<&str> = screen.lines().collect();
    lines.sort_unstable();
    let expected: Vec<String> =
        (0..3).flat_map(|rank| (100..200).map(move |i| format!("<{rank} {i}>"))).collect();
    assert_eq!(lines, expected);
}

#[test]
fn a_question_is_shown_and_other_ranks_lines_are_not_in_it() {
    let text = "if [ $SCASH_RANK = 0 ]; then printf 'Name? '; read name; echo hello $name; else read line < FIFO; echo other; fi";
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut terminal = terminal(script("-n 2", &text.replace("FIFO", fifo.to_str().unwrap())));
    terminal.shows("Name? ", 1);
    std::fs::write(&fifo, "go on\n").unwrap();
    terminal.shows("other", 1);
    terminal.shows("Name? ", 2);
    terminal.type_in("you\n");
    terminal.shows("hello you", 1);
    let screen = terminal.end().1;
    assert!(screen.contains("Name? \r\nother\r\nName? "), "{screen:?}");
}

#[test]
fn ranks_see_the_size_of_the_terminal_and_hear_that_it_changes() {
    let size = |ws_row, ws_col| nix::pty::Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
    let resize = |terminal: &Terminal, size: nix::pty::Winsize| {
        use std::os::fd::AsRawFd;
        // SAFETY: the call reads one struct.
        let done = unsafe { libc::ioctl(terminal.keyboard.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(done, 0);
    };
    let text =
        "trap 'stty size <&1' WINCH; echo up; i=0; while [ $i -lt 3000 ]; do sleep 0.01; i=$((i+1)); done";
    let mut terminal = terminal(script("-n 2", text));
    terminal.shows("up", 2);
    resize(&terminal, size(31, 97));
    terminal.shows("31 97", 2);
    terminal.type_in("\x03");
    assert_eq!(terminal.end().0, Some(130));
}
