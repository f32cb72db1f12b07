//! list: all ranks insert into one sorted list, whose nodes name each other.
//!
//! A node names the next one by its index in shared memory, which means the same on every rank. (So do raw
//! pointers, but following them is unsafe.) Nodes come from an array that was allocated before, because
//! `alloc` is a call of all ranks together (`SharedBox::new` is not: see heap.rs). A rank that has
//! the mutex may change the list.
//!
//! For a prime p that is 1 modulo 4, there are (p + 1) / 2 squares modulo p, and their sum is p (p - 1) / 4.

#![expect(clippy::print_stdout, reason = "that is what it is for")]

use scash::{Dsm, Result, SharedSlice};

const PRIME: usize = 101;

/// Node 0 is the head of the list, and has no value. Shared memory begins as zeros: an empty list.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Node {
    value: usize,
    /// 0 at the end of the list.
    next: usize,
}

/// Inserts a value in its place, unless it is there. `used` is the number of nodes in use.
fn insert(dsm: &Dsm, nodes: SharedSlice<Node>, used: &mut usize, value: usize) {
    let mut before = 0;
    let mut at = nodes.get(dsm, before);
    while at.next != 0 {
        let next = nodes.get(dsm, at.next);
        if next.value == value {
            return;
        }
        if next.value > value {
            break;
        }
        (before, at) = (at.next, next);
    }
    nodes.set(dsm, *used, Node { value, next: at.next });
    nodes.set(dsm, before, Node { next: *used, ..at });
    *used += 1;
}

fn main() -> Result<()> {
    let mut dsm = Dsm::init()?;
    let nodes = dsm.alloc::<Node>(PRIME + 1)?;
    let used = dsm.mutex(1)?; // the head

    for i in (dsm.rank()..PRIME).step_by(dsm.size()) {
        insert(&dsm, nodes, &mut *used.lock(&dsm)?, i * i % PRIME);
    }

    dsm.barrier()?;
    if dsm.rank() == 0 {
        let follow = |node: &Node| (node.next != 0).then(|| nodes.get(&dsm, node.next));
        let list = std::iter::successors(Some(nodes.get(&dsm, 0)), follow).skip(1);
        let values: Vec<_> = list.map(|node| node.value).collect();
        let order = if values.is_sorted() { "in order" } else { "not in order" };
        let (count, sum) = (values.len(), values.iter().sum::<usize>());
        println!("{count} squares modulo {PRIME}, {order}, with the sum {sum}");
    }
    dsm.finalize()
}
