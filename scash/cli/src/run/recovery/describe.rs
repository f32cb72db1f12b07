//! What a job is, so that it can be started again by `scash resume`: the command that the user gave, and what
//! it found around it.

use super::input::Input;
use crate::run::{Refusal, status};
use nix::unistd::{AccessFlags, access};
use scash_join::boot;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of what `job.json` is.
const VERSION: u32 = 1;
/// The name of its file.
pub(super) const JOB: &str = "job.json";
/// The hidden option by which the command that is started again learns what it does.
const RESUME: &str = "--resume";
/// The one by which it learns that agents have lost their launcher.
const TAKE_OVER: &str = "--take-over";

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
    /// The launcher that has started the ranks, if that was not `scash run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) launcher: Option<String>,
    /// Whether standard output and error of the command were one file.
    pub(in crate::run) is_one: bool,
    /// The command's arguments behind `scash run`, or `scash rank`.
    arguments: Vec<Words>,
    directory: Words,
    /// Without what another launcher tells each process.
    environment: Vec<(Words, Words)>,
    /// The file that rank 0 reads, and where it begins to; `None` if that is /dev/null.
    input: Option<(Words, u64)>,
    /// Where the program lay, of a job on several hosts: it may not be found where another launcher is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    program: Option<Words>,
}

impl Description {
    /// That of the job which this process is to run, or of whose ranks another launcher has started this.
    pub(super) fn of_this_process(
        ranks: u32,
        is_one: bool,
        launcher: Option<String>,
    ) -> io::Result<Description> {
        let input = if Input::is_file() {
            let at = nix::unistd::lseek(io::stdin(), 0, nix::unistd::Whence::SeekCur).unwrap_or(0);
            Some((Words::of(fs::read_link("/proc/self/fd/0")?.into()), u64::try_from(at).unwrap_or(0)))
        } else {
            None
        };
        let is_ours = |name: &OsStr| launcher.is_none() || !is_launchers(name);
        let environment = std::env::vars_os().filter(|(name, _)| is_ours(name));
        Ok(Description {
            version: VERSION,
            ranks,
            is_one,
            arguments: std::env::args_os().skip(2).map(Words::of).collect(),
            directory: Words::of(std::env::current_dir()?.into()),
            environment: environment.map(|(k, v)| (Words::of(k), Words::of(v))).collect(),
            input,
            launcher,
            program: None,
        })
    }

    /// That of a job on several hosts which this process is to run, with what its ranks get of the
    /// environment. They read nothing.
    pub(in crate::run) fn of_a_job_on_hosts(
        ranks: u32,
        is_one: bool,
        program: &Path,
    ) -> io::Result<Description> {
        let description = Description::of_this_process(ranks, is_one, None)?;
        let is_ours = |name: &Words| name.get().as_bytes().starts_with(b"SCASH_");
        let environment = description.environment.into_iter().filter(|(name, _)| is_ours(name)).collect();
        let program = Some(Words::of(std::path::absolute(program)?.into()));
        Ok(Description { environment, input: None, program, ..description })
    }

    /// The directory in which the job began.
    pub(in crate::run) fn directory(&self) -> PathBuf {
        self.directory.get().into()
    }

    /// Where the program lay, of a job on several hosts.
    pub(in crate::run) fn program(&self) -> Option<PathBuf> {
        Some(self.program.as_ref()?.get().into())
    }

    /// The command that goes on with the job of that directory.
    pub(super) fn how_to_go_on(&self, directory: &Path) -> String {
        how_to_go_on(self.launcher.as_deref(), self.ranks, directory)
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

    /// The command, with an option more.
    fn again(&self, option: &[&OsStr]) -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        let what = if self.launcher.is_none() { "run" } else { "rank" };
        command.arg0("scash").arg(what).args(option);
        command.args(self.arguments.iter().map(Words::get));
        Ok(command)
    }

    /// The command, but that it goes on with the job which it reads from this file. That is its standard
    /// input, which no rank of a job on several hosts reads. The job's directory may not be here.
    pub(in crate::run) fn take_over(&self, file: File) -> io::Result<Command> {
        let mut command = self.again(&[TAKE_OVER.as_ref()])?;
        command.envs(self.environment.iter().map(|(k, v)| (k.get(), v.get()))).stdin(file);
        let there = self.directory();
        if there.is_dir() && access(&there, AccessFlags::X_OK).is_ok() {
            command.current_dir(there);
        }
        Ok(command)
    }

    /// The command, in the place of this process, but that it goes on from what is in the directory.
    fn exec(&self, directory: &Path) -> io::Result<Refusal> {
        let there = self.directory();
        std::env::set_current_dir(&there)
            .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", there.display())))?;
        let mut command = self.again(&[RESUME.as_ref(), directory.as_os_str()])?;
        command.env_clear().envs(self.environment.iter().map(|(k, v)| (k.get(), v.get())));
        if self.launcher.is_some() {
            command.envs(std::env::vars_os().filter(|(name, _)| is_launchers(name)));
        }
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

/// The command that goes on with the job of that directory, whose ranks that launcher has started.
pub(super) fn how_to_go_on(launcher: Option<&str>, ranks: u32, directory: &Path) -> String {
    let before = launcher.map_or_else(String::new, |launcher| format!("{launcher} -n {ranks} "));
    format!("{before}scash resume {}", directory.display())
}

/// The command that goes on with the job that is described in a directory.
pub(in crate::run) fn how_a_job_goes_on(directory: &Path) -> String {
    let description = Description::read(&directory.join(JOB));
    description
        .map_or_else(|_| how_to_go_on(None, 0, directory), |description| description.how_to_go_on(directory))
}

/// Whether a variable is one by which another launcher tells a process of itself: each time anew.
fn is_launchers(name: &OsStr) -> bool {
    const BEGINS: [&str; 12] = [
        "SLURM",
        "SRUN_",
        "PMI",
        "OMPI_",
        "OPAL_",
        "ORTE_",
        "PRTE",
        "HYDRA_",
        "HYDI_",
        "MPIR_",
        "MPI_LOCAL",
        "SCASH_JOIN",
    ];
    BEGINS.iter().any(|begin| name.as_bytes().starts_with(begin.as_bytes()))
}

/// A launcher must have started this process if it has started the job's ranks, and only then.
fn check_launcher(description: &Description, directory: &Path) -> io::Result<()> {
    let count = boot::started_with_others(&|name| std::env::var_os(name));
    match count.filter(|_| description.launcher.is_none()) {
        None => Ok(()),
        Some(count) => Err(io::Error::other(format!(
            "`scash run` has started this job, and its ranks are started by one command, not by {count} processes of another launcher: \
             `{}`",
            description.how_to_go_on(directory)
        ))),
    }
}

/// `scash resume`: becomes the `scash run`, or `scash rank`, that goes on with the job of a directory.
/// Returns only if it cannot.
pub(crate) fn start_again(directory: &Path) -> u8 {
    let name = directory.display();
    let again = || {
        let directory = fs::canonicalize(directory)?;
        let description = Description::read(&directory.join(JOB))?;
        check_launcher(&description, &directory)?;
        description.exec(&directory)
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
        let mut description = Description::of_this_process(3, true, Some("srun".to_owned())).unwrap();
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
