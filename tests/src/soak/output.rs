//! Whether a job has printed what it must have: nothing wrong, nothing missing, nothing twice.

use std::collections::BTreeMap;
use std::path::Path;

/// The files of a directory.
pub type Files = BTreeMap<String, Vec<u8>>;

/// What a job must have printed and written.
#[derive(Clone, Debug)]
pub enum Expected {
    /// One line of JSON, of a result that is equal to the sequential one.
    Report {
        /// Ranks that it must tell of.
        ranks: u32,
    },
    /// These lines, in any order, and these files.
    Lines {
        /// Sorted.
        lines: Vec<String>,
        /// By name.
        files: Files,
    },
}

impl Expected {
    /// Whether a line can be one of these.
    fn may_be(&self, line: &str) -> bool {
        match self {
            Expected::Report { .. } => {
                serde_json::from_str::<serde_json::Value>(line).is_ok_and(|report| report.is_object())
            }
            Expected::Lines { lines, .. } => lines.iter().any(|expected| expected == line),
        }
    }

    /// Checks what the launchers of one job have printed, one after the other, of which all but the last were
    /// killed, and what is in the program's directory. `may_lack`: some was lost, and they have said so.
    ///
    /// # Errors
    /// Something is wrong: what it is.
    pub fn check(&self, outputs: &[&str], directory: &Path, may_lack: bool) -> Result<(), String> {
        let lines = lines(outputs, |line| self.may_be(line));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        match self {
            Expected::Report { .. } if may_lack && lines.is_empty() => Ok(()),
            Expected::Report { ranks } => is_equal(&lines, *ranks, outputs.len()),
            Expected::Lines { lines: expected, files } => {
                are_these(&lines, expected, outputs.len(), may_lack)?;
                are_there(directory, files)
            }
        }
    }
}

/// Whole lines. What a launcher that was killed has left in mid-line is printed again by the next one, or
/// goes on there: a long line leaves a program in pieces, of which the launcher may have noted the first.
fn lines(outputs: &[&str], may_be: impl Fn(&str) -> bool) -> Vec<String> {
    let (mut lines, mut begun) = (Vec::new(), "");
    for (at, output) in outputs.iter().enumerate().filter(|(_, output)| !output.is_empty()) {
        let is_killed = at + 1 < outputs.len();
        let (whole, rest) = output.split_at(if is_killed {
            output.rfind('\n').map_or(0, |end| end + 1)
        } else {
            output.len()
        });
        for (number, line) in whole.lines().enumerate() {
            let joined = format!("{begun}{line}");
            lines.push(if number == 0 && !may_be(line) && may_be(&joined) {
                joined
            } else {
                line.to_owned()
            });
        }
        begun = rest;
    }
    lines
}

fn is_equal(lines: &[&str], ranks: u32, launchers: usize) -> Result<(), String> {
    if lines.is_empty() || lines.len() > launchers {
        return Err(format!("{} reports, where there is one", lines.len()));
    }
    for line in lines {
        let report: serde_json::Value =
            serde_json::from_str(line).map_err(|error| format!("no report: {error}: {line}"))?;
        if report["check"] != "equal" || report["ranks"] != ranks {
            return Err(format!("the result is not that of the sequential program: {line}"));
        }
    }
    Ok(())
}

fn are_these(lines: &[&str], expected: &[String], launchers: usize, may_lack: bool) -> Result<(), String> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    lines.iter().for_each(|line| counts.entry(line).or_default().0 += 1);
    expected.iter().for_each(|line| counts.entry(line).or_default().1 += 1);
    for (line, (printed, expected)) in counts {
        // What a launcher had printed and not yet noted, the next one prints again.
        let most = if expected == 0 { 0 } else { expected + launchers - 1 };
        if printed < expected && !may_lack || printed > most {
            return Err(format!("a line was printed {printed} times, and not {expected}: {line}"));
        }
    }
    Ok(())
}

