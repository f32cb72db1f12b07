//! Faults that are served: what the handler is told, and what the program notices (nothing).

#![allow(clippy::unwrap_used, reason = "in a test")]

mod fault_support;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

use fault_support::{read, start, with_each_engine, world, write};
use scash::fault::{Access, PAGE, Verdict};

/// What the handler of most tests was told, in order.
static LOG: [AtomicUsize; 256] = [const { AtomicUsize::new(0) }; 256];
static LOGGED: AtomicUsize = AtomicUsize::new(0);

/// One word for a fault: the address, and the access in the top bit.
fn entry(addr: usize, access: Access) -> usize {
    addr | if access == Access::Write { 1 << 63 } else { 0 }
}

fn log() -> Vec<usize> {
    LOG[..LOGGED.swap(0, Relaxed)].iter().map(|entry| entry.load(Relaxed)).collect()
}

/// Gives what is asked for, as the runtime does at first touch: the bytes that are there.
fn serve_and_log(page: u32, addr: usize, access: Access, _pc: usize) -> Verdict {
    LOG[LOGGED.fetch_add(1, Relaxed)].store(entry(addr, access), Relaxed);
    world().engine.map(page..page + 1, access).unwrap();
    Verdict::Served
}

#[test]
fn the_handler_is_told_page_address_and_access() {
    with_each_engine("the_handler_is_told_page_address_and_access", |kind| {
        let (world, _handler) = start(kind, 4, serve_and_log);
        let at = world.app(2, 123);
        assert_eq!(read(at), 0);
        assert_eq!(log(), [entry(at as usize, Access::Read)]);
        assert_eq!(read(at), 0);
        write(at, 5);
        assert_eq!(log(), [entry(at as usize, Access::Write)]);
        assert_eq!(read(at), 5);
        // A write to an absent page is one fault, not a read and an upgrade.
        write(world.app(3, 0), 1);
        assert_eq!(log(), [entry(world.app(3, 0) as usize, Access::Write)]);
        world.engine.protect(2..4, Access::Read).unwrap();
        assert_eq!((read(at), log()), (5, vec![]));
        world.engine.unmap(2..3).unwrap();
        assert_eq!(read(at), 5);
        assert_eq!(log(), [entry(at as usize, Access::Read)]);
    });
}

#[test]
fn a_read_modify_write_instruction_counts_as_a_write() {
    with_each_engine("a_read_modify_write_instruction_counts_as_a_write", |kind| {
        let (world, _handler) = start(kind, 2, serve_and_log);
        let at = world.app(1, 64);
        // SAFETY: aligned, and in the application view, whose faults are served.
        let counter = unsafe { AtomicU64::from_ptr(at.cast()) };
        assert_eq!(counter.fetch_add(3, SeqCst), 0);
        assert_eq!(log(), [entry(at as usize, Access::Write)]);
        assert_eq!(counter.load(SeqCst), 3);
    });
}

#[test]
fn an_unaligned_access_may_straddle_two_pages() {
    with_each_engine("an_unaligned_access_may_straddle_two_pages", |kind| {
        let (world, _handler) = start(kind, 6, serve_and_log);
        let value = 0x1122_3344_5566_7788_u64;
        let at = world.app(2, PAGE - 3);
        // SAFETY: in the application view, whose faults are served.
        unsafe { at.cast::<u64>().write_unaligned(value) };
        let mut pages: Vec<_> = log().iter().map(|entry| (entry & !(1 << 63)) / PAGE).collect();
        pages.sort_unstable();
        let first = world.app(2, 0) as usize / PAGE;
        assert_eq!(pages, [first, first + 1]);
        world.engine.unmap(3..4).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { at.cast::<u64>().read_unaligned() }, value);
        assert_eq!(log().len(), 1);
    });
}

