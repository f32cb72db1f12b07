//! The address of a host that ranks of other hosts connect to, where the user has not said it.

use super::assignment::Assignment;
use std::net::{IpAddr, TcpListener, ToSocketAddrs};

/// The variable by which the user says it.
pub(super) const INTERFACE: &str = "SCASH_INTERFACE";

/// What a host's name means here: none if it means nothing.
pub(super) fn resolve(name: &str) -> Vec<IpAddr> {
    let host = name.rsplit_once('@').map_or(name, |(_, host)| host);
    let addresses = (host, 0).to_socket_addrs();
    addresses.map(|all| all.map(|address| address.ip()).collect()).unwrap_or_default()
}

/// An address of this host that its name means: to the launcher, to this host, or else the one by which ssh
/// came here. The error says that there is none and what to do.
pub(super) fn choose(assignment: &Assignment) -> Result<IpAddr, String> {
    let here = resolve(&assignment.name);
    // What the user wrote as an address is meant, even if it is one that no other machine reaches.
    let literal = assignment.name.parse().ok();
    let by_ssh = std::env::var("SSH_CONNECTION").ok().and_then(|text| text.split(' ').nth(2)?.parse().ok());
    let mut candidates: Vec<IpAddr> =
        assignment.addresses.iter().chain(&here).copied().chain(by_ssh).collect();
    candidates.dedup();
    let is_good = |ip: &IpAddr| (!ip.is_loopback() || literal == Some(*ip)) && is_ours(*ip);
    candidates.iter().copied().find(is_good).ok_or_else(|| {
        let means = match &candidates[..] {
            [] => "means no address".to_owned(),
            all => {
                let all: Vec<String> = all.iter().map(IpAddr::to_string).collect();
                format!("means {}, which is no address of it that other hosts reach", all.join(", "))
            }
        };
        format!(
            "its name {means}: set {INTERFACE} to the network that joins the hosts, such as 10.0.0.0/24, or to the name of its interface, \
             such as eth0"
        )
    })
}

fn is_ours(ip: IpAddr) -> bool {
    !ip.is_unspecified() && TcpListener::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use scash_comm::Secret;
    use scash_join::boot::{Layout, Settings};

    fn assignment(name: &str, addresses: &[&str]) -> Assignment {
        Assignment {
            secret: Secret::from_bytes([0; Secret::LENGTH]),
            layout: Layout::new(&[1, 1]).unwrap(),
            host: 0,
            name: name.to_owned(),
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
            settings: Settings { threads: 1, provider: "tcp".into() },
            one_stream: false,
            bind: false,
            no_aslr: false,
            is_watched: false,
            replicas: None,
            copied: None,
            directory: "/".into(),
            program: ("/bin/sh".into(), "sh".into()),
            arguments: Vec::new(),
            env: Vec::new(),
        }
    }

    #[test]
    fn a_loopback_address_serves_only_where_the_user_wrote_it() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(choose(&assignment("127.0.0.2", &[])), Ok(ip("127.0.0.2")));
        let why = choose(&assignment("no-such-host.invalid", &["127.0.1.1"])).unwrap_err();
        assert!(why.contains("127.0.1.1") && why.contains("SCASH_INTERFACE"), "{why}");
    }

    #[test]
    fn an_address_of_another_host_is_none_of_this_one() {
        let why = choose(&assignment("192.0.2.1", &[])).unwrap_err();
        assert!(why.contains("means 192.0.2.1"), "{why}");
    }
}
