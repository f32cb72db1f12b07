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
