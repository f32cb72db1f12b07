//! Races that were once lost, each as a small program that is run under many schedules. Every one of these
//! fails within its schedules if the rule that it tells of is taken out of the protocol.

use scash_proto::node::Collective;
use scash_proto::{AllocOptions, Pages, Placement, Protocol, Rank, Transfer};
use scash_sim::program::{Change, Op, Script, Span, Word};
use scash_sim::{Setup, World};
use std::ops::Range;

/// Runs a program under many schedules, half of them with shared memory, half with a network, a few things
/// being very slow in each.
fn schedules(base: Setup, program: impl Fn() -> Script) {
    for seed in 0..400u64 {
        let setup = Setup {
            seed,
            puts_at_once: base.puts_at_once && seed % 2 == 0,
            slow: [0, 20, 40][(seed / 2 % 3) as usize],
            slowness: [20, 200][(seed / 6 % 2) as usize],
            burst: [0, 70][(seed / 12 % 2) as usize],
            ..base
        };
        let end = World::new(setup, program().into_program()).run();
        end.unwrap_or_else(|failure| panic!("{failure}"));
    }
}

fn update(placement: Placement) -> AllocOptions {
    AllocOptions { placement, protocol: Protocol::Update, block: 1 }
}

/// One of `of` equal parts of a page.
fn part(page: u32, i: u32, of: u32) -> Span {
    let len = 4096 / of as usize;
    Span { page, first: i as usize * len, len }
}

/// An interval in which ranks read all bytes of an area.
fn read_all(script: &mut Script, ranks: Range<u32>, area: Pages) {
    script.interval(|interval| {
        for rank in ranks {
            area.iter().for_each(|page| interval.push(rank, Op::Read(Span::page(page))));
        }
    });
}

/// A page's changes go by message in one barrier and by put in the next. The sharer may still be in the first
/// barrier, with the message not taken, when the put is in its frame already: the message then undid it. So a
/// page whose changes went by message goes by message in the next barrier, too.
#[test]
fn a_put_does_not_overtake_an_older_message_about_the_same_page() {
    let base = Setup { messaged: 50, puts_at_once: false, ..Setup::new(3, 8) };
    schedules(base, || {
        let mut script = Script::new(3, 8);
        let area = script.alloc(8, update(Placement::Rank(0)));
        for i in 0..40u8 {
            script.interval(|interval| {
                for page in area.iter() {
                    // In turns everything, a half, nothing; what is not written is read by all.
                    let parts = match i % 3 {
                        0 => 0..2,
                        1 => 0..1,
                        _ => 0..0,
                    };
                    for p in 0..2 {
                        if parts.contains(&p) {
                            interval.push(0, Op::Write(part(page, p, 2), i));
                        } else {
                            (1..3).for_each(|r| interval.push(r, Op::Read(part(page, p, 2))));
                        }
                    }
                }
            });
        }
        script
    });
}

/// A broadcast's pages come to a sharer by way of other ranks. Its home left the barrier, changed the page
/// and brought the change to the sharer, and then the old page arrived. So a broadcast ends with a meeting.
#[test]
fn a_broadcast_page_does_not_undo_what_its_home_wrote_next() {
    schedules(Setup::new(5, 4), || {
        let mut script = Script::new(5, 4);
        let area = script.alloc(4, update(Placement::Rank(1)));
        for i in 0..30u8 {
            script.interval(|interval| {
                for page in area.iter() {
                    if i % 3 < 2 {
                        interval.push(1, Op::Write(Span::page(page), i));
                    } else {
                        (0..5).for_each(|r| interval.push(r, Op::Read(Span::page(page))));
                    }
                }
                if i % 3 == 0 {
                    interval.end = Collective::Broadcast(area);
                }
            });
        }
        script
    });
}

