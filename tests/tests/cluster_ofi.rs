//! Jobs over libfabric, by those of its providers that need no network card.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_tests::cluster::built::built;
use scash_tests::cluster::{Job, run};
use std::process::Command;

/// Which of these of libfabric's providers can carry a job here. Says why the others cannot.
fn fabrics() -> Vec<&'static str> {
    let mut info = Command::new(built("scash"));
    info.args(["info", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&run(info).out).unwrap();
    let ofi =
        report["providers"].as_array().unwrap().iter().find(|provider| provider["name"] == "ofi").unwrap();
    let there = |fabric: &&str| {
        let parts = ofi["parts"].as_array().into_iter().flatten();
        // What runs over `tcp` may be called `tcp;ofi_rxm`.
        let is_there = parts
            .filter_map(|part| part["name"].as_str())
            .any(|name| name.split(';').any(|layer| layer == *fabric));
        if !is_there {
            eprintln!("skipped: jobs over libfabric's {fabric}: {ofi}");
        }
        is_there
    };
    ["tcp", "shm"].into_iter().filter(there).collect()
}

#[test]
fn applications_have_the_sequential_result() {
    for fabric in fabrics() {
        for ranks in [1, 2, 4] {
            let job = || Job::plain(ranks).option("--provider", "ofi").env("SCASH_OFI", fabric);
            job()
                .run(&built("laplace"), &["--size", "126", "--iterations", "20", "--check", "--json"])
                .is_equal(ranks);
            job().run(&built("lu"), &["--size", "256", "--block", "16", "--check", "--json"]).is_equal(ranks);
            job()
                .run(&built("water"), &["--size", "45", "--steps", "3", "--check", "--json"])
                .is_equal(ranks);
        }
    }
}

#[test]
fn a_provider_that_libfabric_lacks_is_refused_with_those_that_it_has() {
    if fabrics().is_empty() {
        return;
    }
    let job = Job::plain(2).option("--provider", "ofi").env("SCASH_OFI", "warp");
    job.run(&built("laplace"), &["--size", "126"]).refused(&["no usable provider \"warp\"", "SCASH_OFI"]);
}
