//! The report as text.

use super::report::{Feature, Limit, Machine, Report};
use std::fmt::Write;

/// Width of the column of names.
const NAMES: usize = 42;

/// The whole report.
pub(super) fn text(report: &Report) -> String {
    let mut text = format!("scash {}\n", report.version);
    section(&mut text, "machine");
    machine(&mut text, &report.machine);
    section(&mut text, "fault engines");
    let chosen = report.engine.name.unwrap_or("none");
    line(&mut text, 1, "chosen", &format!("{chosen}: {}", report.engine.why));
    features(&mut text, 1, &report.engines);
    section(&mut text, "frames");
    line(&mut text, 1, report.frames.name.unwrap_or("none"), &report.frames.why);
    section(&mut text, "providers");
    features(&mut text, 1, &report.providers);
    section(&mut text, "kernel features");
    features(&mut text, 1, &report.features);
    section(&mut text, "limits");
    report.limits.iter().for_each(|limit| self::limit(&mut text, limit));
    if !report.usable() {
        text.push_str("\nNo job can run on this machine as it is: see the lines that say \"no\" above.\n");
    }
    text
}

fn section(text: &mut String, title: &str) {
    text.push('\n');
    text.push_str(title);
    text.push('\n');
}

fn line(text: &mut String, depth: usize, name: &str, value: &str) {
    let indent = "  ".repeat(depth);
    let width = NAMES.saturating_sub(indent.len());
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{indent}{name:width$}  {value}");
}

fn machine(text: &mut String, machine: &Machine) {
    let known = |size: Option<u64>| size.map_or_else(|| "unknown".to_owned(), bytes);
    line(text, 1, "kernel", &machine.kernel);
    line(text, 1, "cores", &machine.cores.to_string());
    let limit = machine.memory_limit.map(|limit| format!("; at most {} in this container", bytes(limit)));
    let memory = format!(
        "{}, {} available{}",
        known(machine.memory),
        known(machine.memory_available),
        limit.unwrap_or_default()
    );
    line(text, 1, "memory", &memory);
    line(text, 1, "page size", &known(machine.page_size));
    let shm = match machine.dev_shm {
        Some((size, free)) => {
            format!("{}, {} free (not needed: scash shares memory by memfds)", bytes(size), bytes(free))
        }
        None => "not there, and not needed: scash shares memory by memfds".to_owned(),
    };
    line(text, 1, "/dev/shm", &shm);
}

fn features(text: &mut String, depth: usize, features: &[Feature]) {
    for feature in features {
        let there = if feature.available { "yes" } else { "no" };
        match &feature.note {
            Some(note) => line(text, depth, &feature.name, &format!("{there}: {note}")),
            None => line(text, depth, &feature.name, there),
        }
        self::features(text, depth + 1, &feature.parts);
    }
}

fn limit(text: &mut String, limit: &Limit) {
    let value = limit.value.map_or_else(|| "unlimited".to_owned(), |value| value.to_string());
    line(text, 1, limit.name, &format!("{value}: {}", limit.note));
}

/// A size as people say it.
fn bytes(size: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = size;
    let mut rest = 0;
    let mut name = "bytes";
    for unit in units {
        if value < 10_000 {
            break;
        }
        (rest, value, name) = (value % 1024, value / 1024, unit);
    }
    if value < 100 && name != "bytes" {
        format!("{value}.{} {name}", rest * 10 / 1024)
    } else {
        format!("{value} {name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short_and_never_larger_than_they_are() {
        let cases = [
            (0, "0 bytes"),
            (4096, "4096 bytes"),
            (10_240, "10.0 KiB"),
            (8_589_934_592, "8192 MiB"),
            (68_719_476_736, "64.0 GiB"),
        ];
        for (size, text) in cases {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn what_is_missing_stands_with_its_reason() {
        let part = Feature {
            name: "part".into(),
            available: false,
            note: Some("needs Linux 9".into()),
            parts: Vec::new(),
        };
        let whole = Feature { name: "whole".into(), available: true, note: None, parts: vec![part] };
        let mut text = String::new();
        features(&mut text, 1, &[whole]);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines, [vec!["whole", "yes"], vec!["part", "no:", "needs", "Linux", "9"]]);
    }
}
