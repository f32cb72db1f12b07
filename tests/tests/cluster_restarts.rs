//! Ranks of real jobs are killed, and come back (`scash run --replicas`): the results are what they would
//! have been.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use scash_tests::cluster::built::built;
use scash_tests::cluster::{
    Job, Kind, all_kinds, came_back, computes, computes_the_same, kinds, newest_epoch, replicas, run_beside,
    scash, signal_rank, wait_for, wait_for_status,
};
use std::path::Path;

/// Points at which ranks can be killed, each passed in a run of the programs below.
const POINTS: [&str; 26] = [
    "kill rank 1 at barrier 7 after enter",
    "kill rank 0 at barrier 8 after flush",
    "kill rank 1 at barrier 9 after done",
    "kill rank 0 at checkpoint 2 after due",
    "kill rank 1 at checkpoint 2 after stop",
    "kill rank 1 at checkpoint 1 after copy",
    "kill rank 0 at image 2 after described",
    "kill rank 1 at image 100 after page",
    "kill rank 0 at checkpoint 2 after fence",
    "kill rank 1 at checkpoint 2 after mark",
    "kill rank 0 at checkpoint 1 after meet",
    "kill rank 1 at checkpoint 2 after done",
    "kill all ranks at checkpoint 2 after mark",
    "stop rank 1 for 20ms at checkpoint 2 after copy",
    // In the process that has come back, which barrier 7 of the first has made necessary.
    "kill rank 0 at image after restored",
    "kill rank 1 at recovery after joined",
    "kill rank 1 at recovery after filled",
    "kill rank 0 at recovery after copied",
    "kill rank 1 at recovery after resumed",
    // In the middle of an image, of private and of shared pages, where there is an epoch before it.
    "kill rank 1 at image 100 after page in incarnation 1",
    "kill rank 0 at image 8 after shared in incarnation 1",
    "kill rank 1 at image 8 after shared in incarnation 1",
    // On the way into a barrier that is a checkpoint, and before the mark of one that writes where an earlier
    // one has been.
    "kill rank 1 at barrier 9 after enter",
    "kill rank 1 at checkpoint 3 after copy",
    "kill rank 0 at checkpoint 2 after mark in incarnation 1",
    "kill rank 0 at checkpoint 3 after copy in incarnation 1",
];

/// Of these, those that are in the first checkpoint: there is nothing yet to go on from.
const IN_THE_FIRST_CHECKPOINT: [&str; 2] =
    ["kill rank 1 at checkpoint 1 after copy", "kill rank 1 at image 100 after page"];

/// There can be more than 512 runs of written pages in it. An image once had the last page of such a mapping
/// as it was a checkpoint before (`ft/src/pagemap.rs`).
#[test]
fn a_heap_that_grows_and_shrinks_comes_back_as_it_was() {
    let kind = Kind { engine: "mprotect", provider: "shm", shares: true };
    let run = |deaths: &[&str]| {
        let job = replicas(kind.job(2), 1, deaths).option("--restarts", "20");
        let ended = job.run(Path::new(env!("CARGO_BIN_EXE_churn")), &["150", "4000"]);
        assert_eq!(ended.status, 0, "{ended}");
        ended
    };
    let undisturbed = run(&[]);
    for seed in 0..4 {
        let death = format!("kill rank 1 at checkpoint after done with probability 0.15 seed {seed}");
        let ended = run(&[&death]);
        assert_eq!(ended.sorted(), undisturbed.sorted());
        assert!(came_back(&ended) > 5, "{ended}");
    }
}

/// What frames had when the ranks ended is none of the memory of those that come back.
#[test]
fn memory_that_is_newer_than_the_checkpoint_is_zeros_again() {
    let deaths = ["kill rank 1 at barrier 5", "kill rank 0 at barrier 8 in incarnation 1"];
    for kind in all_kinds() {
        let ended = replicas(kind.job(2), 1000, &deaths).run(Path::new(env!("CARGO_BIN_EXE_newer")), &[]);
        assert_eq!(ended.status, 0, "{ended}");
        assert_eq!(ended.sorted(), ["rank 0: true", "rank 1: true"], "{kind:?} {ended}");
        assert_eq!(came_back(&ended), deaths.len(), "{kind:?}");
    }
}

/// Whether only ranks that have come back pass the point.
fn comes_back(point: &str) -> bool {
    ["restored", "recovery", "incarnation 1"].iter().any(|words| point.contains(words))
}

