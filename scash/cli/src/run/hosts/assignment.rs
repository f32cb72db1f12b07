//! What an agent is to do, as it travels in a Start frame: text and bytes of the user's, the job's secret,
//! and which ranks are the agent's.

use super::fields::{Fields, Frame};
use super::placement::CopyRule;
use super::succession::Succession;
use crate::run::recovery;
use scash_comm::Secret;
use scash_join::boot::{Layout, Settings};
use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// What an agent is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assignment {
    /// What all ranks of the job know.
    pub(super) secret: Secret,
    pub(super) layout: Layout,
    /// Which of its hosts is the agent's.
    pub(super) host: u32,
    /// What the user calls it.
    pub(super) name: String,
    /// What that name means to the launcher.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) settings: Settings,
    /// Whether stdout and stderr are one file where they are printed.
    pub(super) one_stream: bool,
    /// Whether ranks are bound to cores.
    pub(super) bind: bool,
    /// Whether ranks have no random addresses.
    pub(super) no_aslr: bool,
    /// Whether the launcher asks the agent's system whether the host is there.
    pub(super) is_watched: bool,
    /// If ranks may die and are started again.
    pub(super) replicas: Option<Replicated>,
    /// Bytes of the program, if it follows in parts.
    pub(super) copied: Option<u64>,
    pub(super) directory: OsString,
    /// Where the program lies, and what it is called.
    pub(super) program: (OsString, OsString),
    pub(super) arguments: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
}

/// What an agent must know of ranks that may die.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replicated {
    /// Which other hosts hold copies of a store.
    pub(super) rule: CopyRule,
    /// The limit of their stacks, in bytes: the kernel lays memory out by it.
    pub(super) stack: u64,
    /// What ranks are told, as environment variables.
    pub(super) env: Vec<(&'static str, String)>,
    /// If agents outlive their launcher.
    pub(super) succession: Option<Succession>,
}

impl Assignment {
    /// Writes all this into a frame.
    pub(super) fn encode(&self, frame: Frame) -> Frame {
        let mut frame = frame.number(self.layout.size()).bytes(&self.layout.encode()).number(self.host);
        frame = frame
            .text(&self.name)
            .addresses(&self.addresses)
            .number(self.settings.threads)
            .text(&self.settings.provider);
        for switch in [self.one_stream, self.bind, self.no_aslr, self.is_watched] {
            frame = frame.byte(u8::from(switch));
        }
        frame = frame.byte(u8::from(self.replicas.is_some()));
        if let Some(Replicated { rule, stack, env, succession }) = &self.replicas {
            frame = stack.to_le_bytes().into_iter().fold(frame, Frame::byte);
            frame = frame.number(rule.count).length(rule.racks.len());
            frame = rule.racks.iter().fold(frame, |frame, rack| frame.number(*rack));
            let words = frame.length(env.len());
            frame = env.iter().fold(words, |frame, (name, value)| frame.text(name).text(value));
            frame = frame.bytes(&succession.as_ref().map_or_else(Vec::new, Succession::encode));
        }
        // No program is empty.
        for byte in self.copied.unwrap_or(0).to_le_bytes() {
            frame = frame.byte(byte);
        }
        for word in [&self.directory, &self.program.0, &self.program.1] {
            frame = frame.bytes(word.as_bytes());
        }
        frame = frame.length(self.arguments.len());
        for argument in &self.arguments {
            frame = frame.bytes(argument.as_bytes());
        }
        frame = frame.length(self.env.len());
        for (name, value) in &self.env {
            frame = frame.bytes(name.as_bytes()).bytes(value.as_bytes());
        }
        frame.secret(&self.secret)
    }

    /// Reads it. The text says why there is none.
    pub(super) fn decode(fields: &mut Fields<'_>) -> Result<Assignment, String> {
        let size = fields.number()?;
        let layout = Layout::decode(fields.bytes()?, size)?;
        let host = fields.number()?;
        if host >= layout.hosts() {
            return Err(format!("host {host} of {}", layout.hosts()));
        }
        Ok(Assignment {
            layout,
            host,
            name: fields.text()?,
            addresses: fields.addresses()?,
            settings: Settings { threads: fields.number()?, provider: fields.text()? },
            one_stream: fields.byte()? != 0,
            bind: fields.byte()? != 0,
            no_aslr: fields.byte()? != 0,
            is_watched: fields.byte()? != 0,
            replicas: if fields.byte()? != 0 {
                Some(Replicated {
                    stack: u64::from_le_bytes(fields.array()?),
                    rule: CopyRule { count: fields.number()?, racks: fields.list(|fields| fields.number())? },
                    env: fields.list(survival)?,
                    succession: succession(fields.bytes()?)?,
                })
            } else {
                None
            },
            copied: Some(u64::from_le_bytes(fields.array()?)).filter(|&size| size > 0),
            directory: word(fields)?,
            program: (word(fields)?, word(fields)?),
            arguments: fields.list(word)?,
            env: fields.list(|fields| Ok((variable(fields)?, word(fields)?)))?,
            secret: fields.secret()?,
        })
    }
}

/// Whatever a command line or the environment can hold.
fn word(fields: &mut Fields<'_>) -> Result<OsString, String> {
    let bytes = fields.bytes()?;
    if bytes.contains(&0) {
        Err("a word with a zero".to_owned())
    } else {
        Ok(OsString::from_vec(bytes.to_vec()))
    }
}

/// The name of an environment variable.
fn variable(fields: &mut Fields<'_>) -> Result<OsString, String> {
    let is_name = |name: &OsStr| !name.is_empty() && !name.as_bytes().contains(&b'=');
    Some(word(fields)?).filter(|name| is_name(name)).ok_or_else(|| "a variable without a name".to_owned())
}

/// A variable of ranks that may die.
fn survival(fields: &mut Fields<'_>) -> Result<(&'static str, String), String> {
    let (name, value) = (fields.text()?, fields.text()?);
    let known = recovery::VARIABLES.into_iter().find(|known| *known == name);
    Ok((known.ok_or_else(|| format!("{name}, which is no variable of ranks that may die"))?, value))
}

fn succession(bytes: &[u8]) -> Result<Option<Succession>, String> {
    if bytes.is_empty() { Ok(None) } else { Succession::decode(bytes).map(Some) }
}
