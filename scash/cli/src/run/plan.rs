//! What the user asks for (raw), and the plan that follows from it (checked).

use super::hosts::list::{self, Dealt, Named};
use super::hosts::{Heartbeat, Hosts, Succession};
use super::program::{self, Program};
use super::replicas::{self, Replicas};
use super::{Refusal, recovery, slurm, status};
use clap::ValueHint;
use scash_join::boot::vars;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What chooses a provider by where ranks are.
pub(crate) const AUTO: &str = "auto";

/// Providers that `--provider` accepts, each with what it is.
pub(crate) const PROVIDERS: [(&str, &str); 4] = [
    (AUTO, "shm for ranks of one host, tcp between hosts"),
    ("shm", "through shared memory of one host"),
    ("tcp", "through TCP connections, within a host and between hosts"),
    (
        "ofi",
        "through libfabric: verbs, EFA, Slingshot and other networks; SCASH_OFI names one of its providers",
    ),
];

/// Environment variables that stand for options.
pub(crate) const VARIABLES: [&str; 4] = [vars::PROVIDER, vars::THREADS, "SCASH_FAULT", RSH];

/// The variable that stands for `--rsh`.
pub(super) const RSH: &str = "SCASH_RSH";

/// What runs commands on other hosts.
pub(super) const RSH_IF_NOT_SAID: &str = "ssh";

/// Start a program as the ranks of a job, on this machine or on several hosts.
///
/// All ranks run the same program with the same arguments. The exit status is 0 if every rank ends in order,
/// else that of the first rank that fails (128 + N if signal N killed it), 124 after --timeout, 125 if scash
/// itself fails or output cannot be written, 126 or 127 if the program cannot be executed or does not exist.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of ranks [default with hosts or in a Slurm allocation: as many as they have slots]
    #[arg(short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(u16::MAX)))]
    ranks: Option<u32>,

    /// Run on these hosts, each with as many slots for ranks as stand behind its colon, or one: a,b:2
    #[arg(long, value_name = "HOSTS", conflicts_with = "hostfile")]
    host: Vec<String>,

    /// Run on the hosts in a file of lines `NAME [slots=N] [rack=R]`: hosts of one rack may be lost at once,
    /// so copies of checkpoints go to others
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,

    /// The command, with its options, that runs another on a host: it is called as CMD HOST COMMAND…
    /// [default: ssh; srun for the hosts of a Slurm allocation]
    #[arg(long, value_name = "CMD", env = RSH)]
    rsh: Option<String>,

    /// Where scash lies on the hosts [default: where it lies here]
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,

    /// Take a host for lost that has not answered for so long, or off: only when its agent says nothing for
    /// 20 s. A host answers whose system runs, however busy it is [default: with --replicas 200ms, for hosts
    /// in a network of this one; else off]
    #[arg(long, value_name = "TIME", value_parser = heartbeat)]
    heartbeat: Option<HeartbeatOptions>,

    /// Send the program to the hosts, into memory: it need not lie there (its libraries and data must)
    #[arg(long)]
    copy: bool,

    /// How ranks communicate: auto, shm, tcp or ofi
    #[arg(long, value_name = "NAME", env = vars::PROVIDER, default_value = AUTO)]
    provider: String,

    /// Encrypt what ranks say to each other over TCP (SCASH_ENCRYPT=on)
    #[arg(long)]
    encrypt: bool,

    /// Application threads a rank
    #[arg(long, value_name = "T", env = vars::THREADS, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    threads: u32,

    /// Bind each rank to cores of its own, as many as it has threads: core, or none
    #[arg(long, value_name = "WHAT", default_value = "none", value_parser = ["core", "none"])]
    bind: String,

    /// Draw no random addresses: program, libraries and stacks lie where they lie in every other rank
    #[arg(long)]
    no_aslr: bool,

    /// How accesses to shared memory are noticed: uffd or mprotect; ranks of one host share no frames then
    /// [default: the best that works, see `scash info`]
    #[arg(long, value_name = "ENGINE", env = "SCASH_FAULT")]
    fault: Option<String>,

    /// Set an environment variable for the ranks
    #[arg(long = "env", value_name = "K=V")]
    env: Vec<OsString>,

    /// Put `[rank] ` before every line that a rank prints
    #[arg(long)]
    label: bool,

    /// Have each rank tell on stderr, at its end, what it has counted: faults, messages, checkpoints, memory
    /// (SCASH_STATS=1)
    #[arg(long)]
    stats: bool,

    /// End the job after so many seconds
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    timeout: Option<Duration>,

    #[command(flatten)]
    replicas: replicas::Raw,

    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// How hosts are watched besides by their pipes, if they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HeartbeatOptions(Option<Heartbeat>);

