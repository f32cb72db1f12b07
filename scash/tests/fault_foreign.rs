//! Faults that are not ours: the program must end, or be served by its own handler, as if we were not there.

#![allow(clippy::unwrap_used, reason = "in a test")]

mod fault_support;

use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicUsize, Ordering::*};

use fault_support::{
    DONE, case, engines, expect_success, killed_with_each_engine, read, start, test_process,
    with_each_engine, world, write,
};
use scash::fault::{Access, EngineKind, PAGE, Region, Serve, Verdict, install};

/// The address that the program's own handler is to see.
static EXPECTED: AtomicUsize = AtomicUsize::new(0);

fn serve(page: u32, _addr: usize, access: Access, _pc: usize) -> Verdict {
    world().engine.map(page..page + 1, access).unwrap();
    Verdict::Served
}

fn refuse(_page: u32, _addr: usize, _access: Access, _pc: usize) -> Verdict {
    Verdict::NotOurs
}

/// Sets a signal's action as a program does.
fn set_action(signal: i32, action: usize, flags: i32, blocked: &[i32]) {
    // SAFETY: an action is plain words, for which zero is a value.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = action;
    new.sa_flags = flags;
    for signal in blocked {
        // SAFETY: `sa_mask` is a signal set.
        unsafe { libc::sigaddset(&raw mut new.sa_mask, *signal) };
    }
    // SAFETY: sets an action of this process; its function is one of this file, or a constant.
    assert_eq!(unsafe { libc::sigaction(signal, &raw const new, std::ptr::null_mut()) }, 0);
}

/// An address that faults with `signal` and is no business of ours: of a mapping that may only be read, or of
/// one that reaches beyond its file.
fn foreign(signal: i32) -> *mut u8 {
    // SAFETY: makes a file.
    let file = unsafe { libc::memfd_create(c"foreign".as_ptr(), 0) };
    let protection =
        if signal == libc::SIGBUS { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
    // SAFETY: a new mapping.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, protection, libc::MAP_SHARED, file, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    let at = at.cast::<u8>().wrapping_add(321);
    EXPECTED.store(at as usize, SeqCst);
    at
}

fn exit(code: i32) -> ! {
    // SAFETY: ends the process at once; that is safe in a signal handler.
    unsafe { libc::_exit(code) }
}

/// With the engine's signal on its default action, as a C program has it.
fn start_with_default(kind: EngineKind, serve: Serve) {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        set_action(signal, libc::SIG_DFL, 0, &[]);
    }
    let (world, handler) = start(kind, 4, serve);
    std::mem::forget(handler);
    world.engine.map(1..2, Access::Write).unwrap();
    write(world.app(1, 0), 1);
}

#[test]
fn a_segmentation_fault_kills_by_sigsegv() {
    let body = |kind| {
        start_with_default(kind, serve);
        read(foreign(libc::SIGSEGV));
    };
    killed_with_each_engine("a_segmentation_fault_kills_by_sigsegv", body, |_| libc::SIGSEGV);
}

#[test]
fn a_segmentation_fault_leaves_a_core() {
    let room = std::env::temp_dir().join(format!("scash-core-{}", test_process()));
    for kind in engines() {
        let body = || {
            std::fs::create_dir_all(&room).unwrap();
            std::env::set_current_dir(&room).unwrap();
            start_with_default(kind, serve);
            read(foreign(libc::SIGSEGV));
        };
        let check = |status: ExitStatus| assert!(status.core_dumped(), "{status}");
        if cores_are_files() {
            case("a_segmentation_fault_leaves_a_core", kind.name(), body, check);
        }
    }
    let _ = std::fs::remove_dir_all(room);
}

/// Whether this process may leave a core as a file; asks for it if it must.
fn cores_are_files() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a place for the answer.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit) }, 0);
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: sets a limit of this process.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) }, 0);
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    let possible = limit.rlim_max == libc::RLIM_INFINITY && !pattern.starts_with(['|', '/']);
    if !possible {
        eprintln!("skipped: no core files here (limit {}, pattern {pattern:?})", limit.rlim_max);
    }
    possible
}

