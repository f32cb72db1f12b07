//! Starts programs, alone or as the ranks of a job, and reads the records that they print.

use super::limited::{Limit, RunFailure};
use scash_bench::namespaces::address;
use scash_bench::record::{self, Record};
use std::ffi::OsString;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Seconds after which a job of scash's is taken to hang.
const LIMIT: &str = "900";

/// On what a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    /// One thread, without the DSM.
    Sequential,
    /// Threads of one process, without the DSM.
    Threads(u32),
    /// One process that belongs to no job.
    Alone,
    /// Ranks of a job, each with frames of its own, and the provider that connects them.
    Ranks(u32, &'static str),
    /// Ranks of a job over shared memory that share frames.
    Sharing(u32),
    /// Ranks of a job, and so many [hosts](scash_bench::namespaces), on each of which there are as many of
    /// them.
    Hosts(u32, u32),
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            On::Sequential => f.write_str("sequential"),
            On::Threads(count) => write!(f, "{count} threads"),
            On::Alone => f.write_str("alone"),
            On::Ranks(1, provider) => write!(f, "1 rank, {provider}"),
            On::Ranks(count, provider) => write!(f, "{count} ranks, {provider}"),
            On::Sharing(count) => write!(f, "{count} ranks, shared frames"),
            On::Hosts(count, hosts) => write!(f, "{count} ranks on {hosts} hosts"),
        }
    }
}

/// What a job printed in each round: nothing where it failed.
pub(super) type Rounds = Vec<Option<Vec<Record>>>;

/// A program to run once.
#[derive(Clone, Debug)]
pub(super) struct Job {
    program: &'static str,
    on: On,
    arguments: Vec<String>,
    variables: Vec<(&'static str, String)>,
    /// Options of `scash run`.
    options: Vec<String>,
}

impl Job {
    /// A program with arguments, to which those are added that make it print records.
    pub(super) fn new<S: ToString>(
        program: &'static str,
        on: On,
        arguments: impl IntoIterator<Item = S>,
    ) -> Job {
        let arguments = arguments.into_iter().map(|argument| argument.to_string());
        Job {
            program,
            on,
            arguments: arguments.chain(["--json".to_owned()]).collect(),
            variables: Vec::new(),
            options: Vec::new(),
        }
    }

    /// The same with options of `scash run`.
    pub(super) fn with_options<S: ToString>(mut self, options: impl IntoIterator<Item = S>) -> Job {
        self.options.extend(options.into_iter().map(|option| option.to_string()));
        self
    }

    /// The same with an environment variable.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Job {
        self.variables.push((name, value.into()));
        self
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.program, self.arguments.join(" "), self.on)
    }
}

/// Knows where the programs are.
#[derive(Debug)]
pub(super) struct Runner {
    /// The command `scash`.
    command: PathBuf,
}

impl Runner {
    /// Programs are looked for beside this one.
    pub(super) fn beside_this_program() -> Result<Runner, String> {
        let found = std::env::current_exe();
        found
            .map(|program| Runner { command: program.with_file_name("scash") })
            .map_err(|error| format!("cannot tell where this program lies: {error}"))
    }

    /// Runs a job to its end, and returns what it printed.
    pub(super) fn run(&self, job: &Job) -> Result<Vec<Record>, String> {
        let done = self.command(job)?.output().map_err(|error| format!("cannot start {job}: {error}"))?;
        records(job, &done)
    }

    /// The same by a command that runs the job, while something is done to it, by the number of the process
    /// that was started.
    pub(super) fn run_beside(
        &self,
        job: &Job,
        mut command: Command,
        act: impl FnOnce(u32) -> Result<(), String>,
    ) -> Result<Vec<Record>, String> {
        let failed = |error: std::io::Error| format!("cannot start {job}: {error}");
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
        let acted = act(child.id());
        let done = child.wait_with_output().map_err(failed)?;
        acted?;
        records(job, &done)
    }

