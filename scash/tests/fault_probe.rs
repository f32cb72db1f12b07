//! What is found where the system refuses something: simulated by a filter of system calls, as containers
//! have it.

#![allow(clippy::unwrap_used, reason = "in a test")]

mod fault_support;

use std::sync::Arc;

use fault_support::{case, drop_privileges, engines, expect_success, is_root};
use scash::fault::{Access, EngineKind, FaultEngine, Probe, Region, choose, open};

/// One instruction of a filter.
fn step(code: u32, yes: u8, no: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: u16::try_from(code).unwrap(), jt: yes, jf: no, k }
}

/// From now on, a system call fails with `errno` if the word at `offset` of its description (`struct
/// seccomp_data`: the number at 0, the second argument at 24) is `value`.
fn refuse(offset: u32, value: u32, errno: i32) {
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let mut filter = [
        step(load, 0, 0, offset),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, value),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno.cast_unsigned()),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: gives up the right to gain privileges, which a filter asks for.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: `program` describes the filter above.
    let done = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(done, 0);
}

fn refuse_userfaultfd() {
    refuse(0, u32::try_from(libc::SYS_userfaultfd).unwrap(), libc::EPERM);
}

#[test]
fn where_userfaultfd_is_refused_mprotect_is_chosen_and_the_reason_is_told() {
    let body = || {
        if is_root() {
            drop_privileges();
        }
        refuse_userfaultfd();
        let probe = Probe::run();
        let why = probe.uffd.missing.unwrap();
        for part in ["seccomp", "/dev/userfaultfd"] {
            assert!(why.contains(part), "{why}");
        }
        assert!(!probe.tracking.is_there());
        assert_eq!(choose(None).unwrap(), EngineKind::Mprotect);
        let error = choose(Some("uffd")).unwrap_err().to_string();
        assert!(error.contains("SCASH_FAULT=uffd") && error.contains("seccomp"), "{error}");
        let region = Arc::new(Region::anywhere(1).unwrap());
        assert!(open(EngineKind::Uffd, region).is_err());
    };
    let test = "where_userfaultfd_is_refused_mprotect_is_chosen_and_the_reason_is_told";
    case(test, "nobody", body, expect_success);
}

#[test]
fn the_device_serves_where_the_system_call_is_refused() {
    let device = std::fs::File::options().read(true).write(true).open("/dev/userfaultfd");
    if device.is_err() || !Probe::run().uffd.is_there() {
        eprintln!("skipped: /dev/userfaultfd may not be opened here");
        return;
    }
    let body = || {
        refuse_userfaultfd();
        assert_eq!(Probe::run().uffd.missing, None);
        assert_eq!(choose(None).unwrap(), EngineKind::Uffd);
    };
    case("the_device_serves_where_the_system_call_is_refused", "root", body, expect_success);
}

#[test]
fn where_the_scan_is_missing_writes_are_not_tracked_and_nothing_else_changes() {
    if let Some(why) = Probe::run().tracking.missing {
        eprintln!("skipped: {why}");
        return;
    }
    let body = || {
        // The scan's number, as kernels before 6.7 do not know it.
        refuse(24, 0xc060_6610, libc::ENOTTY);
        let probe = Probe::run();
        let why = probe.tracking.missing.unwrap();
        assert!(why.contains("PAGEMAP_SCAN") && why.contains("6.7"), "{why}");
        assert_eq!(probe.uffd.missing, None);
        let engine = open(EngineKind::Uffd, Arc::new(Region::anywhere(4).unwrap())).unwrap();
        check_untracked(engine.as_ref());
    };
    let test = "where_the_scan_is_missing_writes_are_not_tracked_and_nothing_else_changes";
    case(test, "uffd", body, expect_success);
}

/// Numbers of the calls by which uffd fills a page with bytes, fills one with zeroes, and resumes one.
const COPY: u32 = 0xc028_aa03;
const ZERO: u32 = 0xc020_aa04;
const RESUME: u32 = 0xc020_aa07;

#[test]
fn memory_that_runs_out_is_named_with_the_pages_and_with_what_to_do() {
    let test = "memory_that_runs_out_is_named_with_the_pages_and_with_what_to_do";
    if !engines().contains(&EngineKind::Uffd) {
        return;
    }
    for (name, call, has_frames) in [("copy", COPY, false), ("zero", ZERO, false), ("resume", RESUME, true)] {
        for errno in [libc::ENOMEM, libc::ENOSPC] {
            let body = || {
                let engine = open(EngineKind::Uffd, Arc::new(Region::anywhere(4).unwrap())).unwrap();
                refuse(24, call, errno);
                // There is no call for zeroes that may only be read.
                let access = if call == COPY { Access::Read } else { Access::Write };
                let done = if has_frames { engine.map(1..3, access) } else { engine.map_zero(1..3, access) };
                let error = done.unwrap_err().to_string();
                for words in ["pages 1..3", "out of memory", "cgroup", "share less"] {
                    assert!(error.contains(words), "{error}");
                }
            };
            case(test, &format!("{name}, {errno}"), body, expect_success);
        }
    }
}

#[test]
fn mappings_that_run_out_are_named_with_the_setting_that_allows_more() {
    let body = || {
        let engine = open(EngineKind::Mprotect, Arc::new(Region::anywhere(4).unwrap())).unwrap();
        refuse(0, u32::try_from(libc::SYS_mprotect).unwrap(), libc::ENOMEM);
        let error = engine.map(1..3, Access::Read).unwrap_err().to_string();
        for words in ["pages 1..3", "vm.max_map_count", "sysctl", "SCASH_FAULT=uffd"] {
            assert!(error.contains(words), "{error}");
        }
    };
    let test = "mappings_that_run_out_are_named_with_the_setting_that_allows_more";
    case(test, "mprotect", body, expect_success);
}

#[test]
fn mprotect_does_not_track() {
    let engine = open(EngineKind::Mprotect, Arc::new(Region::anywhere(4).unwrap())).unwrap();
    check_untracked(engine.as_ref());
}

fn check_untracked(engine: &dyn FaultEngine) {
    engine.map_zero(0..4, Access::Write).unwrap();
    assert!(!engine.track_async(0..4).unwrap());
    assert!(engine.written(0..4, &mut Vec::new()).is_err());
    assert!(engine.track_sync(0..4).is_err());
}
