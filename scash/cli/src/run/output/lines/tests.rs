#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

const MOMENT: Duration = Duration::from_millis(1);

/// Lines, the time, and what has gone out.
struct Play {
    lines: Lines,
    now: Instant,
    out: Vec<u8>,
}

fn play(label: bool, is_terminal: bool) -> Play {
    Play { lines: Lines::new(label, false, is_terminal), now: Instant::now(), out: Vec::new() }
}

impl Play {
    fn says(&mut self, rank: u32, text: &str) {
        let out = self.lines.take(rank, text.as_bytes(), self.now);
        self.out.extend(out);
    }

    /// Time passes, as long as beginnings wait.
    fn waits(&mut self) {
        self.now += WHILE;
        assert!(self.lines.due().is_none_or(|due| due <= self.now));
        let out = self.lines.tick(self.now);
        self.out.extend(out);
    }

    /// What has gone out since the last time.
    fn shown(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.out)).unwrap()
    }
}

#[test]
fn labelled_lines_come_out_whole_however_they_come_in() {
    for step in 1..12 {
        let mut play = play(true, false);
        for piece in b"one\n\nthree is long\nfour has no end".chunks(step) {
            play.says(7, std::str::from_utf8(piece).unwrap());
        }
        let shown = play.shown();
        assert_eq!(shown, "[7] one\n[7] \n[7] three is long\n", "an unfinished line waits");
        play.says(7, "");
        assert_eq!(play.shown(), "[7] four has no end\n");
    }
}

#[test]
fn no_output_is_no_line() {
    let mut play = play(true, false);
    play.says(0, "");
    assert_eq!(play.shown(), "");
}

#[test]
fn lines_of_several_ranks_are_not_mixed() {
    let mut play = play(false, false);
    for (rank, piece) in [(0, "on"), (1, "two\nth"), (0, "e\nfour\nfi"), (1, "ree\n")] {
        play.says(rank, piece);
        play.waits();
    }
    assert_eq!(play.shown(), "two\none\nfour\nthree\n");
    play.says(1, "six");
    play.says(0, "");
    play.says(1, "");
    assert_eq!(
        play.shown(),
        "fi\nsix",
        "last lines without ends are kept apart, and nothing is added at the end"
    );
}

#[test]
fn a_rank_that_is_alone_is_not_held_up() {
    let mut play = Play { lines: Lines::new(false, true, false), ..play(false, false) };
    play.says(0, "half a li");
    assert_eq!(play.shown(), "half a li");
    play.says(0, "ne\nand");
    play.says(0, "");
    assert_eq!(play.shown(), "ne\nand");
    play.out = play.lines.say("scash: says\n", play.now);
    assert_eq!(play.shown(), "\nscash: says\n");
}

#[test]
fn a_terminal_shows_a_question_after_a_while_and_again_after_it_was_broken() {
    let mut play = play(false, true);
    play.says(1, "Name? ");
    play.now += MOMENT;
    assert!(play.lines.tick(play.now).is_empty() && play.shown().is_empty(), "not at once");
    play.waits();
    assert_eq!(play.shown(), "Name? ");
    play.says(2, "a line\n");
    assert_eq!(play.shown(), "\na line\n");
    play.waits();
    assert_eq!(play.shown(), "Name? ");
    play.says(1, "thanks\nnext");
    assert_eq!(play.shown(), "thanks\n");
    play.says(1, "\n");
    assert_eq!(play.shown(), "next\n");
    play.waits();
    assert_eq!((play.shown().as_str(), play.lines.due()), ("", None));
}

#[test]
fn a_progress_bar_goes_on_in_its_line_and_is_not_broken_by_another_one() {
    let mut play = play(true, true);
    play.says(1, "10%");
    play.waits();
    play.says(2, "5%");
    play.waits();
    play.says(1, "\r20%");
    play.waits();
    assert_eq!(play.shown(), "[1] 10%\r20%");
    // A line breaks it; what had been overwritten does not come again. Rank 0 may break it, too: somebody may
    // have to answer.
    play.says(0, "line\nName? ");
    assert_eq!(play.shown(), "\n[0] line\n");
    play.waits();
    assert_eq!(play.shown(), "[0] Name? ");
    play.says(1, "\r100%\n");
    assert_eq!(play.shown(), "\n[1] \r20%\r100%\n");
}

#[test]
fn a_line_that_is_too_long_goes_out_in_pieces_that_are_not_mixed_with_others() {
    let mut play = play(false, false);
    let long = "x".repeat(LONGEST);
    play.says(0, &long);
    assert_eq!(play.shown(), "");
    play.says(0, "y");
    play.says(0, "z");
    assert_eq!(play.shown().len(), LONGEST + 2);
    play.says(1, "other\n");
    play.says(0, "end\n");
    assert_eq!(play.shown(), "\nother\nend\n");
}
