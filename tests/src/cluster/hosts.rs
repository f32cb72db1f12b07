//! Jobs on several hosts, which are network namespaces of this machine ([`Namespaces`]).

use super::built::built;
use super::ended::Ended;
use super::job::{run, run_beside};
use super::running::wait_for_status;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use scash_bench::namespaces::{Error, Namespaces, address, script};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The file that ends the program `until`.
const END: &str = "end";

/// Some hosts. They are gone when this is dropped, by a panic too.
#[derive(Debug)]
pub struct Hosts {
    namespaces: Namespaces,
    /// For the remote shell's script, and for whatever a test writes.
    directory: TempDir,
}

impl Hosts {
    /// Makes hosts; says why there are none if this machine lets us make none.
    pub fn new(count: u32) -> Option<Hosts> {
        match Namespaces::new(count) {
            Ok(namespaces) => Some(Hosts { namespaces, directory: tempfile::tempdir().unwrap() }),
            Err(why @ Error::Refused(_)) => {
                eprintln!("skipped: jobs on several hosts: {why}");
                None
            }
            Err(why) => panic!("{why}"),
        }
    }

    /// The name of a host, from 1 on: its address.
    pub fn name(&self, host: u32) -> String {
        address(host)
    }

    /// A file of these hosts' directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Has jobs of the program `until` come to their end.
    pub fn let_end(&self) {
        std::fs::write(self.file(END), "").unwrap();
    }

    /// Runs a job of the program `until` ([`HostsJob::until`]) through all that `act` does to it by its
    /// process number, and checks its result.
    pub fn run_through(&self, until: Command, act: impl FnOnce(i32)) -> Ended {
        let _ = std::fs::remove_file(self.file(END));
        let ended = run_beside(until, |front| {
            act(front);
            self.let_end();
        });
        ended.is_right();
        ended
    }

    /// Unplugs a host: what it sends goes nowhere, and nothing reaches it.
    pub fn cut(&self, host: u32) {
        self.namespaces.cut(host).unwrap();
    }

    /// Plugs it in again.
    pub fn plug_in(&self, host: u32) {
        self.namespaces.plug_in(host).unwrap();
    }

    /// Plugs hosts in elsewhere: they reach one another, and none of the others.
    pub fn split_off(&self, hosts: &[u32]) {
        self.namespaces.split_off(hosts).unwrap();
    }

    /// Cuts the way between two hosts; both reach all others.
    pub fn part(&self, host: u32, other: u32) {
        self.namespaces.part(host, other).unwrap();
    }

    /// Mends it again.
    pub fn join(&self, host: u32, other: u32) {
        self.namespaces.join(host, other).unwrap();
    }

    /// Kills all processes of a host at once, as one that loses its power. Returns how many there were.
    pub fn kill(&self, host: u32) -> usize {
        self.namespaces.kill(host).unwrap()
    }

    /// Kills hosts of a job one after the other, each when the checkpoint has a copy again.
    pub fn kill_in_turn(&self, job: i32, hosts: &[u32]) {
        for host in hosts {
            wait_for_status(job, "copies of each checkpoint: 1, whole\n");
            self.kill(*host);
            wait_for_status(job, &format!("host {} is lost", self.name(*host)));
        }
    }

    /// Sends all processes of a host a signal. One that has ended meanwhile needs none.
    pub fn signal(&self, host: u32, signal: Signal) {
        self.processes(host).into_iter().for_each(|pid| _ = kill(Pid::from_raw(pid), signal));
    }

    /// The processes of a host.
    pub fn processes(&self, host: u32) -> Vec<i32> {
        self.namespaces.processes(host).unwrap()
    }

