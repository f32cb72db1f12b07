//! A program that prints most when it has nothing left to compute: `chatty LINES DIRECTORY [STATUS]`. After
//! some rounds each rank prints so many lines, leaves a file in the directory, and ends; rank 0 with that
//! status.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test's program")]

use scash::Dsm;
use std::io::Write;
use std::path::Path;

const ROUNDS: u64 = 6;
/// Words of 8 bytes a rank.
const PART: usize = 1024;

fn main() -> scash::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let (lines, status): (u64, i32) =
        (arguments[1].parse().unwrap(), arguments.get(3).map_or(0, |status| status.parse().unwrap()));
    let mut dsm = Dsm::init()?;
    let (rank, len) = (dsm.rank(), PART * dsm.size());
    let mut array = dsm.partition::<u64>(len)?;
    for round in 1..=ROUNDS {
        array.parts(&dsm).mine.iter_mut().for_each(|value| *value += round * (rank as u64 + 1));
        array.publish(&mut dsm)?;
    }
    let sum: u64 = array.all(&dsm).iter().sum();
    let mut text = String::new();
    for line in 0..lines {
        text += &format!("rank {rank}, line {line}, sum {sum}, {}\n", "x".repeat((line % 60) as usize));
    }
    dsm.finalize()?;
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).unwrap();
    stdout.flush().unwrap();
    std::fs::write(Path::new(&arguments[2]).join(format!("printed-{rank}")), "").unwrap();
    if rank == 0 {
        std::process::exit(status);
    }
    Ok(())
}
