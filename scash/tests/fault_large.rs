//! Large regions, and regions whose pages alternate: what one engine can do and the other can explain.

#![allow(clippy::unwrap_used, reason = "in a test")]

mod fault_support;

use std::sync::Arc;

use fault_support::{Looker, case, engines, expect_success, read, start, with_each_engine, world, write};
use scash::fault::{Access, EngineError, EngineKind, FaultEngine, PAGE, Probe, Region, Verdict, open};

/// A little more than 1 GiB.
const PAGES: u32 = (1 << 18) + 1000;

fn alternate(engine: &dyn FaultEngine) -> Result<(), EngineError> {
    (0..PAGES).step_by(2).try_for_each(|page| engine.protect(page..page + 1, Access::Read))
}

#[test]
fn uffd_protects_every_other_page_of_more_than_a_gibibyte() {
    if !engines().contains(&EngineKind::Uffd) {
        return;
    }
    let body = || {
        let region = Arc::new(Region::anywhere(PAGES).unwrap());
        let engine = open(EngineKind::Uffd, Arc::clone(&region)).unwrap();
        engine.map_zero(0..PAGES, Access::Write).unwrap();
        alternate(engine.as_ref()).unwrap();
        let looker = Looker::new();
        for page in [0, 1, 2, 3, 1000, 131_071, PAGES - 2, PAGES - 1] {
            let at = region.app_base().wrapping_add(page as usize * PAGE);
            assert_eq!(looker.write(at, 1), page % 2 == 1, "page {page}");
        }
    };
    case("uffd_protects_every_other_page_of_more_than_a_gibibyte", "uffd", body, expect_success);
}

#[test]
fn mprotect_says_that_mappings_ran_out_and_what_to_do() {
    let body = || {
        let limit = Probe::run().max_map_count.unwrap();
        let region = Arc::new(Region::anywhere(PAGES).unwrap());
        let engine = open(EngineKind::Mprotect, Arc::clone(&region)).unwrap();
        engine.map_zero(0..PAGES, Access::Write).unwrap();
        let outcome = alternate(engine.as_ref());
        if limit > u64::from(PAGES) {
            eprintln!("skipped: vm.max_map_count = {limit} allows it");
            return outcome.unwrap();
        }
        let error = outcome.unwrap_err().to_string();
        for part in [&format!("vm.max_map_count = {limit}"), "sysctl", "SCASH_FAULT=uffd"] {
            assert!(error.contains(part), "{error}");
        }
    };
    let test = "mprotect_says_that_mappings_ran_out_and_what_to_do";
    case(test, "mprotect", body, expect_success);
}

#[test]
fn a_region_of_64_gibibytes_is_used_at_both_ends() {
    with_each_engine("a_region_of_64_gibibytes_is_used_at_both_ends", |kind| {
        const PAGES: u32 = 1 << 24;
        let (world, _handler) = start(kind, PAGES, |page, _, access, _| {
            world().engine.map_zero(page..page + 1, access).unwrap();
            Verdict::Served
        });
        for page in [0, 1 << 20, PAGES / 2, PAGES - 1] {
            let at = world.app(page, 4095);
            write(at, 3);
            world.engine.unmap(page..page + 1).unwrap();
            assert_eq!(read(at), 3);
            world.engine.discard(page..page + 1).unwrap();
            assert_eq!(read(at), 0);
        }
    });
}

#[test]
fn the_region_is_where_it_was_asked_to_be() {
    with_each_engine("the_region_is_where_it_was_asked_to_be", |kind| {
        const BASE: usize = 0x1000_0000_0000;
        let region = Arc::new(Region::create(BASE, 1 << 18).unwrap());
        assert_eq!(region.app_base() as usize, BASE);
        let engine = open(kind, Arc::clone(&region)).unwrap();
        engine.map_zero(7..8, Access::Write).unwrap();
        write(region.app_base().wrapping_add(7 * PAGE), 4);
        let error = Region::create(BASE, 1).unwrap_err().to_string();
        assert!(error.contains("0x100000000000") && error.contains("taken"), "{error}");
        drop(engine);
        drop(region);
        Region::create(BASE, 1).unwrap();
    });
}
