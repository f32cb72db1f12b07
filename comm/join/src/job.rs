//! From the launcher's line to an endpoint: what the environment says of the network, and the provider that
//! was chosen for the job.

use crate::boot::Member;
pub use crate::setting::setting;
use scash_comm::composite::CompositeEndpoint;
use scash_comm::shm::{AliveHook, ShmEndpoint, ShmOptions};
use scash_comm::tcp::{Congestion, TcpEndpoint, TcpOptions};
use scash_comm::{Endpoint, Error, Exchange, Result};
#[cfg(feature = "ofi")]
use scash_ofi::{OfiEndpoint, OfiOptions};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

/// What `scash run --provider` and `SCASH_PROVIDER` can name: a provider for all ranks, or `auto`, which is
/// `shm` within hosts and `tcp` between them. `ofi` needs libfabric.
pub const PROVIDERS: [&str; 4] = ["auto", "shm", "tcp", "ofi"];

/// What the environment says of the network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Network {
    /// Address, name, interface or network that an endpoint uses, if it is said (`SCASH_INTERFACE`): TCP
    /// listens on the loopback interface otherwise.
    interface: Option<String>,
    /// Which of libfabric's providers to use, if it is said (`SCASH_OFI`).
    fabric: Option<String>,
    /// Port that rank 0 listens on, 0 for any (`SCASH_PORT`).
    port: u16,
    /// Whether what ranks say to each other over TCP is encrypted (`SCASH_ENCRYPT`).
    encrypt: bool,
    /// How fast TCP connections send (`SCASH_CONGESTION`).
    congestion: Congestion,
    /// Whether this rank shares its processors with no other (`SCASH_BOUND`, which `scash run --bind core`
    /// sets).
    bound: bool,
    /// How long ranks may say nothing at least, if it is said; zero: for ever.
    silence: Option<Duration>,
}

impl Network {
    /// Reads the settings that `var` looks up.
    ///
    /// # Errors
    /// [`Error::Invalid`]: a value that makes no sense.
    pub fn read(var: impl Fn(&str) -> Option<OsString>) -> Result<Network> {
        let var = |name: &str| setting(name, var(name));
        let port = match var("SCASH_PORT")? {
            None => 0,
            Some(text) => text
                .trim()
                .parse::<u64>()
                .map_err(|_| Error::Invalid(format!("SCASH_PORT={text}: a number is expected")))?,
        };
        let switch = |name| match var(name)?.as_deref() {
            None | Some("0" | "off") => Ok(false),
            Some("1" | "on") => Ok(true),
            Some(other) => Err(Error::Invalid(format!("{name}={other}: on or off is expected"))),
        };
        Ok(Network {
            encrypt: switch("SCASH_ENCRYPT")?,
            bound: switch("SCASH_BOUND")?,
            congestion: Congestion::read(var("SCASH_CONGESTION")?),
            interface: var("SCASH_INTERFACE")?,
            fabric: var("SCASH_OFI")?,
            port: u16::try_from(port)
                .map_err(|_| Error::Invalid("SCASH_PORT: ports end at 65535".to_owned()))?,
            silence: None,
        })
    }

    /// On which ranks may say nothing for so long at least, whatever a provider has in mind; zero: for ever.
    /// Who asks for an endpoint may watch over ranks itself.
    pub fn patient(self, silence: Duration) -> Network {
        Network { silence: Some(silence), ..self }
    }

    /// The port that a rank listens on, of `ranks` ranks: each has its own, from `SCASH_PORT` on.
    fn port_of(&self, rank: u32, ranks: u32) -> Result<u16> {
        let first = u32::from(self.port);
        if first == 0 {
            return Ok(0);
        }
        // Checked for the last rank, so that all ranks say the same.
        if first.saturating_add(ranks - 1) > u32::from(u16::MAX) {
            return Err(Error::Invalid(format!(
                "SCASH_PORT={first}: rank r listens on port {first} + r, and ports end at 65535: with {ranks} ranks, choose {} or less",
                u32::from(u16::MAX).saturating_sub(ranks - 1)
            )));
        }
        Ok(u16::try_from(first + rank).unwrap_or(u16::MAX))
    }
}

