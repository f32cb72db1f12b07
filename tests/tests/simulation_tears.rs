//! What goes on in the middle of an order: threads of the rank store into pages that it is comparing or
//! renewing, and peers put into its frames. Each test is a small program under many schedules, and fails
//! within them if the rule that it tells of (see `scash_proto::interpreter`) is broken.

use scash_proto::node::ObjectKind;
use scash_proto::{AllocOptions, Pages, Placement, Protocol};
use scash_sim::program::{Op, Script, Span};
use scash_sim::{Setup, World};

/// Runs a program under many schedules, in which every order is torn.
fn torn_schedules(base: Setup, program: impl Fn() -> Script) {
    for seed in 0..200u64 {
        let setup = Setup {
            seed,
            puts_at_once: seed % 2 == 0,
            tears: [50, 80][(seed / 2 % 2) as usize],
            slow: [0, 20, 40][(seed / 4 % 3) as usize],
            slowness: [20, 200][(seed / 12 % 2) as usize],
            burst: [0, 70][(seed / 24 % 2) as usize],
            ..base
        };
        let end = World::new(setup, program().into_program()).run();
        end.unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// Some bytes of a page.
fn bytes(page: u32, first: usize, len: usize) -> Span {
    Span { page, first, len }
}

/// Four pages whose home is rank 0, four of rank 1, and a lock.
fn beginning() -> (Script, Pages, Pages, u32) {
    let mut script = Script::new(2, 16);
    let options =
        |rank| AllocOptions { placement: Placement::Rank(rank), protocol: Protocol::Adaptive, block: 1 };
    let (first, second) = (script.alloc(4, options(0)), script.alloc(4, options(1)));
    let lock = script.make(ObjectKind::Lock, 1);
    (script, first, second, lock)
}

/// Takes a lock again and again, and changes something that it guards.
fn sections(lock: u32, guarded: Span, times: u8, salt: u8) -> Vec<Op> {
    let section = |i: u8| {
        [Op::Lock(lock), Op::Read(guarded), Op::Write(guarded, salt.wrapping_add(i)), Op::Unlock(lock)]
    };
    (0..times).flat_map(section).collect()
}

/// All ranks read all pages.
fn read_all(script: &mut Script, ranks: u32, areas: &[Pages]) {
    script.interval(|interval| {
        for page in areas.iter().flat_map(|area| area.iter()) {
            (0..ranks).for_each(|rank| interval.push(rank, Op::Read(Span::page(page))));
        }
    });
}

/// A lock's release compared a page, made what it saw the twin, and put the bytes from the live frame.
/// Meanwhile the page's only writer had changed them; then it changed them back. The home kept what the
/// writer had written in between, and no later comparison found anything to send.
#[test]
fn what_is_put_is_what_was_compared() {
    torn_schedules(Setup::new(2, 16), || {
        let (mut script, private, guarded, lock) = beginning();
        for i in 0..6u8 {
            script.interval(|interval| {
                let mut writer = Vec::new();
                for page in private.iter() {
                    let mine = bytes(page, 256, 512);
                    writer.push(Op::Write(mine, i));
                    (0..8u8).for_each(|k| writer.push(Op::Flicker(mine, 100 + k)));
                    writer.push(Op::Read(mine));
                }
                let word = bytes(guarded.first, 0, 8);
                interval.work[1] = vec![writer, sections(lock, word, 12, i)];
                interval.work[0] = vec![sections(lock, word, 12, 128 + i)];
            });
            read_all(&mut script, 2, &[private, guarded]);
        }
        script
    });
}

/// An acquire got a page from its home, looked which bytes of its own copy differed from the twin, and stored
/// all others. What another thread of the rank stored after that look was lost.
#[test]
fn a_renewed_page_keeps_what_threads_of_its_rank_write_meanwhile() {
    torn_schedules(Setup { renewals: 15, ..Setup::new(2, 16) }, || {
        let (mut script, shared, _, lock) = beginning();
        for i in 0..6u8 {
            script.interval(|interval| {
                let mut writer = Vec::new();
                for k in 0..20u8 {
                    let mine = bytes(shared.first, 1024 + 64 * usize::from(k % 4), 48);
                    writer.push(Op::Write(mine, i.wrapping_mul(31).wrapping_add(k)));
                    writer.push(Op::Read(mine));
                }
                // The lock guards bytes of the same page.
                let word = bytes(shared.first, 0, 8);
                interval.work[1] = vec![writer, sections(lock, word, 12, i)];
                interval.work[0] = vec![sections(lock, word, 12, 128 + i)];
            });
            read_all(&mut script, 2, &[shared]);
        }
        script
    });
}

/// Pages that come in one get wait until their turn, each longer than the one before: what threads of the
/// rank write meanwhile stays, and no page gets another one's bytes.
#[test]
fn pages_that_are_renewed_together_keep_what_threads_of_their_rank_write_meanwhile() {
    torn_schedules(Setup { renewals: 15, ..Setup::new(2, 16) }, || {
        let (mut script, shared, _, lock) = beginning();
        for i in 0..6u8 {
            script.interval(|interval| {
                let mut writer = Vec::new();
                for (k, page) in (0..5u8).flat_map(|k| shared.iter().map(move |page| (k, page))) {
                    let mine = bytes(page, 1024 + 64 * usize::from(k % 4), 48);
                    writer.push(Op::Write(mine, i.wrapping_mul(31).wrapping_add(k)));
                    writer.push(Op::Read(mine));
                }
                let guarded = || shared.iter().map(|page| bytes(page, 0, 8));
                let section = |value: u8| {
                    let mut section = vec![Op::Lock(lock)];
                    section.extend(guarded().map(Op::Read));
                    section.extend(guarded().zip(value..).map(|(word, value)| Op::Write(word, value)));
                    section.push(Op::Unlock(lock));
                    section
                };
                interval.work[1] = vec![writer, (0..8).flat_map(|k| section(8 * k + i)).collect()];
                interval.work[0] = vec![(0..8).flat_map(|k| section(128 + 8 * k + i)).collect()];
            });
            read_all(&mut script, 2, &[shared]);
        }
        script
    });
}

/// `read_home` is the same order, by another call.
#[test]
fn a_page_that_is_read_from_its_home_keeps_what_threads_of_its_rank_write_meanwhile() {
    torn_schedules(Setup::new(2, 16), || {
        let (mut script, shared, ..) = beginning();
        for i in 0..6u8 {
            script.interval(|interval| {
                let mine = |k: u8| bytes(shared.first, 1024 + 64 * usize::from(k % 4), 48);
                let writer = (0..20u8).flat_map(|k| [Op::Write(mine(k), i ^ k), Op::Read(mine(k))]).collect();
                let reader = vec![Op::ReadHome(Pages::one(shared.first)); 8];
                interval.work[1] = vec![writer, reader];
                interval.push(0, Op::Write(bytes(shared.first, 0, 512), i));
            });
            read_all(&mut script, 2, &[shared]);
        }
        script
    });
}

/// A page with bytes of two ranks: what the diff of one brings to the home while the home's own threads write
/// theirs is not taken for the home's writes, nor lost.
#[test]
fn a_merged_diff_is_not_taken_for_the_writes_of_the_rank_that_it_came_to() {
    torn_schedules(Setup { predict: true, ..Setup::new(3, 16) }, || {
        let mut script = Script::new(3, 16);
        let options = AllocOptions { placement: Placement::Rank(0), protocol: Protocol::Update, block: 1 };
        let area = script.alloc(4, options);
        for i in 0..12u8 {
            script.interval(|interval| {
                for page in area.iter() {
                    (0..3u8).for_each(|rank| {
                        let own = bytes(page, 1024 * usize::from(rank), 700);
                        // Every value comes back: who keeps an old one in a twin finds no difference.
                        interval.push(rank.into(), Op::Write(own, 7 * (i / 2 % 2) + rank));
                        (0..3u8).for_each(|_| interval.push(rank.into(), Op::Read(own)));
                    });
                }
            });
            read_all(&mut script, 3, &[area]);
        }
        script
    });
}

/// A fetch in vain has brought a page along that its rank gets updates of, and that a lock has ended. What
/// its home was writing, and has written back to what it was, is in the page's frame all the same.
#[test]
fn a_page_that_came_along_in_vain_is_brought_again_to_who_gets_its_updates() {
    torn_schedules(Setup { fetch_first: 1, ..Setup::new(2, 16) }, || {
        let mut script = Script::new(2, 16);
        let options = AllocOptions { placement: Placement::Rank(0), protocol: Protocol::Update, block: 1 };
        let (area, lock) = (script.alloc(8, options), script.make(ObjectKind::Lock, 1));
        (0..2).for_each(|_| read_all(&mut script, 2, &[area]));
        let others = || area.iter().take(3);
        let ahead = area.first + 3;
        for i in 0..6u8 {
            script.interval(|interval| {
                let section = |k: u8| {
                    let mut ops = vec![Op::Lock(lock)];
                    ops.extend(others().map(|page| Op::Write(bytes(page, 0, 8), i.wrapping_mul(16) + k)));
                    ops.extend([Op::Flicker(bytes(ahead, 0, 8), 100 + k), Op::Unlock(lock)]);
                    ops
                };
                interval.work[0] = vec![(0..8).flat_map(section).collect()];
                let enters = (0..8).flat_map(|_| [Op::Lock(lock), Op::Unlock(lock)]).collect();
                // Longer and longer runs are got, up to the page that is not read.
                let reads =
                    (0..2).flat_map(|_| others().map(|page| Op::Read(bytes(page, 2048, 8)))).collect();
                interval.work[1] = vec![enters, reads];
            });
            read_all(&mut script, 2, &[Pages::one(ahead)]);
        }
        script
    });
}