/// A rank writes bytes back early, straight into the home's frame, when the home has compared that page for
/// this barrier already. To the home these looked like changes of its own in the next interval, and it
/// brought the old values to everybody. So a twin that stays is renewed when what others wrote has been
/// passed on.
#[test]
fn bytes_written_back_are_not_taken_for_the_homes_own() {
    schedules(Setup::new(3, 2), || {
        let mut script = Script::new(3, 2);
        let area = script.alloc(2, update(Placement::Rank(0)));
        for i in 0..45u8 {
            script.interval(|interval| {
                for page in area.iter() {
                    interval.push(0, Op::Write(part(page, 0, 4), i));
                    // Written and written back, written only, read.
                    match i % 3 {
                        0 => {
                            interval.push(1, Op::Write(part(page, 1, 4), i));
                            interval.push(1, Op::WriteBack(Pages::one(page)));
                        }
                        1 => interval.push(1, Op::Write(part(page, 1, 4), i)),
                        _ => (0..3).for_each(|r| interval.push(r, Op::Read(part(page, 1, 4)))),
                    }
                    interval.push(2, Op::Read(part(page, 2, 4)));
                }
            });
        }
        script
    });
}

/// A new sharer fetches a page while its home, already in the barrier, puts its newest bytes there. Stored
/// after the put, the older page that the fetch had read undid it. Providers let puts wait for gets of the
/// same page; but since pages that sharers fetched come again at the barrier (below), the protocol does not
/// rely on it: here they do not wait.
#[test]
fn a_fetch_does_not_undo_the_push_that_overtakes_it() {
    schedules(Setup { exclusion: false, ..Setup::new(3, 48) }, || {
        let mut script = Script::new(3, 48);
        let areas: Vec<Pages> = (0..8).map(|_| script.alloc(6, update(Placement::Rank(0)))).collect();
        for (i, area) in (0u8..).zip(areas) {
            // Fetched and subscribed to; fetched again while the home writes the other half; read.
            read_all(&mut script, 1..3, area);
            script.interval(|interval| {
                for page in area.iter() {
                    interval.push(0, Op::Write(part(page, 0, 2), i + 1));
                    (1..3).for_each(|r| interval.push(r, Op::Read(part(page, 1, 2))));
                }
            });
            read_all(&mut script, 1..3, area);
        }
        script
    });
}

/// All ranks touch the same pages first. The home is known after one meeting, but the others' bytes come to
/// it only then; whoever left after the second meeting could fetch the page without them. So there is a third
/// one.
#[test]
fn a_disputed_page_is_complete_before_anybody_fetches_it() {
    schedules(Setup::new(6, 12), || {
        let mut script = Script::new(6, 12);
        for i in 0..3u8 {
            let area = script.alloc(4, AllocOptions::default());
            script.interval(|interval| {
                for page in area.iter() {
                    (0..6).for_each(|r| interval.push(r, Op::Write(part(page, r, 6), i + 1)));
                }
            });
            script.interval(|interval| {
                (0..6).for_each(|r| {
                    area.iter().for_each(|p| interval.push(r, Op::Read(part(p, (r + 1) % 6, 6))))
                });
            });
        }
        script
    });
}

/// A page's home moves while sharers are owed what others wrote to it. The home forgot the sharers before it
/// had sent what it had announced to them, and they waited forever. So a page that moves has no sharers when
/// changes are passed on.
#[test]
fn a_page_that_moves_owes_its_sharers_nothing() {
    schedules(Setup { transfer: Transfer::Message, ..Setup::new(4, 3) }, || {
        let mut script = Script::new(4, 3);
        let area = script.alloc(3, update(Placement::Rank(0)));
        for i in 0..16u8 {
            let rank = |n: u8| u32::from((i + n) % 4);
            script.interval(|interval| {
                for page in area.iter() {
                    interval.push(rank(1), Op::Write(part(page, 0, 2), i));
                    (0..4).for_each(|r| interval.push(r, Op::Read(part(page, 1, 2))));
                }
                if i % 3 == 2 {
                    interval.push(rank(0), Op::SetHome(area, Rank(rank(3))));
                }
            });
            read_all(&mut script, 0..4, area);
        }
        script
    });
}

