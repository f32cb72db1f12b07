//! Hosts for tests and measurements: network namespaces of this machine, joined by a bridge in one more.
//!
//! ```text
//!   PREFIX-1          PREFIX-2               namespaces of hosts
//!    eth0 10.77.0.1    eth0 10.77.0.2        (each with its own loopback interface)
//!      │                 │
//!  ────p1───── br0 ──────p2────              PREFIX-0, the switch
//! ```
//!
//! Nothing of it is visible in the network of the machine. Hosts share processes and files with the machine:
//! they differ in what they reach. What a remote shell does on real hosts is done by a script
//! ([`Namespaces::rsh`]).

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What names of our namespaces begin with; the number of the process that made them follows.
const OURS: &str = "scash-hosts-";

/// Some hosts. They are gone when this is dropped.
#[derive(Debug)]
pub struct Namespaces {
    prefix: String,
    count: u32,
}

/// Why there are no hosts.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This user, or this machine, cannot have namespaces at all.
    #[error(
        "this user cannot make network namespaces ({0}): it takes root, and the command ip (Debian: apt-get install iproute2)"
    )]
    Refused(String),
    /// There are namespaces, but something with them failed.
    #[error("ip {command}: {why}")]
    Failed {
        /// Arguments of the command.
        command: String,
        /// What it says.
        why: String,
    },
}

impl Namespaces {
    /// Makes hosts.
    ///
    /// # Errors
    /// This machine lets us make none.
    pub fn new(count: u32) -> Result<Namespaces, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        remove_leftovers();
        let prefix = format!("{OURS}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        ip(&["netns", "add", &format!("{prefix}-0")]).map_err(Error::Refused)?;
        let hosts = Namespaces { prefix, count };
        hosts.on(0, "link add br0 type bridge")?;
        hosts.on(0, "link set br0 up")?;
        for host in 1..=count {
            let namespace = hosts.namespace(host);
            run(&["netns", "add", &namespace])?;
            hosts.on(0, &format!("link add p{host} type veth peer name eth0 netns {namespace}"))?;
            hosts.on(0, &format!("link set p{host} master br0 up"))?;
            hosts.on(host, "link set lo up")?;
            hosts.on(host, &format!("address add {}/24 dev eth0", address(host)))?;
            hosts.on(host, "link set eth0 up")?;
        }
        Ok(hosts)
    }

    /// How many hosts there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The shell's words that run `"$@"` on the host whose name is in `$host`.
    pub fn on_host(&self) -> String {
        format!("exec ip netns exec {}-\"${{host##*.}}\" \"$@\"", self.prefix)
    }

    /// Writes the script that is these hosts' remote shell.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn rsh(&self, path: &Path) -> std::io::Result<()> {
        script(path, &self.on_host())
    }

    /// Unplugs a host: what it sends goes nowhere, and nothing reaches it.
    ///
    /// # Errors
    /// What the system says.
    pub fn cut(&self, host: u32) -> Result<(), Error> {
        self.on(0, &format!("link set p{host} nomaster"))
    }

    /// Plugs it in again.
    ///
    /// # Errors
    /// What the system says.
    pub fn plug_in(&self, host: u32) -> Result<(), Error> {
        self.on(0, &format!("link set p{host} master br0"))
    }

    /// Plugs hosts in elsewhere: they reach one another, and none of the others. [`plug_in`](Self::plug_in)
    /// ends it.
    ///
    /// # Errors
    /// What the system says.
    pub fn split_off(&self, hosts: &[u32]) -> Result<(), Error> {
        self.on(0, "link add br1 type bridge")?;
        self.on(0, "link set br1 up")?;
        hosts.iter().try_for_each(|host| self.on(0, &format!("link set p{host} master br1")))
    }

    /// Cuts the way between two hosts: what one of them sends to the other goes nowhere.
    ///
    /// # Errors
    /// What the system says.
    pub fn part(&self, host: u32, other: u32) -> Result<(), Error> {
        self.on(host, &format!("route add blackhole {}", address(other)))
    }

    /// Mends it again.
    ///
    /// # Errors
    /// What the system says.
    pub fn join(&self, host: u32, other: u32) -> Result<(), Error> {
        self.on(host, &format!("route del blackhole {}", address(other)))
    }

    /// The processes of a host.
    ///
    /// # Errors
    /// They cannot be asked for.
    pub fn processes(&self, host: u32) -> std::io::Result<Vec<i32>> {
        let namespace = fs::metadata(Path::new("/run/netns").join(self.namespace(host)))?.ino();
        let numbers =
            fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        // One that ends just now has no namespace any more.
        let is_there =
            |pid: &i32| fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|it| it.ino() == namespace);
        Ok(numbers.filter(is_there).collect())
    }

    /// Kills all processes of a host at once, as one that loses its power, and waits until they are gone.
    /// Returns how many there were.
    ///
    /// # Errors
    /// They cannot be asked for, or are not gone in time.
    pub fn kill(&self, host: u32) -> std::io::Result<usize> {
        // One that has ended meanwhile is as dead. None is to see another one dead: all are stopped first,
        // and then killed, the youngest first (where a parent dies, the kernel may wake children that are
        // stopped).
        let signal = |pid: i32, signal| kill(Pid::from_raw(pid), signal).is_ok();
        let mut stopped = BTreeSet::new();
        loop {
            let new: Vec<i32> =
                self.processes(host)?.into_iter().filter(|pid| !stopped.contains(pid)).collect();
            if new.is_empty() {
                break;
            }
            stopped.extend(new.into_iter().inspect(|pid| _ = signal(*pid, Signal::SIGSTOP)));
        }
        let killed = stopped.iter().rev().filter(|pid| signal(**pid, Signal::SIGKILL)).count();
        let until = Instant::now() + Duration::from_secs(30);
        while self.processes(host)?.iter().any(|pid| stopped.contains(pid)) {
            if Instant::now() > until {
                return Err(std::io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(killed)
    }

    fn namespace(&self, host: u32) -> String {
        format!("{}-{host}", self.prefix)
    }

    /// Changes the network of a host, or of the switch.
    fn on(&self, host: u32, words: &str) -> Result<(), Error> {
        let namespace = self.namespace(host);
        run(&["-n", &namespace].into_iter().chain(words.split(' ')).collect::<Vec<_>>())
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for host in 0..=self.count {
            let _ = ip(&["netns", "delete", &self.namespace(host)]);
        }
    }
}

/// The address of a host, from 1 on, which is its name too.
pub fn address(host: u32) -> String {
    format!("10.77.0.{host}")
}

/// Writes a script of the shell that is called as a remote shell: the host's name is in `$host`, the command
/// in `"$@"`.
///
/// # Errors
/// It cannot be written.
pub fn script(path: &Path, text: &str) -> std::io::Result<()> {
    fs::write(path, format!("#!/bin/sh\nhost=$1; shift\n{text}\n"))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// Removes namespaces of processes that were killed.
fn remove_leftovers() {
    let Ok(entries) = fs::read_dir("/run/netns") else { return };
    for name in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
        let owner = name.strip_prefix(OURS).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = ip(&["netns", "delete", &name]);
        }
    }
}

fn run(arguments: &[&str]) -> Result<(), Error> {
    ip(arguments).map_err(|why| Error::Failed { command: arguments.join(" "), why })
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("the command ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}
