#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::printer::{SavedPrinter, start};
use super::*;
use crate::run::output::copy::Sink;
use std::io::{ErrorKind, Write};
use std::os::linux::fs::MetadataExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

/// Long enough for any machine.
const TIMEOUT: Duration = Duration::from_secs(20);

struct Screen(Sender<(u32, Vec<u8>)>);

impl Sink for Screen {
    fn take(&mut self, rank: u32, bytes: &[u8]) -> io::Result<()> {
        self.0.send((rank, bytes.to_vec())).map_err(|_| ErrorKind::BrokenPipe.into())
    }
}

struct SlowScreen(SyncSender<(u32, Vec<u8>)>);

impl Sink for SlowScreen {
    fn take(&mut self, rank: u32, bytes: &[u8]) -> io::Result<()> {
        self.0.send((rank, bytes.to_vec())).map_err(|_| ErrorKind::BrokenPipe.into())
    }
}

/// What has come to a screen.
type Seen = Receiver<(u32, Vec<u8>)>;

fn printer(saved: &Arc<Saved>) -> (SavedPrinter, [Seen; 2]) {
    let ((out, seen_out), (err, seen_err)) = (channel(), channel());
    (start(Arc::clone(saved), [Screen(out), Screen(err)]).unwrap(), [seen_out, seen_err])
}

fn say(saved: &Saved, rank: usize, text: &str) {
    File::from(saved.given(rank).unwrap().stdout.unwrap()).write_all(text.as_bytes()).unwrap();
}

fn all(seen: &Seen) -> Vec<(u32, String)> {
    seen.iter().map(|(rank, bytes)| (rank, String::from_utf8(bytes).unwrap())).collect()
}

#[test]
fn what_is_part_of_an_epoch_is_printed_once_and_the_rest_is_taken_back() {
    let saved = Arc::new(Saved::new(2, false).unwrap());
    let (printer, [out, err]) = printer(&saved);
    say(&saved, 0, "one\ntwo\n");
    say(&saved, 1, "other\n");
    printer.print(&[[4, 0], [0, 0]]);
    assert_eq!(out.recv_timeout(TIMEOUT).unwrap(), (0, b"one\n".to_vec()));
    saved.cut(&[[4, 0], [0, 0]]).unwrap();
    say(&saved, 0, "2\n");
    File::from(saved.given(0).unwrap().stderr.unwrap()).write_all(b"error\n").unwrap();
    printer.finish();
    assert_eq!(all(&out), [(0, "2\n".to_owned()), (0, String::new()), (1, String::new())]);
    assert_eq!(all(&err)[0], (0, "error\n".to_owned()));
}

/// Output in a directory, as a launcher finds it after one that was killed when it had printed so much.
fn found(printed: &str, kept: &str) -> (tempfile::TempDir, Arc<Saved>) {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = directory.path().join(name);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).open(path).unwrap()
    };
    let append = |name| {
        file(name);
        File::options().append(true).read(true).open(directory.path().join(name)).unwrap()
    };
    let (files, record) = (vec![vec![append("out")]], Some(file("printed")));
    let place = Some(directory.path().to_owned());
    let saved = Saved { files, first: 0, record, directory: place, is_kept: false };
    saved.note(0, 0, printed.rfind('\n').map_or(0, |end| end as u64 + 1)).unwrap();
    say(&saved, 0, printed);
    take_back(&saved, kept.len());
    (directory, Arc::new(saved))
}

/// As a launcher does that goes on.
fn take_back(saved: &Saved, length: usize) {
    saved.keep_seen(&[[length as u64, 0]]).unwrap();
    saved.cut(&[[length as u64, 0]]).unwrap();
}

