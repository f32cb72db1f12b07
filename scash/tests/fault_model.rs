//! An engine against a model: whatever the order of calls, a page gives the access and the bytes that it
//! should.

#![allow(clippy::unwrap_used, reason = "in a test")]

mod fault_support;

use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use fault_support::{Looker, with_each_engine};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use scash::fault::{Access, EngineKind, FaultEngine, PAGE, Region, open};

const PAGES: u32 = 20;

#[derive(Clone, Debug)]
enum Op {
    MapZero(Range<u32>, bool),
    /// Only what is not mapped, as the contract asks.
    MapCopy(Range<u32>, bool, u8),
    Fill(Range<u32>, bool, u8),
    Map(Range<u32>, bool),
    Protect(Range<u32>, bool),
    Unmap(Range<u32>),
    Discard(Range<u32>),
    /// A byte that arrives through the runtime view, whether the page is mapped or has a frame or not.
    Arrive(u32, u8),
    /// A byte that the program writes, if it may.
    Write(u32, u8),
}

fn op() -> impl Strategy<Value = Op> {
    let range = || (0..PAGES, 0..=PAGES).prop_map(|(a, b)| a.min(b)..a.max(b));
    prop_oneof![
        (range(), any::<bool>()).prop_map(|(pages, write)| Op::MapZero(pages, write)),
        (range(), any::<bool>(), any::<u8>())
            .prop_map(|(pages, write, byte)| Op::MapCopy(pages, write, byte)),
        (range(), any::<bool>(), any::<u8>()).prop_map(|(pages, write, byte)| Op::Fill(pages, write, byte)),
        (range(), any::<bool>()).prop_map(|(pages, write)| Op::Map(pages, write)),
        (range(), any::<bool>()).prop_map(|(pages, write)| Op::Protect(pages, write)),
        range().prop_map(Op::Unmap),
        range().prop_map(Op::Discard),
        (0..PAGES, any::<u8>()).prop_map(|(page, byte)| Op::Arrive(page, byte)),
        (0..PAGES, any::<u8>()).prop_map(|(page, byte)| Op::Write(page, byte)),
    ]
}

/// What a page should be: every byte of it is the same.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Page {
    access: Option<Access>,
    byte: u8,
}

struct Machine {
    region: Arc<Region>,
    engine: Box<dyn FaultEngine>,
    looker: Looker,
    model: [Page; PAGES as usize],
}

impl Machine {
    fn new(kind: EngineKind) -> Self {
        let region = Arc::new(Region::anywhere(PAGES).unwrap());
        let engine = open(kind, Arc::clone(&region)).unwrap();
        Self { region, engine, looker: Looker::new(), model: [Page::default(); PAGES as usize] }
    }

    fn pages(&mut self, pages: &Range<u32>) -> &mut [Page] {
        &mut self.model[pages.start as usize..pages.end as usize]
    }

