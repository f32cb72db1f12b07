use super::*;

fn finding(missing: Option<&str>) -> Finding {
    Finding { name: "a thing", missing: missing.map(str::to_owned) }
}

fn probe(uffd: Option<&str>, mprotect: Option<&str>) -> Probe {
    Probe {
        uffd: finding(uffd),
        uffd_parts: vec![],
        mprotect: finding(mprotect),
        tracking: finding(None),
        tracking_parts: vec![],
        max_map_count: None,
    }
}

#[test]
fn the_best_engine_that_works_is_chosen() {
    assert_eq!(decide(None, &probe(None, None)).unwrap(), EngineKind::Uffd);
    assert_eq!(decide(None, &probe(Some("no"), None)).unwrap(), EngineKind::Mprotect);
    assert_eq!(decide(Some(EngineKind::Mprotect), &probe(None, None)).unwrap(), EngineKind::Mprotect);
}

#[test]
fn an_engine_that_was_asked_for_and_is_missing_is_an_error_with_the_reason() {
    let error =
        decide(Some(EngineKind::Uffd), &probe(Some("the moon is full"), None)).unwrap_err().to_string();
    assert!(error.contains("uffd") && error.contains("the moon is full"), "{error}");
    let error = decide(None, &probe(Some("this"), Some("that"))).unwrap_err().to_string();
    assert!(error.contains("this") && error.contains("that"), "{error}");
}

#[test]
fn an_unknown_name_lists_the_names() {
    let error = choose(Some("segv")).unwrap_err().to_string();
    assert!(error.contains("segv") && error.contains("uffd") && error.contains("mprotect"), "{error}");
}

#[test]
fn mprotect_works_everywhere() {
    assert_eq!(Probe::run().mprotect.missing, None);
    assert_eq!(choose(Some("mprotect")).unwrap(), EngineKind::Mprotect);
}

#[test]
fn what_the_kernel_has_works_when_tried() {
    let probe = Probe::run();
    let mut parts = Vec::new();
    for (whole, more) in [(&probe.uffd, &probe.uffd_parts), (&probe.tracking, &probe.tracking_parts)] {
        parts.extend(more);
        match parts.iter().find(|part| !part.is_there()) {
            None => assert_eq!(whole.missing, None),
            Some(part) => eprintln!("skipped: {part}"),
        }
    }
    assert_eq!(choose(None).unwrap() == EngineKind::Uffd, probe.uffd.is_there());
    assert_eq!(choose(Some("")).unwrap(), choose(None).unwrap());
}

#[test]
fn refusals_are_explained() {
    let sentence = |errno| why_no_userfaultfd(&io::Error::from_raw_os_error(errno));
    assert!(sentence(libc::EPERM).contains("seccomp"));
    assert!(sentence(libc::ENOSYS).contains("CONFIG_USERFAULTFD"));
    assert!(why_no_scan(&io::Error::from_raw_os_error(libc::ENOTTY)).contains("6.7"));
}
