//! Jobs of other launchers: MPICH's `mpiexec`, Open MPI's `mpirun`, and `srun` of a Slurm that each test
//! starts for itself on this machine. Their ranks pass messages round a ring, or are LAPLACE on shared
//! memory.

use scash_tests::cluster::built::built;
use scash_tests::cluster::slurm::{Slurm, find};
use scash_tests::cluster::{Ended, run};
use std::process::Command;

const RING: &str = env!("CARGO_BIN_EXE_ring");

/// The command of a launcher, if it is installed.
fn launcher(name: &str, package: &str) -> Option<Command> {
    if find(name).is_none() {
        eprintln!("skipped: jobs of {name}: it is not installed (Debian: apt-get install {package})");
        return None;
    }
    Some(Command::new(name))
}

/// MPICH's launcher for four processes, if it is installed.
fn mpich() -> Option<Command> {
    let mut command = launcher("mpiexec.hydra", "mpich")?;
    command.args(["-n", "4"]);
    Some(command)
}

/// Open MPI's launcher for four processes, if it is installed.
fn open_mpi() -> Option<Command> {
    let mut command = launcher("mpirun.openmpi", "openmpi-bin")?;
    command.args(["--allow-run-as-root", "--oversubscribe", "-n", "4"]);
    Some(command)
}

/// Runs the ring with these arguments.
fn ring_by(mut command: Command, arguments: &[&str]) -> Ended {
    command.arg(RING).args(arguments).env("SCASH_JOIN", if arguments.is_empty() { "60" } else { "10" });
    run(command)
}

/// Checks that four ranks have closed the ring.
fn closes_the_ring(ended: &Ended) {
    assert_eq!(ended.status, 0, "{ended}");
    let mut lines: Vec<&str> = ended.out.lines().collect();
    lines.sort_unstable();
    let expected: Vec<String> = (0..4).map(|rank| format!("rank {rank} of 4: the ring is closed")).collect();
    assert_eq!(lines, expected, "{ended}");
}

/// Checks that the job failed, and that ranks were told that this one is gone.
fn tells_of(ended: &Ended, rank: u32) {
    assert_ne!(ended.status, 0, "{ended}");
    assert!(ended.err.contains(&format!("rank {rank} is gone")), "{ended}");
}

/// Checks that the job ended because process 2 never came, as one line says.
fn misses_rank_2(ended: &Ended) {
    assert_ne!(ended.status, 0, "{ended}");
    let lines: Vec<&str> = ended.err.lines().filter(|line| line.contains("not all 4 ranks")).collect();
    assert!(
        matches!(lines[..], [line] if line.contains("ranks 0-1, 3; missing, or on other hosts, rank 2")),
        "{ended}"
    );
}

#[test]
fn ranks_find_each_other_under_the_mpiexec_of_mpich() {
    let Some(command) = mpich() else { return };
    closes_the_ring(&ring_by(command, &[]));
}

#[test]
fn a_job_of_mpich_that_misses_a_rank_ends_with_one_message() {
    let Some(command) = mpich() else { return };
    misses_rank_2(&ring_by(command, &["absent", "2"]));
}

#[test]
fn ranks_find_each_other_under_the_mpirun_of_open_mpi() {
    let Some(command) = open_mpi() else { return };
    closes_the_ring(&ring_by(command, &[]));
}

#[test]
fn a_job_of_open_mpi_that_misses_a_rank_ends_with_one_message() {
    let Some(command) = open_mpi() else { return };
    misses_rank_2(&ring_by(command, &["absent", "2"]));
}

#[test]
fn ranks_find_each_other_under_srun() {
    let Some(slurm) = Slurm::start() else { return };
    closes_the_ring(&ring_by(slurm.srun(&["--ntasks=4", "--nodes=1"]), &[]));
    closes_the_ring(&ring_by(slurm.srun(&["--ntasks=4", "--nodes=2"]), &[]));
    closes_the_ring(&ring_by(slurm.srun(&["--ntasks=4", "--mpi=pmix"]), &[]));
    let ended = ring_by(slurm.srun(&["--ntasks=2", "--mpi=none"]), &[]);
    assert!(ended.status == 3 && ended.err.contains("srun --mpi=pmi2 PROGRAM"), "{ended}");
}

#[test]
fn the_others_are_told_which_rank_of_a_slurm_job_is_gone() {
    let Some(slurm) = Slurm::start() else { return };
    // The lead of the host, one of the others, and one that says nothing before it ends.
    for (how, rank) in [("kill", 0), ("kill", 2), ("exit", 1)] {
        tells_of(&ring_by(slurm.srun(&["--ntasks=4"]), &[how, &rank.to_string()]), rank);
    }
    misses_rank_2(&ring_by(slurm.srun(&["--ntasks=4"]), &["absent", "2"]));
}

/// Has a launcher run LAPLACE on shared memory, which is compared with the sequential program.
fn laplace_by(mut command: Command, ranks: u32) {
    command.arg(built("laplace")).args(["--size", "126", "--iterations", "20", "--check", "--json"]);
    let ended = run(command);
    // Launchers may have something to say of themselves.
    Ended { err: String::new(), ..ended }.is_equal(ranks);
}

#[test]
fn programs_on_shared_memory_run_under_each_launcher() {
    if let Some(command) = mpich() {
        laplace_by(command, 4);
    }
    if let Some(command) = open_mpi() {
        laplace_by(command, 4);
    }
    let Some(slurm) = Slurm::start() else { return };
    laplace_by(slurm.srun(&["--ntasks=4", "--nodes=1"]), 4);
    laplace_by(slurm.srun(&["--ntasks=4", "--nodes=2"]), 4);
}

#[test]
fn scash_run_uses_the_hosts_of_its_allocation() {
    let Some(slurm) = Slurm::start() else { return };
    let in_allocation = |options: &[&str]| {
        let mut command = slurm.command("salloc");
        command.args(["--quiet", "--nodes=2", "--ntasks-per-node=2"]).arg(built("scash")).arg("run");
        // The names of these nodes mean nothing.
        command.args(options).env("SCASH_INTERFACE", "127.0.0.1");
        command
    };
    closes_the_ring(&ring_by(in_allocation(&[]), &[]));
    laplace_by(in_allocation(&["-n", "3"]), 3);
    tells_of(&ring_by(in_allocation(&[]), &["kill", "2"]), 2);
    ring_by(in_allocation(&["-n", "5"]), &[]).said(&["the hosts have 4 slots"]);
}