#[test]
fn what_is_printed_anew_goes_on_where_it_was_or_with_a_whole_line_if_it_is_other_text() {
    let long = format!("{}\n", "x".repeat(10_000));
    for (before, kept, again, shown) in [
        ("one\ntwo\n", "one\n", "two\nthree\n", "three\n"),
        ("one\ntwo\n", "one\n", "twenty\nthree\n", "twenty\nthree\n"),
        ("one\ntwenty\n", "one\n", "two\nthree\n", "two\nthree\n"),
        ("one\ntw", "one\n", "two\n", "two\n"),
        ("one\ntwo\n", "one\ntw", "enty\n", "enty\n"),
        ("one\ntwo\n", "one\n", "2\n", "2\n"),
        ("one\ntwo\n", "one\n", "two", ""),
        ("one\ntwo\nthree\n", "one\n", "two\n3\n", "3\n"),
        ("one\ntwo\nfailed: there is no space left on this disk\n", "one\n", "two\n3\n", "3\n"),
        ("one\ntwo\n", "one\n", &long, &long),
        (&long, "x", &long[1..], ""),
    ] {
        let (_directory, saved) = found(before, kept);
        let (printer, [out, _err]) = printer(&saved);
        say(&saved, 0, again);
        printer.finish();
        let seen: Vec<String> = all(&out).into_iter().map(|(_, text)| text).collect();
        assert_eq!(seen.concat(), shown, "{before:?}, {kept:?}, {again:?}");
        let lines = (kept.to_owned() + again).rfind('\n').map_or(0, |end| end as u64 + 1);
        assert_eq!(saved.printed(), [[lines, 0]], "{before:?}, {kept:?}, {again:?}");
    }
}

/// The first of those is killed before ranks print, the second when more is part of an epoch, up to within a
/// line perhaps. The third takes that one, or the one before, or one that the second has not printed yet.
#[test]
fn what_was_seen_is_left_out_also_by_who_goes_on_after_one_that_was_killed() {
    for (committed, taken, again, shown) in [
        (4, 4, "3\n4\n6\n", "6\n"),
        (4, 2, "2\n3\n4\n6\n", "6\n"),
        (5, 5, "\n4\n6\n", "6\n"),
        (5, 2, "2\n3\n4\n6\n", "6\n"),
        (4, 5, "\n4\n6\n", "6\n"),
        (4, 6, "4\n6\n", "6\n"),
        (5, 5, "3\n4\n6\n", "33\n4\n6\n"),
    ] {
        let (directory, saved) = found("1\n2\n3\n4\n5\n", "1\n");
        take_back(&saved, 2);
        let (second, [out, _err]) = printer(&saved);
        say(&saved, 0, "2\n3\n");
        second.print(&[[committed, 0]]);
        let deadline = Instant::now() + TIMEOUT;
        while saved.printed() != [[4, 0]] {
            assert!(Instant::now() < deadline, "it is not noted");
        }
        assert_eq!(out.try_iter().count(), 0);
        take_back(&saved, taken);
        let (third, [out, _err]) = printer(&saved);
        say(&saved, 0, again);
        third.finish();
        let seen: Vec<String> = all(&out).into_iter().map(|(_, text)| text).collect();
        assert_eq!(seen.concat(), shown, "{committed} {taken} {again:?}");
        assert!(!directory.path().join("rank-0.out.seen").exists());
    }
}

/// They are killed when ranks have printed other text, of which some was shown.
#[test]
fn nothing_is_left_out_behind_other_text() {
    let (_directory, saved) = found("1\n2\n3\n4\n5\n", "1\n");
    take_back(&saved, 2);
    let (second, [out, _err]) = printer(&saved);
    say(&saved, 0, "2\n7\n");
    second.print(&[[6, 0]]);
    assert_eq!(out.recv_timeout(TIMEOUT).unwrap().1, b"7\n");
    let deadline = Instant::now() + TIMEOUT;
    while saved.printed() != [[6, 0]] {
        assert!(Instant::now() < deadline, "it is not noted");
    }
    take_back(&saved, 6);
    let (third, [out, _err]) = printer(&saved);
    say(&saved, 0, "4\n5\n");
    third.finish();
    let seen: Vec<String> = all(&out).into_iter().map(|(_, text)| text).collect();
    assert_eq!(seen.concat(), "4\n5\n");
}

