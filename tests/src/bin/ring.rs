//! A rank that passes messages round a ring, or that fails in one of the ways in which ranks fail: `ring
//! [kill|exit|absent N]`.
//!
//! `kill` and `exit`: rank N ends, in that way, while the others wait for it. `absent`: the process to which
//! its launcher has given the number N never joins.

use scash_mp::{Op, Options, World};
use std::io::{Write, stderr, stdout};
use std::process::ExitCode;
use std::time::Duration;

/// How long a process that does not join is there.
const ABSENCE: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let fault = match &words[..] {
        [] => None,
        [fault, number] => number.parse().ok().map(|number: u32| (fault.as_str(), number)),
        _ => return ExitCode::from(2),
    };
    if let Some(("absent", number)) = fault
        && is_number(number)
    {
        std::thread::sleep(ABSENCE);
        return ExitCode::from(4);
    }
    match run(fault) {
        Ok(text) => {
            let _ = stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = stderr().write_all(format!("{error}\n").as_bytes());
            ExitCode::from(3)
        }
    }
}

/// Whether this is the process with that number of its launcher.
fn is_number(number: u32) -> bool {
    let given = ["PMI_RANK", "PMIX_RANK", "SLURM_PROCID"].iter().find_map(|name| std::env::var(name).ok());
    given.is_some_and(|given| given == number.to_string())
}

fn run(fault: Option<(&str, u32)>) -> scash_comm::Result<String> {
    let world = World::from_env(Options::default())?;
    let (rank, size) = (world.rank(), world.size());
    world.barrier()?;
    match fault {
        Some((how, culprit)) if culprit == rank => end(how),
        Some((_, culprit)) => drop(world.receive_owned(Some(culprit), None)?),
        None => {}
    }
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let receive = world.start_receive_owned(Some(previous), Some(1))?;
    let mine = rank.to_le_bytes().repeat(50_000);
    world.send(next, 1, &mine)?;
    let got = world.wait(receive)?.bytes;
    let mut sum = [0_u64];
    world.all_reduce(Op::Sum, &[u64::from(rank)], &mut sum)?;
    world.finalize()?;
    let is_right = got == previous.to_le_bytes().repeat(50_000) && sum == [u64::from(size * (size - 1) / 2)];
    Ok(format!(
        "rank {rank} of {size}: {}\n",
        if is_right { "the ring is closed" } else { "the ring is wrong" }
    ))
}

fn end(how: &str) -> ! {
    if how == "kill" {
        // SAFETY: asks the kernel for this process's own number.
        let me = unsafe { libc::getpid() };
        // SAFETY: sends a signal.
        unsafe { libc::kill(me, libc::SIGKILL) };
    }
    std::process::exit(0)
}
