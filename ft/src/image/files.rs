//! Open files, and where a process stands among files: saved by name, opened again in the process that comes
//! back.

use super::Refusal;
use super::description::{Reader, Record, Writer};
use super::limits;
use super::save::SaveError;
use super::tasks::each_descriptor;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
use nix::unistd::{Whence, fdatasync, ftruncate, lseek};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

/// An open file of the program's.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct OpenFile {
    number: u64,
    flags: u64,
    closes_on_exec: u64,
    /// Its file's number in its file system, if it is one that is there again; else 0. Another host's disk
    /// may have another file of that number.
    inode: u64,
    /// When that file was made, in nanoseconds; 0 if its file system does not know.
    born: u64,
    position: u64,
    /// Its bytes, if they are cut back to as many.
    len: u64,
    cut: u64,
    /// The first descriptor with which it shares flags and position (`dup`): itself, if there is none before.
    like: u64,
}

// SAFETY: it consists of 64-bit words.
unsafe impl Record for OpenFile {}

/// What is known of an open file before threads are stopped.
#[derive(Debug)]
struct KnownFile {
    open: OpenFile,
    path: PathBuf,
    device: u64,
    inode: u64,
    has_place: bool,
}

/// Files, directory and mask of a process, as they are saved.
#[derive(Debug, Default)]
pub(super) struct Files {
    directory: PathBuf,
    /// All descriptors of the program's, in ascending order.
    numbers: Vec<RawFd>,
    open: Vec<KnownFile>,
}

impl Files {
    /// Those of this process, but for descriptors of which `is_ours` says that they are not the program's.
    /// Standard output and error are the launcher's, as long as the program has not put others in their
    /// place.
    pub(super) fn of_this_process(is_ours: &dyn Fn(RawFd) -> bool) -> Result<Files, Refusal> {
        let directory = std::env::current_dir()
            .map_err(|e| Refusal::new(format!("its working directory cannot be found again: {e}")))?;
        let mut all = numbers()?;
        all.sort_unstable();
        let (mut open, mut numbers) = (Vec::new(), Vec::new());
        for number in all.into_iter().filter(|number| !is_ours(*number)) {
            // SAFETY: it was open a moment ago; if another thread closes it now, calls with it fail.
            let fd = unsafe { BorrowedFd::borrow_raw(number) };
            match fstat(fd) {
                Ok(is) => {
                    numbers.push(number);
                    if !(1..=2).contains(&number) || !is_inherited(number, &is) {
                        let known = described(fd, &is, &open)?;
                        open.extend(known);
                    }
                }
                Err(Errno::EBADF) => {}
                Err(errno) => return Err(Refusal::new(format!("descriptor {number}: {errno}"))),
            }
        }
        Ok(Files { directory, numbers, open })
    }

    /// The descriptors that are saved.
    pub(super) fn numbers(&self) -> &[RawFd] {
        &self.numbers
    }

    /// A file that is open for writing and stands before its end, if there is one: what is written there
    /// takes the place of bytes that no image has.
    pub(super) fn overwritten(&self) -> Option<(u64, &Path)> {
        let is_overwritten = |open: &OpenFile| {
            let appends = open.flags & word(OFlag::O_APPEND.bits().into()) != 0;
            open.cut != 0 && !appends && open.position < open.len
        };
        let known = self.open.iter().find(|known| is_overwritten(&known.open))?;
        Some((known.open.number, &known.path))
    }

    /// Writes them down as they are now, when all threads are stopped. Allocates nothing. If this thread was
    /// the only one all the time, `is_alone`, they are as they were.
    pub(super) fn write(
        &self,
        writer: &mut Writer,
        is_ours: &dyn Fn(RawFd) -> bool,
        is_alone: bool,
    ) -> Result<(), SaveError> {
        if !is_alone {
            self.check_numbers(is_ours)?;
        }
        writer.bytes(self.directory.as_os_str().as_bytes())?;
        writer.number(mask())?;
        writer.number(self.open.len() as u64)?;
        for known in &self.open {
            let now = if is_alone { Ok(known.open) } else { known.now() };
            writer.record(&now.map_err(|_| SaveError::FilesChange)?)?;
            writer.bytes(known.path.as_os_str().as_bytes())?;
        }
        Ok(())
    }