/// The last sharer of a page leaves in the barrier that ends an interval in which the home wrote it. The
/// home's right to write was restored, and then taken by the barrier's last step, unknown to the page table:
/// the next write would fault for ever.
#[test]
fn the_last_sharer_may_leave_while_the_home_writes() {
    // Rank 1 has room for two of the four pages, and gives the first two up when it reads the others.
    schedules(Setup { predict: false, cache: 2, ..Setup::new(2, 4) }, || {
        let mut script = Script::new(2, 4);
        let options = AllocOptions { placement: Placement::Rank(0), ..AllocOptions::default() };
        let area = script.alloc(4, options);
        for i in 0..40u8 {
            script.interval(|interval| {
                for page in area.iter() {
                    interval.push(0, Op::Write(part(page, 0, 2), i));
                }
                let read = u32::from(i / 6 % 2) * 2;
                for page in [read, read + 1] {
                    interval.push(1, Op::Read(part(area.first + page, 1, 2)));
                }
            });
        }
        script
    });
}

/// A new sharer fetches a page while its home changes a byte and changes it back. The home's comparison with
/// its twin finds nothing to bring, and the sharer kept what the byte had been in between: LU over TCP was
/// wrong once in a hundred and fifty runs. So pages that sharers fetched in an interval are brought to them
/// whole at its end.
#[test]
fn what_a_byte_was_for_a_moment_is_not_kept() {
    schedules(Setup::new(3, 48), || {
        let mut script = Script::new(3, 48);
        let areas: Vec<Pages> = (0..8).map(|_| script.alloc(6, update(Placement::Rank(0)))).collect();
        for (i, area) in (0u8..).zip(areas) {
            script.interval(|interval| {
                area.iter().for_each(|p| interval.push(0, Op::Write(part(p, 0, 2), i)));
            });
            read_all(&mut script, 1..3, area);
            script.interval(|interval| {
                for page in area.iter() {
                    interval.push(0, Op::Flicker(part(page, 0, 2), i + 100));
                    (1..3).for_each(|r| interval.push(r, Op::Read(part(page, 1, 2))));
                }
            });
            read_all(&mut script, 1..3, area);
        }
        script
    });
}

/// The same, where one sharer gets updates, so that its home has a twin to compare with, and the other is
/// only told. The home found nothing changed and told nobody.
#[test]
fn a_sharer_that_is_only_told_does_not_keep_what_a_byte_was_for_a_moment() {
    schedules(Setup::new(3, 48), || {
        let mut script = Script::new(3, 48);
        let areas: Vec<Pages> = (0..8).map(|_| script.alloc(6, update(Placement::Rank(0)))).collect();
        for (i, area) in (0u8..).zip(areas) {
            script.interval(|interval| {
                interval.push(2, Op::SetProtocol(area.first, Protocol::Invalidate));
                area.iter().for_each(|p| interval.push(0, Op::Write(part(p, 0, 2), i)));
            });
            read_all(&mut script, 1..3, area);
            script.interval(|interval| {
                for page in area.iter() {
                    interval.push(0, Op::Flicker(part(page, 0, 2), i + 100));
                    (1..3).for_each(|r| interval.push(r, Op::Read(part(page, 1, 2))));
                }
            });
            read_all(&mut script, 1..3, area);
        }
        script
    });
}

/// The word in the middle of a page.
fn word(page: u32) -> Word {
    Word { page, first: 2048, width: 8 }
}

/// A home wrote a page and brought what differed to its sharers on its way into the barrier: with it a word
/// that others still operated on. To a sharer that had written other bytes of the page the word looked like a
/// write of its own, and went home, over what later operations had made of it. So a page on which others
/// operate is marked at its home, which then waits with it until all have come.
#[test]
fn a_word_that_is_operated_on_does_not_come_back_from_a_sharer() {
    schedules(Setup::new(3, 4), || {
        let mut script = Script::new(3, 4);
        let area = script.alloc(4, update(Placement::Rank(0)));
        read_all(&mut script, 0..3, area);
        for i in 0..20u8 {
            script.interval(|interval| {
                for page in area.iter() {
                    (0..2).for_each(|r| interval.push(r, Op::Write(part(page, r, 4), i)));
                    (0..4).for_each(|n| interval.push(2, Op::Operate(word(page), Change::Add(n + 1))));
                }
            });
            if i % 4 == 3 {
                read_all(&mut script, 0..3, area);
            }
        }
        script
    });
}