/// Rank 0 and rank 1 die at each point.
fn dies_at_each_point(program: &str, arguments: &[&str], kind: Kind) {
    for (number, point) in POINTS.into_iter().enumerate() {
        let other = if point.contains("rank 0") {
            point.replace("rank 0", "rank 1")
        } else {
            point.replace("rank 1", "rank 0")
        };
        let ranks = if number % 4 == 3 { 4 } else { 2 };
        let begins_anew = IN_THE_FIRST_CHECKPOINT.contains(&point);
        for point in std::iter::once(point).chain(Some(other.as_str()).filter(|other| *other != point)) {
            let deaths =
                if comes_back(point) { vec!["kill rank 1 at barrier 7", point] } else { vec![point] };
            let ended = computes(&replicas(kind.job(ranks), 3, &deaths), ranks, program, arguments);
            let expected = if point.starts_with("stop") { 0 } else { deaths.len() };
            assert_eq!(came_back(&ended), expected, "{program} {kind:?} {ended}");
            assert_eq!(ended.err.contains("from the beginning"), begins_anew, "{program} {kind:?} {ended}");
        }
    }
}

/// After a death at each point of a job that has a checkpoint and of no recovery, the same or another rank
/// dies in each step of the recovery. Each kind of job has its share of these pairs.
#[test]
fn ranks_survive_a_death_at_each_point_and_one_in_each_step_of_the_recovery_from_it() {
    let is_first = |point: &&str| {
        !comes_back(point) && !IN_THE_FIRST_CHECKPOINT.contains(point) && point.starts_with("kill")
    };
    let steps = ["image after restored", "recovery after joined", "recovery after filled"];
    let steps = steps.iter().chain(&["recovery after copied", "recovery after resumed"]);
    let seconds: Vec<String> =
        steps.flat_map(|step| [0, 1].map(|rank| format!("kill rank {rank} at {step}"))).collect();
    let firsts: Vec<&str> = POINTS.into_iter().filter(is_first).collect();
    let pairs: Vec<[&str; 2]> =
        firsts.iter().flat_map(|first| seconds.iter().map(|second| [*first, second.as_str()])).collect();
    let (kinds, mut filled) = (all_kinds(), 0);
    for (number, deaths) in pairs.iter().enumerate() {
        let kind = kinds[(number + number / kinds.len()) % kinds.len()];
        let (program, arguments) =
            if number / 2 % 2 == 0 { ("laplace", &LAPLACE[..]) } else { ("lu", &LU[..]) };
        let times = computes_the_same(&replicas(kind.job(2), 3, deaths), 2, program, arguments);
        // At the first checkpoint a rank may have no pages that come back.
        let fills = deaths[1].contains("filled");
        assert!(times == 2 || times == 1 && fills, "{program} {kind:?} {deaths:?}");
        filled += usize::from(fills && times == 2);
    }
    assert!(filled > 5, "{filled} deaths while pages came back");
}

const LAPLACE: [&str; 4] = ["--size", "126", "--iterations", "40"];
const LU: [&str; 4] = ["--size", "256", "--block", "16"];
const WATER: [&str; 4] = ["--size", "343", "--steps", "6"];

#[test]
fn laplace_survives_a_death_at_each_point_whatever_frames_and_provider_it_has() {
    all_kinds().into_iter().for_each(|kind| dies_at_each_point("laplace", &LAPLACE, kind));
}

#[test]
fn lu_survives_a_death_at_each_point_whatever_frames_and_provider_it_has() {
    all_kinds().into_iter().for_each(|kind| dies_at_each_point("lu", &LU, kind));
}

/// Rank 1 has its mark of checkpoint 3 when it dies, and rank 0 has none: ranks go on from epoch 2. They
/// write epoch 3 anew where that mark is, and one dies again.
#[test]
fn a_mark_of_an_epoch_that_is_written_anew_is_not_believed() {
    let deaths = [
        "delay rank 0 by 300s at checkpoint 3 after copy",
        "kill rank 1 at checkpoint 3 after mark",
        "kill rank 0 at checkpoint 1 after copy in incarnation 1",
    ];
    for kind in all_kinds() {
        for (program, arguments) in [("laplace", &LAPLACE[..]), ("lu", &LU[..])] {
            let ended = computes(&replicas(kind.job(2), 3, &deaths), 2, program, arguments);
            // Two of one place, in one line or in two.
            ended.said(&["(epoch 2, incarnation 2)"]);
            assert_eq!(came_back(&ended), 2, "{program} {kind:?} {ended}");
        }
    }
}