    /// Checks that the program has opened no file, and closed none, since these were looked at.
    fn check_numbers(&self, is_ours: &dyn Fn(RawFd) -> bool) -> Result<(), SaveError> {
        let (mut seen, mut any_new) = (0, false);
        each_descriptor(&mut |number| {
            let Ok(number) = RawFd::try_from(number) else { return };
            match self.numbers.binary_search(&number) {
                Ok(_) => seen += 1,
                Err(_) => any_new |= !is_ours(number),
            }
        })?;
        if any_new || seen != self.numbers.len() {
            return Err(SaveError::FilesChange);
        }
        Ok(())
    }

    /// Takes directory, mask and files of an image on in this process.
    pub(super) fn take_on(reader: &mut Reader<'_>) -> Result<(), Refusal> {
        let damaged = || Refusal::new("its list of files is damaged".to_owned());
        let directory = OsStr::from_bytes(reader.bytes().ok_or_else(damaged)?);
        std::env::set_current_dir(directory)
            .map_err(|e| Refusal::new(format!("working directory {}: {e}", directory.display())))?;
        let mask = u32::try_from(reader.number().ok_or_else(damaged)?).map_err(|_| damaged())?;
        nix::sys::stat::umask(Mode::from_bits_truncate(mask));
        for _ in 0..reader.number().ok_or_else(damaged)? {
            let file: OpenFile = reader.record().ok_or_else(damaged)?;
            let path = OsStr::from_bytes(reader.bytes().ok_or_else(damaged)?);
            reopen(&file, path).map_err(|why| Refusal::new(format!("its file {}: {why}", path.display())))?;
        }
        Ok(())
    }
}

impl KnownFile {
    /// How the file stands now. Other threads may have used it since it was looked at.
    fn now(&self) -> Result<OpenFile, Errno> {
        let number = RawFd::try_from(self.open.number).map_err(|_| Errno::EBADF)?;
        // SAFETY: if it is not open any more, calls with it fail.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        let is = fstat(fd)?;
        if (is.st_dev, is.st_ino) != (self.device, self.inode) {
            return Err(Errno::EBADF);
        }
        let flags = fcntl(fd, FcntlArg::F_GETFL)?;
        let descriptor_flags = fcntl(fd, FcntlArg::F_GETFD)?;
        let position = if self.has_place { lseek(fd, 0, Whence::SeekCur)? } else { 0 };
        Ok(OpenFile {
            flags: word(flags.into()),
            closes_on_exec: u64::from(descriptor_flags & libc::FD_CLOEXEC != 0),
            position: word(position),
            len: word(is.st_size),
            ..self.open
        })
    }
}

