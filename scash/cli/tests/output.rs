//! What ranks print, and what they read.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{command, run, script, start};

#[test]
fn stdin_goes_to_rank_0_and_the_others_find_it_empty() {
    let mut scash = start(script("-n 3", "echo \"$SCASH_RANK: $(cat)\""));
    common::write(scash.stdin(), b"some input");
    assert_eq!(scash.sorted_lines(3), ["0: some input", "1:", "2:"]);
    assert_eq!(scash.end().status, 0);
}

#[test]
fn labels_say_which_rank_printed_a_line_on_either_stream() {
    let mut ended = run(script("-n 2 --label", "echo out; echo err >&2"));
    let sorted = |text: &mut String| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&mut ended.stdout), ["[0] out", "[1] out"]);
    assert_eq!(sorted(&mut ended.stderr), ["[0] err", "[1] err"]);
}

/// A script whose ranks print 50 lines each, of 10,000 digits: their number. Each line is written in two
/// pieces, longer than a pipe passes on at once.
const LONG_LINES: &str = "i=0; while [ $i -lt 50 ]; do printf '%05000d' $SCASH_RANK; printf '%05000d\\n' $SCASH_RANK; i=$((i+1)); done";

/// Checks that this is what four ranks have printed by that script.
fn are_whole(text: &str, is_labelled: bool) {
    let mut counts = [0; 4];
    for line in text.lines() {
        let (label, digits) = line.split_at(if is_labelled { 4 } else { 0 });
        let rank: usize = digits[4999..5000].parse().unwrap();
        let number = format!("{rank:05000}");
        assert_eq!(digits, number.clone() + &number);
        assert!(!is_labelled || label == format!("[{rank}] "), "{label}");
        counts[rank] += 1;
    }
    assert_eq!(counts, [50; 4]);
}

#[test]
fn lines_stay_whole_when_many_ranks_write_at_once() {
    for (options, is_labelled) in [("-n 4", false), ("-n 4 --label", true)] {
        let ended = run(script(options, LONG_LINES));
        assert_eq!(ended.status, 0);
        are_whole(&ended.stdout, is_labelled);
        let ended = run(script(options, &format!("({LONG_LINES}) >&2")));
        are_whole(&ended.stderr, is_labelled);
    }
}

#[test]
fn lines_stay_whole_in_a_file_of_both_streams_and_in_a_ranks_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("output");
    let file = std::fs::File::create(&path).unwrap();
    // (By the shell's own printf, which writes at once.)
    let text = "i=100; while [ $i -lt 200 ]; do printf '%s ' $SCASH_RANK; printf '%s\\n' $i; i=$((i+1)); printf '%s %s\\n' $SCASH_RANK $i >&2; i=$((i+1)); done";
    let mut command = script("-n 3", text);
    command.stdin(std::process::Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
    assert!(command.status().unwrap().success());
    let text = std::fs::read_to_string(path).unwrap();
    for rank in 0..3 {
        let expected: Vec<String> = (100..200).map(|i| format!("{rank} {i}")).collect();
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with(&format!("{rank} "))).collect();
        assert_eq!(lines, expected);
    }
    assert_eq!(text.lines().count(), 300);
}

#[test]
fn the_end_of_a_line_may_come_late_and_the_launchers_lines_are_not_in_it() {
    let text = "if [ $SCASH_RANK = 0 ]; then printf 'half ' >&2; sleep 0.5; echo a line >&2; exit 3; else sleep 0.2; echo other >&2; fi";
    let ended = run(script("-n 2", text));
    let lines: Vec<_> = ended.stderr.lines().collect();
    assert_eq!(lines[..2], ["other", "half a line"], "{}", ended.stderr);
    assert!(lines.len() == 3 && lines[2].starts_with("scash: rank 0 (pid"), "{}", ended.stderr);
}

#[test]
fn what_is_printed_without_a_lines_end_is_not_changed() {
    assert_eq!(run(script("-n 2", "[ $SCASH_RANK = 1 ] || printf 'a\\nb'")).stdout, "a\nb");
    assert_eq!(run(script("-n 1", "printf 'a\\nb'")).stdout, "a\nb");
    let mut lines: Vec<_> = run(script("-n 2", "printf 'end'")).stdout.lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["end", "end"]);
}

