//! Private memory as that of [`image`](crate::image), held for programs that dump processes.

use crate::image::Random;
use crate::{Error, Result};
use scash_bench::size;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

/// Whoever was to end it may be gone.
const LONGEST: Duration = Duration::from_secs(600);

/// Hold private memory with random contents for ten minutes, for programs that dump processes
#[derive(clap::Args)]
pub(crate) struct Options {
    /// So much memory
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "100M")]
    private: usize,

    /// A file that is made when the memory is written
    #[arg(value_name = "FILE")]
    ready: PathBuf,
}

/// Holds it.
///
/// # Errors
/// The file cannot be made.
pub(crate) fn hold(options: &Options) -> Result<bool> {
    let memory = Random::of(options.private);
    File::create(&options.ready).map_err(Error::Output)?;
    std::thread::sleep(LONGEST);
    std::hint::black_box(&memory);
    Ok(true)
}