    fn app(&self, page: u32) -> *mut u8 {
        self.region.app_base().wrapping_add(page as usize * PAGE)
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::MapZero(pages, write) => {
                self.engine.map_zero(pages.clone(), access(write)).unwrap();
                self.pages(&pages).iter_mut().for_each(|page| page.access = Some(access(write)));
            }
            Op::Map(pages, write) => {
                self.engine.map(pages.clone(), access(write)).unwrap();
                self.pages(&pages).iter_mut().for_each(|page| page.access = Some(access(write)));
            }
            Op::MapCopy(pages, write, byte) => self.map_copy(pages, access(write), byte),
            Op::Fill(pages, write, byte) => _ = self.fill(pages, access(write), byte),
            Op::Protect(pages, write) => {
                self.engine.protect(pages.clone(), access(write)).unwrap();
                let mapped = self.pages(&pages).iter_mut().filter(|page| page.access.is_some());
                mapped.for_each(|page| page.access = Some(access(write)));
            }
            Op::Unmap(pages) => {
                self.engine.unmap(pages.clone()).unwrap();
                self.pages(&pages).iter_mut().for_each(|page| page.access = None);
            }
            Op::Discard(pages) => {
                self.engine.discard(pages.clone()).unwrap();
                self.pages(&pages).fill(Page::default());
            }
            Op::Arrive(page, byte) => {
                let at = self.region.runtime_base().wrapping_add(page as usize * PAGE);
                // SAFETY: a page of the runtime view, used by this thread only.
                unsafe { at.write_bytes(byte, PAGE) };
                self.model[page as usize].byte = byte;
            }
            Op::Write(page, byte) => self.write(page, byte),
        }
    }

    /// The first of these pages that are not mapped.
    fn unmapped(&self, pages: Range<u32>) -> Range<u32> {
        let mapped = |page: &u32| self.model[*page as usize].access.is_some();
        let start = pages.clone().find(|page| !mapped(page)).unwrap_or(pages.end);
        start..(start..pages.end).find(mapped).unwrap_or(pages.end)
    }

    /// Returns how many pages were filled: whatever is in a frame stays there.
    fn fill(&mut self, pages: Range<u32>, access: Access, byte: u8) -> u32 {
        let pages = self.unmapped(pages);
        let bytes = vec![byte; pages.len() * PAGE];
        // SAFETY: as many bytes as pages.
        let end = unsafe { self.engine.fill(pages.clone(), bytes.as_ptr(), access) }.unwrap();
        assert!((pages.start..=pages.end).contains(&end), "{end} of {pages:?}");
        for page in self.pages(&(pages.start..end)) {
            assert_eq!(page.byte, 0, "a frame was overwritten");
            *page = Page { access: Some(access), byte };
        }
        end - pages.start
    }

    fn map_copy(&mut self, pages: Range<u32>, access: Access, byte: u8) {
        let pages = self.unmapped(pages);
        let bytes = vec![byte; pages.len() * PAGE];
        // SAFETY: as many bytes as pages.
        unsafe { self.engine.map_copy(pages.clone(), bytes.as_ptr(), access) }.unwrap();
        self.pages(&pages).fill(Page { access: Some(access), byte });
    }

    fn write(&mut self, page: u32, byte: u8) {
        if self.model[page as usize].access == Some(Access::Write) {
            // SAFETY: a page of the application view that may be written, used by this thread only.
            unsafe { self.app(page).write_bytes(byte, PAGE) };
            self.model[page as usize].byte = byte;
        }
    }

    /// Every page is what it should be, at both of its ends, and so is its frame.
    fn check(&self) {
        for (page, expected) in (0..).zip(self.model) {
            for offset in [0, PAGE - 1] {
                let at = self.app(page).wrapping_add(offset);
                let seen = self.looker.read(at);
                assert_eq!(seen, expected.access.map(|_| expected.byte), "reading page {page}");
                let written = self.looker.write(at, expected.byte);
                assert_eq!(written, expected.access == Some(Access::Write), "writing page {page}");
                let mut byte = [0u8];
                let place = i64::from(page) * PAGE as i64 + i64::try_from(offset).unwrap();
                // SAFETY: `byte` has room for one. By a system call, because a look through the runtime view
                // would give the page a frame.
                let count =
                    unsafe { libc::pread(self.region.fd().as_raw_fd(), byte.as_mut_ptr().cast(), 1, place) };
                assert_eq!((count, byte[0]), (1, expected.byte), "frame of page {page}");
            }
        }
    }
}

fn access(write: bool) -> Access {
    if write { Access::Write } else { Access::Read }
}

