//! Tracking of writes without faults: no write is lost, and the engine goes on around the tracked pages.

#![allow(clippy::unwrap_used, reason = "in a test")]

mod fault_support;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

use fault_support::{Looker, World, case, drop_privileges, expect_success, read, start, write};
use scash::fault::{Access, EngineKind, FaultEngine, PAGE, Probe, Verdict};

const PAGES: u32 = 64;
/// The pages that are tracked: cuts the view in three.
const TRACKED: Range<u32> = 16..48;

/// Runs `body` on a region whose middle is tracked, as root and not; no access of it may fault.
fn on_tracked_pages(test: &str, body: fn(&'static World)) {
    let Probe { uffd_parts, tracking_parts, .. } = Probe::run();
    if let Some(part) = uffd_parts.iter().chain(&tracking_parts).find(|part| !part.is_there()) {
        eprintln!("skipped: {part}");
        return;
    }
    let body = || {
        let (world, _handler) = start(EngineKind::Uffd, PAGES, |_, _, _, _| Verdict::NotOurs);
        world.engine.map_zero(0..PAGES, Access::Write).unwrap();
        (0..PAGES).for_each(|page| write(world.app(page, 0), 1));
        assert!(world.engine.track_async(TRACKED).unwrap());
        body(world);
    };
    case(test, "uffd", body, expect_success);
    case(
        test,
        "uffd as nobody",
        || {
            if drop_privileges() {
                body()
            }
        },
        expect_success,
    );
}

fn written(engine: &dyn FaultEngine, pages: Range<u32>) -> Vec<Range<u32>> {
    let mut runs = Vec::new();
    engine.written(pages, &mut runs).unwrap();
    runs
}

/// A run of one page.
fn single(page: u32) -> Vec<Range<u32>> {
    std::iter::once(page..page + 1).collect()
}

#[test]
fn written_pages_are_reported_once() {
    on_tracked_pages("written_pages_are_reported_once", |world| {
        let engine = world.engine.as_ref();
        assert_eq!(written(engine, TRACKED), []);
        for page in [16, 20, 21, 22, 47] {
            write(world.app(page, 100), 2);
        }
        read(world.app(30, 0));
        assert_eq!(written(engine, 16..21), [16..17, 20..21]);
        assert_eq!(written(engine, TRACKED), [21..23, 47..48]);
        assert_eq!(written(engine, TRACKED), []);
        write(world.app(21, 5), 3);
        assert_eq!(written(engine, TRACKED), single(21));
        assert_eq!(read(world.app(21, 100)), 2);
    });
}

#[test]
fn many_runs_are_all_reported() {
    on_tracked_pages("many_runs_are_all_reported", |world| {
        const PAGES: u32 = 1000;
        // More runs than one call of the kernel returns.
        let region = std::sync::Arc::new(scash::fault::Region::anywhere(PAGES).unwrap());
        let engine = scash::fault::open(EngineKind::Uffd, std::sync::Arc::clone(&region)).unwrap();
        engine.map_zero(0..PAGES, Access::Write).unwrap();
        assert!(engine.track_async(0..PAGES).unwrap());
        for page in (0..PAGES).step_by(2) {
            write(region.app_base().wrapping_add(page as usize * PAGE), 1);
        }
        let runs = written(engine.as_ref(), 0..PAGES);
        assert!(runs.into_iter().eq((0..PAGES).step_by(2).map(|page| page..page + 1)));
        assert_eq!(written(engine.as_ref(), 0..PAGES), []);
        assert_eq!(written(world.engine.as_ref(), TRACKED), []);
    });
}

#[test]
fn a_write_by_the_kernel_counts() {
    on_tracked_pages("a_write_by_the_kernel_counts", |world| {
        assert!(Looker::new().write(world.app(33, 1), 9));
        assert_eq!(written(world.engine.as_ref(), TRACKED), single(33));
    });
}

#[test]
fn pages_are_under_the_engine_again_when_tracking_ends() {
    on_tracked_pages("pages_are_under_the_engine_again_when_tracking_ends", |world| {
        let (engine, looker) = (world.engine.as_ref(), Looker::new());
        write(world.app(20, 0), 2);
        engine.track_sync(TRACKED).unwrap();
        assert!(TRACKED.into_iter().all(|page| looker.write(world.app(page, 1), 1)));
        engine.protect(0..PAGES, Access::Read).unwrap();
        assert!((0..PAGES).all(|page| !looker.write(world.app(page, 1), 1)));
        engine.unmap(0..PAGES).unwrap();
        assert!((0..PAGES).all(|page| looker.read(world.app(page, 0)).is_none()));
        engine.map(0..PAGES, Access::Read).unwrap();
        assert_eq!(looker.read(world.app(20, 0)), Some(2));
        assert!(engine.written(TRACKED, &mut Vec::new()).is_err());
        // And back.
        engine.protect(TRACKED, Access::Write).unwrap();
        assert!(engine.track_async(TRACKED).unwrap());
        write(world.app(17, 0), 1);
        assert_eq!(written(engine, TRACKED), single(17));
    });
}

#[test]
fn calls_may_run_across_the_borders_of_tracked_pages() {
    on_tracked_pages("calls_may_run_across_the_borders_of_tracked_pages", |world| {
        let (engine, looker) = (world.engine.as_ref(), Looker::new());
        engine.unmap(0..16).unwrap();
        engine.discard(48..64).unwrap();
        engine.map_zero(0..PAGES, Access::Write).unwrap();
        assert!((0..PAGES).all(|page| looker.write(world.app(page, 1), 1)));
        // A tracked range that leaves the view does so as others do.
        engine.unmap(0..PAGES).unwrap();
        assert!((0..PAGES).all(|page| looker.read(world.app(page, 0)).is_none()));
        engine.discard(0..PAGES).unwrap();
        let bytes = vec![8u8; PAGES as usize * PAGE];
        // SAFETY: as many bytes as pages.
        unsafe { engine.map_copy(0..PAGES, bytes.as_ptr(), Access::Write) }.unwrap();
        assert!((0..PAGES).all(|page| looker.read(world.app(page, 4095)) == Some(8)));
    });
}

#[test]
fn tracking_is_refused_for_pages_outside_the_region_and_for_pages_that_are_not_tracked() {
    let test = "tracking_is_refused_for_pages_outside_the_region_and_for_pages_that_are_not_tracked";
    on_tracked_pages(test, |world| {
        let mut runs = Vec::new();
        assert!(world.engine.track_async(60..PAGES + 1).is_err());
        assert!(world.engine.written(0..PAGES + 1, &mut runs).is_err());
        assert!(world.engine.written(0..16, &mut runs).is_err());
        assert!(world.engine.track_sync(0..PAGES + 1).is_err());
    });
}

/// The use that it is made for: a copy that follows the pages by what is reported is equal in the end.
#[test]
fn a_copy_that_follows_the_reports_misses_no_write() {
    on_tracked_pages("a_copy_that_follows_the_reports_misses_no_write", |world| {
        let word = |base: *mut u8| {
            // SAFETY: aligned, and in a view whose pages are mapped.
            unsafe { AtomicU64::from_ptr(base.cast()) }
        };
        let (engine, done) = (world.engine.as_ref(), AtomicBool::new(false));
        let mut copy = [0u64; PAGES as usize];
        let mut follow = |runs: Vec<Range<u32>>| {
            for page in runs.into_iter().flatten() {
                copy[page as usize] = word(world.runtime(page, 64)).load(SeqCst);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for value in 1..200_000u64 {
                    let page = TRACKED.start + u32::try_from(value * 7 % 31).unwrap();
                    word(world.app(page, 64)).store(value, SeqCst);
                }
                done.store(true, SeqCst);
            });
            while !done.load(SeqCst) {
                follow(written(engine, TRACKED));
            }
        });
        follow(written(engine, TRACKED));
        for page in TRACKED {
            assert_eq!(copy[page as usize], word(world.runtime(page, 64)).load(SeqCst), "page {page}");
        }
    });
}