#[test]
fn a_large_copy_runs_across_faulting_pages() {
    with_each_engine("a_large_copy_runs_across_faulting_pages", |kind| {
        const PAGES: u32 = 64;
        let (world, _handler) = start(kind, PAGES, serve_and_log);
        let bytes: Vec<u8> = (0..=250).cycle().take((PAGES as usize - 1) * PAGE - 77).collect();
        let at = world.app(0, 33);
        // SAFETY: in the application view, whose faults are served.
        unsafe { at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        assert!(log().len() >= PAGES as usize - 1);
        // Read back over pages that are alternately mapped, read-only and absent.
        for page in (0..PAGES).step_by(2) {
            world.engine.unmap(page..page + 1).unwrap();
        }
        let mut back = vec![0; bytes.len()];
        // SAFETY: as above.
        unsafe { at.copy_to_nonoverlapping(back.as_mut_ptr(), back.len()) };
        assert!(back == bytes);
        // Inside the region, from its end to its start, with both sides faulting.
        world.engine.unmap(0..PAGES).unwrap();
        // SAFETY: as above.
        unsafe { world.app(0, 0).copy_from(at, bytes.len()) };
        world.engine.unmap(0..PAGES).unwrap();
        // SAFETY: as above.
        unsafe { world.app(0, 0).copy_to_nonoverlapping(back.as_mut_ptr(), back.len()) };
        assert!(back == bytes);
    });
}

#[cfg(target_arch = "x86_64")]
#[test]
fn vector_instructions_fault_and_go_on_with_their_registers() {
    use std::arch::x86_64::{_mm256_loadu_si256, _mm256_storeu_si256};
    /// Copies by 32 bytes at a time, with a register that lives across the faults.
    #[target_feature(enable = "avx")]
    unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
        for offset in (0..len).step_by(32) {
            // SAFETY: the caller gives `len` bytes at both places.
            let vector = unsafe { _mm256_loadu_si256(from.wrapping_add(offset).cast()) };
            // SAFETY: as above.
            unsafe { _mm256_storeu_si256(to.wrapping_add(offset).cast(), vector) };
        }
    }
    with_each_engine("vector_instructions_fault_and_go_on_with_their_registers", |kind| {
        if !std::arch::is_x86_feature_detected!("avx") {
            eprintln!("skipped: this processor has no AVX");
            return;
        }
        let (world, _handler) = start(kind, 32, serve_and_log);
        let bytes: Vec<u8> = (0..=250).cycle().take(8 * PAGE).collect();
        let (first, second) = (world.app(0, 7), world.app(16, 19));
        // SAFETY: room for 8 pages at each of the three places; faults of the application view are served.
        unsafe { copy(bytes.as_ptr(), first, bytes.len()) };
        world.engine.unmap(0..16).unwrap();
        // SAFETY: as above.
        unsafe { copy(first, second, bytes.len()) };
        let mut back = vec![0; bytes.len()];
        world.engine.unmap(0..32).unwrap();
        // SAFETY: as above.
        unsafe { copy(second, back.as_mut_ptr(), bytes.len()) };
        assert!(back == bytes);
    });
}

#[test]
fn errno_is_the_same_after_a_fault() {
    with_each_engine("errno_is_the_same_after_a_fault", |kind| {
        let (world, _handler) = start(kind, 1, |page, addr, access, pc| {
            // SAFETY: closes nothing, and says so in errno.
            assert_eq!(unsafe { libc::close(-1) }, -1);
            serve_and_log(page, addr, access, pc)
        });
        // SAFETY: asks where this thread's errno is.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: this thread's errno.
        unsafe { errno.write_volatile(1234) };
        read(world.app(0, 0));
        // SAFETY: as above.
        assert_eq!(unsafe { errno.read_volatile() }, 1234);
        assert_eq!(log().len(), 1);
    });
}

const CROWD: u32 = 16;
static LOCKS: [AtomicBool; CROWD as usize] = [const { AtomicBool::new(false) }; CROWD as usize];
/// 0: not mapped, 1: to read, 2: to write.
static STATES: [AtomicU8; CROWD as usize] = [const { AtomicU8::new(0) }; CROWD as usize];
static SERVED: AtomicU32 = AtomicU32::new(0);

/// Works on a page while nobody else does.
fn locked(page: u32, work: impl FnOnce(&AtomicU8)) {
    let lock = &LOCKS[page as usize];
    while lock.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
        std::thread::yield_now();
    }
    work(&STATES[page as usize]);
    lock.store(false, Release);
}

/// Serves as the runtime does: whoever comes second finds the work done.
fn serve_once(page: u32, _addr: usize, access: Access, _pc: usize) -> Verdict {
    SERVED.fetch_add(1, Relaxed);
    locked(page, |state| give(page, state, access));
    Verdict::Served
}

fn give(page: u32, state: &AtomicU8, access: Access) {
    match (state.load(Relaxed), access) {
        (0, Access::Read) => {
            world().engine.map(page..page + 1, access).unwrap();
            state.store(1, Relaxed);
        }
        (0, Access::Write) => {
            world().engine.map_zero(page..page + 1, access).unwrap();
            state.store(2, Relaxed);
        }
        (1, Access::Write) => {
            world().engine.protect(page..page + 1, access).unwrap();
            state.store(2, Relaxed);
        }
        // Somebody else was faster, or the system had taken the page out of memory.
        (1, _) => world().engine.map(page..page + 1, Access::Read).unwrap(),
        _ => world().engine.map(page..page + 1, Access::Write).unwrap(),
    }
}

