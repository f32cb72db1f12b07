//! What a job is, so that it can be started again by `scash resume`: the command that the user gave, and what
//! it found around it.

use crate::run::{Refusal, status};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Of what `job.json` is.
const VERSION: u32 = 1;
/// The name of its file.
pub(super) const JOB: &str = "job.json";
/// The hidden option by which the command that is started again learns what it does.
const RESUME: &str = "--resume";

/// Text, or bytes that are none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Words {
    Text(String),
    Bytes(Vec<u8>),
}

impl Words {
    fn of(words: OsString) -> Words {
        words.into_string().map_or_else(|other| Words::Bytes(other.into_vec()), Words::Text)
    }

    fn get(&self) -> &OsStr {
        match self {
            Words::Text(text) => OsStr::new(text),
            Words::Bytes(bytes) => OsStr::from_bytes(bytes),
        }
    }
}

/// See [the module](self).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::run) struct Description {
    version: u32,
    /// Ranks of the job.
    pub(super) ranks: u32,
    /// Whether standard output and error of the command were one file.
    pub(super) is_one: bool,
    /// The command's arguments behind `scash run`.
    arguments: Vec<Words>,
    directory: Words,
    environment: Vec<(Words, Words)>,
    /// The file that rank 0 reads, and where it begins to; `None` if that is /dev/null.
    input: Option<(Words, u64)>,
}

impl Description {
    /// That of the job which this process is to run.
    pub(super) fn of_this_process(ranks: u32, is_one: bool) -> io::Result<Description> {
        let stdin = fs::read_link("/proc/self/fd/0")?;
        let input = if stdin == Path::new("/dev/null") {
            None
        } else {
            let at = nix::unistd::lseek(io::stdin(), 0, nix::unistd::Whence::SeekCur).unwrap_or(0);
            Some((Words::of(stdin.into()), u64::try_from(at).unwrap_or(0)))
        };
        Ok(Description {
            version: VERSION,
            ranks,
            is_one,
            arguments: std::env::args_os().skip(2).map(Words::of).collect(),
            directory: Words::of(std::env::current_dir()?.into()),
            environment: std::env::vars_os().map(|(k, v)| (Words::of(k), Words::of(v))).collect(),
            input,
        })
    }

    pub(super) fn bytes(&self) -> io::Result<Vec<u8>> {
        Ok(serde_json::to_vec_pretty(self)?)
    }

    pub(super) fn read(path: &Path) -> io::Result<Description> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let bytes = fs::read(path).map_err(named)?;
        let damaged = |why: String| io::Error::other(format!("{}: {why}", path.display()));
        let description: Description =
            serde_json::from_slice(&bytes).map_err(|e| damaged(format!("it describes no job: {e}")))?;
        match description.version {
            VERSION => Ok(description),
            other => Err(damaged(format!("it is of version {other}, and this scash knows {VERSION}"))),
        }
    }

    /// The command, in the place of this process, but that it goes on from what is in the directory.
    fn exec(&self, directory: &Path) -> io::Result<Refusal> {
        let there = self.directory.get();
        std::env::set_current_dir(there)
            .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", there.display())))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg0("scash").arg("run").arg(RESUME).arg(directory);
        command.args(self.arguments.iter().map(Words::get));
        command.env_clear().envs(self.environment.iter().map(|(k, v)| (k.get(), v.get())));
        match &self.input {
            None => command.stdin(std::process::Stdio::null()),
            Some((path, at)) => {
                let name = path.get().display();
                let named = |e: io::Error| io::Error::new(e.kind(), format!("standard input, {name}: {e}"));
                let mut file = File::open(path.get()).map_err(named)?;
                io::Seek::seek(&mut file, io::SeekFrom::Start(*at)).map_err(named)?;
                command.stdin(file)
            }
        };
        Err(command.exec())
    }
}

/// `scash resume`: becomes the `scash run` that goes on with the job of a directory. Returns only if it
/// cannot.
pub(crate) fn start_again(directory: &Path) -> u8 {
    let name = directory.display();
    let again = || {
        let directory = fs::canonicalize(directory)?;
        Description::read(&directory.join(JOB))?.exec(&directory)
    };
    let refusal = again().unwrap_or_else(|error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => " (a job that has ended well leaves nothing there)",
            _ => "",
        };
        Refusal::new(status::USAGE, format!("resume {name}: {error}{hint}"))
    });
    crate::say(&refusal.why);
    refusal.status
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_description_is_read_as_it_was_written_whatever_bytes_are_in_it() {
        let mut description = Description::of_this_process(3, true).unwrap();
        description.arguments.push(Words::of(OsString::from_vec(vec![b'a', 0xff, b'"'])));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("job.json");
        fs::write(&path, description.bytes().unwrap()).unwrap();
        assert_eq!(Description::read(&path).unwrap(), description);
        description.version = 7;
        fs::write(&path, description.bytes().unwrap()).unwrap();
        assert!(Description::read(&path).unwrap_err().to_string().contains("version 7"));
        fs::write(&path, b"{\"version\":1").unwrap();
        assert!(Description::read(&path).unwrap_err().to_string().contains("describes no job"));
    }
}
