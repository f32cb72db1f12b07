//! Hosts of a job are lost and come back (`scash run --host … --replicas`): they are taken in again, and get
//! their ranks back. The results are what they would have been.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use scash_tests::cluster::{
    Ended, Hosts, HostsJob, run_beside, scash, wait_for_status, wait_for_status_meanwhile,
};
use std::path::Path;
use std::time::Duration;

/// Two hosts of two ranks each.
const TWO: &str = "10.77.0.1:2,10.77.0.2:2";

/// What the last host of [`TWO`] is when it has its ranks.
const AT_HOME: &str = "host 10.77.0.2 is there; ranks 2, 3";

fn replicas(job: HostsJob) -> HostsJob {
    job.options("--replicas 1 --checkpoint every=20")
}

/// Runs a job through what is done to it from its first checkpoint on, and checks the result.
fn run(hosts: &Hosts, job: &HostsJob, act: impl FnOnce(i32)) -> Ended {
    let ended = hosts.run_through(job.until(until()), |front| {
        wait_for_status(front, "copies of each checkpoint: 1, whole\n");
        act(front);
    });
    ended.went_on();
    ended
}

fn until() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_until"))
}

#[test]
fn a_host_that_is_back_gets_its_ranks_back_and_can_stand_in_for_the_others() {
    let Some(hosts) = Hosts::new(2) else { return };
    let ended = run(&hosts, &replicas(hosts.job(TWO)), |front| {
        hosts.kill(2);
        wait_for_status(front, "copies of each checkpoint: 0 of 1");
        wait_for_status(front, AT_HOME);
        wait_for_status(front, "copies of each checkpoint: 1, whole\n");
        hosts.kill(1);
        wait_for_status(front, "copies of each checkpoint: 0 of 1");
        wait_for_status(front, "host 10.77.0.1 is there; ranks 0, 1");
    });
    let news =
        ["rank 2 comes back on host 10.77.0.1", "host 10.77.0.2 is back", "rank 2 moves to host 10.77.0.2"];
    ended.said(&[&news[..], &["rank 0 comes back on host 10.77.0.2", "host 10.77.0.1 is back"]].concat());
}

/// Host 2 has a disk of its own: files of the same contents, with other inodes and times.
#[test]
fn ranks_go_from_one_host_to_another_that_has_copies_of_program_and_libraries() {
    let Some(hosts) = Hosts::new(2) else { return };
    let (disk, program) = (hosts.file("disk"), until().display());
    std::fs::create_dir_all(&disk).unwrap();
    let own_disk = format!(
        r#"[ -n "$OWN_DISK" ] || exec env OWN_DISK=1 unshare --mount "$0" "$host" "$@"
           for file in {program} $(ldd {program} | grep -o '/[^ ]*'); do
               file=$(readlink -f "$file")
               copy={disk}/$(basename "$file")
               [ -e "$copy" ] || cp "$file" "$copy"
               mount --bind "$copy" "$file" || exit
           done"#,
        disk = disk.display(),
    );
    let ended = run(&hosts, &replicas(hosts.job_where(TWO, 2, &own_disk)), |front| {
        let library = |pid: i32| {
            let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
            maps.lines().find(|line| line.ends_with("libc.so.6")).map(|line| line[25..].to_owned())
        };
        let [here, there] = [1, 2].map(|host| hosts.processes(host).into_iter().find_map(library).unwrap());
        assert_ne!(here, there, "device and inode differ");
        hosts.kill(2);
        wait_for_status(front, "copies of each checkpoint: 0 of 1");
        wait_for_status(front, AT_HOME);
        wait_for_status(front, "copies of each checkpoint: 1, whole\n");
    });
    ended.said(&["rank 2 comes back on host 10.77.0.1", "rank 2 moves to host 10.77.0.2"]);
}

/// What the last host of [`TWO`] is when it has another kernel.
const UNFIT: &str = "host 10.77.0.2 is there, without ranks; rank ";

/// What a rank says that finds it.
const KERNEL: &str = ": it was saved under another kernel (";

