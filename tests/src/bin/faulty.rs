//! A program that does something wrong, so that the soak can show that it notices: `faulty WHAT`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test's program")]

use scash::Dsm;
use std::time::Duration;

const BARRIERS: u32 = 12;

fn main() -> scash::Result<()> {
    let mut dsm = Dsm::init()?;
    let what = std::env::args().nth(1).unwrap();
    for number in 0..BARRIERS {
        dsm.barrier()?;
        let is_first = dsm.incarnation() == 0;
        match what.as_str() {
            "dies" if number == 6 && is_first && dsm.rank() == 1 => {
                // SAFETY: the call takes a number.
                unsafe { libc::raise(libc::SIGKILL) };
            }
            "crashes" if number == 6 && is_first && dsm.rank() == 1 => std::process::abort(),
            "hangs" if !is_first => std::thread::sleep(Duration::from_secs(1000)),
            _ => {}
        }
    }
    let is_first = dsm.incarnation() == 0;
    match what.as_str() {
        "computes something else" if !is_first => println!("rank {}: 43", dsm.rank()),
        "prints nothing" if !is_first => {}
        "prints twice" if !is_first => print!("{}", format!("rank {}: 42\n", dsm.rank()).repeat(2)),
        _ => println!("rank {}: 42", dsm.rank()),
    }
    if what == "complains" {
        eprintln!("something is strange");
    }
    if what == "fails" && !is_first {
        std::process::exit(3);
    }
    dsm.finalize()
}