    /// How many of them are stopped.
    pub fn stopped(&self, host: u32) -> usize {
        let is_stopped = |pid: &i32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" T"))
        };
        self.processes(host).iter().filter(|pid| is_stopped(pid)).count()
    }

    /// How many there are: they have the numbers from 1 on.
    pub fn count(&self) -> u32 {
        self.namespaces.count()
    }

    /// A command line of `scash run`, whose ranks are dealt to `hosts` (a value of `--host`).
    pub fn job(&self, hosts: &str) -> HostsJob {
        let rsh = self.file("rsh");
        self.namespaces.rsh(&rsh).unwrap();
        self.job_by(hosts, &rsh)
    }

    /// As [`job`](Self::job), for the hosts in a file (a value of `--hostfile`).
    pub fn job_of_file(&self, file: &str) -> HostsJob {
        self.job("").of_file(file)
    }

    /// As [`job`](Self::job), where the remote shell does as this script says for `host` (the command is
    /// `"$@"`), and the usual for the others.
    pub fn job_where(&self, hosts: &str, host: u32, words: &str) -> HostsJob {
        // Who asks from another host has the usual shell.
        self.namespaces.rsh(&self.file("rsh")).unwrap();
        let rsh = self.file("special-rsh");
        let special =
            format!("[ $host = {} ] && {{ {words}\n}}\n{}", self.name(host), self.namespaces.on_host());
        script(&rsh, &special).unwrap();
        self.job_by(hosts, &rsh)
    }

    /// As [`job`](Self::job), where agents outlive the remote shell's process, as they do behind ssh.
    pub fn job_behind_shell(&self, hosts: &str) -> HostsJob {
        let (usual, rsh) = (self.file("rsh"), self.file("special-rsh"));
        self.namespaces.rsh(&usual).unwrap();
        let words = format!("exec 3<&0\n{} \"$host\" \"$@\" <&3 3<&- &\nwait $!", usual.display());
        script(&rsh, &words).unwrap();
        self.job_by(hosts, &rsh)
    }

    /// As [`job`](Self::job), where all that the agent of `host` says comes so many milliseconds later, as
    /// over a long line.
    pub fn job_where_late(&self, hosts: &str, host: u32, milliseconds: u32) -> HostsJob {
        // Who goes on with the job when its launcher is lost has the usual shell.
        self.namespaces.rsh(&self.file("rsh")).unwrap();
        let late = format!("{} {milliseconds} \"$0\" \"$host\" \"$@\"", built("late").display());
        let words = format!("[ -n \"$IS_LATE\" ] || exec env IS_LATE=1 {late}");
        self.job_where(hosts, host, &words)
    }

    /// As [`job`](Self::job), with this command as the remote shell.
    pub fn job_by(&self, hosts: &str, rsh: &Path) -> HostsJob {
        let hosts = ["--host", hosts].map(str::to_owned);
        HostsJob { rsh: rsh.to_owned(), hosts, options: Vec::new() }
    }
}

/// How a program is to be run on hosts.
#[derive(Clone, Debug)]
pub struct HostsJob {
    rsh: PathBuf,
    hosts: [String; 2],
    options: Vec<String>,
}

impl HostsJob {
    /// On the hosts in a file (a value of `--hostfile`) instead.
    pub fn of_file(self, file: &str) -> HostsJob {
        HostsJob { hosts: ["--hostfile", file].map(str::to_owned), ..self }
    }

    /// With options of `scash run`, with spaces between them.
    pub fn options(mut self, words: &str) -> HostsJob {
        self.options.extend(words.split_whitespace().map(str::to_owned));
        self
    }

    /// With an option of `scash run` and its value.
    pub fn option(mut self, name: &str, value: &str) -> HostsJob {
        self.options.extend([name.to_owned(), value.to_owned()]);
        self
    }

    /// The command that starts it.
    pub fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(built("scash"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SCASH_"))
        {
            command.env_remove(name);
        }
        command.arg("run").args(&self.hosts).arg("--rsh").arg(&self.rsh).args(&self.options);
        command.arg(program).args(arguments);
        command
    }

    /// As [`command`](Self::command), for a launcher that is on a host of this name itself.
    pub fn command_on(&self, host: &str, program: &Path, arguments: &[&str]) -> Command {
        let there = self.command(program, arguments);
        let mut command = self.on(host, there.get_program());
        command.args(there.get_args());
        for (name, _) in there.get_envs().filter(|(_, value)| value.is_none()) {
            command.env_remove(name);
        }
        command
    }

    /// A command on a host of this name.
    pub fn on(&self, host: &str, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(&self.rsh);
        command.arg(host).arg(program);
        command
    }

    /// Runs a program to the job's end.
    pub fn run(&self, program: &Path, arguments: &[&str]) -> Ended {
        run(self.command(program, arguments))
    }

    /// The command that starts the program `until`, which goes on until [`Hosts::let_end`].
    pub fn until(&self, program: &Path) -> Command {
        self.command(program, &[&self.end().to_string_lossy()])
    }

    /// As [`until`](Self::until), for a launcher that is on a host of this name itself.
    pub fn until_on(&self, host: &str, program: &Path) -> Command {
        self.command_on(host, program, &[&self.end().to_string_lossy()])
    }

    fn end(&self) -> PathBuf {
        self.rsh.with_file_name(END)
    }

    /// Runs a script of the shell as the ranks' program.
    pub fn run_script(&self, script: &str) -> Ended {
        self.run(Path::new("/bin/sh"), &["-c", script])
    }
}

/// Runs a job until some rank has done as an injection says, and then ends hosts, each after so many
/// milliseconds.
pub fn run_until_injected(hosts: &Hosts, mut command: Command, lost: &[(u64, u32)]) -> Ended {
    let told = hosts.file("injected");
    let _ = std::fs::remove_file(&told);
    command.env("SCASH_INJECTED", &told);
    run_beside(command, |_| {
        let started = Instant::now();
        while std::fs::read(&told).unwrap_or_default().is_empty() {
            assert!(started.elapsed() < Duration::from_secs(60), "nothing was injected");
            std::thread::sleep(Duration::from_millis(1));
        }
        for (pause, host) in lost {
            std::thread::sleep(Duration::from_millis(*pause));
            hosts.kill(*host);
        }
    })
}
