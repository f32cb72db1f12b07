//! A breadth-first search through all states of a world.

use crate::Setup;
use crate::world::{Action, Phase, World, Wrong};
use std::collections::{HashSet, VecDeque};
use std::hash::{Hash, Hasher};

/// What a search has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) states: usize,
    /// Ends of the job: with its result, and with a rank lost after more hosts died than the job has
    /// replicas.
    pub(crate) over: usize,
    pub(crate) lost: usize,
}

/// How a state was reached: from which one, by what.
type Way = (usize, Option<Action>);

/// Visits all states. On something wrong: what, and the shortest way there.
pub(crate) fn search(setup: &Setup) -> Result<Seen, Wrong> {
    let mut seen = Seen::default();
    let mut known = HashSet::new();
    let mut ways: Vec<Way> = vec![(0, None)];
    let mut todo = VecDeque::from([(0, World::new(setup))]);
    while let Some((number, mut world)) = todo.pop_front() {
        seen.states += 1;
        if world.crashes_left == 0 {
            to_the_end(&mut world, setup).map_err(|wrong| story(&wrong, &ways, number))?;
        }
        match world.phase {
            Phase::Over => seen.over += 1,
            Phase::Lost => seen.lost += 1,
            _ => {}
        }
        let actions = world.actions(setup);
        if actions.is_empty() && !matches!(world.phase, Phase::Over | Phase::Lost) {
            return Err(story("nobody can go on", &ways, number));
        }
        for action in actions {
            let mut next = world.clone();
            let done = next.act(action, setup);
            done.map_err(|wrong| format!("{} then {action:?}", story(&wrong, &ways, number)))?;
            if known.insert(digest(&next)) {
                ways.push((number, Some(action)));
                todo.push_back((ways.len() - 1, next));
            }
        }
    }
    Ok(seen)
}

/// When nobody dies any more, one order of steps is as good as another.
fn to_the_end(world: &mut World, setup: &Setup) -> Result<(), Wrong> {
    world.left_out_left = 0;
    while let Some(action) = world.actions(setup).first() {
        world.act(*action, setup)?;
    }
    Ok(())
}

/// 128 bits for a state: that two of some millions share them is out of the question.
#[derive(Default)]
struct Digest(u128);

/// An odd number without a pattern: digits of pi.
const FACTOR: u128 = 0x2438_6a88_85a3_08d3_1319_8a2e_0370_7345;

impl Digest {
    fn mix(&mut self, value: u64) {
        let mixed = (self.0 ^ u128::from(value)).wrapping_mul(FACTOR);
        self.0 = mixed ^ mixed.rotate_right(64);
    }
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    fn finish(&self) -> u64 {
        u64::try_from(self.0 >> 64).unwrap_or_default()
    }
}

fn digest(world: &World) -> u128 {
    let mut digest = Digest::default();
    world.hash(&mut digest);
    digest.0
}

fn story(wrong: &str, ways: &[Way], mut number: usize) -> String {
    let mut actions = Vec::new();
    while let (before, Some(action)) = ways[number] {
        actions.push(format!("{action:?}"));
        number = before;
    }
    actions.reverse();
    format!("{wrong}: {}", actions.join(", "))
}