#[test]
fn a_bus_error_kills_by_sigbus() {
    let body = |kind| {
        start_with_default(kind, serve);
        read(foreign(libc::SIGBUS));
    };
    killed_with_each_engine("a_bus_error_kills_by_sigbus", body, |_| libc::SIGBUS);
}

#[test]
fn a_segmentation_fault_kills_under_the_rust_runtimes_own_handler_too() {
    let body = |kind| {
        std::mem::forget(start(kind, 4, serve).1);
        read(foreign(libc::SIGSEGV));
    };
    let test = "a_segmentation_fault_kills_under_the_rust_runtimes_own_handler_too";
    killed_with_each_engine(test, body, |_| libc::SIGSEGV);
}

#[test]
fn an_address_of_the_region_that_nobody_allocated_kills() {
    let body = |kind| {
        start_with_default(kind, refuse);
        read(world().app(2, 5));
    };
    killed_with_each_engine("an_address_of_the_region_that_nobody_allocated_kills", body, EngineKind::signal);
}

#[test]
fn an_address_that_the_engine_refuses_kills_by_sigsegv() {
    let body = |kind| {
        start_with_default(kind, |page, _, _, _| match world().engine.refuse(page).unwrap() {
            true => Verdict::Served,
            false => Verdict::NotOurs,
        });
        read(world().app(2, 5));
    };
    killed_with_each_engine("an_address_that_the_engine_refuses_kills_by_sigsegv", body, |_| libc::SIGSEGV);
}

#[test]
fn a_refused_page_is_served_again_once_it_is_admitted() {
    with_each_engine("a_refused_page_is_served_again_once_it_is_admitted", |kind| {
        let (world, _handler) = start(kind, 4, serve);
        world.engine.refuse(2).unwrap();
        world.engine.admit(1..4).unwrap();
        world.engine.map_zero(1..3, Access::Read).unwrap();
        write(world.app(2, 5), 6);
        write(world.app(3, 7), 8);
        assert_eq!((read(world.runtime(2, 5)), read(world.runtime(3, 7))), (6, 8));
    });
}

#[test]
fn a_wild_pointer_inside_the_service_kills() {
    let body = |kind| {
        start_with_default(kind, |_, _, _, _| {
            read(foreign(libc::SIGSEGV));
            Verdict::Served
        });
        read(world().app(2, 0));
    };
    killed_with_each_engine("a_wild_pointer_inside_the_service_kills", body, |_| libc::SIGSEGV);
}

#[test]
fn a_jump_into_the_region_kills() {
    let body = |kind| {
        start_with_default(kind, serve);
        // SAFETY: not safe at all: the page holds no code, and may not be executed. That is the test.
        let jump: extern "C" fn() = unsafe { std::mem::transmute(world().app(1, 0)) };
        jump();
    };
    killed_with_each_engine("a_jump_into_the_region_kills", body, |_| libc::SIGSEGV);
}

#[test]
fn a_thread_that_overflows_its_stack_dies() {
    #[expect(unconditional_recursion, reason = "that is the test")]
    fn overflow(depth: u64) -> u64 {
        let frame = black_box([depth; 64]);
        overflow(depth + 1) + frame[7]
    }
    let body = |kind| {
        std::mem::forget(start(kind, 4, serve).1);
        let _ = std::thread::spawn(|| overflow(0)).join();
    };
    // Under mprotect there is no stack for the message of the Rust runtime, which then aborts.
    let killer = |kind| if kind == EngineKind::Mprotect { libc::SIGSEGV } else { libc::SIGABRT };
    killed_with_each_engine("a_thread_that_overflows_its_stack_dies", body, killer);
}