/// Host 2 has been started again with what calls itself another kernel.
#[test]
fn a_host_that_comes_back_with_another_kernel_gets_no_ranks() {
    let Some(hosts) = Hosts::new(2) else { return };
    let is_other = hosts.file("is-other");
    let other = format!("[ -e {} ] && set -- setarch --uname-2.6 \"$@\"", is_other.display());
    let ended = run(&hosts, &replicas(hosts.job_where(TWO, 2, &other)), |front| {
        std::fs::write(&is_other, "").unwrap();
        hosts.kill(2);
        wait_for_status(front, "copies of each checkpoint: 0 of 1");
        wait_for_status(front, UNFIT);
        // Lost once more, it may be another one when it is back.
        std::fs::remove_file(&is_other).unwrap();
        hosts.kill(2);
        wait_for_status(front, AT_HOME);
    });
    ended.said(&[
        "host 10.77.0.2 is back",
        KERNEL,
        "cannot go on from its checkpoint on host 10.77.0.2; all 4 ranks go on",
    ]);
}

/// The user has moved a rank to a host where it cannot go on.
#[test]
fn ranks_that_moved_to_a_host_with_another_kernel_go_back_and_the_host_stays() {
    let Some(hosts) = Hosts::new(3) else { return };
    let list = "10.77.0.1,10.77.0.2,10.77.0.3:spare";
    let job = hosts.job_where(list, 3, "set -- setarch --uname-2.6 \"$@\"");
    let job = replicas(job).options("--on-loss spare --no-rejoin");
    let ended = run(&hosts, &job, |front| {
        let unfit = "host 10.77.0.3 is there, without ranks; rank 1 could not go on there";
        let job = front.to_string();
        scash(&["migrate", &job, "1", "10.77.0.3"]).succeeded();
        wait_for_status(front, unfit);
        wait_for_status(front, "host 10.77.0.2 is there; ranks 1");
        // The user has them try again.
        scash(&["rejoin", &job, "10.77.0.3"]).succeeded();
        wait_for_status(front, "incarnation 4");
        wait_for_status(front, unfit);
        scash(&["drain", &job, "10.77.0.2"]).succeeded();
        wait_for_status(front, "host 10.77.0.2 is there, without ranks");
    });
    let said = "rank 1 cannot go on from its checkpoint on host 10.77.0.3; all 2 ranks go on";
    ended.said(&["rank 1 comes back on host 10.77.0.3", KERNEL, said, "rank 1 comes back on host 10.77.0.2"]);
    assert!(!ended.err.contains("is lost"), "{ended}");
}

/// Hosts have had different kernels all the time.
#[test]
fn a_rank_that_was_moved_to_a_host_with_another_kernel_drives_nobody_from_there() {
    let Some(hosts) = Hosts::new(2) else { return };
    let ended =
        run(&hosts, &replicas(hosts.job_where(TWO, 2, "set -- setarch --uname-2.6 \"$@\"")), |front| {
            scash(&["migrate", &front.to_string(), "1", "10.77.0.2"]).succeeded();
            wait_for_status(front, "host 10.77.0.2 is there; ranks 2, 3; rank 1 could not go on there");
            wait_for_status(front, "copies of each checkpoint: 1, whole\n");
        });
    ended.said(&[KERNEL, "rank 1 cannot go on from its checkpoint on host 10.77.0.2; all 4 ranks go on"]);
}

/// Host 2 has had another kernel all the time, and is lost.
#[test]
fn a_job_of_which_no_host_is_left_where_ranks_can_go_on_says_so_and_how_to_go_on() {
    let Some(hosts) = Hosts::new(2) else { return };
    let job = replicas(hosts.job_where(TWO, 2, "set -- setarch --uname-2.6 \"$@\"")).options("--linger 1s");
    let ended = run_beside(job.options("--no-rejoin").until(until()), |front| {
        wait_for_status(front, "copies of each checkpoint: 1, whole\n");
        hosts.kill(2);
    });
    let said = "can go on from its checkpoint on no host that is left";
    ended.failed(
        125,
        &[KERNEL, "cannot go on from its checkpoint on host 10.77.0.1, and", said, "scash resume"],
    );
}

/// The kernel lays memory out by that limit.
#[test]
fn ranks_go_from_one_host_to_another_that_has_another_limit_of_stacks() {
    let Some(hosts) = Hosts::new(2) else { return };
    let ended = run(&hosts, &replicas(hosts.job_where(TWO, 2, "ulimit -s unlimited")), |front| {
        hosts.kill(2);
        wait_for_status(front, "copies of each checkpoint: 0 of 1");
        wait_for_status(front, AT_HOME);
    });
    ended.said(&["rank 2 comes back on host 10.77.0.1", "rank 2 moves to host 10.77.0.2"]);
}

