//! VOLUME on ranks, threads, or one thread; see [`scash_apps::volume`].

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use scash_apps::counter::CounterKind;
use scash_apps::options::Options;
use scash_apps::queues::Stealing;
use scash_apps::run::main as run;
use scash_apps::volume::Volume;

/// Pictures of clouds that are looked through, from all around, ray by ray.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Voxels along a side of the volume
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 96)]
    size: usize,

    /// Rows and columns of a picture
    #[arg(long, value_name = "P", allow_negative_numbers = true, default_value_t = 200)]
    image: usize,

    /// How many pictures
    #[arg(long, value_name = "F", allow_negative_numbers = true, default_value_t = 4)]
    frames: usize,

    /// Rows and columns of a tile
    #[arg(long, value_name = "T", allow_negative_numbers = true, default_value_t = 16)]
    tile: usize,

    /// Whether workers that are done with their own tiles take those of others
    #[arg(long, value_name = "WHETHER", default_value = "on")]
    steal: Stealing,

    /// How workers take tiles
    #[arg(long, value_name = "KIND", default_value = "lock")]
    queue: CounterKind,

    /// Write the pictures to this file, as portable pixmaps, one after the other
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Arguments { size, image, frames, tile, steal, queue, out, options } = Arguments::parse();
    let volume = Volume::new(size, image, frames, tile);
    run(volume.map(|volume| volume.queued(steal, queue).written_to(out)), &options)
}