extern "C" fn check_address(_signal: i32, info: *const libc::siginfo_t, context: *const libc::c_void) {
    // SAFETY: the kernel gives it (SA_SIGINFO).
    let info = unsafe { &*info };
    // SAFETY: the signals of this file's instructions have an address.
    let addr = unsafe { info.si_addr() } as usize;
    exit(if addr == EXPECTED.load(SeqCst) && !context.is_null() { DONE } else { 1 });
}

#[test]
fn the_programs_handler_sees_the_address_of_its_fault() {
    with_each_engine("the_programs_handler_sees_the_address_of_its_fault", |kind| {
        set_action(kind.signal(), check_address as *const () as usize, libc::SA_SIGINFO, &[]);
        std::mem::forget(start(kind, 4, serve).1);
        read(world().app(1, 0));
        read(foreign(kind.signal()));
        exit(1);
    });
}

#[test]
fn the_programs_handler_sees_an_address_of_the_region_that_is_not_served() {
    with_each_engine("the_programs_handler_sees_an_address_of_the_region_that_is_not_served", |kind| {
        set_action(kind.signal(), check_address as *const () as usize, libc::SA_SIGINFO, &[]);
        std::mem::forget(start(kind, 4, refuse).1);
        EXPECTED.store(world().app(3, 77) as usize, SeqCst);
        read(world().app(3, 77));
        exit(1);
    });
}

extern "C" fn repair(_signal: i32) {
    let page = (EXPECTED.load(SeqCst) & !(PAGE - 1)) as *mut libc::c_void;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: replaces the page that `foreign` mapped.
    let at = unsafe { libc::mmap(page, PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    assert_eq!(at, page);
}

#[test]
fn a_handler_of_the_program_that_repairs_its_fault_goes_on_doing_so() {
    with_each_engine("a_handler_of_the_program_that_repairs_its_fault_goes_on_doing_so", |kind| {
        set_action(kind.signal(), repair as *const () as usize, 0, &[]);
        std::mem::forget(start(kind, 4, serve).1);
        for _ in 0..3 {
            let at = foreign(kind.signal());
            write(at, 6);
            assert_eq!(read(at), 6);
            write(world().app(0, 0), 1);
        }
    });
}

#[test]
fn a_handler_for_one_use_is_used_once() {
    let body = |kind: EngineKind| {
        set_action(kind.signal(), repair as *const () as usize, libc::SA_RESETHAND, &[]);
        std::mem::forget(start(kind, 4, serve).1);
        read(foreign(kind.signal()));
        read(foreign(kind.signal()));
    };
    killed_with_each_engine("a_handler_for_one_use_is_used_once", body, EngineKind::signal);
}

#[test]
fn a_signal_that_is_ignored_kills_if_an_instruction_raises_it() {
    let body = |kind: EngineKind| {
        set_action(kind.signal(), libc::SIG_IGN, 0, &[]);
        std::mem::forget(start(kind, 4, serve).1);
        // SAFETY: sends a signal to this thread.
        unsafe { libc::raise(kind.signal()) };
        // Still here: a signal that is sent is ignored.
        read(foreign(kind.signal()));
    };
    killed_with_each_engine(
        "a_signal_that_is_ignored_kills_if_an_instruction_raises_it",
        body,
        EngineKind::signal,
    );
}

#[test]
fn a_signal_that_is_sent_kills_by_default() {
    let body = |kind: EngineKind| {
        start_with_default(kind, serve);
        let process = std::process::id().cast_signed();
        // SAFETY: sends a signal to this process.
        unsafe { libc::kill(process, kind.signal()) };
        std::thread::sleep(std::time::Duration::from_secs(60));
    };
    killed_with_each_engine("a_signal_that_is_sent_kills_by_default", body, EngineKind::signal);
}

extern "C" fn check_mask(signal: i32) {
    // SAFETY: a signal set is plain words, for which zero is a value.
    let mut mask: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `mask` is a place for the answer.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut mask) };
    // SAFETY: `mask` is a signal set.
    let blocked = |signal| unsafe { libc::sigismember(&raw const mask, signal) } == 1;
    let right =
        blocked(signal) && blocked(libc::SIGUSR1) && blocked(libc::SIGWINCH) && !blocked(libc::SIGUSR2);
    exit(if right { DONE } else { 1 });
}

