//! Structures that all ranks build of single objects: a list, a tree, and queues from rank to rank.

use super::{Numbers, at, fill, has_not_grown, length, look, untyped};
use scash::{Dsm, Result};

/// An element of the list or the tree. Zeros are an empty one.
#[repr(C)]
struct Node {
    value: usize,
    owner: usize,
    links: [*mut Node; 2],
}

/// What a thread that has the lock sees.
struct Anchor(*mut *mut Node);

impl Anchor {
    fn new(dsm: &mut Dsm) -> Result<Anchor> {
        Ok(Anchor(dsm.alloc::<usize>(1)?.as_ptr().cast()))
    }

    fn get(&self) -> *mut Node {
        // SAFETY: shared memory that is allocated, and this thread has the lock.
        unsafe { self.0.read() }
    }

    fn set(&self, node: *mut Node) {
        // SAFETY: as above.
        unsafe { self.0.write(node) };
    }
}

/// The node at a pointer, for a thread that has the lock.
fn node<'a>(at: *mut Node) -> &'a mut Node {
    // SAFETY: a node of the structure, and this thread has the lock; it has one reference at a time.
    unsafe { &mut *at }
}

/// All ranks insert into one list under a lock, and each frees what the next one has inserted.
pub(crate) fn list(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let (it, me, size) = (untyped(dsm), dsm.rank(), dsm.size());
    let (first, lock) = (Anchor::new(dsm)?, it.make_locks(1)?);
    for round in 0..4 {
        for number in 0..rounds {
            it.lock(lock)?;
            let new: *mut Node = it.malloc(size_of::<Node>())?.cast();
            // SAFETY: room for a node, which nobody else knows of.
            unsafe {
                new.write(Node {
                    value: number * size + me,
                    owner: round * size + me,
                    links: [first.get(); 2],
                })
            };
            first.set(new);
            it.unlock(lock)?;
        }
        if round % 2 == 0 {
            dsm.barrier()?;
        }
        let (theirs, mut found) = ((me + 1) % size, Vec::new());
        while found.len() < rounds {
            it.lock(lock)?;
            let mut before = std::ptr::null_mut::<Node>();
            let mut here = first.get();
            while !here.is_null() {
                let Node { value, owner, links } = *node(here);
                if owner == round * size + theirs {
                    if before.is_null() {
                        first.set(links[0])
                    } else {
                        node(before).links[0] = links[0]
                    }
                    found.push(value);
                    // It is as large as others are: the next one may lie there.
                    *node(here) = Node { value: 0, owner: 0, links: [std::ptr::null_mut(); 2] };
                    it.free_object(here.cast())?;
                } else {
                    before = here;
                }
                here = links[0];
            }
            it.unlock(lock)?;
        }
        found.sort_unstable();
        assert!(found.into_iter().eq((0..rounds).map(|number| number * size + theirs)));
    }
    dsm.barrier()?;
    assert!(first.get().is_null(), "something is left");
    has_not_grown(it, u32::try_from(rounds / 50 + 20).expect("few"))
}

/// All ranks insert into and remove from one search tree under a lock.
pub(crate) fn tree(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let it = untyped(dsm);
    let (root, lock) = (Anchor::new(dsm)?, it.make_locks(1)?);
    let mut numbers = Numbers(dsm.rank() as u64 + 1);
    for turn in 0..rounds {
        let value = numbers.below(500) + 1;
        it.lock(lock)?;
        let place = find(root.0, value);
        // SAFETY: a link of the tree, and this thread has the lock.
        let there = unsafe { place.read() };
        if there.is_null() {
            let new: *mut Node = it.malloc(size_of::<Node>())?.cast();
            // SAFETY: room for a node, which nobody else knows of.
            unsafe { new.write(Node { value, owner: turn, links: [std::ptr::null_mut(); 2] }) };
            // SAFETY: as above.
            unsafe { place.write(new) };
        } else {
            remove(place);
            it.free_object(there.cast())?;
        }
        if turn % 64 == 0 {
            is_sorted(root.get(), 1, 500);
        }
        it.unlock(lock)?;
    }
    dsm.barrier()?;
    is_sorted(root.get(), 1, 500);
    has_not_grown(it, 30)
}

/// The link that leads to a value, or would.
fn find(mut place: *mut *mut Node, value: usize) -> *mut *mut Node {
    loop {
        // SAFETY: a link of the tree, and this thread has the lock.
        let here = unsafe { place.read() };
        if here.is_null() || node(here).value == value {
            return place;
        }
        place = &raw mut node(here).links[usize::from(value > node(here).value)];
    }
}

/// Takes the node out that a link leads to.
fn remove(place: *mut *mut Node) {
    // SAFETY: a link of the tree, and this thread has the lock.
    let gone = unsafe { place.read() };
    let [less, more] = node(gone).links;
    let instead = if less.is_null() {
        more
    } else {
        // The greatest of the lesser ones takes what is greater.
        let mut last = less;
        while !node(last).links[1].is_null() {
            last = node(last).links[1];
        }
        node(last).links[1] = more;
        less
    };
    // SAFETY: as above.
    unsafe { place.write(instead) };
}

fn is_sorted(here: *mut Node, least: usize, most: usize) {
    if !here.is_null() {
        let Node { value, links: [less, more], .. } = *node(here);
        assert!((least..=most).contains(&value), "{value} is not from {least} to {most}");
        is_sorted(less, least, value - 1);
        is_sorted(more, value + 1, most);
    }
}

/// Each rank makes objects for the next one, which frees them: with a lock for each queue, and no barrier.
pub(crate) fn circle(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    const PLACES: usize = 31;
    let (it, me, size) = (untyped(dsm), dsm.rank(), dsm.size());
    // How many are in it, and then where they are.
    let queues = dsm.alloc::<usize>(size * (PLACES + 1))?;
    let locks = it.make_locks(u32::try_from(size).expect("few ranks"))?;
    let number = |rank: usize| locks + u32::try_from(rank).expect("few ranks");
    let mut numbers = Numbers(me as u64 + 1);
    let (mut made, mut taken) = (0, 0);
    while made < rounds || taken < rounds {
        let next = (me + 1) % size;
        it.lock(number(next))?;
        let count = queues.get(dsm, next * (PLACES + 1));
        if count < PLACES && made < rounds {
            let len = length(&mut numbers);
            let new = it.malloc(len)?;
            fill(new, len, made);
            queues.set(dsm, next * (PLACES + 1) + 1 + count, new as usize);
            queues.set(dsm, next * (PLACES + 1), count + 1);
            made += 1;
        }
        it.unlock(number(next))?;
        it.lock(number(me))?;
        let count = queues.get(dsm, me * (PLACES + 1));
        let there: Vec<usize> = (1..=count).map(|index| queues.get(dsm, me * (PLACES + 1) + index)).collect();
        queues.set(dsm, me * (PLACES + 1), 0);
        it.unlock(number(me))?;
        for object in there.into_iter().map(at) {
            let len = look(object);
            // Whoever gets the place next must not find this.
            fill(object, len, taken + 1);
            it.free_object(object)?;
            taken += 1;
        }
    }
    dsm.barrier()?;
    has_not_grown(it, 700)
}