/// Where the files have room for no more.
#[test]
fn what_was_seen_and_cannot_be_kept_is_shown_again() {
    let (directory, saved) = found("one\ntwo\n", "one\n");
    std::fs::remove_file(directory.path().join("rank-0.out.seen")).unwrap();
    let (printer, [out, _err]) = printer(&saved);
    say(&saved, 0, "two\n");
    printer.finish();
    assert_eq!(all(&out)[0].1, "two\n");
}

/// Told of as what cannot be written is.
#[test]
fn what_cannot_be_read_does_not_count_as_printed() {
    struct Told(Sender<Option<i32>>);
    impl Sink for Told {
        fn take(&mut self, _: u32, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn fail(&mut self, why: &io::Error) {
            self.0.send(why.raw_os_error()).unwrap();
        }
    }
    let (directory, mut saved) = found("one\n", "one\n");
    say(&saved, 0, "two\n");
    let path = directory.path().join("out");
    Arc::get_mut(&mut saved).unwrap().files = vec![vec![File::options().append(true).open(path).unwrap()]];
    let (told, failures) = channel();
    let printer = start(Arc::clone(&saved), [Told(told.clone()), Told(told)]).unwrap();
    printer.print(&[[8, 0]]);
    assert_eq!(failures.recv_timeout(TIMEOUT).unwrap(), Some(libc::EBADF));
    printer.finish();
    assert_eq!(failures.iter().count(), 0);
    assert_eq!(saved.printed(), [[4, 0]]);
}

/// On a disk that is full with the so-manieth piece: that one and all behind it go nowhere. Who listens knows
/// when it is dropped.
struct FullScreen {
    left: usize,
    _until_dropped: Sender<()>,
}

impl Sink for FullScreen {
    fn take(&mut self, _: u32, _: &[u8]) -> io::Result<()> {
        self.left = self.left.saturating_sub(1);
        Ok(())
    }

    fn has_failed(&self) -> bool {
        self.left == 0
    }
}

#[test]
fn what_a_full_disk_has_not_taken_is_left_to_who_goes_on_with_the_job() {
    let (_directory, saved) = found("", "");
    say(&saved, 0, "one\n");
    let (kept, ended) = channel();
    let screens = [kept.clone(), kept].map(|kept| FullScreen { left: 2, _until_dropped: kept });
    let first = start(Arc::clone(&saved), screens).unwrap();
    first.print_all(TIMEOUT);
    for line in ["two\n", "three\n"] {
        say(&saved, 0, line);
        first.print_all(TIMEOUT);
    }
    first.finish();
    assert_eq!(ended.iter().count(), 0);
    assert_eq!(saved.printed(), [[4, 0]]);
    let (next, [out, _err]) = printer(&saved);
    next.finish();
    let seen: Vec<String> = all(&out).into_iter().map(|(_, text)| text).collect();
    assert_eq!(seen.concat(), "two\nthree\n");
}

#[test]
fn ranks_go_on_that_had_ended_and_print_the_rest_anew() {
    let saved = Arc::new(Saved::new(1, false).unwrap());
    // A reader who takes one piece and then no more for a while.
    let (seen, out) = sync_channel(0);
    let text = |number: u64| format!("{number} {}\n", "x".repeat(999 - number.to_string().len()));
    let all_text: String = (0..200).map(text).collect();
    say(&saved, 0, &all_text);
    let printer = start(Arc::clone(&saved), [SlowScreen(seen.clone()), SlowScreen(seen)]).unwrap();
    printer.finish();
    let mut shown = out.recv_timeout(TIMEOUT).unwrap().1;
    // They are taken back to the fourth line, and print anew what they had printed.
    assert!(printer.go_on());
    saved.cut(&[[3 * 1001, 0]]).unwrap();
    say(&saved, 0, &all_text[3 * 1001..100_000]);
    printer.print(&[[90_000, 0]]);
    let take = |shown: &mut Vec<u8>, length| {
        while shown.len() < length {
            shown.extend(out.recv_timeout(TIMEOUT).unwrap().1);
        }
    };
    take(&mut shown, 90_000);
    say(&saved, 0, &all_text[100_000..]);
    printer.finish();
    take(&mut shown, all_text.len());
    assert!(shown == all_text.as_bytes());
    out.iter().for_each(|(_, rest)| assert!(rest.is_empty()));
    assert!(!printer.go_on(), "it has ended");
}

#[test]
fn both_streams_are_one_file_where_ours_are() {
    let saved = Arc::new(Saved::new(1, true).unwrap());
    let (printer, [out, err]) = printer(&saved);
    say(&saved, 0, "out ");
    File::from(saved.given(0).unwrap().stderr.unwrap()).write_all(b"err\n").unwrap();
    printer.print(&[[8, 8]]);
    assert_eq!(out.recv_timeout(TIMEOUT).unwrap(), (0, b"out err\n".to_vec()));
    printer.finish();
    assert_eq!((all(&out).len(), all(&err)), (1, vec![(0, String::new())]));
}

#[test]
fn all_is_printed_when_it_is_asked_for_and_what_is_printed_takes_no_memory() {
    let saved = Arc::new(Saved::new(1, false).unwrap());
    let (printer, [out, _err]) = printer(&saved);
    let text = "x".repeat(1 << 20);
    say(&saved, 0, &text);
    printer.print_all(TIMEOUT);
    assert_eq!(out.try_iter().map(|(_, bytes)| bytes.len()).sum::<usize>(), text.len());
    let deadline = Instant::now() + TIMEOUT;
    while saved.files[0][0].metadata().unwrap().st_blocks() > 16 {
        assert!(Instant::now() < deadline, "it still takes memory");
    }
    say(&saved, 0, "y");
    printer.finish();
    assert_eq!(all(&out)[0], (0, "y".to_owned()));
}

#[test]
fn what_is_printed_and_noted_takes_no_more_of_a_disk_than_a_part() {
    let record = memfd_create(c"record", MFdFlags::MFD_CLOEXEC).unwrap();
    let saved = Arc::new(Saved { record: Some(record.into()), ..Saved::new(1, false).unwrap() });
    let (printer, [out, _err]) = printer(&saved);
    let text = format!("{}\n", "x".repeat(99)).repeat(32_000);
    say(&saved, 0, &text);
    printer.print(&[[text.len() as u64, 0]]);
    printer.print_all(TIMEOUT);
    assert_eq!(out.try_iter().map(|(_, bytes)| bytes.len()).sum::<usize>(), text.len());
    let room = || saved.files[0][0].metadata().unwrap().st_blocks() * 512;
    assert!(room() >= text.len() as u64, "who goes on from the epoch before cannot compare it");
    say(&saved, 0, "more\n");
    printer.print(&[[text.len() as u64 + 5, 0]]);
    let deadline = Instant::now() + TIMEOUT;
    // What is behind the last whole part.
    while room() > (1 << 20) + (64 << 10) {
        assert!(Instant::now() < deadline, "it still takes room");
    }
    printer.finish();
    assert_eq!(saved.printed(), [[text.len() as u64 + 5, 0]]);
}

#[test]
fn a_reader_who_goes_away_and_a_program_that_cuts_its_output_hold_up_nobody() {
    let saved = Arc::new(Saved::new(2, false).unwrap());
    let (printer, [out, err]) = printer(&saved);
    drop(out);
    say(&saved, 0, "nobody reads this");
    printer.print(&[[5, 0], [1000, 7]]);
    printer.print_all(TIMEOUT);
    say(&saved, 1, "nor this");
    printer.finish();
    assert_eq!(all(&err).len(), 2);
}
