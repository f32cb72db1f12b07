//! heap: all ranks insert into one search tree, whose nodes they allocate as they need them.
//!
//! A `SharedBox` is made by one rank, at any time. Its owner parks it, and keeps its handle in another node;
//! whoever adopts it by the handle is its owner then, and frees it by dropping it. A rank that has the mutex
//! may change the tree.
//!
//! For a prime p that is 1 modulo 4, there are (p + 1) / 2 squares modulo p, and their sum is p (p - 1) / 4.

#![expect(clippy::print_stdout, reason = "that is what it is for")]

use scash::{Dsm, Result, SharedBox, SharedHandle};
use std::cmp::Ordering;

const PRIME: u64 = 1009;

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Node {
    less: SharedHandle<Node>,
    more: SharedHandle<Node>,
    value: u64,
}

/// Inserts a value below a link, unless it is there. Returns the new link.
fn insert(dsm: &Dsm, at: SharedHandle<Node>, value: u64) -> Result<SharedHandle<Node>> {
    if at == SharedHandle::NONE {
        let node = Node { less: SharedHandle::NONE, more: SharedHandle::NONE, value };
        return SharedBox::new(dsm, node)?.park(dsm);
    }
    let mut node = at.adopt(dsm)?;
    let here = node.get_mut(dsm);
    match value.cmp(&here.value) {
        Ordering::Less => here.less = insert(dsm, here.less, value)?,
        Ordering::Greater => here.more = insert(dsm, here.more, value)?,
        Ordering::Equal => {}
    }
    node.park(dsm)
}

/// Frees all nodes, and returns what they were.
fn clear(dsm: &Dsm, at: SharedHandle<Node>, values: &mut Vec<u64>) -> Result<()> {
    if at == SharedHandle::NONE {
        return Ok(());
    }
    let node = *at.adopt(dsm)?.get(dsm);
    clear(dsm, node.less, values)?;
    values.push(node.value);
    clear(dsm, node.more, values)
}

fn main() -> Result<()> {
    let mut dsm = Dsm::init()?;
    let root = dsm.mutex(SharedHandle::<Node>::NONE)?;

    for i in (dsm.rank() as u64..PRIME).step_by(dsm.size()) {
        let mut root = root.lock(&dsm)?;
        *root = insert(&dsm, *root, i * i % PRIME)?;
    }

    dsm.barrier()?;
    if dsm.rank() == 0 {
        let mut values = Vec::new();
        clear(&dsm, *root.lock(&dsm)?, &mut values)?;
        println!("{} squares modulo {PRIME} have the sum {}", values.len(), values.iter().sum::<u64>());
    }
    dsm.finalize()
}
