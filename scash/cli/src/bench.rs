//! `scash bench`: starts `scash-bench`, the program that measures and makes tables. The command itself needs
//! neither benchmarks nor what draws their pictures.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The program that measures.
const PROGRAM: &str = "scash-bench";

/// Measure scash on this machine, and make tables of it (`scash bench --help` says more)
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// What to measure, and how
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Becomes that program. Returns only if it cannot be started.
pub(crate) fn run(args: &Args) -> u8 {
    let beside = std::env::current_exe().ok().map(|command| command.with_file_name(PROGRAM));
    let program = beside.filter(|program| program.exists()).unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program).args(&args.arguments).exec();
    crate::say(&format!(
        "cannot start {}: {error}; `cargo build --release --workspace` builds it beside this command",
        program.display()
    ));
    1
}
