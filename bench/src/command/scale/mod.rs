//! `scash bench scale`: LAPLACE and LU on simulated machines of up to thousands of ranks, and what grows with
//! their number. The simulator is [`scash_bench::scale`]; here it is told what to run, and what comes out
//! becomes tables, JSON, and a picture.

mod measured;
mod show;

use super::Session;
use clap::ValueEnum;
use scash_bench::scale::plot::{self, Chart, Curve};
use scash_bench::scale::trace::{self, Laplace, Lu};
use scash_bench::scale::{Machine, Totals, Trace, World, growth, presets};
use serde::Serialize;
use std::path::PathBuf;

/// Scaling on paper: the protocol's own code on simulated machines, for LAPLACE and LU on 1 to 4,096 ranks
///
/// Each rank has a processor and a port of its own on a network that LogGP describes. Caches, hosts of
/// several ranks and switches are not modelled. All iterations are simulated; nothing is extrapolated. The
/// last table says what grows with the number of ranks, and why.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Machines; what `measured` stands for is measured here first, over shm and over tcp
    #[arg(long, value_name = "NAME,…", value_enum, value_delimiter = ',', default_values_t = PRESETS)]
    network: Vec<Network>,

    /// Numbers of ranks [default: 1,2,4,… to 4096; to 64 with --quick]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    ranks: Vec<u32>,

    /// Inner elements of a side of LAPLACE's grid
    #[arg(long, value_name = "N", default_value_t = 1022, value_parser = clap::value_parser!(u32).range(1..=1 << 14))]
    grid: u32,

    /// LAPLACE's iterations
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    iterations: u32,

    /// Elements of a side of LU's matrix, rounded up to whole blocks
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=1 << 14))]
    matrix: u32,

    /// Elements of a side of LU's blocks
    #[arg(long, value_name = "B", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1 << 10))]
    block: u32,

    /// Draw the speed-ups, with those of the SCASH paper on 64 nodes
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// The machines that are known without measuring.
const PRESETS: [Network; 4] =
    [Network::Ideal, Network::Ethernet10g, Network::Ethernet100g, Network::Scash1999];

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Network {
    /// This machine
    Measured,
    /// Nothing but arithmetic takes time: what a program's division of work allows
    Ideal,
    /// Ethernet of 10 Gbit/s, by way of the kernel's TCP
    #[value(name = "ethernet-10g")]
    Ethernet10g,
    /// Ethernet of 100 Gbit/s with remote memory access, for which scash has no provider yet
    #[value(name = "ethernet-100g")]
    Ethernet100g,
    /// The SCASH paper's machine: Myrinet, Pentium Pro
    #[value(name = "scash-1999")]
    Scash1999,
}

/// The two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Laplace,
    Lu,
}

impl Program {
    const ALL: [Program; 2] = [Program::Laplace, Program::Lu];

    fn name(self) -> &'static str {
        match self {
            Program::Laplace => "laplace",
            Program::Lu => "lu",
        }
    }

    /// The SCASH paper's speed-up on so many nodes.
    fn paper(self) -> (u32, f64) {
        match self {
            Program::Laplace => (64, 28.4),
            Program::Lu => (64, 15.7),
        }
    }
}

impl Options {
    /// What `all` and tests run.
    pub(super) fn standard() -> Options {
        use clap::{Args, FromArgMatches};
        let command = Options::augment_args(clap::Command::new("scale").no_binary_name(true));
        let matches = command.get_matches_from([""; 0]);
        Options::from_arg_matches(&matches).expect("all options have defaults")
    }

    /// Whether the programs have the size that the SCASH paper measured.
    fn is_of_the_paper(&self) -> bool {
        (self.grid, self.iterations, self.matrix, self.block) == (1022, 50, 2048, 64)
    }

    fn ranks(&self, quick: bool) -> Vec<u32> {
        let most = if quick { 6 } else { 12 };
        if self.ranks.is_empty() { (0..=most).map(|power| 1 << power).collect() } else { self.ranks.clone() }
    }

    fn trace(&self, program: Program, ranks: u32) -> Box<dyn Trace> {
        match program {
            Program::Laplace => Box::new(Laplace::square(self.grid.into(), self.iterations, ranks)),
            Program::Lu => Box::new(Lu::new(self.matrix.into(), self.block.into(), ranks)),
        }
    }

    fn title(&self, program: Program) -> String {
        let Options { grid, iterations, matrix, block, .. } = self;
        match program {
            Program::Laplace => format!("LAPLACE, {grid}×{grid}, {iterations} iterations"),
            Program::Lu => format!("LU, {matrix}×{matrix}, blocks of {block}×{block}"),
        }
    }
}