/// Operations have brought a page to the frame of the rank that asked first, while another rank touched it
/// first as plain memory, and is its home. Where the page was operated on was forgotten with the barrier, and
/// so are claims when memory is freed: the next to use it began where the last one had.
#[test]
fn a_page_that_is_operated_on_and_touched_first_by_others_is_whole() {
    schedules(Setup::new(4, 6), || {
        let mut script = Script::new(4, 6);
        for i in 0..6u8 {
            let area = script.alloc(6, AllocOptions { block: 2, ..AllocOptions::default() });
            script.interval(|interval| {
                for page in area.iter() {
                    let rank = |n: u32| (page + n + u32::from(i)) % 4;
                    (1..2 + page % 3)
                        .for_each(|n| interval.push(rank(n), Op::Operate(word(page), Change::Add(7))));
                    if page % 3 > 0 {
                        interval.push(rank(0), Op::Write(part(page, 0, 4), i + 1));
                    }
                }
            });
            read_all(&mut script, 0..4, area);
            script.interval(|interval| {
                for page in area.iter() {
                    (0..4).for_each(|r| interval.push(r, Op::Operate(word(page), Change::Add(1))));
                }
            });
            read_all(&mut script, 0..4, area);
            script.free(area);
        }
        script
    });
}

/// Who operates on a word does so at its home: its own copy is none the wiser. Of a page that only one rank
/// had written, that rank was taken to have the newest bytes.
#[test]
fn who_operates_on_a_word_gets_the_page_again() {
    for protocol in [Protocol::Update, Protocol::Invalidate, Protocol::Adaptive] {
        schedules(Setup::new(2, 2), || {
            let mut script = Script::new(2, 2);
            let options = AllocOptions { placement: Placement::Rank(0), protocol, block: 1 };
            let area = script.alloc(2, options);
            for i in 0..16u8 {
                script.interval(|interval| {
                    for page in area.iter() {
                        interval.push(1, Op::Write(part(page, 0, 4), i));
                        interval.push(1, Op::Operate(word(page), Change::Add(1)));
                        if i % 3 == 0 {
                            interval.push(0, Op::Operate(word(page), Change::Swap(1)));
                        }
                    }
                });
                read_all(&mut script, 0..2, area);
            }
            script
        });
    }
}

/// A home gives up a sharer that does not answer whether it reads what it is brought. It once did so as soon
/// as the page had been brought often enough: the message that was on its way to the sharer was counted and
/// never sent, and the meeting never ended. So it does at the end of the barrier.
#[test]
fn a_sharer_that_does_not_answer_is_brought_what_was_counted() {
    let pages = 16;
    for transfer in [Transfer::Message, Transfer::ZeroCopy] {
        let base = Setup { transfer, fetch_most: 1, board: true, ..Setup::new(3, pages) };
        schedules(base, || {
            let mut script = Script::new(3, pages);
            let adaptive = AllocOptions { placement: Placement::Rank(0), ..AllocOptions::default() };
            let area = script.alloc(pages, adaptive);
            for i in 0..40u32 {
                script.interval(|interval| {
                    for page in area.iter() {
                        // Rank 1, and in every second page the home, write what rank 2 reads one interval
                        // later: in the beginning, and then not for long enough to be given up.
                        for writer in page % 2..2 {
                            let eighth = |i: u32| part(page, 4 * writer + i % 2, 8);
                            interval.push(writer, Op::Write(eighth(i), i.to_le_bytes()[0]));
                            if i > 0 && (i < 5 || i >= 12 + page) {
                                interval.push(2, Op::Read(eighth(i - 1)));
                            }
                        }
                    }
                });
            }
            script
        });
    }
}
