//! RAYTRACE on ranks, threads, or one thread; see [`scash_apps::raytrace`].

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use scash_apps::counter::CounterKind;
use scash_apps::options::Options;
use scash_apps::raytrace::Raytrace;
use scash_apps::run::main as run;

/// A picture of balls that mirror each other, ray by ray.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Rows and columns of the picture
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 400)]
    size: usize,

    /// How often a ray is thrown by mirrors, at most
    #[arg(long, value_name = "D", allow_negative_numbers = true, default_value_t = 4)]
    depth: usize,

    /// Rows and columns of a tile
    #[arg(long, value_name = "T", allow_negative_numbers = true, default_value_t = 16)]
    tile: usize,

    /// How workers take tiles
    #[arg(long, value_name = "KIND", default_value = "lock")]
    queue: CounterKind,

    /// Write the picture to this file, as a portable pixmap
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Arguments { size, depth, tile, queue, out, options } = Arguments::parse();
    run(Raytrace::new(size, depth, tile, queue).map(|picture| picture.written_to(out)), &options)
}