fn word(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// A descriptor that this process had when it began, and what it was: its number may mean another file later.
#[derive(Debug, PartialEq, Eq)]
struct Inherited {
    number: RawFd,
    device: u64,
    inode: u64,
}

impl Inherited {
    fn new(number: RawFd, is: &FileStat) -> Inherited {
        Inherited { number, device: is.st_dev, inode: is.st_ino }
    }
}

/// The descriptors that this process had when it began: whoever starts it again gives them to it again.
static INHERITED: Mutex<Vec<Inherited>> = Mutex::new(Vec::new());

fn inherited() -> MutexGuard<'static, Vec<Inherited>> {
    INHERITED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes which descriptors this process has now, and returns them.
pub(super) fn note_inherited() -> Vec<RawFd> {
    let all = numbers().unwrap_or_default();
    let known = all.iter().filter_map(|&number| {
        // SAFETY: what is not open any more is refused by the call.
        let is = fstat(unsafe { BorrowedFd::borrow_raw(number) }).ok()?;
        Some(Inherited::new(number, &is))
    });
    *inherited() = known.collect();
    all
}

/// In a process that has come back: standard output and error are among these files, if the program has not
/// put others in their place. They are others than before if it has come back on another host.
pub(super) fn note_streams(given: &[BorrowedFd<'_>]) {
    let is_of = |is: &FileStat, file: &BorrowedFd<'_>| {
        fstat(file).is_ok_and(|file| (file.st_dev, file.st_ino) == (is.st_dev, is.st_ino))
    };
    for number in 1..=2 {
        // SAFETY: what is not open is refused by the call.
        let Ok(is) = fstat(unsafe { BorrowedFd::borrow_raw(number) }) else { continue };
        if given.iter().any(|file| is_of(&is, file)) {
            let mut all = inherited();
            all.retain(|known| known.number != number);
            all.push(Inherited::new(number, &is));
        }
    }
}

fn is_inherited(number: RawFd, is: &FileStat) -> bool {
    inherited().contains(&Inherited::new(number, is))
}

/// Numbers of the descriptors of this process.
fn numbers() -> Result<Vec<RawFd>, Refusal> {
    let mut numbers = Vec::new();
    each_descriptor(&mut |number| numbers.extend(RawFd::try_from(number)))
        .map_err(|e| Refusal::new(format!("/proc/self/fd cannot be read: {e}")))?;
    Ok(numbers)
}

/// As [`describe`]. A refusal is believed that is the same a second time: another thread may close the file
/// meanwhile, and open another one.
fn described(fd: BorrowedFd<'_>, is: &FileStat, before: &[KnownFile]) -> Result<Option<KnownFile>, Refusal> {
    let first = describe(fd, is, before);
    let Err(why) = &first else { return first };
    let again = fstat(fd).ok().filter(|now| (now.st_dev, now.st_ino) == (is.st_dev, is.st_ino));
    match again.map(|now| describe(fd, &now, before)) {
        Some(Err(again)) if again == *why => first,
        _ => Err(files_change()),
    }
}

/// That another thread uses files just now.
pub(super) fn files_change() -> Refusal {
    Refusal::passing("a thread of it opens or closes files at each checkpoint".to_owned())
}

/// What is saved of a descriptor, after those `before` it; `None` for a pipe or the like that the process was
/// given, and will be given again.
fn describe(fd: BorrowedFd<'_>, is: &FileStat, before: &[KnownFile]) -> Result<Option<KnownFile>, Refusal> {
    let number = fd.as_raw_fd();
    let failed = |errno: Errno| match errno {
        Errno::EBADF => files_change(),
        errno => Refusal::new(format!("descriptor {number}: {errno}")),
    };
    let kind = SFlag::from_bits_truncate(is.st_mode) & SFlag::S_IFMT;
    let path = std::fs::read_link(format!("/proc/self/fd/{number}"));
    let path = path.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => files_change(),
        _ => Refusal::new(format!("descriptor {number} has no name: {error}")),
    })?;
    let what = match kind {
        SFlag::S_IFREG | SFlag::S_IFDIR => None,
        SFlag::S_IFCHR if is_device_without_state(&path) => None,
        SFlag::S_IFCHR => Some("a device or a terminal"),
        SFlag::S_IFSOCK => Some("a socket"),
        SFlag::S_IFIFO => Some("a pipe"),
        SFlag::S_IFBLK => Some("a block device"),
        _ => Some("no file"),
    };
    if what.is_some() && number > 2 && is_inherited(number, is) {
        return Ok(None);
    }
    if let Some(stream) = stream_like(number, is) {
        let like = word(stream.into());
        let (own, path) = (word(number.into()), PathBuf::new());
        let (flags, closes_on_exec, inode, born, position, len, cut) = (0, 0, 0, 0, 0, 0, 0);
        let open = OpenFile { number: own, flags, closes_on_exec, inode, born, position, len, cut, like };
        let (device, inode, has_place) = (is.st_dev, is.st_ino, false);
        let known = KnownFile { open, path, device, inode, has_place };
        let open = known.now().map_err(failed)?;
        return Ok(Some(KnownFile { open, ..known }));
    }
    if let Some(what) = what {
        let hint = if number == 0 { "; start the job with `< /dev/null`" } else { "" };
        return Err(Refusal::new(format!("descriptor {number} is {what} ({}){hint}", path.display())));
    }
    // By such a name an NFS client keeps a removed file until this process closes it.
    let is_kept = path.file_name().is_some_and(|name| name.as_bytes().starts_with(b".nfs"));
    let named = std::fs::symlink_metadata(&path).ok().filter(|_| !is_kept);
    let Some(named) = named.filter(|now| (now.dev(), now.ino()) == (is.st_dev, is.st_ino)) else {
        return Err(Refusal::new(format!(
            "descriptor {number} is a file without a name ({})",
            path.display()
        )));
    };
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL).map_err(failed)?);
    let is_file = kind == SFlag::S_IFREG;
    let has_place = is_file || kind == SFlag::S_IFDIR;
    let writes = flags & OFlag::O_ACCMODE != OFlag::O_RDONLY;
    let path_again = name_in_each_process(&path);
    let is_again = has_place && path_again == path;
    let open = OpenFile {
        number: word(number.into()),
        flags: 0,
        closes_on_exec: 0,
        inode: if is_again { is.st_ino } else { 0 },
        born: if is_again { born(&named) } else { 0 },
        position: 0,
        len: 0,
        cut: u64::from(is_file && writes && is_again),
        like: word(number.into()),
    };
    let known = KnownFile { open, path: path_again, device: is.st_dev, inode: is.st_ino, has_place };
    let now = known.now().map_err(failed)?;
    let like = if has_place { like(&known, &now, before)? } else { now.like };
    Ok(Some(KnownFile { open: OpenFile { like, ..now }, ..known }))
}

