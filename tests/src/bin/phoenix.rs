//! A program with state of many kinds across memory barriers: it does nothing for its survival, and each rank
//! prints the same whether ranks were killed meanwhile or not. `phoenix [WHAT]`: `loud` prints a line in
//! each round, `late setting` changes the priority of a thread; other words: with something that no image can
//! carry ([`hindrance`]).

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test's program")]

use nix::sched::{CloneFlags, unshare};
use nix::sys::mman::mlock;
use nix::sys::prctl;
use nix::unistd::Pid;
use scash::{Dsm, Worker};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{Seek, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ROUNDS: u64 = 30;

/// Whether each round is told of.
static LOUD: AtomicBool = AtomicBool::new(false);
/// Whether a thread is to have another priority from the tenth round on.
static LATE: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static WORDS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Something that is called through a table of functions.
trait Step {
    fn step(&mut self, round: u64) -> u64;
}

struct Counts(BTreeMap<u64, u64>);
struct Text(String);

impl Step for Counts {
    fn step(&mut self, round: u64) -> u64 {
        *self.0.entry(round % 7).or_default() += round;
        self.0.values().sum()
    }
}

impl Step for Text {
    fn step(&mut self, round: u64) -> u64 {
        self.0 += &format!("<{round}>");
        self.0.len() as u64
    }
}

/// What one thread computes, with shared memory beside what it has for itself.
fn work(worker: &mut Worker<'_>) -> scash::Result<u64> {
    let mut squares = worker.partition::<u64>(4000)?;
    let mut steps: Vec<Box<dyn Step>> =
        vec![Box::new(Counts(BTreeMap::new())), Box::new(Text(String::new()))];
    let mut seen: HashMap<u64, Rc<Vec<u64>>> = HashMap::new();
    let mut queue: VecDeque<Arc<str>> = VecDeque::new();
    let mut sum = 0u64;
    let mut rounds = (0..ROUNDS).filter(|round| round % 5 != 3).peekable();
    while let Some(round) = rounds.next() {
        if round == 10 && LATE.swap(false, Ordering::Relaxed) {
            // SAFETY: the call takes a number.
            unsafe { libc::nice(1) };
        }
        for x in squares.parts(worker).mine {
            *x = x.wrapping_mul(31).wrapping_add(round + 1);
        }
        squares.publish(worker)?;
        let all: u64 = squares.all(worker).iter().fold(0, |sum, x| sum.wrapping_mul(3).wrapping_add(*x));
        sum = steps.iter_mut().fold(sum.wrapping_add(all), |sum, step| sum.wrapping_add(step.step(round)));
        seen.insert(all, Rc::new(vec![all; 100]));
        queue.push_back(format!("round {round}").into());
        if queue.len() > 5 {
            sum = sum.wrapping_add(queue.pop_front().unwrap().len() as u64);
        }
        CALLS.set(CALLS.get() + 1);
        WORDS.with_borrow_mut(|words| words.push(format!("{round:x}")));
        sum = sum.wrapping_add(rounds.peek().copied().unwrap_or_default());
        if LOUD.load(Ordering::Relaxed) {
            println!("thread {} of all, round {round}: {sum:x}", worker.index());
        }
    }
    assert!(seen.iter().all(|(all, list)| list.iter().all(|x| x == all)));
    let words = WORDS.with_borrow(|words| words.concat());
    assert_eq!(CALLS.get(), (0..ROUNDS).filter(|round| round % 5 != 3).fold(0, |count, _| count + 1));
    Ok(sum.wrapping_add(words.len() as u64))
}

/// A file that is not as images need it, as long as it lives.
fn file(what: &str) -> Option<Box<dyn std::any::Any>> {
    Some(match what {
        "mapped file" => {
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().set_len(4096).unwrap();
            Box::new((mapped(libc::MAP_SHARED, file.as_raw_fd()), file.into_temp_path()))
        }
        "shortened file" | "replaced file" => {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(b"what is behind a checkpoint").unwrap();
            Box::new(file)
        }
        "overwritten file" => {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(b"what may be overwritten").unwrap();
            file.as_file().seek(std::io::SeekFrom::Start(5)).unwrap();
            Box::new(file.into_parts())
        }
        "removed file" => {
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().set_len(4096).unwrap();
            Box::new(mapped(libc::MAP_PRIVATE, file.as_raw_fd()))
        }
        "nameless file" => Box::new(tempfile::tempfile().unwrap()),
        _ => return None,
    })
}

/// Sets things that hold for a process until it ends.
fn set_for_good() {
    static PAGE: [u8; 4096] = [1; 4096];
    nix::unistd::setpgid(Pid::from_raw(0), Pid::from_raw(0)).unwrap();
    prctl::set_thp_disable(true).unwrap();
    prctl::set_no_new_privs().unwrap();
    // SAFETY: the page is there until the process ends.
    unsafe { mlock(NonNull::from(&PAGE).cast(), PAGE.len()) }.unwrap();
}

/// Sets a filter of system calls by which the process dies that asks what it has set.
fn filter() {
    let [load, is, end] = [libc::BPF_LD | libc::BPF_W, libc::BPF_JMP | libc::BPF_JEQ, libc::BPF_RET];
    let step = |code: u32, number: u32, jump: u8| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt: 0,
        jf: jump,
        k: number,
    };
    let mut steps = vec![step(load | libc::BPF_ABS, 0, 0)]; // the call's number
    for call in [libc::SYS_get_mempolicy, libc::SYS_ioprio_get] {
        steps.push(step(is, u32::try_from(call).unwrap(), 1));
        steps.push(step(end, libc::SECCOMP_RET_KILL_PROCESS, 0));
    }
    steps.push(step(end, libc::SECCOMP_RET_ALLOW, 0));
    let program = libc::sock_fprog { len: u16::try_from(steps.len()).unwrap(), filter: steps.as_mut_ptr() };
    prctl::set_no_new_privs().unwrap();
    // SAFETY: the kernel reads the program, which is there.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Something that no image can carry, as long as it lives.
fn hindrance(what: &str) -> Box<dyn std::any::Any> {
    match what {
        "filter" => {
            filter();
            Box::new(())
        }
        "namespaces" => {
            unshare(CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC).unwrap();
            Box::new(())
        }
        "child" => Box::new(std::process::Command::new("sleep").arg("5").spawn().unwrap()),
        "socket" => Box::new(std::os::unix::net::UnixStream::pair().unwrap()),
        // The first number that is free, and no other.
        "one socket" => Box::new(std::os::unix::net::UnixDatagram::unbound().unwrap()),
        "pipe" => Box::new(std::io::pipe().unwrap()),
        "terminal" => Box::new(std::fs::File::options().read(true).write(true).open("/dev/ptmx").unwrap()),
        "mapping" => Box::new(mapped(libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1)),
        "settings" => {
            // SAFETY: the call takes a number.
            unsafe { libc::nice(1) };
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: the limit is this function's.
            unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
            limit.rlim_cur -= 1;
            // SAFETY: likewise.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
            set_for_good();
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().lock().unwrap();
            Box::new(file.into_parts())
        }
        "timer" => Box::new(timer()),
        "alarm" => {
            // SAFETY: the call takes a number. The program has ended by then.
            unsafe { libc::alarm(3600) };
            Box::new(())
        }
        "epoll" => {
            // SAFETY: the call takes a number.
            let epoll = unsafe { libc::epoll_create1(0) };
            assert!(epoll >= 0);
            Box::new(epoll)
        }
        "timer descriptor" => {
            // SAFETY: the call takes numbers.
            let timer = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, 0) };
            assert!(timer >= 0);
            Box::new(timer)
        }
        "many threads" => Box::new(sleepers(300)),
        // What is as much as may be.
        "threads" => Box::new(sleepers(256)),
        "zeros" => {
            let zeros = std::fs::File::open("/dev/zero").unwrap();
            Box::new(mapped(libc::MAP_PRIVATE, zeros.as_raw_fd()))
        }
        "guard page" => {
            let at = mapped(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
            const INSTALL: libc::c_int = 102;
            // SAFETY: the page is this function's, and nobody touches it.
            let _ = unsafe { libc::madvise(at, 4096, INSTALL) };
            Box::new(at)
        }
        "deaf thread" => {
            let (ready, is_ready) = std::sync::mpsc::channel();
            let body = move || {
                // SAFETY: a set of signals is plain data, which the call fills.
                let mut all = unsafe { std::mem::zeroed() };
                // SAFETY: the set is this function's.
                unsafe { libc::sigfillset(&raw mut all) };
                // SAFETY: likewise.
                unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut()) };
                ready.send(()).unwrap();
                std::thread::sleep(std::time::Duration::from_secs(1000));
            };
            let thread = std::thread::Builder::new().name("deaf".to_owned()).spawn(body).unwrap();
            is_ready.recv().unwrap();
            Box::new(thread)
        }
        "changing files" => Box::new(changing_files()),
        other => file(other).unwrap_or_else(|| panic!("{other}?")),
    }
}