fn are_there(directory: &Path, expected: &Files) -> Result<(), String> {
    let written = super::programs::files(directory);
    let names = || written.keys().chain(expected.keys());
    match names().find(|name| written.get(*name) != expected.get(*name)) {
        None => Ok(()),
        Some(name) => {
            let text =
                |files: &Files| files.get(name).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            Err(format!("file {name}: {:?}, and not {:?}", text(&written), text(expected)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: &[&str], outputs: &[&str]) -> Result<(), String> {
        let lines = expected.iter().map(|&line| line.to_owned()).collect();
        let nothing = tempfile::tempdir().unwrap();
        Expected::Lines { lines, files: Files::new() }.check(outputs, nothing.path(), false)
    }

    #[test]
    fn lines_that_are_missing_wrong_or_there_twice_are_found() {
        assert_eq!(check(&["one", "two", "two"], &["two\none\ntwo\n"]), Ok(()));
        let two = &["one", "two"];
        for wrong in ["one\n", "one\ntwo\ntwo\n", "one\ntow\n", "one\ntwo\nthree\n", ""] {
            assert!(check(two, &[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lines_that_were_lost_with_a_host_may_be_missing_and_nothing_else_may_be() {
        let lines = vec!["one".to_owned(), "two".to_owned()];
        let expected = Expected::Lines { lines, files: Files::new() };
        let nothing = tempfile::tempdir().unwrap();
        let check = |output: &str| expected.check(&[output], nothing.path(), true);
        assert!(["one\n", "two\none\n", ""].into_iter().all(|right| check(right).is_ok()));
        assert!(["one\none\n", "on\n", "onetwo\n"].into_iter().all(|wrong| check(wrong).is_err()));
    }

    #[test]
    fn a_launcher_that_was_killed_may_have_printed_what_the_next_one_prints_again() {
        let two = &["one", "two"];
        for right in [["one\ntw", "two\n"], ["one\n", "one\ntwo\n"], ["one\ntwo\n", ""], ["", "two\none\n"]] {
            assert_eq!(check(two, &right), Ok(()), "{right:?}");
        }
        for wrong in [["one\n", "one\none\ntwo\n"], ["one\n", "one\n"], ["wrong\n", "one\ntwo\n"]] {
            assert!(check(two, &wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_launcher_goes_on_in_a_line_of_which_the_one_before_had_noted_a_piece() {
        let two = &["one", "two"];
        for right in [["one\ntw", "o\n"], ["tw", "o\none\n"]] {
            assert_eq!(check(two, &right), Ok(()), "{right:?}");
        }
        assert_eq!(check(two, &["one\ntw", "", "o\n"]), Ok(()));
        for wrong in [["one\ntw", "p\n"], ["one\nt", "o\n"], ["one\ntwo\n", "o\n"]] {
            assert!(check(two, &wrong).is_err(), "{wrong:?}");
        }
        let report = Expected::Report { ranks: 2 };
        let check = |outputs: &[&str]| report.check(outputs, Path::new("/nowhere"), false);
        assert_eq!(check(&[r#"{"check":"equal","ran"#, r#"ks":2}"#]), Ok(()));
        assert!(check(&[r#"{"check":"equal","ran"#, "2}"]).is_err());
    }

    #[test]
    fn a_report_is_one_and_says_that_the_result_is_equal() {
        let check =
            |outputs: &[&str]| Expected::Report { ranks: 2 }.check(outputs, Path::new("/nowhere"), false);
        let (equal, other) = (r#"{"check":"equal","ranks":2}"#, r#"{"check":"differs","ranks":2}"#);
        assert_eq!(check(&[equal]), Ok(()));
        assert_eq!(check(&["", equal]), Ok(()));
        assert_eq!(check(&[&format!("{equal}\n"), equal]), Ok(()));
        let twice = format!("{equal}\n{equal}\n");
        for wrong in [other, "", "{", &twice, &equal.replace('2', "1")] {
            assert!(check(&[wrong]).is_err(), "{wrong}");
        }
    }
}
