//! Each rank writes a line to a file of its own and prints it, then asks for a checkpoint, and does so again:
//! `diary DIRECTORY`. All lines are as long.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test's program")]

use scash::Dsm;
use std::fs::File;
use std::io::Write;

fn main() -> scash::Result<()> {
    let mut dsm = Dsm::init()?;
    let directory = std::env::args().nth(1).unwrap();
    let mut diary = File::create(format!("{directory}/{}.diary", dsm.rank())).unwrap();
    for number in 1..=6 {
        let line = format!("line {number} of rank {}\n", dsm.rank());
        diary.write_all(line.as_bytes()).unwrap();
        print!("{line}");
        assert!(dsm.checkpoint()?, "each is committed");
    }
    dsm.finalize()
}
