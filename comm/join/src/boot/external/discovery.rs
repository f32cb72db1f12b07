//! How the ranks of another launcher's job find out who they are: two rounds of words, with a fence behind
//! each.
//!
//! ```text
//! each      scash.I      VERSION,BOOT_ID,NETWORK_NAMESPACE,PROCESS_NAMESPACE     I: the launcher's number
//! ─────────────────────────────── fence: now hosts and ranks are known ───────────────────────────────
//! leads     scash.socket.H     NAME,TOKEN                                          H: the host's number
//! rank 0    scash.root       SECRET,PORT,ADDRESS,ADDRESS,…                       if there are several hosts
//! ─────────────────────────────── fence ──────────────────────────────────────────────────────────────
//! ```
//! Two ranks are on one host if they can share memory and see each other's processes and sockets: one kernel,
//! one network namespace, one namespace of processes.

use super::arrivals::{self, Sign};
use super::hex::{hex, unhex};
use super::local_socket::LocalSocket;
use super::space::{LONGEST, Space};
use super::{HEARING, io, say};
use crate::boot::roster::people;
use crate::boot::{Layout, MOST_HOSTS};
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use scash_comm::tcp::star;
use scash_comm::{Error, Result, Secret, SecretText};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

/// How long ranks of a job that does not begin wait for the end that one of them has asked for.
const LAST_WORD: Duration = Duration::from_secs(2);

/// What a rank knows when it has met the others.
pub(super) struct Standing {
    pub(super) rank: u32,
    pub(super) layout: Layout,
    /// The socket of this rank's host: a lead's own, or where it is.
    pub(super) socket: LocalSocket,
    /// What the leads of several hosts connect by.
    pub(super) root: Option<Root>,
    /// The job's secret, at leads.
    pub(super) secret: Option<Secret>,
}

/// Rank 0 for other leads.
pub(super) enum Root {
    /// This is rank 0, and listens.
    Here(TcpListener),
    /// One of these is its address.
    There(Vec<SocketAddr>),
}

impl Standing {
    /// The number of this rank's host.
    pub(super) fn host(&self) -> u32 {
        self.layout.host_of(self.rank)
    }

    /// The lead of this rank's host.
    pub(super) fn lead(&self) -> u32 {
        self.layout.first_of(self.host()).unwrap_or(self.rank)
    }

    /// Whether this is it.
    pub(super) fn is_lead(&self) -> bool {
        self.rank == self.lead()
    }
}

/// Meets all other ranks. `interface` is what the user says of this host's address.
pub(super) fn meet(space: &mut dyn Space, interface: Option<&str>, deadline: Instant) -> Result<Standing> {
    let _sign = Sign::leave(space.job(), space.rank());
    space.put(&format!("scash.{}", space.rank()), &card()?)?;
    fence(space, deadline)?;
    let RankMap { numbers, layout, rank } = RankMap::take(space)?;
    let host = layout.host_of(rank);
    let lead = layout.first_of(host).unwrap_or(rank);
    let socket = if rank == lead { Some(LocalSocket::open()?) } else { None };
    if let Some(socket) = &socket {
        space.put(&format!("scash.socket.{host}"), &socket.describe())?;
    }
    let several = layout.hosts() > 1;
    let mut secret = if rank == 0 { Some(Secret::random()?) } else { None };
    let mut root = None;
    if let (Some(secret), true) = (&secret, several) {
        let (listener, addresses) = listen(interface)?;
        space.put("scash.root", &root_text(secret, &addresses))?;
        root = Some(Root::Here(listener));
    }
    fence(space, deadline)?;
    let socket = match socket {
        Some(socket) => socket,
        None => LocalSocket::read(&space.get(numbers[lead as usize], &format!("scash.socket.{host}"))?)?,
    };
    if rank == lead && rank != 0 {
        let (theirs, addresses) = read_root(&space.get(numbers[0], "scash.root")?)?;
        (secret, root) = (Some(theirs), Some(Root::There(addresses)));
    }
    Ok(Standing { rank, layout, socket, root, secret })
}

/// Who runs where.
#[derive(Debug, PartialEq, Eq)]
struct RankMap {
    /// The launcher's number of each rank.
    numbers: Vec<u32>,
    layout: Layout,
    /// This process's rank.
    rank: u32,
}

