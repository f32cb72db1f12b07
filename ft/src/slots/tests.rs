use super::*;
use crate::random::SplitMix64;
use std::collections::BTreeSet;

/// The same with plain sets.
#[derive(Default)]
struct Model {
    committed: BTreeSet<u32>,
    staged: BTreeSet<u32>,
}

impl Model {
    fn take(&mut self, count: u32) -> Option<u32> {
        let free = |slot: &u32| !self.committed.contains(slot) && !self.staged.contains(slot);
        let slot = (0..count).find(free)?;
        self.staged.insert(slot);
        Some(slot)
    }

    fn keep(&mut self, slot: u32) -> bool {
        self.committed.contains(&slot) && self.staged.insert(slot)
    }
}

/// One random history of a store with `count` slots, beside the model's.
fn run(seed: u64, count: u32) {
    let mut random = SplitMix64::of(seed, &[]);
    let (mut a, mut b) = (vec![0; words(count)], vec![0; words(count)]);
    let mut slots = Slots::over(&mut a, &mut b, count, 0).unwrap();
    let mut model = Model::default();
    for _ in 0..500 {
        match random.below(40) {
            0 => {
                slots.commit();
                model.committed = std::mem::take(&mut model.staged);
            }
            1 => {
                slots.abandon();
                model.staged.clear();
            }
            2 => {
                let some: BTreeSet<u32> = (0..count).filter(|_| random.below(3) == 0).collect();
                slots.load(some.iter().copied()).unwrap();
                model = Model { committed: some, staged: BTreeSet::new() };
            }
            3..=25 => assert_eq!(slots.take(), model.take(count), "seed {seed}"),
            _ => {
                let slot = u32::try_from(random.below(u64::from(count) + 70)).unwrap();
                assert_eq!(slots.keep(slot).is_ok(), model.keep(slot), "seed {seed}");
            }
        }
        let used = model.committed.union(&model.staged).count();
        assert_eq!(slots.used() as usize, used, "seed {seed}");
    }
}

#[test]
fn slots_behave_as_two_plain_sets_do() {
    for seed in 0..300 {
        for count in [1, 2, 63, 64, 65, 200] {
            run(seed, count);
        }
    }
}

#[test]
fn a_slot_of_the_committed_epoch_is_taken_only_after_the_next_commit() {
    let (mut a, mut b) = ([0], [0]);
    let mut slots = Slots::over(&mut a, &mut b, 3, 0).unwrap();
    assert_eq!((slots.take(), slots.take()), (Some(0), Some(1)));
    slots.commit();
    slots.keep(1).unwrap();
    assert_eq!((slots.take(), slots.take()), (Some(2), None), "slot 0 is of the committed epoch");
    slots.commit();
    assert_eq!(slots.take(), Some(0));
}

#[test]
fn what_the_bit_maps_say_outlives_the_value() {
    let (mut a, mut b) = ([0], [0]);
    Slots::over(&mut a, &mut b, 64, 0).unwrap().take();
    assert_eq!(Slots::over(&mut a, &mut b, 64, 1).unwrap().take(), Some(1));
}

#[test]
fn an_index_that_names_wrong_slots_is_refused() {
    let (mut a, mut b) = ([0], [0]);
    assert!(Slots::over(&mut a, &mut b, 65, 0).is_none());
    let mut slots = Slots::over(&mut a, &mut b, 10, 0).unwrap();
    assert_eq!(slots.load([1, 2, 1]), Err(WrongSlot(1)));
    assert_eq!(slots.load([10]), Err(WrongSlot(10)));
    assert_eq!(slots.load([u32::MAX]), Err(WrongSlot(u32::MAX)));
    slots.load([9]).unwrap();
    assert_eq!(slots.keep(8), Err(WrongSlot(8)));
    assert_eq!(slots.keep(9), Ok(()));
    assert_eq!(slots.keep(9), Err(WrongSlot(9)));
}