/// The same, with a wait for another host while the page is locked.
fn serve_slowly(page: u32, _addr: usize, access: Access, _pc: usize) -> Verdict {
    locked(page, |state| {
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(50) {}
        give(page, state, access);
    });
    Verdict::Served
}

/// A sequence without a pattern.
fn scramble(seed: &mut u32) -> u32 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    *seed
}

fn add_one(page: u32, thread: u32) {
    // SAFETY: aligned, and in the application view, whose faults are served.
    unsafe { AtomicU64::from_ptr(world().app(page, 8 * thread as usize).cast()) }.fetch_add(1, Relaxed);
}

#[test]
fn many_threads_fault_at_once_on_the_same_pages_and_lose_no_write() {
    const THREADS: u32 = 4;
    const ROUNDS: u32 = 2000;
    with_each_engine("many_threads_fault_at_once_on_the_same_pages_and_lose_no_write", |kind| {
        let (world, _handler) = start(kind, CROWD, serve_once);
        let work = |thread: u32| {
            let mut seed = thread + 1;
            for round in 0..ROUNDS {
                let page = scramble(&mut seed) % CROWD;
                match scramble(&mut seed) % 8 {
                    0 => locked(page, |state| {
                        world.engine.unmap(page..page + 1).unwrap();
                        state.store(0, Relaxed);
                    }),
                    1 => locked(page, |state| {
                        world.engine.protect(page..page + 1, Access::Read).unwrap();
                        state.fetch_min(1, Relaxed);
                    }),
                    _ => {
                        read(world.app(page, (round as usize * 64) % PAGE));
                    }
                }
                add_one(page, thread);
            }
        };
        std::thread::scope(|scope| (0..THREADS).for_each(|thread| drop(scope.spawn(move || work(thread)))));
        for thread in 0..THREADS {
            let counter = |page| world.runtime(page, 8 * thread as usize).cast::<u64>();
            // SAFETY: aligned, in the runtime view, and nobody writes any more.
            let sum: u64 = (0..CROWD).map(|page| unsafe { counter(page).read() }).sum();
            assert_eq!(sum, u64::from(ROUNDS));
        }
        assert!(SERVED.load(Relaxed) > CROWD);
    });
}

const ENOUGH: u64 = 200;
static TICKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn tick(_signal: i32) {
    TICKS.fetch_add(1, Relaxed);
    for page in 0..CROWD {
        add_one(page, 1);
    }
}

#[test]
fn a_signal_handler_may_touch_shared_memory_though_it_interrupts_anything() {
    with_each_engine("a_signal_handler_may_touch_shared_memory_though_it_interrupts_anything", |kind| {
        let (world, _handler) = start(kind, CROWD, serve_slowly);
        // SAFETY: `tick` only touches atomics and shared memory, whose faults are served.
        unsafe { libc::signal(libc::SIGUSR1, tick as *const () as usize) };
        // SAFETY: asks who this thread is.
        let worker = unsafe { libc::pthread_self() };
        let done = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Takes pages away and interrupts the worker, who is in the fault handler more often than not.
            scope.spawn(move || {
                for page in (0..CROWD).cycle() {
                    if done.load(Relaxed) {
                        break;
                    }
                    locked(page, |state| {
                        world.engine.unmap(page..page + 1).unwrap();
                        state.store(0, Relaxed);
                    });
                    // Not for ever: with one tick after the other, the worker would do nothing else.
                    if TICKS.load(Relaxed) < ENOUGH {
                        // SAFETY: the worker waits for this thread's end.
                        unsafe { libc::pthread_kill(worker, libc::SIGUSR1) };
                    }
                    std::thread::sleep(Duration::from_micros(100));
                }
            });
            for page in (0..CROWD).cycle() {
                add_one(page, 0);
                if TICKS.load(Relaxed) >= ENOUGH {
                    break;
                }
            }
            done.store(true, Relaxed);
        });
        // SAFETY: aligned, in the runtime view, and nobody writes any more: ticks run in this very thread.
        let counted = unsafe { world.runtime(0, 8).cast::<u64>().read() };
        assert_eq!(counted, TICKS.load(Relaxed));
    });
}
