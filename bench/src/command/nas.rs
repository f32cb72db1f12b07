//! `scash bench nas`: kernels of the NAS Parallel Benchmarks on message passing, over scash and, to compare,
//! over MPI libraries.
//!
//! The kernels are the same code everywhere, down to the last instruction: only what messages travel over
//! differs (`scash-messages`). In each round every kernel runs over each of them, one after the other.

use super::Session;
use super::limited::{Limit, RunFailure};
use super::runner::{Job, On};
use super::table::{Table, number, spread};
use super::turns::{Line, Variant, in_turns};
use scash_bench::record::Record;
use scash_messages::rival::{Network, Rival};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;

const KERNELS: [&str; 5] = ["is", "ep", "cg", "mg", "ft"];

/// The kernels of the NAS Parallel Benchmarks on message passing; also over Open MPI, Open MPI on UCX, and
/// MPICH
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Kernels [default: all]
    #[arg(value_name = "KERNEL", value_parser = KERNELS)]
    kernels: Vec<String>,

    /// Compare with Open MPI, Open MPI on UCX, and MPICH, where they are installed
    #[arg(long)]
    compare: bool,

    /// The size of the problems [default: A; with --quick: S]
    #[arg(long, value_name = "C", value_parser = ["S", "W", "A"], ignore_case = true)]
    class: Option<String>,

    /// How many ranks
    #[arg(short = 'n', long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,

    /// What carries messages
    #[arg(long, value_name = "NAME", value_parser = ["shm", "tcp"], default_value = "shm")]
    provider: String,

    #[command(flatten)]
    limit: Limit,
}

impl Options {
    /// What is measured where nothing was said.
    pub(super) fn standard() -> Options {
        let (provider, limit) = ("shm".to_owned(), Limit::default());
        Options { kernels: Vec::new(), compare: false, class: None, ranks: 4, provider, limit }
    }

    fn kernels(&self) -> impl Iterator<Item = &'static str> {
        let is_wanted =
            |name: &&str| self.kernels.is_empty() || self.kernels.iter().any(|wanted| wanted == name);
        KERNELS.into_iter().filter(is_wanted)
    }

    fn class(&self, quick: bool) -> &str {
        self.class.as_deref().unwrap_or(if quick { "S" } else { "A" })
    }

    fn network(&self) -> (&'static str, Network) {
        if self.provider == "tcp" { ("tcp", Network::Tcp) } else { ("shm", Network::Shm) }
    }
}

/// What messages travel over: scash, if no rival and shim are named.
struct NasLibrary {
    variant: Variant,
    rival: Option<(Rival, PathBuf)>,
}

/// Measures all kernels; whether everything could be measured.
pub(super) fn run(session: &Session, options: &Options) -> bool {
    let directory = match tempfile::tempdir() {
        Ok(directory) => directory,
        Err(error) => {
            crate::say(&format!("cannot make a directory for compiled shims: {error}"));
            return false;
        }
    };
    let mut over = vec![over_scash()];
    let mut complete = true;
    for rival in Rival::ALL.into_iter().filter(|_| options.compare) {
        match rival.missing() {
            Some(why) => session.show(&format!("Not measured: {why}\n")),
            None => match rival.shim(directory.path()) {
                Ok(shim) => over.push(over_rival(rival, shim)),
                Err(why) => {
                    crate::say(&why);
                    complete = false;
                }
            },
        }
    }
    for kernel in options.kernels() {
        let (lines, endless) = measure(session, options, kernel, &over);
        let class = options.class(session.how.quick);
        let on = On::Ranks(options.ranks, options.network().0);
        let table = table(&over, &lines, &endless, options.limit);
        session.show(&format!("{kernel}, class {} ({on})\n{table}", class.to_uppercase()));
        complete &= lines.iter().all(Option::is_some);
    }
    complete
}

fn over_scash() -> NasLibrary {
    NasLibrary { variant: Variant { name: "scash".to_owned(), settings: Vec::new() }, rival: None }
}