/// Not in each barrier has a rank to wait in its second meeting. In this one it has: the other one is late.
#[test]
fn a_rank_that_waits_in_the_second_meeting_dies() {
    let deaths = ["delay rank 0 by 300ms at checkpoint 1 after mark", "kill rank 1 at barrier 1 after meet"];
    for kind in all_kinds() {
        for (program, arguments) in [("laplace", &LAPLACE[..]), ("lu", &LU[..])] {
            let ended = computes(&replicas(kind.job(2), 3, &deaths), 2, program, arguments);
            assert_eq!(came_back(&ended), 1, "{program} {kind:?} {ended}");
        }
    }
}

/// One rank sees the clock first. Others learn of the checkpoint in the barrier.
#[test]
fn ranks_come_back_from_checkpoints_that_the_clock_has_asked_for() {
    let arguments = ["--size", "126", "--iterations", "20000", "--check", "--json"];
    let dies = |job: Job, how: &str| {
        let ended = run_beside(job.command(&built("laplace"), &arguments), |front| {
            for rank in 0..2 {
                wait_for("checkpoint", || (newest_epoch(front, rank) >= 1).then_some(()));
            }
            signal_rank(front, 1, libc::SIGKILL);
        });
        ended.is_right();
        assert_eq!(came_back(&ended), 1, "{how} {ended}");
        ended.said(&["go on from barrier "]);
    };
    for kind in all_kinds() {
        let job = kind.job(2).option("--replicas", "1").option("--checkpoint", "seconds=0.02");
        dies(job, &format!("{kind:?}"));
    }
    dies(Job::plain(2).option("--replicas", "1"), "auto");
}

/// The second death is far from the first one, too.
#[test]
fn every_application_survives_two_deaths_in_the_middle() {
    // Sizes of which a run takes about a second; the barrier of the first death, and the checkpoint of the
    // second, in the process that has come back from the barrier before.
    let programs = [
        ("sor", "--size 254 --iterations 40", 40, 30),
        ("ocean", "--size 33 --steps 2", 200, 150),
        ("matmul", "--size 256", 5, 2),
        ("fft", "--size 65536", 6, 3),
        ("radix", "--size 262144", 8, 4),
        ("kmeans", "--size 20000 --iterations 20", 25, 12),
        ("tsp", "--cities 12", 7, 3),
        ("water", "--size 343 --steps 6", 12, 5),
        ("market", "--size 200 --steps 20", 18, 8),
        ("nbody", "--bodies 600 --steps 8", 15, 7),
        ("fmm", "--particles 2000 --steps 6", 14, 6),
        ("raytrace", "--size 160", 6, 2),
        ("volume", "--size 48 --image 96", 13, 6),
        ("cholesky", "--size 64", 6, 3),
        ("shifting", "--size 65536 --iterations 48", 30, 12),
        ("relay", "--size 16384 --turns 64", 70, 30),
        ("is", "--class S", 20, 10),
        ("ep", "--batches 24", 5, 2),
        ("laplace-c", "--size 126 --iterations 40", 23, 12),
        ("lu-c", "--size 256 --block 16", 11, 5),
    ];
    for (program, arguments, barrier, checkpoint) in programs {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let deaths = [
            format!("kill rank 1 at barrier {barrier}"),
            format!("kill rank 0 at checkpoint {checkpoint} after copy in incarnation 1"),
        ];
        let deaths = deaths.each_ref().map(String::as_str);
        for kind in all_kinds() {
            let times = computes_the_same(&replicas(kind.job(2), 1, &deaths), 2, program, &arguments);
            assert_eq!(times, deaths.len(), "{program} {kind:?} {deaths:?}");
        }
    }
}

#[test]
fn ranks_survive_deaths_while_they_have_locks_and_fetch_pages() {
    for kind in all_kinds() {
        for death in [
            "kill rank 1 at lock 30 after got",
            "kill rank 0 at lock 20 after asked",
            "kill rank 2 at lock 40 after released",
        ] {
            let times = computes_the_same(&replicas(kind.job(3), 1, &[death]), 3, "water", &WATER);
            assert_eq!(times, 1, "{kind:?} {death}");
        }
        let death = "kill rank 2 at fetch 25";
        let times = computes_the_same(&replicas(kind.job(3), 1, &[death]), 3, "fft", &[]);
        // Nothing is fetched of frames that all ranks share.
        assert_eq!(times, if kind.shares { 0 } else { 1 }, "{kind:?} {death}");
    }
}

