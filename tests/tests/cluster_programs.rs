//! The programs that are in Rust alone give the sequential result on every kind of job. What jobs may differ
//! in besides is tried with LAPLACE and LU (`cluster_apps.rs`).

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_tests::cluster::built::built;
use scash_tests::cluster::{Job, all_kinds};

/// Runs the program on 2 and on 4 ranks, and on 2 ranks of 2 threads, with parameters that do not give all
/// the same work.
fn is_equal(program: &str, parameters: &[&str]) {
    let arguments = [parameters, &["--check", "--json"]].concat();
    for kind in all_kinds() {
        for (ranks, threads) in [(2, "1"), (4, "1"), (2, "2")] {
            let report =
                kind.job(ranks).option("--threads", threads).run(&built(program), &arguments).is_equal(ranks);
            assert_eq!(report["threads"].to_string(), threads);
        }
    }
}

/// Ranks in every number up to 8, of 1 to 4 threads each, on frames that they share: one program whose
/// workers meet in barriers, and one whose workers take a lock for each of many small objects.
#[test]
fn ranks_and_threads_in_any_numbers_that_share_frames_give_the_sequential_result() {
    let programs = [
        ("laplace", ["--size", "66", "--iterations", "6", "--check", "--json"]),
        ("market", ["--size", "40", "--steps", "2", "--check", "--json"]),
    ];
    for (ranks, threads) in (1..=8).flat_map(|ranks| (1..=4).map(move |threads| (ranks, threads))) {
        for (program, arguments) in programs {
            let job = Job::plain(ranks).env("SCASH_SHARE", "on").option("--threads", &threads.to_string());
            let report = job.run(&built(program), &arguments).is_equal(ranks);
            assert_eq!((&report["threads"], &report["engine"]), (&threads.into(), &"shared frames".into()));
        }
    }
}

/// Runs the program on 3 ranks, and holds the result to what is published.
fn is_verified(program: &str) {
    let ended = Job::plain(3).run(&built(program), &["--class", "S", "--json"]);
    ended.succeeded();
    let report: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(report["verification"], "successful", "{ended}");
}

#[test]
fn sor_has_the_sequential_result() {
    is_equal("sor", &["--size", "125", "--iterations", "20"]);
}

#[test]
fn ocean_has_the_sequential_result_though_coarse_grids_leave_workers_without_work() {
    is_equal("ocean", &["--size", "65", "--steps", "3"]);
}

#[test]
fn matmul_has_the_sequential_result() {
    is_equal("matmul", &["--size", "90"]);
}

#[test]
fn fft_has_the_sequential_result() {
    is_equal("fft", &["--size", "4096"]);
}

#[test]
fn radix_has_the_sequential_result() {
    is_equal("radix", &["--size", "20000"]);
}

#[test]
fn kmeans_has_the_sequential_result() {
    is_equal("kmeans", &["--size", "20000", "--iterations", "4"]);
}

#[test]
fn shifting_has_the_sequential_result() {
    is_equal("shifting", &["--size", "20000", "--iterations", "24", "--period", "6"]);
}

#[test]
fn relay_has_the_sequential_result() {
    is_equal("relay", &["--size", "5000", "--turns", "12", "--period", "3"]);
}

#[test]
fn tsp_has_the_sequential_result() {
    is_equal("tsp", &["--cities", "9"]);
}

#[test]
fn water_has_the_sequential_result() {
    is_equal("water", &["--size", "45", "--steps", "3"]);
}

#[test]
fn market_has_the_sequential_result_and_no_worker_loses_what_it_wrote() {
    is_equal("market", &["--size", "120", "--steps", "9"]);
}

#[test]
fn nbody_has_the_sequential_result() {
    is_equal("nbody", &["--bodies", "200", "--steps", "3", "--locks", "50"]);
}

#[test]
fn fmm_has_the_sequential_result_whoever_cuts_which_box() {
    let sizes = ["--particles", "300", "--steps", "3", "--terms", "6"];
    is_equal("fmm", &[&sizes[..], &["--per-box", "4", "--locks", "50"]].concat());
}

#[test]
fn raytrace_has_the_sequential_result_whoever_takes_which_tile() {
    for queue in ["lock", "atomic"] {
        is_equal("raytrace", &["--size", "61", "--tile", "8", "--queue", queue]);
    }
}

#[test]
fn volume_has_the_sequential_result_whoever_steals_from_whom() {
    for (steal, queue) in [("on", "lock"), ("on", "atomic"), ("off", "lock")] {
        let sizes = ["--size", "30", "--image", "61", "--frames", "3", "--tile", "8"];
        is_equal("volume", &[&sizes[..], &["--steal", steal, "--queue", queue]].concat());
    }
}

#[test]
fn cholesky_has_the_sequential_result_whichever_front_is_ready_first() {
    is_equal("cholesky", &["--size", "40", "--locks", "20"]);
}

#[test]
fn programs_with_locks_are_content_with_one_rank_and_with_the_smallest_cache() {
    for (program, parameters) in [
        ("ocean", ["--size", "33"]),
        ("tsp", ["--cities", "8"]),
        ("water", ["--size", "40"]),
        ("market", ["--size", "40"]),
        ("nbody", ["--bodies", "60"]),
        ("fmm", ["--particles", "200"]),
        ("raytrace", ["--size", "40"]),
        ("volume", ["--size", "20"]),
        ("cholesky", ["--size", "20"]),
    ] {
        let arguments = [&parameters[..], &["--check", "--json"]].concat();
        for kind in all_kinds() {
            kind.job(1).run(&built(program), &arguments).is_equal(1);
            // The least that there is. All pages fit; but with a limit, whatever a lock ends goes at once.
            kind.job(3).env("SCASH_CACHE", "256K").run(&built(program), &arguments).is_equal(3);
        }
    }
}

#[test]
fn ep_has_the_sequential_result() {
    is_equal("ep", &["--batches", "6"]);
}

#[test]
fn ep_has_the_published_result() {
    is_verified("ep");
}

#[test]
fn is_has_the_sequential_result() {
    is_equal("is", &["--class", "S"]);
}

#[test]
fn is_has_the_published_result() {
    is_verified("is");
}