/// What is to be done, checked: nothing here can turn out to be nonsense later.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) ranks: u32,
    pub(super) threads: u32,
    pub(super) provider: &'static str,
    pub(super) task: Task,
    /// `None`: this machine.
    pub(super) hosts: Option<Hosts>,
    /// Whether ranks are bound to cores.
    pub(super) bind: bool,
    /// Whether ranks have no random addresses, even if none is ever started again.
    pub(super) no_aslr: bool,
    pub(super) label: bool,
    pub(super) timeout: Option<Duration>,
    /// `None`: the job ends when a rank dies.
    pub(super) replicas: Option<Replicas>,
}

/// What every rank is.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) program: Program,
    pub(super) arguments: Vec<OsString>,
    /// Environment variables besides those of the boot line.
    pub(super) env: Vec<(OsString, OsString)>,
}

/// Makes a plan of the arguments, or says why there is none.
pub(super) fn check(args: Args) -> Result<Plan, Refusal> {
    check_in(args, |name| std::env::var(name).ok())
}

/// As [`check`], where `var` looks up the environment variables of a resource manager.
fn check_in(mut args: Args, var: impl Fn(&str) -> Option<String>) -> Result<Plan, Refusal> {
    let mut command = std::mem::take(&mut args.command).into_iter();
    let Some(name) = command.next() else {
        return Err(Refusal::new(status::USAGE, "which program? use `scash run -n N PROGRAM`"));
    };
    // What the command names lay where the job began, and perhaps does not here.
    let former = if args.replicas.take_over { Some(succession()?) } else { None };
    let known_program = former.as_ref().and_then(Succession::program);
    // Without a second life ranks are better off if they wait for a network that falters.
    let usual = Some(Heartbeat::USUAL).filter(|_| args.replicas.is_given());
    let heartbeat = args.heartbeat.map_or(usual, |watch| watch.0);
    let (ranks, hosts) = match former {
        Some(former) => former.hosts().map(|(ranks, hosts)| (ranks, Some(hosts)))?,
        None => places(&args, var)?,
    };
    let hosts = hosts.map(|hosts| Hosts { heartbeat, ..hosts });
    if args.copy && hosts.is_none() {
        let why = "--copy: the program is sent to hosts: say which with --host or --hostfile";
        return Err(Refusal::new(status::USAGE, why));
    }
    if args.copy && args.replicas.is_given() {
        let why =
            "--copy: a program without a file cannot be saved: with --replicas, install it on all hosts";
        return Err(Refusal::new(status::USAGE, why));
    }
    let several = hosts.as_ref().is_some_and(|hosts| hosts.layout.hosts() > 1);
    let provider = provider(&args.provider, several, args.encrypt)?;
    let replicas = args.replicas.check(ranks, provider, hosts.as_ref().map(|hosts| &hosts.layout))?;
    let mut env: Vec<(OsString, OsString)> = args.env.into_iter().map(variable).collect::<Result<_, _>>()?;
    if let Some(engine) = args.fault.filter(|engine| !engine.is_empty()) {
        env.push((scash_fault(&engine)?, engine.into()));
    }
    if args.encrypt {
        env.push(("SCASH_ENCRYPT".into(), "on".into()));
    }
    if args.stats {
        env.push(("SCASH_STATS".into(), "1".into()));
    }
    let program = match known_program {
        Some(path) => Program { path, name },
        None => program::find(&name)?,
    };
    Ok(Plan {
        ranks,
        threads: args.threads,
        provider,
        task: Task { program, arguments: command.collect(), env },
        hosts,
        bind: args.bind == "core",
        no_aslr: args.no_aslr,
        label: args.label,
        timeout: args.timeout,
        replicas,
    })
}

