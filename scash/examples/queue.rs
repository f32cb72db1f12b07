//! queue: tasks make tasks, and each rank takes the next one when it is free.
//!
//! A task is a range of numbers, whose primes are counted. A worker that takes a long range gives half of it
//! away. The queue lies in shared memory and belongs to whoever has locked it. Ranks that find it empty wait
//! for a condition, until there is a task or nobody works any more.

#![expect(clippy::print_stdout, reason = "that is what it is for")]

use scash::{Combine, Condvar, Dsm, DsmMutex, Result};
use std::ops::Range;

const LIMIT: u32 = 100_000;
const SHORT: u32 = 1000;
const MOST: usize = 128; // so many ranges are short after halving all numbers

/// Values in shared memory are plain bytes: no pointers, no padding, no `Vec`.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Queue {
    count: usize,
    /// Ranks that may still make tasks.
    working: usize,
    tasks: [[u32; 2]; MOST],
}

/// A handle, the same at all ranks.
struct Tasks {
    queue: DsmMutex<Queue>,
    changed: Condvar,
}

impl Tasks {
    fn give(&self, dsm: &Dsm, task: Range<u32>) -> Result<()> {
        let mut queue = self.queue.lock(dsm)?;
        let last = queue.count;
        queue.tasks[last] = [task.start, task.end];
        queue.count += 1;
        self.changed.signal(dsm)
    }

    /// This rank has done what it had. Takes a task, or returns `None` if there will be none any more.
    fn take(&self, dsm: &Dsm) -> Result<Option<Range<u32>>> {
        let mut queue = self.queue.lock(dsm)?;
        queue.working -= 1;
        let mut queue = self.changed.wait_while(queue, |queue| queue.count == 0 && queue.working > 0)?;
        if queue.count == 0 {
            self.changed.broadcast(dsm)?;
            return Ok(None);
        }
        queue.working += 1;
        queue.count -= 1;
        let [start, end] = queue.tasks[queue.count];
        Ok(Some(start..end))
    }
}

fn is_prime(number: u32) -> bool {
    number > 1 && (2..).take_while(|i| i * i <= number).all(|i| !number.is_multiple_of(i))
}

fn main() -> Result<()> {
    let mut dsm = Dsm::init()?;
    let first = Queue { count: 1, working: dsm.size(), tasks: [[0, LIMIT]; MOST] };
    let tasks = Tasks { queue: dsm.mutex(first)?, changed: dsm.condvar()? };
    let mut primes = 0;
    while let Some(mut task) = tasks.take(&dsm)? {
        while task.len() > SHORT as usize {
            let middle = task.start.midpoint(task.end);
            tasks.give(&dsm, middle..task.end)?;
            task.end = middle;
        }
        primes += task.filter(|&number| is_prime(number)).count() as u64;
    }

    let primes = dsm.reduce(Combine::Sum, primes)?;
    if dsm.rank() == 0 {
        println!("there are {primes} primes below {LIMIT}");
    }
    dsm.finalize()
}