#[test]
fn the_programs_handler_runs_under_its_own_mask() {
    with_each_engine("the_programs_handler_runs_under_its_own_mask", |kind| {
        set_action(kind.signal(), check_mask as *const () as usize, 0, &[libc::SIGUSR1]);
        std::mem::forget(start(kind, 4, serve).1);
        // SAFETY: a signal set is plain words, for which zero is a value.
        let mut mask: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `mask` is a signal set.
        unsafe { libc::sigaddset(&raw mut mask, libc::SIGWINCH) };
        // SAFETY: sets this thread's mask.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const mask, std::ptr::null_mut()) };
        read(foreign(kind.signal()));
        exit(1);
    });
}

#[test]
fn a_child_made_by_fork_has_no_region_and_dies_of_its_access() {
    with_each_engine("a_child_made_by_fork_has_no_region_and_dies_of_its_access", |kind| {
        start_with_default(kind, serve);
        // SAFETY: the child only reads a byte.
        let child = unsafe { libc::fork() };
        if child == 0 {
            read(world().app(1, 0));
            exit(0);
        }
        let mut status = 0;
        // SAFETY: waits for the child; `status` is a place for the answer.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "{status:#x}");
        assert_eq!(read(world().app(1, 0)), 1);
    });
}

#[test]
fn there_is_one_handler_at_a_time_and_the_previous_action_comes_back() {
    let test = "there_is_one_handler_at_a_time_and_the_previous_action_comes_back";
    let body = || {
        for kind in [EngineKind::Uffd, EngineKind::Mprotect, EngineKind::Mprotect, EngineKind::Uffd] {
            let region = Region::anywhere(2).unwrap();
            let before = current_action(kind.signal());
            // SAFETY: `serve` asks the engine only; the handler goes before the region.
            let handler = unsafe { install(&region, kind, serve) }.unwrap();
            assert_ne!(current_action(kind.signal()), before);
            for second in EngineKind::ALL {
                // SAFETY: as above.
                let error = unsafe { install(&region, second, serve) }.unwrap_err().to_string();
                assert!(error.contains("one region a process"), "{error}");
            }
            drop(handler);
            assert_eq!(current_action(kind.signal()), before);
        }
    };
    case(test, "both", body, expect_success);
}

#[test]
fn a_handler_that_was_covered_by_another_passes_everything_on() {
    for kind in engines() {
        let body = || {
            set_action(kind.signal(), check_address as *const () as usize, libc::SA_SIGINFO, &[]);
            let (world, handler) = start(kind, 4, serve);
            let ours = current_action(kind.signal());
            set_action(kind.signal(), repair as *const () as usize, libc::SA_SIGINFO, &[]);
            drop(handler);
            assert_eq!(current_action(kind.signal()), repair as *const () as usize);
            // SAFETY: `serve` asks the engine only; the world is never freed.
            let error = unsafe { install(&world.region, kind, serve) }.unwrap_err().to_string();
            assert!(error.contains("another handler"), "{error}");
            // The other one hands over to ours, which is off.
            set_action(kind.signal(), ours, libc::SA_SIGINFO, &[]);
            EXPECTED.store(world.app(2, 9) as usize, SeqCst);
            read(world.app(2, 9));
            exit(1);
        };
        let test = "a_handler_that_was_covered_by_another_passes_everything_on";
        case(test, kind.name(), body, expect_success);
    }
}

/// What a signal does now.
fn current_action(signal: i32) -> usize {
    // SAFETY: an action is plain words, for which zero is a value.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks for the action; `now` is a place for it.
    assert_eq!(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut now) }, 0);
    now.sa_sigaction
}
