//! Semaphores that the workers of a program share, in each mode.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use scash::runtime::Runtime;

use crate::{Error, Result};

/// A count that workers take from, and wait for while it is 0.
pub struct Semaphore(SemaphoreKind);

enum SemaphoreKind {
    Process(Arc<Count>),
    Job { runtime: &'static Runtime, number: u32 },
}

#[derive(Default)]
struct Count {
    count: Mutex<usize>,
    more: Condvar,
}

impl Semaphore {
    /// A semaphore of this process.
    pub fn of_process() -> Self {
        Self(SemaphoreKind::Process(Arc::default()))
    }

    /// The semaphore of that number, which the job has made.
    pub fn of_job(runtime: &'static Runtime, number: u32) -> Self {
        Self(SemaphoreKind::Job { runtime, number })
    }

    /// Takes one from the count, when there is one. What was written before it was added is seen.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn take(&self) -> Result<()> {
        match &self.0 {
            SemaphoreKind::Process(semaphore) => {
                let count = semaphore.count.lock().unwrap_or_else(PoisonError::into_inner);
                let wait = semaphore.more.wait_while(count, |count| *count == 0);
                *wait.unwrap_or_else(PoisonError::into_inner) -= 1;
            }
            SemaphoreKind::Job { runtime, number } => runtime.semaphore_wait(*number)?,
        }
        Ok(())
    }

    /// Adds to the count, and lets as many workers go on.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn add(&self, more: usize) -> Result<()> {
        match &self.0 {
            SemaphoreKind::Process(semaphore) => {
                *semaphore.count.lock().unwrap_or_else(PoisonError::into_inner) += more;
                semaphore.more.notify_all();
            }
            SemaphoreKind::Job { .. } if more == 0 => {}
            SemaphoreKind::Job { runtime, number } => {
                runtime.semaphore_post(*number, u32::try_from(more).map_err(|_| Error::TooLarge)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::tests::within_a_minute;
    use crate::crew::{Sequential, run_crew};

    #[test]
    fn as_many_go_on_as_were_added() {
        within_a_minute(|| {
            let semaphore = Semaphore::of_process();
            run_crew(&Sequential, 4, false, |worker| {
                if worker.who().index == 0 {
                    semaphore.add(2)?;
                    semaphore.add(0)?;
                    semaphore.add(98)?;
                }
                (0..25).try_for_each(|_| semaphore.take())
            })
            .unwrap();
        });
    }
}
