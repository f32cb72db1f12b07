//! EP: what [`crate::ep`] computes, each rank some of the batches.

use scash_messages::Messages;
use scash_mp::Op;

use super::{Outcome, close, me, timed};
use crate::Result;
use crate::crew::WorkerNumber;
use crate::ep::{BATCH, Sums, TOLERANCE, batches_of, published, sums};
use crate::npb::Class;

/// Places for checkpoints: as many at all ranks.
const CHECKPOINTS: usize = 8;

/// Runs the kernel, on any number of ranks.
///
/// # Errors
/// A rank is gone.
pub fn run(class: Class, messages: &dyn Messages) -> Result<Outcome> {
    let who = WorkerNumber { index: me(messages), count: messages.size() as usize };
    let batches = batches_of(class);
    let mut total = Sums::default();
    let seconds = timed(messages, || {
        let mut own = Sums::default();
        let part = who.part(batches);
        for index in 0..CHECKPOINTS {
            messages.checkpoint()?;
            for at in (WorkerNumber { index, count: CHECKPOINTS }).part(part.len()) {
                own.iter_mut().zip(sums(part.start + at)).for_each(|(own, sum)| *own += sum);
            }
        }
        total = messages.combined(Op::Sum, own)?;
        Ok(())
    })?;
    let operations = 2.0 * batches as f64 * BATCH as f64;
    Ok(Outcome { seconds, operations, verified: is_published(class, &total) })
}

fn is_published(class: Class, total: &Sums) -> bool {
    total.iter().zip(published(class)).all(|(&sum, published)| close(sum, published, TOLERANCE))
}