impl RankMap {
    /// Reads all cards.
    fn take(space: &mut dyn Space) -> Result<RankMap> {
        let me = space.rank();
        let cards: Vec<SecretText> = (0..space.size())
            .map(|number| space.get(number, &format!("scash.{number}")))
            .collect::<Result<_>>()?;
        let mut hosts = Vec::with_capacity(cards.len());
        for (number, card) in cards.iter().enumerate() {
            hosts.push(read_card(card).map_err(|why| {
                Error::Invalid(format!("process {number} of this job cannot work with process {me}: {why}"))
            })?);
        }
        RankMap::of(&hosts, me).ok_or_else(|| {
            Error::Invalid(format!("a job of {} ranks on more than {MOST_HOSTS} hosts", hosts.len()))
        })
    }

    /// That of processes on these hosts, of which `me` is one. Hosts are numbered as they come, and ranks
    /// along hosts.
    fn of(hosts: &[&str], me: u32) -> Option<RankMap> {
        let mut ranks_of: Vec<(&str, Vec<u32>)> = Vec::new();
        for (number, host) in (0..).zip(hosts) {
            match ranks_of.iter_mut().find(|(known, _)| known == host) {
                Some((_, numbers)) => numbers.push(number),
                None => ranks_of.push((host, vec![number])),
            }
        }
        let counts: Vec<u32> =
            ranks_of.iter().map(|(_, numbers)| u32::try_from(numbers.len()).ok()).collect::<Option<_>>()?;
        let layout = Layout::new(&counts)?;
        let numbers: Vec<u32> = ranks_of.into_iter().flat_map(|(_, numbers)| numbers).collect();
        let rank = u32::try_from(numbers.iter().position(|number| *number == me)?).ok()?;
        Some(RankMap { numbers, layout, rank })
    }
}

/// Waits for all processes. If they do not come, one of them says who is missing, and has the launcher end
/// the job.
fn fence(space: &mut dyn Space, deadline: Instant) -> Result<()> {
    if space.fence(deadline)? {
        return Ok(());
    }
    let here = arrivals::here(space.job(), space.size());
    let why = missing(&here, space.size());
    if here.first().is_none_or(|first| *first == space.rank()) {
        say(format_args!("{why}; ending the job"));
        std::thread::sleep(HEARING);
        space.abort();
    }
    // With its sign, so that the others, whose time is up a little later, leave the word to this one.
    std::thread::sleep(LAST_WORD);
    Err(Error::Invalid(why))
}

/// What to say when only these ranks have come to this host.
fn missing(here: &[u32], size: u32) -> String {
    let numbers =
        |ranks: &mut dyn Iterator<Item = u32>| -> Vec<usize> { ranks.map(|rank| rank as usize).collect() };
    let absent = numbers(&mut (0..size).filter(|rank| !here.contains(rank)));
    let present = numbers(&mut here.iter().copied());
    let host = nix::unistd::gethostname().unwrap_or_default();
    format!(
        "not all {size} ranks of this job have come in time: here on host {} {}; missing, or on other hosts, {}. Does each process start this \
         program? ({JOIN} says how many seconds they have)",
        host.to_string_lossy(),
        people(&present),
        people(&absent),
        JOIN = super::JOIN
    )
}

/// What a process tells of itself.
fn card() -> Result<String> {
    let namespace = |name: &str| {
        let link = std::fs::read_link(format!("/proc/self/ns/{name}"));
        // Such as net:[4026531840]. A kernel without namespaces has one of each kind.
        link.map(|link| link.to_string_lossy().chars().filter(char::is_ascii_digit).collect())
            .unwrap_or_default()
    };
    let (network, processes): (String, String) = (namespace("net"), namespace("pid"));
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(|source| Error::Io {
        what: "reading /proc/sys/kernel/random/boot_id (is /proc mounted?)".to_owned(),
        source,
    })?;
    Ok(format!("{},{},{network},{processes}", env!("CARGO_PKG_VERSION"), boot.trim()))
}

/// The host that a card tells of.
fn read_card(card: &str) -> std::result::Result<&str, String> {
    let ours = env!("CARGO_PKG_VERSION");
    match card.split_once(',') {
        Some((version, host)) if version == ours => Ok(host),
        Some((version, _)) => {
            let version: String = version.chars().take(20).collect();
            Err(format!(
                "it runs scash {version:?}, and this one {ours:?}: start the same program everywhere"
            ))
        }
        None => Err("what it tells of itself is cut off".to_owned()),
    }
}