/// So many threads that do nothing, all of which have begun: before that they block all signals.
fn sleepers(count: usize) -> Vec<std::thread::JoinHandle<()>> {
    let begun = std::sync::Arc::new(std::sync::Barrier::new(count + 1));
    let sleep = |begun: std::sync::Arc<std::sync::Barrier>| {
        begun.wait();
        std::thread::sleep(std::time::Duration::from_secs(1000));
    };
    let threads = std::iter::repeat_n(&begun, count).cloned();
    let threads = threads.map(|begun| std::thread::spawn(move || sleep(begun))).collect();
    begun.wait();
    threads
}

/// A thread that opens a file and closes the oldest one again and again, for half of the time. Each is there
/// when it is closed, or the thread ends the program.
fn changing_files() -> std::thread::JoinHandle<()> {
    let open = || std::fs::File::open("/dev/null").unwrap();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let mut files: VecDeque<_> = (0..8).map(|_| open()).collect();
        ready.send(()).unwrap();
        for turn in 1.. {
            if turn % 500 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            files.push_back(open());
            let oldest = files.pop_front().unwrap().metadata();
            if !oldest.is_ok_and(|file| file.rdev() == libc::makedev(1, 3)) {
                std::process::abort();
            }
        }
    });
    is_ready.recv().unwrap();
    thread
}

