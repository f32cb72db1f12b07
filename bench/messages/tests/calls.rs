//! Every call does what it must, over scash and over each MPI library that is here.
#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_comm::mem_exchange::MemExchange;
use scash_comm::shm::{ShmEndpoint, ShmOptions};
use scash_messages::rival::{Network, Rival};
use scash_messages::{MessageLibrary, every_call};
use scash_mp::{Communicator, Options};
use std::process::{Command, Output};

/// Seconds after which a job is taken to hang.
const LIMIT: &str = "120";

#[test]
fn every_call_does_what_it_must_over_scash() {
    for ranks in [1, 2, 3, 4] {
        std::thread::scope(|scope| {
            for mut exchange in MemExchange::ranks(ranks) {
                scope.spawn(move || {
                    let endpoint = ShmEndpoint::new(&mut exchange, &ShmOptions::default()).unwrap();
                    let communicator =
                        Communicator::new(Box::new(endpoint), &mut exchange, Options::default());
                    every_call::check(&communicator.unwrap()).unwrap();
                });
            }
        });
    }
}

#[test]
fn every_call_does_what_it_must_over_every_mpi() {
    let cores = std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap());
    for rival in Rival::ALL {
        if let Some(why) = rival.missing() {
            eprintln!("skipped: {why}");
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        let shim = rival.shim(directory.path()).unwrap();
        // MPICH's ranks spin and never yield: where they outnumber cores, and other programs run, a job may
        // not come to its end.
        let most = if rival == Rival::Mpich { cores.clamp(2, 3) } else { 3 };
        for (ranks, network) in [(1, Network::Shm), (2, Network::Shm), (most, Network::Tcp)] {
            let mut job = rival.launch(ranks, network);
            job.arg(env!("CARGO_BIN_EXE_every-call")).arg(format!("mpi:{}", shim.display()));
            let done = output(&job);
            let text = String::from_utf8_lossy(&done.stdout).into_owned();
            assert!(done.status.success(), "{rival:?}: {text}{}", String::from_utf8_lossy(&done.stderr));
            assert_eq!(text, format!("{ranks} ranks: every call is right\n"), "{rival:?}");
        }
    }
}

/// Runs a command to its end, or to that of the time it may take.
fn output(command: &Command) -> Output {
    let mut limited = Command::new("timeout");
    limited.args(["--kill-after=5", LIMIT]).arg(command.get_program()).args(command.get_args());
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.output().unwrap()
}

#[test]
fn a_shim_that_is_none_is_an_error_that_names_it() {
    for (path, why) in [("/nowhere/shim.so", "cannot open"), ("/proc/self/exe", "")] {
        let done =
            Command::new(env!("CARGO_BIN_EXE_every-call")).arg(format!("mpi:{path}")).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1));
        assert!(said.contains(&format!("the MPI shim {path}: ")) && said.contains(why), "{said}");
    }
}

#[test]
fn what_messages_travel_over_is_named() {
    assert_eq!("scash".parse(), Ok(MessageLibrary::Scash));
    assert_eq!("mpi:/a/b.so".parse(), Ok(MessageLibrary::Mpi("/a/b.so".into())));
    for wrong in ["", "mpi", "mpi:", "pvm:/a"] {
        assert!(wrong.parse::<MessageLibrary>().unwrap_err().contains("`scash`, or `mpi:`"));
    }
}
