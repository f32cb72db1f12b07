//! Jobs whose traffic is encrypted give the same results, and what cannot be encrypted is refused.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_tests::cluster::built::built;
use scash_tests::cluster::{Hosts, Job};

const LAPLACE: [&str; 6] = ["--size", "126", "--iterations", "20", "--check", "--json"];

#[test]
fn encrypted_over_tcp_applications_have_the_sequential_result() {
    for ranks in [2, 4] {
        let job = || Job::plain(ranks).option("--provider", "tcp").flag("--encrypt");
        job().run(&built("laplace"), &LAPLACE).is_equal(ranks);
        job().run(&built("lu"), &["--size", "256", "--block", "16", "--check", "--json"]).is_equal(ranks);
        job().run(&built("water"), &["--size", "45", "--steps", "3", "--check", "--json"]).is_equal(ranks);
    }
}

#[test]
fn encrypted_between_hosts_applications_have_the_sequential_result() {
    let Some(hosts) = Hosts::new(2) else { return };
    for provider in ["auto", "tcp"] {
        let job = hosts.job("10.77.0.1:2,10.77.0.2").options(&format!("--encrypt --provider {provider}"));
        job.run(&built("laplace"), &LAPLACE).is_equal(3);
    }
}

#[test]
fn what_a_provider_carries_that_does_not_encrypt_is_refused() {
    let job = || Job::plain(2).option("--provider", "ofi");
    let words = ["what libfabric carries is not encrypted", "auto or tcp"];
    job().flag("--encrypt").run(&built("laplace"), &LAPLACE).refused(&words);
    job().env("SCASH_ENCRYPT", "on").run(&built("laplace"), &LAPLACE).refused(&words);
}

#[test]
fn ranks_of_which_only_some_encrypt_say_so() {
    let script = r#"[ "$SCASH_RANK" = 1 ] && export SCASH_ENCRYPT=on; exec "$1""#;
    let laplace = built("laplace");
    let job = Job::plain(2).option("--provider", "tcp");
    let ended = job.run_script(script, &[laplace.to_str().unwrap()]);
    ended.refused(&["its traffic, and this rank does", "--encrypt"]);
}