#[test]
fn any_sequence_of_calls_leaves_each_page_as_the_model_says() {
    with_each_engine("any_sequence_of_calls_leaves_each_page_as_the_model_says", |kind| {
        let config = Config { cases: 100, failure_persistence: None, ..Config::default() };
        TestRunner::new(config)
            .run(&prop::collection::vec(op(), 1..40), |ops| {
                let mut machine = Machine::new(kind);
                machine.check();
                for op in ops {
                    machine.apply(op);
                    machine.check();
                }
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn a_range_outside_the_region_is_refused() {
    with_each_engine("a_range_outside_the_region_is_refused", |kind| {
        let machine = Machine::new(kind);
        let engine = &machine.engine;
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        for pages in [0..PAGES + 1, PAGES + 1..PAGES + 2, u32::MAX - 1..u32::MAX, 5..3] {
            assert!(engine.map_zero(pages.clone(), Access::Write).is_err());
            // SAFETY: refused before a byte is read.
            assert!(unsafe { engine.map_copy(pages.clone(), [0u8; PAGE].as_ptr(), Access::Write) }.is_err());
            assert!(!engine.lack_frames(pages.clone()));
            assert!(engine.map(pages.clone(), Access::Read).is_err());
            assert!(engine.protect(pages.clone(), Access::Read).is_err());
            assert!(engine.unmap(pages.clone()).is_err());
            let error = engine.discard(pages).unwrap_err().to_string();
            assert!(error.contains("20 pages"), "{error}");
        }
        machine.check();
    });
}

#[test]
fn a_page_keeps_its_bytes_across_unmap_and_loses_them_and_its_memory_by_discard() {
    with_each_engine(
        "a_page_keeps_its_bytes_across_unmap_and_loses_them_and_its_memory_by_discard",
        |kind| {
            let mut machine = Machine::new(kind);
            machine.apply(Op::MapCopy(0..PAGES, true, 9));
            machine.apply(Op::Unmap(0..PAGES));
            machine.apply(Op::Map(0..PAGES, false));
            machine.check();
            assert_eq!(frames(&machine.region), u64::from(PAGES));
            machine.apply(Op::Discard(2..PAGES));
            machine.check();
            assert_eq!(frames(&machine.region), 2);
        },
    );
}

/// Not so with the engine that has no such call of the system.
#[test]
fn pages_are_filled_up_to_the_first_one_that_has_a_frame() {
    with_each_engine("pages_are_filled_up_to_the_first_one_that_has_a_frame", |kind| {
        let mut machine = Machine::new(kind);
        if kind == EngineKind::Mprotect {
            assert!(!machine.engine.lack_frames(0..PAGES), "it has no such call of the system");
            return;
        }
        assert!(machine.engine.lack_frames(0..PAGES));
        machine.apply(Op::Arrive(12, 7));
        assert!(machine.engine.lack_frames(0..PAGES), "nobody has told the engine");
        assert_eq!(machine.fill(0..PAGES, Access::Read, 9), 12);
        assert_eq!(machine.fill(12..PAGES, Access::Read, 9), 0);
        assert!(!machine.engine.lack_frames(12..13) && machine.engine.lack_frames(13..PAGES));
        machine.apply(Op::Map(12..13, false));
        assert_eq!(machine.fill(13..PAGES, Access::Write, 9), PAGES - 13);
        machine.check();
        assert_eq!(frames(&machine.region), u64::from(PAGES));
    });
}

/// How many frames a region's file holds.
fn frames(region: &Region) -> u64 {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `stat` is a place for the answer.
    assert_eq!(unsafe { libc::fstat(region.fd().as_raw_fd(), stat.as_mut_ptr()) }, 0);
    // SAFETY: filled by the call above, which succeeded.
    let blocks = unsafe { stat.assume_init() }.st_blocks;
    u64::try_from(blocks).unwrap() * 512 / PAGE as u64
}

#[test]
fn without_its_engine_a_view_gives_no_access() {
    with_each_engine("without_its_engine_a_view_gives_no_access", |kind| {
        let mut machine = Machine::new(kind);
        machine.apply(Op::MapZero(0..PAGES, true));
        let Machine { region, engine, looker, .. } = machine;
        drop(engine);
        assert_eq!(looker.read(region.app_base()), None);
    });
}
