//! Every call of [`Messages`], and what must come of it: what implementations are held to.

use crate::Messages;
use scash_comm::{Error, Result};
use scash_mp::{Collective, Element, Op, Reduction};

/// Makes every call, with all ranks of the job, and compares what comes of it with what must. For at most 100
/// ranks.
///
/// # Errors
/// A call that fails, or does what it should not.
pub fn check(messages: &dyn Messages) -> Result<()> {
    [between_two, unfinished, of_all, of_all_untyped].iter().try_for_each(|calls| calls(messages))
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, right: &T) -> Result<()> {
    if found == right {
        return Ok(());
    }
    Err(Error::Invalid(format!("{what}: {found:?}, and {right:?} is right")))
}

/// A number of ranks, of which there are not so many.
fn byte(number: u32) -> u8 {
    number.to_le_bytes()[0]
}

/// The next rank, and the one before.
fn neighbours(messages: &dyn Messages) -> (u32, u32) {
    let (rank, size) = (messages.rank(), messages.size());
    ((rank + 1) % size, (rank + size - 1) % size)
}

/// Short and long messages go round.
fn between_two(messages: &dyn Messages) -> Result<()> {
    let (next, before) = neighbours(messages);
    for len in [0, 1, 1000, 300_000] {
        let mut got = vec![0u32; len];
        messages.send_receive(1, next, &vec![messages.rank(); len], before, &mut got)?;
        same("sent and received", &got, &vec![before; len])?;
    }
    if messages.rank() == 0 && messages.size() > 1 {
        messages.send(1, 2, &[1.5, 2.5])?;
    }
    if messages.rank() == 1 {
        let mut got = [0.0; 2];
        messages.receive(0, 2, &mut got)?;
        same("received", &got, &[1.5, 2.5])?;
    }
    Ok(())
}

/// Operations that are begun, asked for, and waited for.
fn unfinished(messages: &dyn Messages) -> Result<()> {
    let (next, before) = neighbours(messages);
    let (sent, mut got) = ([byte(messages.rank()); 9], [0u8; 9]);
    // SAFETY: both are waited for before the memory is used or gone, but where the job fails.
    let receive = unsafe { messages.start_receive(before, 3, got.as_mut_ptr(), got.len()) }?;
    // SAFETY: as above.
    let send = unsafe { messages.start_send(next, 3, sent.as_ptr(), sent.len()) }?;
    let mut asked = Some(receive);
    while let Some(request) = asked {
        asked = messages.test(request)?;
    }
    messages.wait(send)?;
    same("begun", &got, &[byte(before); 9])
}

/// Collective operations with types.
fn of_all(messages: &dyn Messages) -> Result<()> {
    let (rank, size) = (messages.rank(), messages.size());
    messages.barrier()?;
    let mut data = [f64::from(rank); 3];
    messages.broadcast(size - 1, &mut data)?;
    same("broadcast", &data, &[f64::from(size - 1); 3])?;
    for (op, right) in [(Op::Sum, size * (size - 1) / 2), (Op::Max, size - 1), (Op::Min, 0)] {
        same("combined", &messages.combined(op, [rank])?, &[right])?;
        same("combined", &messages.combined(op, [f64::from(rank)])?, &[f64::from(right)])?;
        same("combined", &messages.combined(op, [i64::from(rank)])?, &[i64::from(right)])?;
    }
    let mine: Vec<u32> = (0..size).map(|to| rank * 100 + to).collect();
    let mut theirs = vec![0; size as usize];
    messages.all_to_all(&mine, &mut theirs)?;
    same("all to all", &theirs, &(0..size).map(|from| from * 100 + rank).collect())?;
    // Rank r gets r elements from each.
    let mine: Vec<u32> = (0..size).flat_map(|to| vec![rank; to as usize]).collect();
    let mut theirs = vec![0; (size * rank) as usize];
    let to: Vec<usize> = (0..size as usize).collect();
    messages.all_to_all_v(&mine, &to, &mut theirs, &vec![rank as usize; size as usize])?;
    same(
        "all to all, of several lengths",
        &theirs,
        &(0..size).flat_map(|from| vec![from; rank as usize]).collect(),
    )
}

/// The other collective operations, by their values.
fn of_all_untyped(messages: &dyn Messages) -> Result<()> {
    let (rank, size) = (byte(messages.rank()), byte(messages.size()));
    let n = usize::from(size);
    let all: Vec<u8> = (0..size).collect();
    let sums =
        Reduction::new(Element::U8, Op::Sum).ok_or_else(|| Error::Invalid("no sums of bytes".to_owned()))?;
    let play = |collective: &Collective, input: &[u8], len: usize| {
        let mut output = vec![0u8; len];
        // SAFETY: the callers below give memory as long as the operation says.
        unsafe { messages.play(collective, input.as_ptr(), output.as_mut_ptr()) }?;
        Ok::<_, Error>(output)
    };
    let at_root = |right: Vec<u8>| if rank == 0 { right } else { vec![0; right.len()] };
    let gathered = play(&Collective::Gather { root: 0, len: 1 }, &[rank], n)?;
    same("gathered", &gathered, &at_root(all.clone()))?;
    let gathered = play(&Collective::AllGather { lens: vec![1; n] }, &[rank], n)?;
    same("gathered by all", &gathered, &all)?;
    let lens: Vec<usize> = (0..n).collect();
    let total = lens.iter().sum();
    let right: Vec<u8> = all.iter().flat_map(|&from| vec![from; from.into()]).collect();
    let gathered = play(&Collective::AllGather { lens }, &vec![rank; rank.into()], total)?;
    same("gathered by all, of several lengths", &gathered, &right)?;
    let total: u8 = all.iter().sum();
    let reduced = play(&Collective::Reduce { root: 0, count: 2, reduction: sums }, &[rank, 1], 2)?;
    same("reduced", &reduced, &at_root(vec![total, size]))?;
    let counts = vec![1; n];
    let scattered = play(&Collective::ReduceScatter { counts, reduction: sums }, &all, 1)?;
    same("reduced and scattered", &scattered, &vec![rank * size])
}