    /// A command of scash's.
    pub(super) fn scash(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.command);
        command.args(words);
        command
    }

    /// The same by a launcher of other ranks than scash's: a command to which program and arguments are
    /// added.
    pub(super) fn run_under(
        &self,
        mut launcher: Command,
        job: &Job,
        limit: Limit,
    ) -> Result<Vec<Record>, RunFailure> {
        launcher.arg(self.program(job.program).map_err(RunFailure::Other)?).args(&job.arguments);
        records(job, &limit.output(launcher, job)?).map_err(RunFailure::Other)
    }

    /// The time from the start of a command that runs a job to the first line that the job prints.
    pub(super) fn time_to_first_line(&self, mut command: Command, job: &Job) -> Result<Duration, String> {
        let failed = |why: &dyn fmt::Display| format!("{job}: {why}");
        let start = Instant::now();
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| failed(&error))?;
        let mut line = String::new();
        let read = child.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        let time = start.elapsed();
        let status = child.wait().map_err(|error| failed(&error))?;
        match read {
            Some(Ok(1..)) if status.success() => Ok(time),
            Some(Err(error)) => Err(failed(&error)),
            _ => Err(failed(&status)),
        }
    }

    /// The path of a program of the workspace.
    ///
    /// # Errors
    /// It is not there, and the message says how to get it.
    pub(super) fn program(&self, name: &str) -> Result<PathBuf, String> {
        let program = self.command.with_file_name(name);
        if !program.is_file() {
            let place = program.parent().unwrap_or(&program).display();
            return Err(format!(
                "there is no {name} in {place}: benchmarks need the programs of the workspace beside this \
                 command; build them with `cargo build --release --workspace`"
            ));
        }
        Ok(program)
    }

    /// The command that runs a job.
    pub(super) fn command(&self, job: &Job) -> Result<Command, String> {
        let program = self.program(job.program)?;
        let mut command = match job.on {
            On::Sequential | On::Threads(_) | On::Alone => Command::new(&program),
            On::Ranks(..) | On::Sharing(_) | On::Hosts(..) => Command::new(&self.command),
        };
        // Unless a job says otherwise: on one host users get hardware, and what is measured here is the
        // protocol.
        if matches!(job.on, On::Sharing(_)) {
            // With the other two, ranks share no frames.
            command.env("SCASH_SHARE", "on").env_remove("SCASH_FAULT").env_remove("SCASH_RACES");
        } else {
            command.env("SCASH_SHARE", "off");
        }
        command.args(self.words(job, program.into_os_string()));
        command.envs(job.variables.iter().map(|(name, value)| (name, value)));
        // A setting of the user's that would make other measurements of these.
        command.env_remove("SCASH_THREADS");
        Ok(command)
    }

    /// What follows the name of the program that is started.
    fn words(&self, job: &Job, program: OsString) -> Vec<OsString> {
        let first: Vec<OsString> = match job.on {
            On::Sequential => vec!["--sequential".into()],
            On::Threads(count) => vec!["--threads".into(), count.to_string().into()],
            On::Alone => Vec::new(),
            On::Ranks(count, provider) => on_this_host(count, provider, &job.options, program),
            On::Sharing(count) => on_this_host(count, "shm", &job.options, program),
            On::Hosts(count, hosts) => {
                let host = |host| format!("{}:{}", address(host), count / hosts);
                let hosts = (1..=hosts).map(host).collect::<Vec<_>>().join(",");
                let run = ["run", "--host", &hosts, "--provider", "auto", "--timeout", LIMIT];
                let options = job.options.iter().map(OsString::from);
                run.iter().map(OsString::from).chain(options).chain([program]).collect()
            }
        };
        first.into_iter().chain(job.arguments.iter().map(OsString::from)).collect()
    }
}

fn on_this_host(count: u32, provider: &str, options: &[String], program: OsString) -> Vec<OsString> {
    let run = ["run", "-n", &count.to_string(), "--provider", provider, "--timeout", LIMIT];
    run.iter().map(OsString::from).chain(options.iter().map(OsString::from)).chain([program]).collect()
}

/// The records that a job has printed.
fn records(job: &Job, done: &Output) -> Result<Vec<Record>, String> {
    let records = record::parse(&String::from_utf8_lossy(&done.stdout));
    if matches!(&records, Ok(records) if records.iter().any(|r| r.check.as_deref() == Some("different"))) {
        return Err(format!("{job}: the result is WRONG"));
    }
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{job}: {}: {}", done.status, said.trim_end()));
    }
    let records = records.map_err(|error| format!("{job}: {error}"))?;
    if records.is_empty() {
        return Err(format!("{job}: printed nothing"));
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(on: On) -> String {
        let runner = Runner { command: "/here/scash".into() };
        let words = runner.words(&Job::new("lu", on, ["--repeat", "2"]), "/here/lu".into());
        words.join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn ranks_are_started_by_this_command_itself() {
        assert_eq!(
            words(On::Ranks(4, "tcp")),
            "run -n 4 --provider tcp --timeout 900 /here/lu --repeat 2 --json"
        );
        assert_eq!(
            words(On::Hosts(4, 2)),
            "run --host 10.77.0.1:2,10.77.0.2:2 --provider auto --timeout 900 /here/lu --repeat 2 --json"
        );
        assert_eq!(words(On::Sequential), "--sequential --repeat 2 --json");
        assert_eq!(words(On::Threads(2)), "--threads 2 --repeat 2 --json");
        assert_eq!(words(On::Alone), "--repeat 2 --json");
    }

    #[test]
    fn a_program_that_is_not_there_is_said_how_to_get() {
        let directory = tempfile::tempdir().unwrap();
        let runner = Runner { command: directory.path().join("scash") };
        let error = runner.run(&Job::new("lu", On::Sequential, [""; 0])).unwrap_err();
        assert!(error.contains("there is no lu in") && error.contains("cargo build --release"), "{error}");
    }
}
