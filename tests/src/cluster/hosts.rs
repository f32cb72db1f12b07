//! Hosts for tests: network namespaces of this machine, joined by a bridge in one more.
//!
//! ```text
//!   PREFIX-1          PREFIX-2               namespaces of hosts
//!    eth0 10.77.0.1    eth0 10.77.0.2        (each with its own loopback interface)
//!      │                 │
//!  ────p1───── br0 ──────p2────              PREFIX-0, the switch
//! ```
//!
//! Nothing of it is visible in the network of the machine, so tests do not disturb it or each other. Hosts share processes and files with the machine: they differ in what
//! they reach. What a remote shell does on real hosts is done by a script here.

use super::built::built;
use super::ended::Ended;
use super::job::run;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// What names of our namespaces begin with.
const OURS: &str = "scash-test-";

/// Some hosts. They are gone when this is dropped, by a panic too.
#[derive(Debug)]
pub struct Hosts {
    prefix: String,
    count: u32,
    /// For the remote shell's script, and for whatever a test writes.
    directory: TempDir,
}

impl Hosts {
    /// Makes hosts; says why there are none if this machine lets us make none.
    pub fn new(count: u32) -> Option<Hosts> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        remove_leftovers();
        let prefix = format!("{OURS}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        if let Err(why) = ip(&["netns", "add", &format!("{prefix}-0")]) {
            eprintln!(
                "skipped: jobs on several hosts: this user cannot make network namespaces ({why}); run the tests as root"
            );
            return None;
        }
        let hosts = Hosts { prefix, count, directory: tempfile::tempdir().unwrap() };
        hosts.on(0, "link add br0 type bridge");
        hosts.on(0, "link set br0 up");
        for host in 1..=count {
            let namespace = hosts.namespace(host);
            ip(&["netns", "add", &namespace]).unwrap();
            hosts.on(0, &format!("link add p{host} type veth peer name eth0 netns {namespace}"));
            hosts.on(0, &format!("link set p{host} master br0 up"));
            hosts.on(host, "link set lo up");
            hosts.on(host, &format!("address add {}/24 dev eth0", hosts.name(host)));
            hosts.on(host, "link set eth0 up");
        }
        Some(hosts)
    }

    /// The name of a host, from 1 on: its address.
    pub fn name(&self, host: u32) -> String {
        assert!((1..=self.count).contains(&host));
        format!("10.77.0.{host}")
    }

    /// A file of these hosts' directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Unplugs a host: what it sends goes nowhere, and nothing reaches it.
    pub fn cut(&self, host: u32) {
        self.on(0, &format!("link set p{host} nomaster"));
    }

    /// A command line of `scash run`, whose ranks are dealt to `hosts` (a value of `--host`).
    pub fn job(&self, hosts: &str) -> HostsJob {
        let rsh = format!("exec ip netns exec {}-\"${{host##*.}}\" \"$@\"", self.prefix);
        self.job_by(hosts, &self.script("rsh", &rsh))
    }

    /// As [`job`](Self::job), where the remote shell does as this script says for `host` (the command is `"$@"`), and the usual for the others.
    pub fn job_where(&self, hosts: &str, host: u32, script: &str) -> HostsJob {
        let special = format!(
            "[ $host = {} ] && {{ {script}\n}}\nexec ip netns exec {}-\"${{host##*.}}\" \"$@\"",
            self.name(host),
            self.prefix
        );
        self.job_by(hosts, &self.script("special-rsh", &special))
    }

    /// As [`job`](Self::job), with this command as the remote shell.
    pub fn job_by(&self, hosts: &str, rsh: &Path) -> HostsJob {
        HostsJob { rsh: rsh.to_owned(), hosts: hosts.to_owned(), options: Vec::new() }
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name);
        fs::write(&path, format!("#!/bin/sh\nhost=$1; shift\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn namespace(&self, host: u32) -> String {
        format!("{}-{host}", self.prefix)
    }

    /// Changes the network of a host, or of the switch.
    fn on(&self, host: u32, words: &str) {
        let namespace = self.namespace(host);
        let arguments: Vec<&str> = ["-n", &namespace].into_iter().chain(words.split(' ')).collect();
        ip(&arguments).unwrap_or_else(|why| panic!("ip {arguments:?}: {why}"));
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in 0..=self.count {
            let _ = ip(&["netns", "delete", &self.namespace(host)]);
        }
    }
}

/// Removes namespaces of tests that were killed.
fn remove_leftovers() {
    let Ok(entries) = fs::read_dir("/run/netns") else { return };
    for name in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
        let owner = name.strip_prefix(OURS).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = ip(&["netns", "delete", &name]);
        }
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("the command ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// How a program is to be run on hosts.
#[derive(Clone, Debug)]
pub struct HostsJob {
    rsh: PathBuf,
    hosts: String,
    options: Vec<String>,
}

impl HostsJob {
    /// With options of `scash run`, with spaces between them.
    pub fn options(mut self, words: &str) -> HostsJob {
        self.options.extend(words.split(' ').map(str::to_owned));
        self
    }

    /// The command that starts it.
    pub fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(built("scash"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SCASH_"))
        {
            command.env_remove(name);
        }
        command.args(["run", "--host", &self.hosts, "--rsh"]).arg(&self.rsh).args(&self.options);
        command.arg(program).args(arguments);
        command
    }

    /// Runs a program to the job's end.
    pub fn run(&self, program: &Path, arguments: &[&str]) -> Ended {
        run(self.command(program, arguments))
    }

    /// Runs a script of the shell as the ranks' program.
    pub fn run_script(&self, script: &str) -> Ended {
        self.run(Path::new("/bin/sh"), &["-c", script])
    }
}
