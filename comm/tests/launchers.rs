//! Jobs of other launchers: MPICH's `mpiexec`, Open MPI's `mpirun`, and `srun` of a Slurm that each test starts for itself on this machine. Their ranks are the example `ring`.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

#[path = "launchers/run.rs"]
mod run;
#[path = "launchers/slurm.rs"]
mod slurm;

use run::{Ended, launcher, ring, run};
use slurm::Slurm;
use std::process::Command;

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
    command.arg(ring()).args(arguments).env("SCASH_JOIN", if arguments.is_empty() { "60" } else { "10" });
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