/// How many ranks there are, and on which hosts, if not on this machine.
fn places(args: &Args, var: impl Fn(&str) -> Option<String>) -> Result<(u32, Option<Hosts>), Refusal> {
    let (hosts, usual_rsh) = match named(&args.host, args.hostfile.as_deref())? {
        Some(named) => (Some(named), RSH_IF_NOT_SAID),
        None => (slurm::allocation(&var)?, slurm::RSH),
    };
    let Some(named) = hosts else {
        let why = "how many ranks? say -n <N>: `scash run -n N PROGRAM`";
        return args.ranks.map(|ranks| (ranks, None)).ok_or_else(|| Refusal::new(status::USAGE, why));
    };
    let is_here = usual_rsh == slurm::RSH && slurm::is_here(&named, &var);
    let Dealt { names, layout, racks } = list::deal(named, args.ranks)?;
    let size = layout.size();
    if is_here {
        return Ok((size, None));
    }
    let rsh = args.rsh.as_deref().unwrap_or(usual_rsh);
    let hosts = Hosts::new(names, layout, rsh, args.agent.clone(), args.copy)?;
    Ok((size, Some(Hosts { racks, ..hosts })))
}

/// The hosts that the user names, if any.
fn named(host: &[String], hostfile: Option<&Path>) -> Result<Option<Vec<Named>>, Refusal> {
    match hostfile {
        Some(path) => list::from_file(path).map(Some),
        None if host.is_empty() => Ok(None),
        None => list::from_options(host).map(Some),
    }
}

/// The job that standard input describes, which has lost its launcher.
fn succession() -> Result<Succession, Refusal> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().read_to_end(&mut bytes).map_err(|error| error.to_string());
    let read = read.and_then(|_| Succession::decode(&bytes));
    read.map_err(|why| Refusal::new(status::USAGE, format!("--take-over: standard input: {why}")))
}

/// The provider of that name, which must reach all ranks, and encrypt if that is asked for.
fn provider(name: &str, several_hosts: bool, encrypt: bool) -> Result<&'static str, Refusal> {
    if name == "ofi" && encrypt {
        let why = "--encrypt: what libfabric carries is not encrypted: use --provider auto or tcp, or leave it out on a network that you trust";
        return Err(Refusal::new(status::USAGE, why));
    }
    if name == "shm" && several_hosts {
        let why = "the provider shm does not reach other hosts: use --provider auto or tcp, or one host";
        return Err(Refusal::new(status::USAGE, why));
    }
    PROVIDERS.iter().map(|(known, _)| *known).find(|known| *known == name).ok_or_else(|| {
        let known = PROVIDERS.map(|(name, what)| format!("{name} ({what})")).join(", ");
        Refusal::new(status::USAGE, format!("there is no provider {name:?}; there are: {known}"))
    })
}

/// The variable that forces a fault engine, if there is such an engine. Whether it works here is for the
/// ranks to find out.
fn scash_fault(engine: &str) -> Result<OsString, Refusal> {
    let kinds = scash::fault::EngineKind::ALL;
    if kinds.iter().any(|kind| kind.name() == engine) {
        return Ok("SCASH_FAULT".into());
    }
    let known = kinds.map(scash::fault::EngineKind::name).join(", ");
    Err(Refusal::new(status::USAGE, format!("there is no fault engine {engine:?}; there are: {known}")))
}

