//! Boxes: values with one owner, whichever rank it is.

use super::{has_not_grown, untyped};
use scash::{Dsm, Error, Result, SharedBox, SharedHandle};

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Node {
    numbers: [u64; 9],
    below: SharedHandle<Node>,
}

/// All ranks push to and pop from one stack, under a lock or, in intervals of their own, by barriers.
pub(crate) fn stack(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let top = dsm.mutex(SharedHandle::<Node>::NONE)?;
    let sums = dsm.alloc::<u64>(dsm.size())?;
    let (mut pushed, mut popped) = (0, 0);
    for round in 0..rounds {
        let mut top = top.lock(dsm)?;
        if round * 7 % 3 > 0 {
            let number = (round * dsm.size() + dsm.rank()) as u64;
            let mut node = SharedBox::new(dsm, Node { numbers: [number; 9], below: SharedHandle::NONE })?;
            node.get_mut(dsm).below = *top;
            *top = node.park(dsm)?;
            pushed += number;
        } else if *top != SharedHandle::NONE {
            let node = top.adopt(dsm)?;
            assert!(top.adopt(dsm).is_err(), "a second owner");
            let Node { numbers, below } = *node.get(dsm);
            assert_eq!(numbers, [numbers[0]; 9]);
            *top = below;
            popped += numbers[0];
        }
    }
    dsm.barrier()?;
    if dsm.rank() == 0 {
        let mut top = top.lock(dsm)?;
        while *top != SharedHandle::NONE {
            let node = top.adopt(dsm)?;
            *top = node.get(dsm).below;
            popped += node.get(dsm).numbers[0];
        }
    }
    sums.set(dsm, dsm.rank(), pushed.wrapping_sub(popped));
    dsm.barrier()?;
    let left = (0..dsm.size()).fold(0u64, |sum, rank| sum.wrapping_add(sums.get(dsm, rank)));
    assert_eq!(left, 0, "what was pushed was popped");
    has_not_grown(untyped(dsm), u32::try_from(rounds / 20 + 20).expect("few"))
}

/// Boxes that cannot be adopted.
pub(crate) fn refusals(dsm: &mut Dsm, _: usize) -> Result<()> {
    let places = dsm.alloc::<SharedHandle<u64>>(dsm.size())?;
    let mine = SharedBox::new(dsm, 7u64)?;
    let owned: SharedHandle<u64> = bytemuck::cast(mine.as_ptr() as u64);
    let refused = |told: Result<SharedBox<u64>>, words: &str| {
        let Err(Error::Argument(text)) = told else { panic!("nothing was refused: {words}") };
        assert!(text.contains(words), "{text}");
    };
    refused(owned.adopt(dsm), "has an owner");
    refused(SharedHandle::NONE.adopt(dsm), "is not in the heap");
    let beside: SharedHandle<u64> = bytemuck::cast(mine.as_ptr() as u64 + 16);
    refused(beside.adopt(dsm), "lies inside the object");
    let handle = mine.park(dsm)?;
    assert!(bytemuck::cast::<_, SharedHandle<[u64; 100]>>(handle).adopt(dsm).is_err(), "a larger type");
    places.set(dsm, dsm.rank(), handle);
    dsm.barrier()?;
    // All ranks try, and one gets each.
    let got: Vec<_> = (0..dsm.size()).filter_map(|rank| places.get(dsm, rank).adopt(dsm).ok()).collect();
    assert!(got.iter().all(|it| *it.get(dsm) == 7));
    let count = dsm.reduce(scash::Combine::Sum, got.len() as u64)?;
    assert_eq!(count, dsm.size() as u64);
    drop(got);
    dsm.barrier()?;
    refused(places.get(dsm, 0).adopt(dsm), "no object of the heap begins at");
    Ok(())
}

/// Boxes that change hands by barriers alone, or are taken back by the rank that has parked them. Their page
/// is at home at rank 0, which writes beside them and comes to the barrier after others have taken theirs.
pub(crate) fn by_barriers(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let (rank, size, shares) = (dsm.rank(), dsm.size(), untyped(dsm).shares_frames());
    let wait = |ms| std::thread::sleep(std::time::Duration::from_millis(ms));
    let places = dsm.alloc::<[SharedHandle<[u64; 8]>; 2]>(size)?;
    let mut beside = SharedBox::new(dsm, [0u64; 8])?;
    if rank == 0 {
        for other in 0..size {
            let [now, later] = [0, 9].map(|value| SharedBox::new(dsm, [value; 8])?.park(dsm));
            places.set(dsm, other, [now?, later?]);
        }
    }
    for round in 1..=rounds {
        dsm.barrier()?;
        let number = round as u64;
        let [now, later] = places.get(dsm, (rank + round) % size);
        let mut it = now.adopt(dsm)?;
        assert_eq!(*it.get(dsm), [2 * (number - 1); 8], "round {round}");
        *it.get_mut(dsm) = [2 * number - 1; 8];
        beside.get_mut(dsm)[0] = number;
        wait(if rank == 0 { 3 } else { 1 });
        let mut it = it.park(dsm)?.adopt(dsm)?;
        assert_eq!(*it.get(dsm), [2 * number - 1; 8], "round {round}");
        *it.get_mut(dsm) = [2 * number; 8];
        wait(if rank == 0 { 0 } else { 5 });
        it.park(dsm)?;
        // All have parked theirs, and no barrier has passed.
        dsm.reduce(scash::Combine::Sum, 0u64)?;
        let [others, _] = places.get(dsm, (rank + round + 1) % size);
        match others.adopt(dsm) {
            Ok(it) => {
                assert!(shares || size == 1, "a box of this interval");
                it.park(dsm)?;
            }
            Err(Error::Argument(text)) => assert!(text.contains("after the next one"), "{text}"),
            Err(error) => return Err(error),
        }
        // What nobody has parked since some barriers ago can be adopted, though others of its page are new.
        if round % 4 == 3 {
            let later = later.adopt(dsm)?;
            assert_eq!(*later.get(dsm), [9; 8]);
            later.park(dsm)?;
        }
    }
    dsm.barrier()?;
    let left = places.get(dsm, rank).map(|handle| handle.adopt(dsm));
    for (it, want) in left.into_iter().zip([2 * rounds as u64, 9]) {
        assert_eq!(*it?.get(dsm), [want; 8]);
    }
    Ok(())
}