/// When a file was made, in nanoseconds; 0 if nobody knows.
fn born(file: &Metadata) -> u64 {
    let since = file.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0))
}

/// The standard stream that the launcher has given of which a descriptor is a duplicate.
fn stream_like(number: RawFd, is: &FileStat) -> Option<RawFd> {
    (1..=2)
        .filter(|stream| *stream < number && is_inherited(*stream, is))
        .find(|stream| are_one(word((*stream).into()), word(number.into())) == Some(true))
}

/// The name of a file that the system keeps for this process: the one that comes back has another number.
fn name_in_each_process(path: &Path) -> PathBuf {
    let own = Path::new("/proc").join(std::process::id().to_string());
    path.strip_prefix(own).map_or_else(|_| path.to_owned(), |rest| Path::new("/proc/self").join(rest))
}

/// The first of the descriptors `before` one that is the same open file; its own number, if there is none.
fn like(known: &KnownFile, now: &OpenFile, before: &[KnownFile]) -> Result<u64, Refusal> {
    for other in before.iter().filter(|other| (other.device, other.inode) == (known.device, known.inode)) {
        let is_like = are_one(other.open.number, now.number).unwrap_or_else(|| {
            // Nobody says so; but they are none if they differ.
            (other.open.flags, other.open.position) == (now.flags, now.position)
        });
        if !is_like {
            continue;
        }
        if are_one(other.open.number, now.number).is_none() {
            if ![other.open.number, now.number].into_iter().all(is_open) {
                return Err(files_change());
            }
            return Err(Refusal::new(format!(
                "descriptors {} and {} may be one open file, and this system does not say whether they are (kcmp is forbidden)",
                other.open.number, now.number
            )));
        }
        return Ok(other.open.like);
    }
    Ok(now.like)
}

fn is_open(number: u64) -> bool {
    // SAFETY: the call takes numbers.
    RawFd::try_from(number).is_ok_and(|number| unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0)
}

/// Whether two descriptors are the same open file; `None` if the system does not say.
fn are_one(one: u64, other: u64) -> Option<bool> {
    const F_DUPFD_QUERY: i32 = 1027;
    const KCMP_FILE: i32 = 0;
    let [one, other] = [one, other].map(|number| RawFd::try_from(number).unwrap_or(-1));
    // Linux 6.10.
    // SAFETY: the call takes numbers.
    if let same @ 0..=1 = unsafe { libc::fcntl(one, F_DUPFD_QUERY, other) } {
        return Some(same == 1);
    }
    let this = std::process::id();
    // SAFETY: the call takes numbers.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, this, this, KCMP_FILE, one, other) };
    (order >= 0).then_some(order == 0)
}

