//! A Slurm of this machine alone, for one test: a controller and two nodes, each with ports and files of its
//! own, and without the daemon of munge.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long daemons may take to begin.
const START: Duration = Duration::from_secs(60);

/// Daemons that run. They and their files are gone when this is dropped.
pub struct Slurm {
    daemons: Vec<Child>,
    directory: TempDir,
}

impl Slurm {
    /// Starts one, or says why there is none.
    pub fn start() -> Option<Slurm> {
        let missing = ["slurmctld", "slurmd", "srun"].iter().find(|name| find(name).is_none());
        if let Some(name) = missing {
            eprintln!(
                "skipped: jobs of Slurm: {name} is not installed (Debian: apt-get install slurmctld slurmd slurm-client slurm-wlm-basic-plugins)"
            );
            return None;
        }
        // SAFETY: asks the kernel for a number.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!(
                "skipped: jobs of Slurm: its daemons start processes of any user, so they run as root; run the tests as root"
            );
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let mut slurm = Slurm { daemons: Vec::new(), directory };
        slurm.configure();
        slurm.daemon("slurmctld", &[]);
        // A node that finds no controller tries again much later.
        slurm.await_nodes(|said| !said.is_empty());
        slurm.daemon("slurmd", &["-N", "node1"]);
        slurm.daemon("slurmd", &["-N", "node2"]);
        slurm.await_nodes(|said| said == "2 idle");
        Some(slurm)
    }

    fn configure(&self) {
        let [controller, first, second] = free_ports();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim();
        let here = self.directory.path().display();
        let text = format!(
            "ClusterName=scash-test\nSlurmctldHost=localhost(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/none\nCredType=cred/none\nSlurmctldPort={controller}\nStateSaveLocation={here}\n\
             SlurmdSpoolDir={here}/%n\nSlurmctldPidFile={here}/ctld.pid\nSlurmdPidFile={here}/%n.pid\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=pmi2\n\
             ReturnToService=2\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nSlurmdParameters=config_overrides\n\
             NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=8\n\
             NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=8\n\
             PartitionName=all Nodes=ALL Default=YES State=UP\n"
        );
        fs::write(self.directory.path().join("slurm.conf"), text).unwrap();
    }

    /// A command of this Slurm.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(find(name).unwrap());
        command.env("SLURM_CONF", self.directory.path().join("slurm.conf"));
        command
    }

    /// `srun` with these options.
    pub fn srun(&self, options: &[&str]) -> Command {
        let mut command = self.command("srun");
        command.args(options);
        command
    }

    fn daemon(&mut self, name: &str, options: &[&str]) {
        let log = fs::File::options().create(true).append(true).open(self.log()).unwrap();
        let mut command = self.command(name);
        command.arg("-D").arg("-f").arg(self.directory.path().join("slurm.conf")).args(options);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.daemons.push(command.spawn().unwrap());
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// Waits until `sinfo` says what is waited for: how many nodes are in which state.
    fn await_nodes(&self, is_it: impl Fn(&str) -> bool) {
        let started = Instant::now();
        loop {
            let mut sinfo = self.command("sinfo");
            let output = sinfo.args(["--noheader", "--format=%D %t"]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            if is_it(text.trim()) {
                return;
            }
            let log = fs::read_to_string(self.log()).unwrap_or_default();
            assert!(
                started.elapsed() < START,
                "Slurm does not begin; sinfo says {text:?}, the daemons:\n{log}"
            );
            sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // The nodes first: they end what still runs on them.
        for daemon in self.daemons.iter_mut().rev() {
            // SAFETY: sends a signal to a child that was not waited for.
            unsafe { libc::kill(i32::try_from(daemon.id()).unwrap(), libc::SIGTERM) };
        }
        let started = Instant::now();
        for daemon in &mut self.daemons {
            while !matches!(daemon.try_wait(), Ok(Some(_))) {
                if started.elapsed() > Duration::from_secs(20) {
                    let _ = daemon.kill();
                }
                sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Where a command lies.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Daemons lie where not every user looks.
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    directories.map(|directory| directory.join(name)).find(|file| file.is_file())
}

/// Ports that nobody has.
fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}
