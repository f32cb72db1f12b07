//! The address that the user means a rank to listen on: one value for the ranks of all hosts.

use nix::ifaddrs::getifaddrs;
use std::net::{IpAddr, ToSocketAddrs};

/// The address that `text` means on this host: an address or a name of it, the name of one of its interfaces
/// (`eth0`), or a network that it is in (`10.0.0.0/24`). The error says why there is none.
pub fn address_of(text: &str) -> Result<IpAddr, String> {
    choose(text, &interfaces()?)
}

/// The addresses of this host, each with the name of its interface.
fn interfaces() -> Result<Vec<(String, IpAddr)>, String> {
    let all = getifaddrs().map_err(|error| format!("asking for this host's interfaces: {error}"))?;
    let address = |entry: nix::ifaddrs::InterfaceAddress| {
        let address = entry.address?;
        let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
        Some((entry.interface_name, v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))?))
    };
    Ok(all.filter_map(address).collect())
}

fn choose(text: &str, interfaces: &[(String, IpAddr)]) -> Result<IpAddr, String> {
    // An address of a link means nothing without the link.
    let usable = |ip: &IpAddr| !matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    if let Some((network, bits)) = text.split_once('/') {
        let network = network.parse().ok().zip(bits.parse().ok());
        let Some(network) = network.filter(|&(ip, bits)| bits <= width(ip)) else {
            return Err("a network looks like 10.0.0.0/24".to_owned());
        };
        let own = interfaces.iter().map(|&(_, ip)| ip).find(|&ip| usable(&ip) && is_in(ip, network));
        return own.ok_or_else(|| "this host has no address in that network".to_owned());
    }
    let mut named = interfaces.iter().filter(|(name, _)| name == text).map(|&(_, ip)| ip).peekable();
    if named.peek().is_some() {
        // IPv4 first: the hosts of a job must agree.
        let addresses: Vec<IpAddr> = named.filter(usable).collect();
        let first = addresses.iter().find(|ip| ip.is_ipv4()).or(addresses.first());
        return first.copied().ok_or_else(|| "that interface has no address".to_owned());
    }
    let mut addresses = (text, 0).to_socket_addrs().map_err(|error| error.to_string())?;
    addresses.next().map(|address| address.ip()).ok_or_else(|| "the name has no address".to_owned())
}

/// Bits of an address of this kind.
fn width(ip: IpAddr) -> u32 {
    if ip.is_ipv4() { u32::BITS } else { u128::BITS }
}

/// Whether an address is in a network of so many bits, which are no more than its kind has.
fn is_in(ip: IpAddr, (network, bits): (IpAddr, u32)) -> bool {
    match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => {
            (ip.to_bits() ^ network.to_bits()).checked_shr(u32::BITS - bits).unwrap_or(0) == 0
        }
        (IpAddr::V6(ip), IpAddr::V6(network)) => {
            (ip.to_bits() ^ network.to_bits()).checked_shr(u128::BITS - bits).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(text: &str) -> Result<IpAddr, String> {
        let own = [
            ("lo", "127.0.0.1"),
            ("eth0", "fe80::1"),
            ("eth0", "fd00::7"),
            ("eth0", "10.1.2.3"),
            ("bare", "fe80::2"),
        ];
        choose(text, &own.map(|(name, ip)| (name.to_owned(), ip.parse().unwrap())))
    }

    #[test]
    fn a_network_means_this_hosts_address_in_it() {
        let ip = |text: &str| Ok(text.parse().unwrap());
        assert_eq!(on("10.1.0.0/16"), ip("10.1.2.3"));
        assert_eq!(on("10.1.2.3/32"), ip("10.1.2.3"));
        assert_eq!(on("0.0.0.0/0"), ip("127.0.0.1"));
        assert_eq!(on("fd00::/8"), ip("fd00::7"));
        assert_eq!(on("::/0"), ip("fd00::7"));
        assert!(on("10.2.0.0/16").unwrap_err().contains("no address in that network"));
        for nonsense in ["10.1.0.0/33", "10.1/16", "/", "fd00::/129", "10.1.0.0/-1"] {
            assert!(on(nonsense).unwrap_err().contains("10.0.0.0/24"), "{nonsense}");
        }
    }

    #[test]
    fn an_interface_means_its_address_and_the_rest_is_looked_up() {
        let ip = |text: &str| Ok(text.parse().unwrap());
        assert_eq!(on("eth0"), ip("10.1.2.3"));
        assert_eq!(on("192.0.2.1"), ip("192.0.2.1"));
        assert_eq!(on("::1"), ip("::1"));
        assert!(on("bare").unwrap_err().contains("no address"));
        on("no such host").unwrap_err();
    }

    #[test]
    fn this_host_has_a_loopback_interface() {
        assert_eq!(address_of("127.0.0.0/8"), Ok("127.0.0.1".parse().unwrap()));
    }
}