/// Listens for the leads of other hosts; returns the listener, and the port and addresses that it has.
fn listen(interface: Option<&str>) -> Result<(TcpListener, String)> {
    let failed = |source| Error::Io { what: "listening for the ranks of other hosts".to_owned(), source };
    let addresses = match interface {
        Some(text) => vec![
            star::address_of(text).map_err(|why| Error::Invalid(format!("SCASH_INTERFACE={text}: {why}")))?,
        ],
        None => addresses()?,
    };
    let listener = match addresses[..] {
        [address] => TcpListener::bind((address, 0)),
        // Where the kernel has no IPv6, IPv4 is all there is.
        _ => TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))),
    }
    .map_err(failed)?;
    let mut text = listener.local_addr().map_err(failed)?.port().to_string();
    for address in addresses {
        let more = format!(",{address}");
        if text.len() + more.len() + 2 * Secret::LENGTH < LONGEST {
            text += &more;
        }
    }
    Ok((listener, text))
}

/// The addresses of this host that others may reach, IPv4 first.
fn addresses() -> Result<Vec<IpAddr>> {
    let all = getifaddrs().map_err(io("asking for this host's interfaces"))?;
    let usable = |entry: &nix::ifaddrs::InterfaceAddress| {
        entry.flags.contains(InterfaceFlags::IFF_UP) && !entry.flags.contains(InterfaceFlags::IFF_LOOPBACK)
    };
    let address = |entry: nix::ifaddrs::InterfaceAddress| {
        let address = entry.address?;
        let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        // An address of a link means nothing without the link.
        let v6 =
            || address.as_sockaddr_in6().map(|address| address.ip()).filter(|ip| !ip.is_unicast_link_local());
        v4.or_else(|| v6().map(IpAddr::V6))
    };
    let mut found: Vec<IpAddr> = all.filter(usable).filter_map(address).collect();
    found.sort_by_key(IpAddr::is_ipv6);
    if found.is_empty() {
        let why = "this job has several hosts, and rank 0's has no network: which of its interfaces joins them? (SCASH_INTERFACE)";
        return Err(Error::Invalid(why.to_owned()));
    }
    Ok(found)
}

/// What rank 0 tells the other leads.
fn root_text(secret: &Secret, addresses: &str) -> SecretText {
    let secret = SecretText::from(hex(secret.bytes()));
    [&*secret, ",", addresses].concat().into()
}

/// The inverse of [`root_text`].
fn read_root(text: &str) -> Result<(Secret, Vec<SocketAddr>)> {
    let read = || {
        let mut parts = text.split(',');
        let secret = Secret::taken_from(&mut unhex(parts.next()?)?);
        let port: u16 = parts.next()?.parse().ok()?;
        let addresses: Vec<SocketAddr> =
            parts.map(|address| Some(SocketAddr::new(address.parse().ok()?, port))).collect::<Option<_>>()?;
        (!addresses.is_empty()).then_some((secret, addresses))
    };
    // Without the text, which has the secret in it.
    read().ok_or_else(|| Error::Invalid("rank 0 tells the ranks of other hosts no address of it".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranks_are_numbered_along_hosts_however_the_launcher_deals_them() {
        let cyclic = ["a", "b", "a", "b", "c"];
        let layout = Layout::new(&[2, 2, 1]).unwrap();
        for (me, rank) in [(0, 0), (1, 2), (2, 1), (3, 3), (4, 4)] {
            let map = RankMap { numbers: vec![0, 2, 1, 3, 4], layout: layout.clone(), rank };
            assert_eq!(RankMap::of(&cyclic, me), Some(map));
        }
    }

    #[test]
    fn a_process_of_another_version_is_told_so() {
        assert_eq!(read_card(&card().unwrap()).unwrap().split(',').count(), 3);
        let why = read_card("0.0.1,boot,1,2").unwrap_err();
        assert!(why.contains("scash \"0.0.1\"") && why.contains("start the same program"), "{why}");
        read_card("0.1.0").unwrap_err();
    }

    #[test]
    fn who_is_missing_is_told_by_number() {
        let text = missing(&[0, 2, 3], 6);
        for words in ["not all 6 ranks", " ranks 0, 2-3;", "other hosts, ranks 1, 4-5.", "SCASH_JOIN"] {
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn rank_0_tells_where_it_is() {
        let secret = Secret::random().unwrap();
        let (_, text) = listen(Some("127.0.0.1")).unwrap();
        let (read, addresses) = read_root(&root_text(&secret, &text)).unwrap();
        assert!(read == secret && addresses[0].ip().is_loopback() && addresses.len() == 1, "{text}");
    }

    proptest! {
        #[test]
        fn whatever_the_launcher_passes_on_is_read_or_refused(text in "[0-9a-f]{60,68}(,[0-9.:a]{0,9}){0,3}", any in ".{0,80}") {
            for text in [text, any] {
                if let Ok((_, addresses)) = read_root(&text) {
                    prop_assert!(!addresses.is_empty());
                }
                let _ = (LocalSocket::read(&text), read_card(&text));
            }
        }
    }
}
