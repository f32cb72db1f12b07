//! Messages beside shared memory.

use super::LEN;
use scash::{Dsm, Error, Result};

/// What a rank sends.
fn words(rank: usize, len: usize) -> Vec<u64> {
    (0..len).map(|i| (rank * 1_000_000 + i) as u64).collect()
}

/// Private and shared memory, short messages and long ones, both ways at once.
pub(crate) fn travel_beside_shared_memory(dsm: &mut Dsm) -> Result<()> {
    let messages = dsm.messages()?;
    let (me, size) = (dsm.rank(), dsm.size());
    let (next, before) = ((me + 1) % size, (me + size - 1) % size);
    let mut field = dsm.partition::<u64>(size * LEN)?;
    for len in [1, 7, LEN] {
        let mut got = vec![0; len];
        let mine = words(me, len);
        messages.scope(|exchange| {
            exchange.receive(Some(before), Some(1), &mut got)?;
            exchange.send(next, 1, &mine)
        })?;
        assert_eq!(got, words(before, len));
        // From shared memory that others have written, into shared memory that this rank has not touched.
        field.parts(dsm).mine[..len].copy_from_slice(&mine);
        field.publish(dsm)?;
        let parts = field.parts(dsm);
        let theirs =
            if me + 1 == size { &parts.before[..len.min(parts.before.len())] } else { &parts.after[..len] };
        let theirs = if size == 1 { &parts.old[..len] } else { theirs };
        let mut copy = vec![0; len];
        messages.scope(|exchange| {
            exchange.receive(None, Some(2), &mut copy)?;
            messages.send(next, 2, theirs)
        })?;
        assert_eq!(copy, words(me, len), "the rank before has read what this one has written");
        messages.send_and_forget(next, 3, theirs)?;
        let status = messages.receive(Some(before), Some(3), &mut *parts.mine)?;
        assert_eq!(
            (status.source as usize, status.len, &parts.mine[..len]),
            (before, 8 * len, &words(me, len)[..])
        );
        let refused = messages.scope(|exchange| exchange.receive(None, None, &mut *parts.mine));
        assert!(matches!(refused, Err(Error::Argument(_))), "{refused:?}");
        let refused = messages.scope(|exchange| exchange.send(next, 4, parts.old));
        assert!(matches!(refused, Err(Error::Argument(_))), "{refused:?}");
        assert!(messages.probe(None, None)?.is_none());
        field.publish(dsm)?;
    }
    let parts = field.parts(dsm);
    let all = &mut parts.mine[..size];
    messages.all_gather(&[me as u64], all)?;
    assert!((0..size).all(|rank| all[rank] == rank as u64));
    let to: Vec<[usize; 2]> = (0..size).map(|rank| [10 * me, rank]).collect();
    let mut from = vec![[0; 2]; size];
    messages.all_to_all(&to, &mut from)?;
    assert!((0..size).all(|rank| from[rank] == [10 * rank, me]));
    all.fill(me as u64 + 5);
    messages.broadcast(size - 1, all)?;
    assert!(all.iter().all(|&x| x == size as u64 + 4));
    let refused = messages.send(size, 0, &[1u8]);
    assert!(matches!(refused, Err(Error::Argument(_))), "{refused:?}");
    messages.barrier()?;
    field.free(dsm)
}

/// Every worker sends to the same one of the next rank.
pub(crate) fn are_sent_by_workers(dsm: &mut Dsm) -> Result<()> {
    let messages = dsm.messages()?;
    dsm.crew(3, |worker| -> Result<()> {
        let size = worker.size();
        let (next, before) = ((worker.rank() + 1) % size, (worker.rank() + size - 1) % size);
        let tag = worker.thread() as u64;
        for round in 0..20 {
            messages.send(next, tag, &words(worker.index() + round, 100))?;
            let got = messages.receive_owned(Some(before), Some(tag))?;
            let sent = words(before * 3 + worker.thread() + round, 100);
            assert_eq!(got.bytes, sent.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<_>>());
            if round % 5 == 0 {
                worker.barrier()?;
            }
        }
        Ok(())
    })
    .map(drop)
}
