//! Which of the kernel's algorithms decides how fast a connection sends.
//!
//! Most of them send what there is, and less after a loss. `bbr` *paces*: it estimates the path from what was
//! delivered in the last round trips, and sends no faster. That suits long streams through routers of others.
//! Ranks send a message and wait for another one, so the estimate is of their own silences. Measured between
//! two network namespaces (Linux 6.18, medians): 128 KiB one way take 67 to 73 µs by `bbr` and 22 to 25 by
//! `reno` or `cubic`, 1 MiB 419 to 470 and 130 to 134; 8 bytes take 3.3 by each.
//!
//! A connection that once had `bbr` is paced for ever, so a socket gets its algorithm before it is connected,
//! or by the listener that it comes from.

use crate::{Error, Result};
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use std::ffi::OsString;
use std::os::fd::AsFd;

/// How the names of algorithms begin that pace.
const PACES: &[u8] = b"bbr";
/// What is taken instead, the first that the kernel permits. (`reno` it permits everybody.)
const INSTEAD: [&str; 2] = ["cubic", "reno"];

/// The congestion control of connections between ranks (`SCASH_CONGESTION`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// The system's, unless that paces.
    #[default]
    Unpaced,
    /// The system's, whichever it is.
    System,
    /// The kernel's of this name.
    Named(String),
}

impl Congestion {
    /// Reads a setting: `system`, or the name of an algorithm.
    pub fn read(setting: Option<String>) -> Congestion {
        match setting {
            None => Congestion::Unpaced,
            Some(name) if name == "system" => Congestion::System,
            Some(name) => Congestion::Named(name),
        }
    }

    /// Sets it for a TCP socket that is not connected yet.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the kernel does not have what is named, or does not permit it.
    pub fn set(&self, socket: &impl AsFd) -> Result<()> {
        let set = |name: &str| setsockopt(socket, sockopt::TcpCongestion, &OsString::from(name));
        match self {
            Congestion::System => {}
            Congestion::Named(name) => set(name).map_err(|errno| {
                Error::Invalid(format!(
                    "SCASH_CONGESTION={name}: the kernel refuses it ({}): choose one of those that `sysctl net.ipv4.tcp_allowed_congestion_control` lists, or `system`",
                    errno.desc()
                ))
            })?,
            Congestion::Unpaced => {
                if self::of(socket).is_some_and(|name| name.as_encoded_bytes().starts_with(PACES)) {
                    // Where none is permitted, the connection is slower, and works.
                    let _ = INSTEAD.iter().find(|name| set(name).is_ok());
                }
            }
        }
        Ok(())
    }
}

/// What a socket has, if that can be asked.
fn of(socket: &impl AsFd) -> Option<OsString> {
    getsockopt(socket, sockopt::TcpCongestion).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn what_paces_is_replaced_unless_the_user_wants_it() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let of = || self::of(&socket).unwrap();
        Congestion::Named("reno".into()).set(&socket).unwrap();
        Congestion::Unpaced.set(&socket).unwrap();
        assert_eq!(of(), "reno");
        if let Err(error) = Congestion::Named("bbr".into()).set(&socket) {
            return eprintln!("skipped: a kernel without bbr has nothing to replace: {error}");
        }
        Congestion::System.set(&socket).unwrap();
        assert_eq!(of(), "bbr");
        Congestion::Unpaced.set(&socket).unwrap();
        assert!(of() == "cubic" || of() == "reno", "{:?}", of());
    }

    #[test]
    fn a_name_that_the_kernel_does_not_know_is_given_back_with_where_to_look() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = Congestion::read(Some("junk".into())).set(&socket).unwrap_err().to_string();
        assert!(error.contains("SCASH_CONGESTION=junk") && error.contains("sysctl"), "{error}");
        assert!(Congestion::read(Some("system".into())).set(&socket).is_ok());
    }
}