#[test]
fn output_that_cannot_be_written_is_an_error_that_says_why() {
    for options in ["-n 1", "-n 2", "-n 2 --label"] {
        for (redirection, stream) in [(">/dev/full", "output"), ("2>/dev/full", "error")] {
            // It ignores that it cannot print; and another that ends before anybody could know.
            for text in
                ["trap '' PIPE; while sleep 0.01; do echo out; echo err >&2; done", "echo out; echo err >&2"]
            {
                let scash = script(options, text);
                let mut shell = std::process::Command::new("/bin/sh");
                let mark = scash.get_envs().find(|(name, _)| *name == "SCASH_TEST_MARK").unwrap();
                shell.env(mark.0, mark.1.unwrap());
                shell.args(["-c", &format!("exec \"$@\" {redirection}"), "sh"]);
                shell.arg(scash.get_program()).args(scash.get_args());
                let ended = run(shell);
                assert_eq!(ended.status, 125, "{options} {redirection} {text}: {}", ended.stderr);
                let words = format!("scash: cannot write to standard {stream}: No space left on device");
                let is_named = ended.stderr.matches(&words).count() == 1;
                assert!(is_named == (stream == "output"), "{options}: {}", ended.stderr);
                assert!(!ended.stderr.contains("SIGPIPE") && ended.left.is_empty(), "{}", ended.stderr);
            }
        }
    }
}

#[test]
fn a_last_line_without_an_end_gets_one() {
    let ended = run(script("-n 1 --label", "printf 'first\\nno end'"));
    assert_eq!(ended.stdout, "[0] first\n[0] no end\n");
}

#[test]
fn a_very_long_line_comes_out_whole() {
    let ended = run(script("-n 1 --label", "head -c 3000000 /dev/zero | tr '\\0' x; echo"));
    assert_eq!(ended.stdout.len(), "[0] \n".len() + 3_000_000);
}

#[test]
fn large_outputs_lose_nothing_with_labels_and_without() {
    for (options, label) in [("-n 2", 0), ("-n 2 --label", 4)] {
        let ended = run(script(options, "yes 123456789 | head -n 200000"));
        assert_eq!(ended.status, 0);
        assert_eq!(ended.stdout.len(), 2 * 200_000 * (10 + label), "{options}");
    }
}

#[test]
fn output_of_a_failing_job_is_not_lost() {
    let ended = run(script("-n 2 --label", "yes 123456789 | head -n 20000; exit $SCASH_RANK"));
    assert_eq!(ended.status, 1);
    assert_eq!(ended.stdout.len(), 2 * 20_000 * 14);
}

#[test]
fn a_reader_that_goes_away_ends_the_ranks_and_not_with_a_panic() {
    let scash = env!("CARGO_BIN_EXE_scash");
    for label in ["", "--label"] {
        let line = format!("{scash} run -n 2 {label} yes | head -n 3 | wc -l");
        let mut shell = command::<&str>([]);
        let mark =
            shell.get_envs().find_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).unwrap();
        shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", &line]).env(mark.0, mark.1);
        let ended = run(shell);
        assert_eq!(ended.stdout.trim(), "3");
        assert!(!ended.stderr.contains("panic"), "{}", ended.stderr);
        assert!(ended.left.is_empty(), "{:?}", ended.left);
    }
}

#[test]
fn a_reader_that_is_slow_does_not_hold_up_ctrl_c() {
    // Nobody reads the pipe until the job has ended.
    use std::io::Read;
    use std::process::Stdio;
    let mut scash = script("-n 2 --label", "echo up >&2; yes");
    let mut child = scash.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = child.stderr.take().unwrap();
    let mut two_lines = [0; 14];
    errors.read_exact(&mut two_lines).unwrap();
    common::kill("INT", i32::try_from(child.id()).unwrap());
    let started = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < common::LIMIT, "scash hangs");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
