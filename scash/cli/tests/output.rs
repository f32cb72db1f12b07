//! What ranks print, and what they read.

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

#[test]
fn labelled_lines_stay_whole_when_many_ranks_write_at_once() {
    // Each line is written in two pieces, longer than a pipe passes on at once.
    let script_text = "i=0; while [ $i -lt 50 ]; do printf '%05000d' $SCASH_RANK; printf '%05000d\\n' $SCASH_RANK; i=$((i+1)); done";
    let ended = run(script("-n 4 --label", script_text));
    assert_eq!(ended.status, 0);
    let mut counts = [0; 4];
    for line in ended.stdout.lines() {
        let rank: usize = line[1..2].parse().unwrap();
        let number = format!("{rank:05000}");
        assert_eq!(line, format!("[{rank}] {number}{number}"));
        counts[rank] += 1;
    }
    assert_eq!(counts, [50; 4]);
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