#[test]
fn ranks_wait_for_their_host_if_the_user_wants_that() {
    let Some(hosts) = Hosts::new(2) else { return };
    let ended = run(&hosts, &replicas(hosts.job(TWO)).options("--on-loss wait"), |front| {
        hosts.kill(2);
        wait_for_status(front, "host 10.77.0.2 is lost");
        wait_for_status(front, AT_HOME);
        wait_for_status(front, "copies of each checkpoint: 1, whole\n");
        hosts.kill(1);
        wait_for_status(front, "host 10.77.0.1 is lost");
        wait_for_status(front, "host 10.77.0.1 is there; ranks 0, 1");
    });
    ended.said(&["ranks wait until host 10.77.0.2 is back, for up to 600 s", "host 10.77.0.2 is back"]);
    assert!(!ended.err.contains("comes back on"), "ranks have not been elsewhere: {ended}");
}

#[test]
fn ranks_wait_for_their_host_no_longer_than_the_user_wants() {
    let Some(hosts) = Hosts::new(2) else { return };
    let ended = run(&hosts, &replicas(hosts.job(TWO)).options("--on-loss wait --wait-for 300ms"), |front| {
        hosts.kill(2);
        wait_for_status(front, "copies of each checkpoint: 0 of 1");
        wait_for_status(front, AT_HOME);
    });
    ended.said(&[
        "host 10.77.0.2 is not back: its ranks go on elsewhere",
        "rank 3 comes back on host 10.77.0.1",
    ]);
}

#[test]
fn a_host_that_does_not_come_back_is_called_again_and_the_job_goes_on_without() {
    let Some(hosts) = Hosts::new(2) else { return };
    let once = hosts.file("called");
    let words = format!("[ -e {once} ] && exit 7\n: > {once}", once = once.display());
    let ended = run(&hosts, &replicas(hosts.job_where(TWO, 2, &words)), |front| {
        hosts.kill(2);
        wait_for_status(front, "host 10.77.0.2 is lost; it is called again in");
        wait_for_status(front, "exited with status 7");
        let job = front.to_string();
        scash(&["rejoin", &job, "10.77.0.1"]).failed(1, &["host 10.77.0.1 is there"]);
        scash(&["rejoin", &job, "elsewhere"]).failed(1, &["this job has no host elsewhere"]);
        std::fs::remove_file(&once).unwrap();
        wait_for_status(front, AT_HOME);
    });
    ended.said(&["host 10.77.0.2 is back"]);
}

#[test]
fn a_lost_host_is_taken_in_when_the_user_wants_that_and_is_not_called_before() {
    let Some(hosts) = Hosts::new(2) else { return };
    let ended = run(&hosts, &replicas(hosts.job(TWO)).options("--no-rejoin"), |front| {
        hosts.kill(2);
        wait_for_status(front, "host 10.77.0.2 is lost\n");
        std::thread::sleep(Duration::from_millis(1500));
        wait_for_status(front, "host 10.77.0.2 is lost\n");
        scash(&["rejoin", &front.to_string(), "10.77.0.2"]).succeeded();
        wait_for_status(front, AT_HOME);
    });
    ended.said(&["host 10.77.0.2 is back"]);
}

/// Has a host called again and again, and ends it so long after each call; then another one.
fn lose_at_its_return(hosts: &Hosts, front: i32, pauses: impl Iterator<Item = u64>, other: u32) {
    let rejoin = |host: &str| drop(scash(&["rejoin", &front.to_string(), host]));
    for pause in pauses {
        hosts.kill(2);
        // Nobody may have been there yet, and have come right behind.
        wait_for_status_meanwhile(front, "host 10.77.0.2 is lost", || {
            hosts.kill(2);
        });
        rejoin("10.77.0.2");
        std::thread::sleep(Duration::from_millis(pause));
    }
    hosts.kill(other);
    wait_for_status(front, "host 10.77.0.3 is");
    rejoin(&format!("10.77.0.{other}"));
}

#[test]
fn a_host_may_be_lost_again_at_any_instant_of_its_return_and_another_one_too() {
    let Some(hosts) = Hosts::new(3) else { return };
    for (round, other) in [(0, 3), (3, 1)] {
        let job = hosts.job("10.77.0.1:2,10.77.0.2,10.77.0.3");
        let job = job.options("--replicas 2 --checkpoint every=20 --no-rejoin --restarts 1000");
        let ended = hosts.run_through(job.until(until()), |front| {
            wait_for_status(front, "copies of each checkpoint: 2, whole\n");
            lose_at_its_return(&hosts, front, (0..6).map(|pause| 9 * pause + round), other);
        });
        ended.went_on();
    }
}
