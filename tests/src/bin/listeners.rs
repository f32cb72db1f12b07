//! Rank program: says by which of its sockets somebody could come in while the job runs: those that listen,
//! and those that have a name.

#![expect(clippy::print_stdout, reason = "a rank's answer to its test")]

use scash::Dsm;
use std::fs;

/// The state of a socket that listens, in the kernel's table of TCP sockets.
const LISTENS: &str = "0A";

/// Lines of a table of the kernel's, without its heading, as words.
fn table(name: &str) -> std::io::Result<Vec<Vec<String>>> {
    let text = fs::read_to_string(format!("/proc/self/net/{name}"))?;
    Ok(text.lines().skip(1).map(|line| line.split_whitespace().map(str::to_owned).collect()).collect())
}

/// The numbers of this process's sockets.
fn sockets() -> std::io::Result<Vec<String>> {
    let links = fs::read_dir("/proc/self/fd")?.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let number = |link: std::path::PathBuf| {
        Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    };
    Ok(links.filter_map(number).collect())
}

/// What stands in the kernel's tables about those of these sockets that listen or have a name.
fn listeners(sockets: &[String]) -> std::io::Result<Vec<String>> {
    let (mut tcp, mut unix) = (table("tcp")?, table("unix")?);
    tcp.retain(|line| line.get(3).is_some_and(|state| state == LISTENS));
    tcp.retain(|line| line.get(9).is_some_and(|number| sockets.contains(number)));
    // A name is the last of the words, and most have none.
    unix.retain(|line| line.len() > 7 && line.get(6).is_some_and(|number| sockets.contains(number)));
    Ok(tcp.into_iter().chain(unix).map(|line| line.join(" ")).collect())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut dsm = Dsm::init()?;
    let sockets = sockets()?;
    // Nobody leaves before all have looked.
    dsm.barrier()?;
    println!(
        "rank {} has {} sockets, of which these listen or have a name: {:?}",
        dsm.rank(),
        sockets.len(),
        listeners(&sockets)?
    );
    dsm.barrier()?;
    Ok(dsm.finalize()?)
}