#[test]
fn several_threads_in_each_rank_come_back() {
    let programs = [("laplace", &LAPLACE[..]), ("lu", &LU[..]), ("water", &WATER[..])];
    let deaths = [
        "kill rank 1 at barrier 9",
        // Of four threads, one was asked to stop before, and one was not yet.
        "kill rank 0 at image 2 after thread in incarnation 1",
        "kill all ranks at checkpoint 3 in incarnation 2",
    ];
    for kind in all_kinds() {
        for threads in ["2", "4"] {
            for (program, arguments) in programs {
                let job = replicas(kind.job(2), 2, &deaths).option("--threads", threads);
                let times = computes_the_same(&job, 2, program, arguments);
                assert_eq!(times, deaths.len(), "{program} {kind:?} {threads} threads");
            }
        }
    }
}

/// In the timed part, they read more of others than there is room for.
#[test]
fn ranks_that_evict_pages_of_others_come_back() {
    let programs = [
        ("shifting", "--size 65536 --iterations 48", "barrier 30", "checkpoint 12 after copy"),
        ("shifting", "--size 65536 --iterations 48", "fetch 100", "fetch 50"),
        ("fft", "--size 65536", "barrier 7", "barrier 2 after done"),
    ];
    for kind in kinds() {
        for (program, arguments, first, second) in programs {
            let arguments: Vec<&str> = arguments.split(' ').chain(["--check", "--json"]).collect();
            let deaths =
                [format!("kill rank 1 at {first}"), format!("kill rank 0 at {second} in incarnation 1")];
            let deaths = deaths.each_ref().map(String::as_str);
            let job = replicas(kind.job(2), 1, &deaths).env("SCASH_CACHE", "256K");
            let ended = job.run(&built(program), &arguments);
            let evicted = &ended.is_right()["figures"]["evicted_pages"];
            assert!(evicted.as_u64().unwrap() > 0, "{ended}");
            assert_eq!(came_back(&ended), deaths.len(), "{ended}");
        }
    }
}

/// The race is there in two epochs. Whoever looked for races as if the job began would not know the name, and
/// would tell the second one, too.
#[test]
fn the_search_for_data_races_knows_after_a_restart_what_it_knew_before() {
    let racy = Path::new(env!("CARGO_BIN_EXE_racy"));
    for death in ["kill rank 1 at barrier 3 after enter", "kill rank 0 at barrier 4 after enter"] {
        let job = replicas(Job::plain(2), 1, &[death]).env("SCASH_SHARE", "off").env("SCASH_REGION", "16M");
        let ended = job.env("SCASH_RACES", "report").run(racy, &["home first"]);
        assert_eq!(ended.status, 0, "{ended}");
        let (told, others): (Vec<&str>, Vec<&str>) =
            ended.err.lines().partition(|line| line.contains("data race"));
        assert_eq!(told.len(), 1, "{ended}");
        assert!(told[0].contains("\"grid\" + 4711"), "{ended}");
        assert!(matches!(others[..], [line] if line.contains("was killed by SIGKILL")), "{ended}");
    }
}

#[test]
fn what_a_rust_program_has_comes_back() {
    let phoenix = Path::new(env!("CARGO_BIN_EXE_phoenix"));
    for threads in ["1", "2", "4"] {
        let expected = Job::plain(2).option("--threads", threads).run(phoenix, &[]);
        expected.succeeded();
        for kind in all_kinds() {
            let deaths = [
                "kill rank 0 at barrier 6",
                "kill rank 1 at checkpoint 5 after mark in incarnation 1",
                "kill all ranks at barrier 12 in incarnation 2",
            ];
            let job = replicas(kind.job(2), 2, &deaths).option("--threads", threads);
            let ended = job.run(phoenix, &[]);
            assert_eq!((ended.status, ended.sorted()), (0, expected.sorted()), "{ended}");
            assert_eq!(came_back(&ended), 3, "{ended}");
        }
    }
}