/// A timer that does not run.
fn timer() -> libc::timer_t {
    let mut timer = std::ptr::null_mut();
    // SAFETY: without a description of what is to happen it is a signal, which does not come; the call fills
    // the variable.
    let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, std::ptr::null_mut(), &raw mut timer) };
    assert_eq!(made, 0);
    timer
}

/// Takes from a file what was in it.
fn change(file: &tempfile::NamedTempFile, what: &str) {
    if what == "shortened file" {
        return file.as_file().set_len(3).unwrap();
    }
    let other = file.path().with_extension("other");
    std::fs::write(&other, "something else of the same name, and as long").unwrap();
    std::fs::rename(other, file.path()).unwrap();
}

/// A page of new memory.
fn mapped(flags: i32, file: i32) -> *mut libc::c_void {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: it is new memory.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, access, flags, file, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    at
}

fn main() -> scash::Result<()> {
    let mut dsm = Dsm::init()?;
    let mut what = std::env::args().nth(1);
    if what.take_if(|what| what == "checkpoints").is_some() {
        for _ in 0..3 {
            assert!(dsm.checkpoint()?, "each is committed");
        }
    }
    LATE.store(what.take_if(|what| what == "late setting").is_some(), Ordering::Relaxed);
    LOUD.store(what.take_if(|what| what == "loud").is_some(), Ordering::Relaxed);
    let mut has = what.as_deref().map(hindrance);
    if what.is_some() {
        eprintln!("something to be kept");
    }
    let mut line = std::io::stdout().lock();
    write!(line, "rank {}:", dsm.rank()).unwrap();
    drop(line);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        dsm.barrier().unwrap();
        std::panic::resume_unwind(Box::new("a panic that is caught behind a barrier"));
    }));
    assert!(caught.is_err());
    let sums = dsm.crew(dsm.threads(), work)?;
    let file = std::fs::File::open("/dev/null").unwrap();
    dsm.barrier()?;
    assert!(file.as_fd().try_clone_to_owned().is_ok());
    if let (Some(file), Some(what)) = (has.as_ref().and_then(|it| it.downcast_ref()), &what) {
        change(file, what);
        dsm.barrier()?;
    }
    println!(" {sums:?}");
    if let Some(child) = has.as_mut().and_then(|it| it.downcast_mut::<std::process::Child>()) {
        let _ = child.kill();
        let _ = child.wait();
    }
    dsm.finalize()
}
