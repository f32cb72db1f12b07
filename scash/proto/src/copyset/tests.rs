use super::CopyMode::{Invalidate, Update};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn members(set: &Copyset) -> Vec<u32> {
    set.iter().map(|(rank, _)| rank).collect()
}

fn is_inline(set: &Copyset) -> bool {
    matches!(set.0, Repr::Inline(_))
}

#[test]
fn a_new_set_is_empty() {
    let set = Copyset::default();
    assert!(set.is_empty() && set.iter().next().is_none() && !set.contains(0));
}

#[test]
fn members_come_out_in_ascending_order_whatever_order_they_came_in() {
    let set: Copyset = [9, 2, 700, 0, u32::MAX, 64, 65].map(|rank| (rank, Update)).into_iter().collect();
    assert_eq!(members(&set), [0, 2, 9, 64, 65, 700, u32::MAX]);
}

#[test]
fn inserting_a_member_again_changes_its_mode_only() {
    let mut set = Copyset::new();
    assert_eq!(set.insert(3, Invalidate), None);
    assert_eq!(set.insert(3, Update), Some(Invalidate));
    assert_eq!((set.len(), set.get(3), set.get(4)), (1, Some(Update), None));
}

#[test]
fn a_member_that_moves_keeps_its_mode() {
    let mut set: Copyset = [(10, Update), (20, Invalidate), (30, Update)].into_iter().collect();
    set.insert(5, Invalidate);
    set.insert(25, Invalidate);
    set.remove(20);
    assert_eq!(
        set.iter().collect::<Vec<_>>(),
        [(5, Invalidate), (10, Update), (25, Invalidate), (30, Update)]
    );
}

#[test]
fn a_set_uses_the_heap_only_beyond_five_members_and_returns_from_it() {
    let mut set: Copyset = (0..5).map(|rank| (rank * 100, Update)).collect();
    assert!(is_inline(&set));
    set.insert(77, Invalidate);
    assert!(!is_inline(&set));
    assert_eq!(set.remove(0), Some(Update));
    assert!(!is_inline(&set), "one member less is no reason to move back");
    for rank in [100, 200, 300] {
        set.remove(rank);
    }
    assert!(is_inline(&set));
    assert_eq!(set.iter().collect::<Vec<_>>(), [(77, Invalidate), (400, Update)]);
}

#[test]
fn a_thousand_ranks_fit() {
    let set: Copyset = (0..1000).rev().map(|rank| (rank, CopyMode::from_bit(rank % 3 == 0))).collect();
    assert_eq!(set.len(), 1000);
    assert!(set.iter().eq((0..1000).map(|rank| (rank, CopyMode::from_bit(rank % 3 == 0)))));
}

#[test]
fn a_large_set_takes_twelve_bytes_for_32_neighbouring_ranks() {
    let set = |ranks: u32| (0..ranks).map(|rank| (rank, Update)).collect::<Copyset>();
    assert_eq!(set(5).bytes(), 24);
    assert_eq!(set(1024).bytes() - set(512).bytes(), 512 / 32 * 12);
}

#[test]
fn equality_does_not_depend_on_the_form() {
    let small: Copyset = [(1, Update), (2, Update), (3, Invalidate)].into_iter().collect();
    let mut large: Copyset = (1..7).map(|rank| (rank, Update)).collect();
    large.insert(3, Invalidate);
    assert_ne!(small, large);
    for rank in 4..7 {
        large.remove(rank);
    }
    assert!(is_inline(&small) && !is_inline(&large));
    assert_eq!(small, large);
    large.insert(3, Update);
    assert_ne!(small, large, "modes count");
    large.clear();
    assert_eq!(large, Copyset::new());
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u32, CopyMode),
    Remove(u32),
}

/// Ranks that collide often, lie in one chunk, in many chunks, or at the very end.
fn rank() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..8, 0u32..100, 0u32..5000, u32::MAX - 40..=u32::MAX]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (rank(), any::<bool>()).prop_map(|(rank, update)| Op::Insert(rank, CopyMode::from_bit(update))),
        rank().prop_map(Op::Remove),
    ]
}

proptest! {
    #[test]
    fn a_copyset_behaves_as_an_ordered_map(ops in prop::collection::vec(op(), 0..200)) {
        let (mut set, mut model) = (Copyset::new(), BTreeMap::new());
        for op in ops {
            match op {
                Op::Insert(rank, mode) => prop_assert_eq!(set.insert(rank, mode), model.insert(rank, mode)),
                Op::Remove(rank) => prop_assert_eq!(set.remove(rank), model.remove(&rank)),
            }
            prop_assert_eq!(set.len(), model.len());
            prop_assert_eq!(set.is_empty(), model.is_empty());
            prop_assert!(set.iter().eq(model.iter().map(|(&rank, &mode)| (rank, mode))));
            prop_assert!(model.iter().all(|(&rank, &mode)| set.get(rank) == Some(mode)));
            prop_assert!((0..10).all(|rank| set.contains(rank) == model.contains_key(&rank)));
        }
        let again: Copyset = model.into_iter().collect();
        prop_assert_eq!(set, again);
    }
}