/// Pages that the newest checkpoints of the ranks consist of, after rank 1 has died so often.
fn kept_after(restarts: u32, job: Job) -> u64 {
    let deaths: Vec<String> = (0..restarts)
        .map(|number| format!("kill rank 1 at checkpoint 1 after mark in incarnation {number}"))
        .collect();
    let deaths: Vec<&str> = deaths.iter().map(String::as_str).collect();
    let job = replicas(job, 1, &deaths).option("--restarts", "100").env("SCASH_STATS", "1");
    let ended = job.run(&built("laplace"), &["--size", "126", "--iterations", "100", "--check", "--json"]);
    ended.is_right();
    assert_eq!(ended.err.matches("all 2 ranks go on").count(), restarts as usize, "{ended}");
    ended.pages_kept()
}

/// The process that comes back returns from the call in which it was saved.
#[test]
fn a_program_that_asks_for_a_checkpoint_is_told_that_it_is_committed_also_after_a_restart() {
    let phoenix = Path::new(env!("CARGO_BIN_EXE_phoenix"));
    for kind in all_kinds() {
        let job = replicas(kind.job(2), 1_000_000, &["kill rank 1 at checkpoint 2 after done"]);
        let ended = job.run(phoenix, &["checkpoints"]);
        assert_eq!((ended.status, came_back(&ended)), (0, 1), "{ended}");
    }
}

#[test]
fn thirty_two_restarts_let_a_rank_grow_by_less_than_a_megabyte() {
    const MEGABYTE: u64 = (1 << 20) / 4096;
    for kind in all_kinds() {
        let (first, last) = (kept_after(1, kind.job(2)), kept_after(33, kind.job(2)));
        assert!(last <= first + MEGABYTE, "{kind:?}: {first} pages, {last} after 32 restarts more");
    }
}

/// It was woken before it stopped, and nobody woke it again.
#[test]
fn a_rank_that_is_stopped_for_hardly_any_time_goes_on() {
    for kind in all_kinds() {
        let job =
            replicas(kind.job(2), 3, &["stop all ranks for 1us at barrier with probability 0.5 seed 1"]);
        assert_eq!(computes_the_same(&job, 2, "laplace", &LAPLACE), 0);
    }
}

/// Its launcher learns of that later than the others, whose program could end the job by then.
#[test]
fn no_rank_is_told_that_another_one_has_died_while_they_join() {
    let directory = tempfile::tempdir().unwrap();
    let kind = Kind { engine: "mprotect", provider: "tcp", shares: false };
    let job = replicas(kind.job(3), 1, &[]);
    let ended = job.run(Path::new(env!("CARGO_BIN_EXE_early")), &[directory.path().to_str().unwrap()]);
    ended.is_right();
    let told = std::fs::read_to_string(directory.path().join("told"));
    assert!(told.is_err(), "{told:?}: {ended}");
    assert_eq!(came_back(&ended), 1, "{ended}");
}

/// Rank 0 exits with an error, and only then rank 1 is killed, both before the launcher looks.
#[test]
fn a_rank_that_fails_because_another_one_has_died_does_not_end_the_job() {
    let directory = tempfile::tempdir().unwrap();
    let script = r#"
        cd "$1"; [ -e failed ] && { sleep 0.3; exit 0; }
        echo $$ > rank-$SCASH_RANK; [ -e rank-0 ] && [ -e rank-1 ] && mkdir both 2> /dev/null
        [ $SCASH_RANK = 1 ] && sleep 60
        while [ ! -e both ]; do sleep 0.01; done
        touch failed; kill -STOP $PPID
        (sleep 0.2; kill -KILL $(cat rank-1); sleep 0.2; kill -CONT $PPID) > /dev/null 2>&1 &
        exit 1"#;
    let ended = replicas(Job::plain(2), 1, &[]).run_script(script, &[directory.path().to_str().unwrap()]);
    assert_eq!((ended.status, came_back(&ended)), (0, 1), "{ended}");
}

#[test]
fn ranks_that_die_again_and_again_at_one_place_end_the_job() {
    let job = replicas(Job::plain(2), 1, &["kill rank 1 at checkpoint with probability 1 seed 1"]);
    let ended = job.option("--restarts", "3").run(&built("laplace"), &LAPLACE);
    ended.failed(128 + 9, &["rank 1", "SIGKILL", "3 restarts", "without a new checkpoint", "--restarts"]);
}

