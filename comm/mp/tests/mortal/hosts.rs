//! Two hosts: network namespaces with a link between them, which can be cut.

use std::process::{Command, Stdio};

/// Two hosts. They are gone when this is dropped.
pub(crate) struct Hosts {
    names: [String; 2],
}

impl Hosts {
    /// Makes them; says why there are none if this machine lets us make none.
    pub(crate) fn new() -> Option<Hosts> {
        let names = [1, 2].map(|host| format!("scash-mortal-{}-{host}", std::process::id()));
        if !ip(&["netns", "add", &names[0]]) {
            eprintln!(
                "skipped: two hosts: this user cannot make network namespaces (it takes root, and the command ip)"
            );
            return None;
        }
        let hosts = Hosts { names };
        let [first, second] = &hosts.names;
        assert!(ip(&["netns", "add", second]));
        assert!(ip(&[
            "-n", first, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", second
        ]));
        for (name, address) in hosts.names.iter().zip(["10.78.0.1/24", "10.78.0.2/24"]) {
            assert!(ip(&["-n", name, "link", "set", "lo", "up"]));
            assert!(ip(&["-n", name, "address", "add", address, "dev", "eth0"]));
            assert!(ip(&["-n", name, "link", "set", "eth0", "up"]));
        }
        Some(hosts)
    }

    /// What a command begins with that runs on a host, and the host's address.
    pub(crate) fn place(&self, host: usize) -> (Vec<String>, &'static str) {
        let before = ["ip", "netns", "exec", &self.names[host]].map(str::to_owned).to_vec();
        (before, ["10.78.0.1", "10.78.0.2"][host])
    }

    /// Cuts the link: what is sent goes nowhere.
    pub(crate) fn cut(&self) {
        assert!(ip(&["-n", &self.names[1], "link", "set", "eth0", "down"]));
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&["netns", "delete", name]);
        }
    }
}

/// Runs the command ip; whether it did what was asked.
fn ip(words: &[&str]) -> bool {
    let mut command = Command::new("ip");
    command.args(words).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
