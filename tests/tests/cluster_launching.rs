//! Ranks of programs that the launcher sends to hosts, and ranks that are bound to cores.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_tests::cluster::built::built;
use scash_tests::cluster::{Ended, Hosts, HostsJob, Job};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

/// Says on which processors a rank may run.
const PLACE: &str = "echo $SCASH_RANK $(grep Cpus_allowed_list /proc/self/status | cut -f2)";

/// A file of these hosts, in a directory that host 2 does not have, and a job on host 1 and twice on host 2.
fn elsewhere(hosts: &Hosts, name: &str) -> (PathBuf, HostsJob) {
    let directory = hosts.file("programs");
    fs::create_dir_all(&directory).unwrap();
    let hide = format!(
        r#"set -- unshare -m sh -c 'mount -t tmpfs none "$0"; exec "$@"' {} "$@""#,
        directory.display()
    );
    (directory.join(name), hosts.job_where("10.77.0.1,10.77.0.2:2", 2, &hide))
}

#[test]
fn a_program_that_a_host_lacks_is_sent_there_if_the_user_wants_that() {
    let Some(hosts) = Hosts::new(2) else { return };
    let (program, job) = elsewhere(&hosts, "laplace");
    fs::copy(built("laplace"), &program).unwrap();
    let arguments = ["--size", "126", "--iterations", "20", "--check", "--json"];
    job.clone().run(&program, &arguments).failed(127, &["host 10.77.0.2: ", "no such file"]);
    job.options("--copy").run(&program, &arguments).is_equal(3);
}

#[test]
fn a_script_is_sent_as_well_and_called_what_it_is_called_here() {
    let Some(hosts) = Hosts::new(2) else { return };
    let (script, job) = elsewhere(&hosts, "script");
    fs::write(&script, "#!/bin/sh\necho $SCASH_RANK runs $1\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let ended = job.options("--copy").run(&script, &["well"]);
    let mut lines = ended.lines(3);
    lines.sort_unstable();
    assert_eq!(lines, ["0 runs well", "1 runs well", "2 runs well"], "{ended}");
}

/// The processors of each rank, as Linux writes them.
fn places(ended: &Ended, ranks: u32) -> Vec<String> {
    let mut lines: Vec<_> = ended.lines(ranks).iter().map(|line| line.split_once(' ').unwrap()).collect();
    lines.sort_unstable();
    lines.into_iter().map(|(_, place)| place.to_owned()).collect()
}

#[test]
fn bound_ranks_have_a_processor_each_on_every_host() {
    if available_parallelism().unwrap().get() < 2 {
        eprintln!("skipped: ranks bound to cores: this machine lets this user have one processor");
        return;
    }
    let ended = Job::plain(2).option("--bind", "core").run_script(PLACE, &[]);
    let here = places(&ended, 2);
    let different: BTreeSet<_> = here.iter().map(|place| place.parse::<u32>().unwrap()).collect();
    assert_eq!((different.len(), &ended.err[..]), (2, ""), "{ended}");
    let Some(hosts) = Hosts::new(2) else { return };
    let ended = hosts.job("10.77.0.1:2,10.77.0.2").options("--bind core").run_script(PLACE);
    assert_eq!(
        places(&ended, 3),
        [0, 1, 0].map(|at: usize| here[at].clone()),
        "the hosts are one machine: {ended}"
    );
}

#[test]
fn bound_ranks_compute_the_same_over_every_provider() {
    for provider in ["shm", "tcp"] {
        let job = Job::plain(2).option("--provider", provider).option("--bind", "core");
        let ended = job.run(&built("laplace"), &["--size", "126", "--iterations", "20", "--check"]);
        assert_eq!(ended.status, 0, "{ended}");
    }
}

#[test]
fn ranks_that_outnumber_processors_are_not_bound_and_the_user_hears_why() {
    let unbound = places(&Job::plain(1).run_script(PLACE, &[]), 1);
    let ended = Job::plain(2).option("--bind", "core").option("--threads", "10000").run_script(PLACE, &[]);
    assert_eq!(places(&ended, 2), [0, 0].map(|at: usize| unbound[at].clone()), "{ended}");
    ended.said(&["--bind core: 2 ranks here, each of 10000 threads", "they are not bound"]);
}

#[test]
fn what_makes_no_sense_here_is_refused() {
    let refused = |job: Job, words: &[&str]| job.run(Path::new("/bin/true"), &[]).refused(words);
    refused(Job::plain(2).flag("--copy"), &["--copy", "--host or --hostfile"]);
    refused(Job::plain(2).option("--bind", "socket"), &["possible values: core, none"]);
}