/// What this process has written to files of a disk is there, of those that it has open, and of `given`: the
/// lengths that an image says are those that they will have.
pub(super) fn sync(is_ours: &dyn Fn(RawFd) -> bool, given: &[BorrowedFd<'_>]) -> Result<(), Refusal> {
    let open = numbers()?.into_iter().filter(|number| !is_ours(*number));
    for number in open.chain(given.iter().map(AsRawFd::as_raw_fd)) {
        // SAFETY: it was open a moment ago; if another thread closes it now, calls with it fail.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        let is_file =
            fstat(fd).is_ok_and(|is| SFlag::from_bits_truncate(is.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG);
        let flags = fcntl(fd, FcntlArg::F_GETFL).map_or(OFlag::O_RDONLY, OFlag::from_bits_retain);
        if is_file && flags & OFlag::O_ACCMODE != OFlag::O_RDONLY {
            let failed = |errno: Errno| match errno {
                Errno::EBADF => files_change(),
                errno => Refusal::new(format!(
                    "descriptor {number} is a file that its disk does not take: {}",
                    errno.desc()
                )),
            };
            match fdatasync(fd) {
                // Not of a disk, as those of /proc.
                Ok(()) | Err(Errno::EINVAL) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
    }
    Ok(())
}

fn is_device_without_state(path: &Path) -> bool {
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"].iter().any(|known| path == *known)
}

/// Opens a file again as it was.
fn reopen(file: &OpenFile, path: &OsStr) -> Result<(), String> {
    let damaged = |_| "its description is damaged".to_owned();
    let number = RawFd::try_from(file.number).map_err(damaged)?;
    limits::allow_descriptor(file.number)?;
    if file.like != file.number {
        let like = RawFd::try_from(file.like).map_err(damaged)?;
        // SAFETY: if it is not open, the call fails.
        let opened = fcntl(unsafe { BorrowedFd::borrow_raw(like) }, FcntlArg::F_DUPFD_CLOEXEC(number));
        // SAFETY: the kernel has made it just now.
        let opened = opened.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        return opened.and_then(|fd| put(fd, number, file)).map_err(|errno| errno.desc().to_owned());
    }
    let flags = i32::try_from(file.flags).map_err(damaged)?;
    let position = i64::try_from(file.position).map_err(damaged)?;
    let len = i64::try_from(file.len).map_err(damaged)?;
    let once = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_TRUNC;
    let flags = OFlag::from_bits_retain(flags).difference(once) | OFlag::O_CLOEXEC;
    let said = |errno: Errno| errno.desc().to_owned();
    let opened = File::from(open(path, flags, Mode::empty()).map_err(said)?);
    let is = opened.metadata().map_err(|error| error.to_string())?;
    let born = born(&is);
    let is_another = is.ino() != file.inode || (file.born != born && file.born != 0 && born != 0);
    if file.inode != 0 && is_another {
        return Err("another one has its name now".to_owned());
    }
    if file.cut != 0 {
        if is.len() < file.len {
            return Err(format!(
                "it had {len} bytes and has {} now: what is gone cannot be had again",
                is.len()
            ));
        }
        ftruncate(&opened, len).map_err(said)?;
    }
    if position != 0 {
        lseek(opened.as_fd(), position, Whence::SeekSet).map_err(said)?;
    }
    put(opened.into(), number, file).map_err(said)
}

/// Gives an open file its number.
fn put(opened: OwnedFd, number: RawFd, file: &OpenFile) -> nix::Result<()> {
    let flags = if file.closes_on_exec == 0 { 0 } else { libc::O_CLOEXEC };
    if opened.as_raw_fd() == number {
        if file.closes_on_exec == 0 {
            fcntl(&opened, FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()))?;
        }
        let _ = opened.into_raw_fd();
        return Ok(());
    }
    // SAFETY: the call takes numbers; what has this number now is of the process that comes back.
    Errno::result(unsafe { libc::dup3(opened.as_raw_fd(), number, flags) }).map(drop)
}

/// The mask for files that are created. It is another one for a moment, in which all threads are stopped.
fn mask() -> u64 {
    let mask = nix::sys::stat::umask(Mode::from_bits_truncate(0o77));
    nix::sys::stat::umask(mask);
    mask.bits().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why there can be no image with this descriptor, if there cannot.
    fn refusal(fd: &impl AsRawFd) -> Option<String> {
        let number = fd.as_raw_fd();
        let why = Files::of_this_process(&|other| other != number).err()?.to_string();
        assert!(why.starts_with(&format!("descriptor {number} is ")), "{why}");
        Some(why)
    }

    #[test]
    fn a_socket_or_pipe_is_refused_unless_the_process_was_given_that_very_one() {
        let (mut given, _end) = nix::unistd::pipe().unwrap();
        note_inherited();
        assert_eq!(refusal(&given), None);
        // It has the first number that is free: that of the descriptor by which the list was read.
        let socket = std::os::unix::net::UnixDatagram::unbound().unwrap();
        assert!(refusal(&socket).unwrap().contains("is a socket"));
        let (pipe, _other_end) = nix::unistd::pipe().unwrap();
        assert!(refusal(&pipe).unwrap().contains("is a pipe"));
        nix::unistd::dup2(&pipe, &mut given).unwrap();
        assert!(refusal(&given).unwrap().contains("is a pipe"), "it has the number only");
    }

    /// As on another host's disk, or in place of one that was removed.
    #[test]
    fn a_file_that_has_name_and_inode_of_another_one_is_not_cut() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, "0123456789").unwrap();
        let file = File::options().append(true).open(&path).unwrap();
        let is = fstat(&file).unwrap();
        let known = describe(file.as_fd(), &is, &[]).unwrap().unwrap();
        assert_ne!(known.open.born, 0, "this file system does not know when a file was made");
        let shorter = OpenFile { len: 5, ..known.open };
        let another = OpenFile { born: shorter.born - 1, ..shorter };
        let why = reopen(&another, path.as_os_str()).unwrap_err();
        assert_eq!((why.as_str(), std::fs::read(&path).unwrap().len()), ("another one has its name now", 10));
        reopen(&OpenFile { born: 0, ..shorter }, path.as_os_str()).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"01234", "nobody knew");
    }
}