/// A program on a number of ranks.
#[derive(Debug, Serialize)]
struct ScalePoint {
    machine: String,
    program: &'static str,
    ranks: u32,
    /// What the arithmetic takes one processor, over what the run takes.
    speed_up: f64,
    #[serde(flatten)]
    totals: Totals,
}

/// Simulates and shows; whether everything could be done, and everything that grows is explained.
pub(super) fn run(session: &Session, options: &Options) -> bool {
    let ranks = options.ranks(session.how.quick);
    let mut charts = Program::ALL.map(|program| Chart {
        title: options.title(program),
        curves: Vec::new(),
        measured: options.is_of_the_paper().then(|| program.paper()),
    });
    let (machines, mut complete) = machines(session, options);
    for machine in &machines {
        show::machine(session, machine);
        for (program, chart) in Program::ALL.into_iter().zip(&mut charts) {
            let points = simulate(session, options, machine, program, &ranks);
            let title = format!("{}, {}", options.title(program), machine.name);
            let same = *machine == presets::scash_1999() && options.is_of_the_paper();
            show::points(session, &title, same.then(|| program.paper()), &points);
            let points = points.iter().map(|point| (point.ranks, point.speed_up)).collect();
            chart.curves.push(Curve { name: machine.name.clone(), points });
        }
    }
    if let Some(path) = &options.plot {
        complete &= write_plot(path, &charts);
    }
    complete & grow(session)
}

/// The machines asked for, and whether all of them could be measured.
fn machines(session: &Session, options: &Options) -> (Vec<Machine>, bool) {
    let (mut machines, mut complete) = (Vec::new(), true);
    for network in &options.network {
        match network {
            Network::Measured => match measured::machines(session, options) {
                Some(both) => machines.extend(both),
                None => complete = false,
            },
            Network::Ideal => machines.push(presets::ideal()),
            Network::Ethernet10g => machines.push(presets::ethernet_10g()),
            Network::Ethernet100g => machines.push(presets::ethernet_100g()),
            Network::Scash1999 => machines.push(presets::scash_1999()),
        }
    }
    (machines, complete)
}

fn simulate(
    session: &Session,
    options: &Options,
    machine: &Machine,
    program: Program,
    ranks: &[u32],
) -> Vec<ScalePoint> {
    let sequential = trace::alone(&*options.trace(program, 1), &machine.compute).as_seconds();
    let point = |&ranks: &u32| {
        let trace = options.trace(program, ranks);
        let totals = World::new(machine, &*trace, ranks).run();
        let speed_up = sequential / totals.time.as_seconds();
        let point =
            ScalePoint { machine: machine.name.clone(), program: program.name(), ranks, speed_up, totals };
        session.object(&point);
        point
    };
    ranks.iter().map(point).collect()
}

/// Whether the picture could be written.
fn write_plot(path: &PathBuf, charts: &[Chart]) -> bool {
    let written = plot::svg(charts, "SCASH paper, 64 nodes")
        .and_then(|svg| std::fs::write(path, svg).map_err(|error| error.to_string()));
    written
        .inspect_err(|why| crate::say(&format!("cannot write the picture {}: {why}", path.display())))
        .is_ok()
}

/// What grows with the number of ranks; whether that is known and explained. Counts are those of any network,
/// whatever its times.
fn grow(session: &Session) -> bool {
    let ranks: &[u32] = if session.how.quick { &[16, 64, 256] } else { &[64, 256, 1024] };
    let all = growth::measure(&presets::ethernet_10g(), ranks);
    all.iter().for_each(|growth| session.object(growth));
    show::growth(session, ranks, &all);
    let untold = all.iter().filter(|growth| !growth.is_explained());
    untold
        .inspect(|it| {
            crate::say(&format!(
                "{}: {} grow {} for no known reason",
                it.pattern,
                it.cost.name(),
                it.law.name()
            ))
        })
        .count()
        == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_powers_of_two_unless_the_user_says_which() {
        let options = Options::standard();
        assert_eq!((options.ranks(false).len(), options.ranks(false)[12]), (13, 4096));
        assert_eq!(options.ranks(true), [1, 2, 4, 8, 16, 32, 64]);
        let options = Options { ranks: vec![3, 100], ..options };
        assert_eq!(options.ranks(false), [3, 100]);
    }

    #[test]
    fn a_picture_that_cannot_be_written_is_said_and_fails_the_command() {
        let directory = tempfile::tempdir().unwrap();
        assert!(write_plot(&directory.path().join("a.svg"), &[]));
        assert!(!write_plot(&directory.path().join("no/such/a.svg"), &[]));
    }
}
