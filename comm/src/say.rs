//! What a rank tells its user: lines on stderr, or, where the launcher keeps what ranks print until that is
//! part of a checkpoint, messages to the launcher, which says them at once and once only.

use crate::descriptors::out_of_the_way;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{MsgFlags, send};
use nix::unistd::write;
use std::ffi::OsStr;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// The launcher's end takes what is said; -1: it is said on stderr.
static LAUNCHER: AtomicI32 = AtomicI32::new(-1);

/// Says `words`, which end their lines themselves, in one piece: so that ranks do not talk over each other.
/// If nobody listens any more, nothing is said. Allocates nothing; signal handlers may call it.
pub fn say(words: impl AsRef<[u8]>) {
    let words = words.as_ref();
    let launcher = LAUNCHER.load(Ordering::Relaxed);
    // What is too long for a message is said like anything that the program prints.
    if launcher < 0 || tell(launcher, words).is_err() {
        print(words);
    }
}

/// Says `words` where the program prints them: behind what it has printed before, and, where ranks are
/// started again, taken back with it.
pub fn print(words: impl AsRef<[u8]>) {
    let mut left = words.as_ref();
    while !left.is_empty() {
        // The handle is a constant, and not locked, as a signal handler needs it.
        match write(std::io::stderr(), left) {
            Ok(len) => left = &left[len..],
            Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

fn tell(launcher: RawFd, words: &[u8]) -> Result<(), Errno> {
    loop {
        match send(launcher, words, MsgFlags::MSG_NOSIGNAL) {
            Err(Errno::EINTR) => {}
            // The program has closed it, and may have a file of its own there.
            Err(why @ (Errno::EMSGSIZE | Errno::EBADF | Errno::ENOTSOCK)) => return Err(why),
            // A launcher that is gone takes this process along.
            _ => return Ok(()),
        }
    }
}

/// Says to the launcher from now on, if `place` is what it gives: `FD:NAME`, a descriptor, and what
/// `/proc/self/fd/FD` must point to. Other processes that inherit the variable have no such descriptor.
pub fn to_launcher(place: &OsStr) {
    let parts = place.to_str().and_then(|place| place.split_once(':'));
    let Some((Ok(number), name)) = parts.map(|(number, name)| (number.parse::<RawFd>(), name)) else {
        return;
    };
    if std::fs::read_link(format!("/proc/self/fd/{number}")).is_ok_and(|there| there.as_os_str() == name) {
        // SAFETY: the launcher has opened it for this, and nobody else closes it.
        let socket = out_of_the_way(unsafe { OwnedFd::from_raw_fd(number) });
        // What the program starts has nothing to say to the launcher.
        let _ = fcntl(&socket, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
        LAUNCHER.store(socket.into_raw_fd(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn what_is_said_reaches_the_launcher_in_one_piece_if_the_place_is_its_own() {
        let (ours, given) = UnixDatagram::pair().unwrap();
        let number = given.as_raw_fd();
        let name = std::fs::read_link(format!("/proc/self/fd/{number}")).unwrap();
        let place = |name: &str| to_launcher(OsStr::new(&format!("{number}:{name}")));
        place("socket:[1]");
        to_launcher(OsStr::new("none"));
        assert_eq!(LAUNCHER.load(Ordering::Relaxed), -1, "a stranger's descriptor");
        place(name.to_str().unwrap());
        // It belongs to what says from now on.
        let _ = given.into_raw_fd();
        say("one line\nanother\n");
        say("x".repeat(1 << 24));
        say("a third\n");
        let mut room = [0; 64];
        let mut next = || ours.recv(&mut room).map(|len| String::from_utf8(room[..len].to_vec()).unwrap());
        assert_eq!([next().unwrap(), next().unwrap()], ["one line\nanother\n", "a third\n"]);
        drop(ours);
        say("nobody listens\n");
    }
}
