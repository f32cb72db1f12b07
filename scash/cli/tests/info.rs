//! `scash info`.

mod common;

use common::{command, run};

#[test]
fn it_says_what_there_is_and_why_the_rest_is_missing() {
    let ended = run(command(["info"]));
    assert_eq!(ended.stderr, "");
    for word in [
        "kernel",
        "page size",
        "cores",
        "memory",
        "/dev/shm",
        "chosen",
        "uffd",
        "mprotect",
        "shm",
        "tcp",
        "ofi",
        "memfd",
        "open files",
    ] {
        assert!(ended.stdout.contains(word), "no {word} in: {}", ended.stdout);
    }
    // Nothing is just missing.
    for line in ended.stdout.lines() {
        assert!(!line.ends_with(" no"), "no reason in: {line}");
    }
}

#[test]
fn as_json_it_is_one_object_that_agrees_with_the_exit_status() {
    let ended = run(command(["info", "--json"]));
    assert_eq!(ended.stdout.lines().count(), 1);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(ended.status == 0, report["engine"]["name"].is_string(), "{report}");
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    let names: Vec<_> =
        report["providers"].as_array().unwrap().iter().map(|provider| &provider["name"]).collect();
    assert_eq!(names, ["shm", "tcp", "ofi"]);
    let (name, engines) = (&report["engine"]["name"], report["engines"].as_array().unwrap());
    assert!(engines.iter().any(|engine| engine["name"] == *name && engine["available"] == true), "{report}");
    for feature in ["engines", "providers", "features"].iter().flat_map(|key| report[key].as_array().unwrap())
    {
        assert!(feature["available"] == true || feature["note"].is_string(), "{feature} lacks a reason");
    }
}

#[test]
fn whether_frames_would_be_shared_is_said_with_the_reason() {
    let ask = |settings: &[(&str, &str)]| {
        let mut command = command(["info", "--json"]);
        command.envs(settings.iter().copied());
        let said = serde_json::from_str::<serde_json::Value>(&run(command).stdout).unwrap()["frames"].clone();
        format!("{}: {}", said["name"].as_str().unwrap(), said["why"].as_str().unwrap())
    };
    assert!(ask(&[]).starts_with("shared"), "{}", ask(&[]));
    let off = ask(&[("SCASH_SHARE", "off")]);
    assert!(off.starts_with("each rank's own") && off.contains("SCASH_SHARE=off"), "{off}");
    let races = ask(&[("SCASH_RACES", "report")]);
    assert!(races.starts_with("each rank's own") && races.contains("SCASH_RACES"), "{races}");
}

#[test]
fn the_engine_that_is_asked_for_is_the_one_that_is_chosen() {
    let ask = |engine: &str| {
        let mut command = command(["info", "--json"]);
        command.env("SCASH_FAULT", engine);
        let ended = run(command);
        (ended.status, serde_json::from_str::<serde_json::Value>(&ended.stdout).unwrap()["engine"].clone())
    };
    let (status, engine) = ask("mprotect");
    assert_eq!(
        (status, engine["name"].as_str(), engine["why"].as_str()),
        (0, Some("mprotect"), Some("SCASH_FAULT asks for it"))
    );
    let (status, engine) = ask("magic");
    assert_eq!(status, 1);
    assert!(engine["why"].as_str().unwrap().contains("there is no such fault engine"), "{engine}");
}