/// Splits `K=V`.
fn variable(text: OsString) -> Result<(OsString, OsString), Refusal> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let shown = text.to_string_lossy().into_owned();
    let bytes = text.into_vec();
    let equals = bytes.iter().position(|byte| *byte == b'=').filter(|at| *at > 0);
    let Some(at) = equals else {
        return Err(Refusal::new(status::USAGE, format!("--env {shown}: expected NAME=VALUE")));
    };
    let (name, value) = (&bytes[..at], &bytes[at + 1..]);
    let ours = [vars::RANK, vars::SIZE, vars::BOOT_FD, vars::THREADS, vars::PROVIDER];
    if ours.iter().chain(&recovery::VARIABLES).any(|ours| ours.as_bytes() == name) {
        let why = format!(
            "--env {shown}: scash run sets this variable itself (see -n, --threads, --provider, --replicas)"
        );
        return Err(Refusal::new(status::USAGE, why));
    }
    Ok((std::ffi::OsStr::from_bytes(name).to_owned(), std::ffi::OsStr::from_bytes(value).to_owned()))
}

/// Parses the time after which a silent host is lost.
fn heartbeat(text: &str) -> Result<HeartbeatOptions, String> {
    if text == "off" {
        return Ok(HeartbeatOptions(None));
    }
    let limit = scash_ft::time::parse(text).map_err(|error| format!("{error}, or off"))?;
    if limit < Duration::from_millis(20) {
        return Err("hosts need 20ms or more to answer".to_owned());
    }
    Ok(HeartbeatOptions(Some(Heartbeat { limit, is_far: true })))
}