/// Runs `letters` with ranks that die, and without; they print the same.
fn letters_come_once(kind: Kind, ranks: u32, what: &str, every: u32, deaths: &[&str]) {
    let letters = Path::new(env!("CARGO_BIN_EXE_letters"));
    let undisturbed = kind.job(ranks).run(letters, &[what]);
    let expected = undisturbed.sorted();
    assert_eq!(expected.len(), ranks as usize, "{kind:?} {what}");
    let ended = replicas(kind.job(ranks), every, deaths).run(letters, &[what]);
    assert_eq!((ended.status, ended.sorted()), (0, expected), "{kind:?} {what} {ended}");
    assert_eq!(came_back(&ended), deaths.len(), "{kind:?} {what} {deaths:?} {ended}");
    assert!(!ended.err.contains("from the beginning"), "{kind:?} {what} {ended}");
}

#[test]
fn messages_between_two_barriers_come_once_whoever_dies() {
    for kind in all_kinds() {
        for (ranks, every, deaths) in [
            (
                2,
                1,
                &["kill rank 1 at barrier 9", "kill all ranks at checkpoint 5 after mark in incarnation 1"][..],
            ),
            (4, 1, &["kill rank 0 at checkpoint 6 after copy", "kill rank 1 at recovery after joined"]),
            (4, 5, &["kill rank 1 at barrier 13 after done", "kill rank 0 at barrier 9 in incarnation 1"]),
        ] {
            letters_come_once(kind, ranks, "", every, deaths);
        }
    }
}

/// The other rank has nothing to send, and says so at once.
#[test]
fn more_messages_than_a_ring_has_room_for_are_through_before_a_checkpoint() {
    for kind in all_kinds() {
        letters_come_once(kind, 2, "flood", 1, &["kill rank 1 at barrier 9"]);
    }
}

#[test]
fn threads_that_pass_messages_during_a_checkpoint_go_on_with_them() {
    for kind in all_kinds() {
        let deaths = ["kill rank 1 at barrier 9", "kill rank 0 at checkpoint 4 after mark in incarnation 1"];
        letters_come_once(kind, 2, "threads", 1, &deaths);
    }
}

#[test]
fn active_messages_are_handled_once_whoever_dies() {
    for kind in all_kinds() {
        let deaths = ["kill rank 1 at barrier 9", "kill rank 2 at barrier 6 in incarnation 1"];
        letters_come_once(kind, 3, "handlers", 1, &deaths);
    }
}

#[test]
fn each_rank_tells_what_its_checkpoints_and_its_newest_restart_took() {
    let job = replicas(Job::plain(2), 2, &["kill rank 1 at barrier 7"]).env("SCASH_STATS", "1");
    let ended = job.run(&built("laplace"), &[&LAPLACE[..], &["--check", "--json"]].concat());
    ended.is_right();
    let told: Vec<&str> = ended.err.lines().filter(|line| line.contains("checkpoints: ")).collect();
    assert_eq!(told.len(), 2, "{ended}");
    for line in told {
        let before = |word: &str| {
            let words: Vec<&str> = line.split([' ', '(']).collect();
            let at = words.windows(word.split(' ').count()).position(|some| some.join(" ") == word);
            words[at.unwrap_or_else(|| panic!("no {word}: {line}")) - 1].parse::<f64>().unwrap()
        };
        assert!(before("pages copied") > 100.0 && before("kept") > 100.0 && before("MB),") > 0.4, "{line}");
        // Whole pages are in it, and what describes them.
        assert!(before("MB,") * 1e6 > before("kept") * 4096.0, "{line}");
        for part in [
            "incarnation 1,",
            " stop ",
            " image ",
            " of it scan), ",
            " shared ",
            " copy ",
            " of both, ",
            " fence ",
            " meeting ",
            "; came back in ",
            " end ",
            " start ",
            " image ",
            " join ",
            " resume ",
        ] {
            assert!(line.contains(part), "no {part}: {line}");
        }
    }
}

#[test]
fn a_job_says_how_it_is_and_that_its_ranks_stay_where_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let end = directory.path().join("end");
    let until = Path::new(env!("CARGO_BIN_EXE_until"));
    let job = replicas(Job::plain(2), 1, &[]).command(until, &[&end.to_string_lossy()]);
    let ended = run_beside(job, |front| {
        wait_for_status(front, "2 ranks on this host\nincarnation 0; last checkpoint: epoch ");
        assert!(scash(&["status"]).out.contains(&format!("job {front}: ")));
        let ended = scash(&["migrate", &front.to_string(), "1", "elsewhere"]);
        ended.failed(1, &["all ranks of this job are on one host"]);
        std::fs::write(&end, "").unwrap();
    });
    ended.is_right();
}