/// A number of bytes with an optional unit of 1,024: `4096`, `64M`, `16GiB`; `name` is the setting's, for the
/// error.
///
/// # Errors
/// It is none.
pub fn size(name: &str, text: &str) -> Result<u64> {
    let wrong = || Error::Invalid(format!("{name}={text}: a size is expected, such as 512M, 16G or 1T"));
    let t = text.trim();
    let digits = t.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match t[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let n: u64 = digits.trim().parse().map_err(|_| wrong())?;
    n.checked_mul(1 << shift).ok_or_else(wrong)
}

/// The endpoint of the provider that was chosen for the job. Collective. `abi` is the number of what stands
/// above: ranks of another one are refused. Where ranks are started again, one that does not reach one of
/// another host waits for that, as one does later whose connection breaks.
///
/// # Errors
/// There is no such provider, it cannot serve these ranks, or joining failed.
pub fn endpoint(member: &mut Member, network: &Network, abi: u32) -> Result<Box<dyn Endpoint>> {
    let made = connect(member, network, abi);
    if let Err(error @ Error::OutOfReach { rank, .. }) = &made {
        member.cannot_connect(*rank, &error.to_string());
    }
    made
}

fn connect(member: &mut Member, network: &Network, abi: u32) -> Result<Box<dyn Endpoint>> {
    scash_comm::forked::watch();
    let (rank, size, threads) = (member.rank(), member.size(), member.threads());
    let here = (0..size).filter(|&other| member.host(other) == member.host(rank)).count();
    // No more than `size`.
    let ranks_here = u32::try_from(here).unwrap_or(size);
    let page = member.page().clone();
    let alive: AliveHook = Arc::new(move |rank: u32| !page.died(rank));
    let shm = ShmOptions { alive: Some(alive.clone()), threads, ..ShmOptions::default() };
    let known = || member.address().map(|address| address.to_string());
    let interface = network.interface.clone().or_else(known);
    let bind = interface.clone().unwrap_or_else(|| "127.0.0.1".to_owned());
    let (encrypt, comes_back) = (network.encrypt, member.starts_again());
    // What its threads compete with for processors.
    let ranks_beside = if network.bound { 1 } else { ranks_here };
    let tcp = |port| TcpOptions {
        bind,
        port,
        abi,
        ranks_here: ranks_beside,
        threads,
        encrypt,
        congestion: network.congestion.clone(),
        comes_back,
        ..TcpOptions::default()
    };
    let provider = member.provider().to_owned();
    match (provider.as_str(), ranks_here == size) {
        ("shm" | "auto" | "", true) => Ok(Box::new(ShmEndpoint::new(member, &shm)?)),
        ("auto" | "", false) => {
            let tcp = tcp(network.port_of(rank, size)?);
            let between = |exchange: &mut dyn Exchange| TcpEndpoint::between_hosts(exchange, &tcp);
            Ok(Box::new(CompositeEndpoint::new(member, &shm, between)?))
        }
        ("tcp", _) => {
            let tcp = tcp(network.port_of(rank, size)?);
            Ok(Box::new(TcpEndpoint::new(member, &tcp)?))
        }
        ("ofi", _) if encrypt => Err(Error::Invalid(
            "SCASH_ENCRYPT=on: what libfabric carries is not encrypted: choose the provider auto or tcp, or leave it off on a network that you trust"
                .to_owned(),
        )),
        ("ofi", _) => ofi(member, network, interface, abi, ranks_here, alive),
        ("shm", false) => Err(Error::Invalid(
            "SCASH_PROVIDER=shm: this job's ranks are on several hosts, which share no memory: choose auto, or tcp"
                .to_owned(),
        )),
        (other, _) => {
            let all = PROVIDERS.join(", ");
            Err(Error::Invalid(format!("SCASH_PROVIDER={other}: there is no such provider; there are {all}")))
        }
    }
}

#[cfg(feature = "ofi")]
fn ofi(
    member: &mut Member,
    network: &Network,
    interface: Option<String>,
    abi: u32,
    ranks_here: u32,
    alive: AliveHook,
) -> Result<Box<dyn Endpoint>> {
    let defaults = OfiOptions::default();
    let silence = match network.silence {
        Some(silence) if !silence.is_zero() => silence.max(defaults.silence),
        said => said.unwrap_or(defaults.silence),
    };
    let options = OfiOptions {
        provider: network.fabric.clone(),
        interface,
        abi,
        ranks_here,
        threads: member.threads(),
        alive: Some(alive),
        silence,
    };
    Ok(Box::new(OfiEndpoint::new(member, &options)?))
}

#[cfg(not(feature = "ofi"))]
fn ofi(
    _: &mut Member,
    network: &Network,
    _: Option<String>,
    _: u32,
    _: u32,
    _: AliveHook,
) -> Result<Box<dyn Endpoint>> {
    let asked = network.fabric.as_deref().map_or(String::new(), |name| format!(" (SCASH_OFI={name})"));
    Err(Error::Invalid(format!(
        "this program was built without the provider ofi{asked}: build it with the cargo feature `ofi`"
    )))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Network> {
        Network::read(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into()))
    }

    #[test]
    fn a_port_that_makes_no_sense_is_named_with_what_would() {
        for (value, hint) in [("70000", "65535"), ("x", "number")] {
            let text = read(&[("SCASH_PORT", value)]).unwrap_err().to_string();
            assert!(text.contains("SCASH_PORT") && text.contains(hint), "{text}");
        }
    }

    #[test]
    fn each_rank_has_a_port_of_its_own_or_any() {
        let ports = |first| {
            let network = read(&[("SCASH_PORT", first)]).unwrap();
            [0, 1, 2].map(|rank| network.port_of(rank, 3).map_err(|e| e.to_string()))
        };
        assert_eq!(ports("0"), [Ok(0), Ok(0), Ok(0)]);
        assert_eq!(ports("65533"), [Ok(65533), Ok(65534), Ok(65535)]);
        for refused in ports("65534") {
            let text = refused.unwrap_err();
            assert!(text.contains("SCASH_PORT=65534") && text.contains("choose 65533 or less"), "{text}");
        }
    }
}
