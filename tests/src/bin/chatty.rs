//! A program that prints more than is on its way at once: `chatty LINES DIRECTORY STATUS [early]`. After some
//! rounds each rank prints so many lines, leaves a file in the directory, and ends; rank 0 with that status.
//! With `early`, rounds go on behind that, until there is a file `end`. If there is a file `full`, each rank
//! prints half as many lines and one about that, and rank 0 ends with status 3.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test's program")]

use scash::Dsm;
use std::io::Write;
use std::path::Path;

const ROUNDS: u64 = 6;
/// Words of 8 bytes a rank.
const PART: usize = 1024;

fn main() -> scash::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let (mut lines, mut status): (u64, i32) = (arguments[1].parse().unwrap(), arguments[3].parse().unwrap());
    let directory = Path::new(&arguments[2]);
    let mut dsm = Dsm::init()?;
    let (rank, len) = (dsm.rank(), PART * dsm.size());
    let mut array = dsm.partition::<u64>(len)?;
    for round in 1..=ROUNDS {
        array.parts(&dsm).mine.iter_mut().for_each(|value| *value += round * (rank as u64 + 1));
        array.publish(&mut dsm)?;
    }
    let sum: u64 = array.all(&dsm).iter().sum();
    let is_full = directory.join("full").exists();
    if is_full {
        (lines, status) = (lines / 2, 3);
    }
    let mut text = String::new();
    for line in 0..lines {
        text += &format!("rank {rank}, line {line}, sum {sum}, {}\n", "x".repeat((line % 60) as usize));
    }
    if is_full {
        text += &format!("rank {rank}: no space left, {}\n", "x".repeat(100_000));
    }
    let print = || {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(text.as_bytes()).unwrap();
        stdout.flush().unwrap();
        std::fs::write(directory.join(format!("printed-{rank}")), "").unwrap();
    };
    if arguments.get(4).is_some_and(|when| when == "early") {
        print();
        while dsm.broadcast_value(u8::from(!directory.join("end").exists()), 0)? == 1 {
            dsm.barrier()?;
        }
        dsm.finalize()?;
    } else {
        dsm.finalize()?;
        print();
    }
    if rank == 0 {
        std::process::exit(status);
    }
    Ok(())
}