fn over_rival(rival: Rival, shim: PathBuf) -> NasLibrary {
    NasLibrary {
        variant: Variant { name: rival.name().to_owned(), settings: Vec::new() },
        rival: Some((rival, shim)),
    }
}

/// Those that did not end in some round, by name.
type Endless = BTreeSet<String>;

/// Runs a kernel over everything, in turns.
fn measure(
    session: &Session,
    options: &Options,
    kernel: &str,
    over: &[NasLibrary],
) -> (Vec<Option<Line>>, Endless) {
    let variants: Vec<Variant> = over.iter().map(|over| over.variant.clone()).collect();
    let endless = RefCell::new(Endless::new());
    let lines = in_turns(session, &variants, |variant| {
        let over = over.iter().find(|over| over.variant.name == variant.name)?;
        once(session, options, kernel, over, &endless)
    });
    (lines, endless.into_inner())
}

fn once(
    session: &Session,
    options: &Options,
    kernel: &str,
    over: &NasLibrary,
    endless: &RefCell<Endless>,
) -> Option<Record> {
    let (provider, network) = options.network();
    let arguments = ["--kernel", kernel, "--class", options.class(session.how.quick)];
    let on = On::Ranks(options.ranks, provider);
    let Some((rival, shim)) = &over.rival else {
        return session.measure(&Job::new("nas", on, arguments))?.pop();
    };
    let messages = format!("mpi:{}", shim.display());
    let job = Job::new("nas", on, arguments.into_iter().chain(["--messages", &messages]));
    let done = session.runner.run_under(rival.launch(options.ranks, network), &job, options.limit);
    if let Err(RunFailure::NoEnd(_)) = done {
        endless.borrow_mut().insert(over.variant.name.clone());
    }
    session.measured(done.map_err(|why| format!("{}: {why}", over.variant.name)))?.pop()
}

fn table(over: &[NasLibrary], lines: &[Option<Line>], endless: &Endless, limit: Limit) -> Table {
    let mut table = Table::new(["", "ms", "Mop/s", "× scash's time"]);
    for (over, line) in over.iter().zip(lines) {
        let name = over.variant.name.clone();
        match line {
            None if endless.contains(&name) => table.line([name, limit.to_string()]),
            None => table.line([name, "failed".to_owned()]),
            Some(line) => table.line([
                name,
                number(Some(line.record.seconds * 1e3)),
                number(line.figure("rate_mops")),
                spread(line.times),
            ]),
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turns::tests::record;

    #[test]
    fn all_kernels_are_run_where_none_is_named() {
        let mut options = Options::standard();
        assert_eq!(options.kernels().collect::<Vec<_>>(), KERNELS);
        options.kernels = vec!["ft".to_owned(), "is".to_owned()];
        assert_eq!(options.kernels().collect::<Vec<_>>(), ["is", "ft"]);
    }

    #[test]
    fn a_rival_that_failed_or_did_not_end_is_shown_beside_those_that_did() {
        let rivals = [Rival::OpenMpi, Rival::Mpich].map(|rival| over_rival(rival, "/a".into()));
        let over: Vec<NasLibrary> = [over_scash()].into_iter().chain(rivals).collect();
        let line = Line {
            way: "scash".to_owned(),
            settings: Vec::new(),
            record: record(0.25, 0, 0.0),
            rounds: 1,
            times: None,
        };
        let endless = Endless::from(["MPICH".to_owned()]);
        let text = table(&over, &[Some(line), None, None], &endless, Limit::default()).to_string();
        let rows: Vec<&str> = text.lines().skip(1).collect();
        assert!(rows[0].starts_with("scash ") && rows[0].contains("250"), "{text}");
        assert!(rows[1].starts_with("Open MPI") && rows[1].ends_with("failed"), "{text}");
        assert!(rows[2].starts_with("MPICH") && rows[2].ends_with("no end in 120 s"), "{text}");
    }
}