/// Parses a number of seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(number) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("a time limit is more than 0 seconds".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn plan(words: &[&str]) -> Result<Plan, String> {
        let words = std::iter::once(&"run").chain(words);
        let cli = Cli::try_parse_from(words).map_err(|e| e.to_string())?;
        check_in(cli.args, |_| None).map_err(|refusal| refusal.why)
    }

    /// In an allocation of two hosts with two slots each, of which this is the first.
    fn plan_in_slurm(words: &[&str]) -> Result<Plan, String> {
        let cli = Cli::try_parse_from(std::iter::once(&"run").chain(words)).map_err(|e| e.to_string())?;
        let pairs = [
            ("SLURM_JOB_ID", "1"),
            ("SLURM_JOB_NODELIST", "n[1-2]"),
            ("SLURM_TASKS_PER_NODE", "2(x2)"),
            ("SLURMD_NODENAME", "n1"),
        ];
        let var = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        check_in(cli.args, var).map_err(|refusal| refusal.why)
    }

    #[test]
    fn in_an_allocation_of_slurm_its_hosts_are_meant() {
        let plan = plan_in_slurm(&["/bin/sh"]).unwrap();
        let hosts = plan.hosts.unwrap();
        assert_eq!(
            (plan.ranks, hosts.names, hosts.rsh[0].as_str()),
            (4, vec!["n1".into(), "n2".into()], "srun")
        );
        let fewer = plan_in_slurm(&["-n", "2", "--rsh", "my-rsh", "/bin/sh"]).unwrap().hosts.unwrap();
        assert_eq!((fewer.names, fewer.rsh), (vec!["n1".into()], vec!["my-rsh".to_owned()]));
        let named = plan_in_slurm(&["--host", "a", "/bin/sh"]).unwrap().hosts.unwrap();
        assert_eq!((named.names, named.rsh), (vec!["a".into()], vec!["ssh".to_owned()]));
        assert!(plan_in_slurm(&["-n", "5", "/bin/sh"]).unwrap_err().contains("the hosts have 4 slots"));
    }

    #[test]
    fn options_behind_the_program_are_the_programs() {
        let plan = plan(&["-n", "2", "/bin/sh", "-n", "--label", "--", "x"]).unwrap();
        assert_eq!(plan.task.arguments, ["-n", "--label", "--", "x"]);
        assert!(!plan.label);
        assert_eq!((plan.ranks, plan.threads), (2, 1));
    }

    #[test]
    fn values_may_hold_anything_behind_the_first_equals_sign() {
        let plan = plan(&["-n1", "--env", "A=b=c", "--env", "EMPTY=", "/bin/sh"]).unwrap();
        assert_eq!(plan.task.env, [("A".into(), "b=c".into()), ("EMPTY".into(), OsString::new())]);
    }

    #[test]
    fn hosts_have_as_many_ranks_as_slots() {
        let plan = plan(&["--host", "a:2,b", "--rsh", "ssh -p 22", "/bin/sh"]).unwrap();
        assert_eq!((plan.ranks, plan.provider), (3, "auto"));
        let hosts = plan.hosts.unwrap();
        assert_eq!(
            (&hosts.names[..], &hosts.rsh[..]),
            (&["a".into(), "b".into()][..], &["ssh", "-p", "22"].map(String::from)[..])
        );
    }

    #[test]
    fn hosts_are_watched_where_ranks_may_come_back_or_the_user_wants_that() {
        let watch = |words: &[&str]| {
            plan(&[words, &["--host", "a,b", "/bin/sh"]].concat()).map(|plan| plan.hosts.unwrap().heartbeat)
        };
        assert_eq!(watch(&[]), Ok(None), "nobody could come back");
        assert_eq!(watch(&["--replicas", "1"]), Ok(Some(Heartbeat::USUAL)));
        let second = Heartbeat { limit: Duration::from_secs(1), is_far: true };
        assert_eq!(watch(&["--heartbeat", "1s"]), Ok(Some(second)));
        assert_eq!(watch(&["--heartbeat", "off"]), Ok(None));
        assert!(watch(&["--heartbeat", "5ms"]).unwrap_err().contains("20ms or more"));
        assert!(watch(&["--heartbeat", "soon"]).unwrap_err().contains("or off"));
    }

    #[test]
    fn the_providers_offered_are_those_that_ranks_know() {
        assert_eq!(PROVIDERS.map(|(name, _)| name), scash::runtime::PROVIDERS);
    }

    #[test]
    fn nonsense_is_refused_with_what_would_make_sense() {
        let cases: [(&[&str], &str); 16] = [
            (&["-n", "0", "/bin/sh"], "0 is not in 1..=65535"),
            (&["-n", "two", "/bin/sh"], "invalid digit"),
            (&["/bin/sh"], "-n <N>"),
            (&["-n", "2"], "PROGRAM"),
            (&["-n", "2", "--provider", "warp", "/bin/sh"], "no provider \"warp\"; there are: auto"),
            (
                &["-n", "2", "--fault", "magic", "/bin/sh"],
                "no fault engine \"magic\"; there are: uffd, mprotect",
            ),
            (&["-n", "2", "--env", "NOVALUE", "/bin/sh"], "expected NAME=VALUE"),
            (&["-n", "2", "--env", "SCASH_RANK=0", "/bin/sh"], "sets this variable itself"),
            (&["-n", "2", "--timeout", "0", "/bin/sh"], "more than 0 seconds"),
            (
                &["-n", "3", "--host", "a,b", "/bin/sh"],
                "the hosts have 2 slots: give them more (`--host a:3`",
            ),
            (&["--host", "a,b", "--provider", "shm", "/bin/sh"], "use --provider auto or tcp, or one host"),
            (&["-n", "2", "--encrypt", "--provider", "ofi", "/bin/sh"], "use --provider auto or tcp"),
            (&["-n", "2", "--copy", "/bin/sh"], "say which with --host"),
            (&["-n", "2", "--bind", "socket", "/bin/sh"], "[possible values: core, none]"),
            (&["--host", "a", "--hostfile", "/dev/null", "/bin/sh"], "cannot be used with"),
            (&["--host", "a", "--rsh", " ", "/bin/sh"], "--rsh"),
        ];
        for (words, expected) in cases {
            let error = plan(words).unwrap_err();
            assert!(error.contains(expected), "{words:?}: {error}");
        }
    }
}
