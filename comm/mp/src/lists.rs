//! Entries in the order they came, found by key: what matching is made of.
//!
//! A hash table of lists. Entries of one key lie in one list, among others that share it by chance, in the
//! order they were pushed; so the oldest entry of a key is found, and any entry removed, in a time that does
//! not grow with their number. All memory is reused: a queue that has found its size allocates no more.

/// Lists to begin with; a power of two.
const BINS: usize = 16;
/// The end of a list, and of the list of free nodes.
const NONE: u32 = u32::MAX;

/// What an entry is found by. The parts that a pattern leaves open are zero, and `class` says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) class: u8,
    pub(super) context: u16,
    pub(super) source: u32,
    pub(super) tag: u64,
}

impl Key {
    fn hash(self) -> u64 {
        let small = u64::from(self.source) << 24 | u64::from(self.context) << 8 | u64::from(self.class);
        // Two rounds of multiply and fold: neighbouring tags and sources lie in different lists.
        let mixed =
            (self.tag ^ small.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93)
    }
}

/// Names an entry until it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(u32);

#[derive(Clone, Copy, Debug)]
struct Node {
    key: Key,
    value: u64,
    /// The list that it is in.
    bin: u32,
    before: u32,
    /// The next in its list, or the next free node.
    after: u32,
}

#[derive(Clone, Copy, Debug)]
struct Bin {
    first: u32,
    last: u32,
}

const EMPTY: Bin = Bin { first: NONE, last: NONE };

/// Values by key, the oldest first.
#[derive(Debug)]
pub(super) struct Lists {
    bins: Vec<Bin>,
    nodes: Vec<Node>,
    free: u32,
    len: usize,
}

impl Lists {
    pub(super) fn new() -> Self {
        Self { bins: vec![EMPTY; BINS], nodes: Vec::new(), free: NONE, len: 0 }
    }

    /// Number of entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds an entry behind all others of its key.
    pub(super) fn push(&mut self, key: Key, value: u64) -> Entry {
        if self.len == 2 * self.bins.len() {
            self.grow();
        }
        let node = Node { key, value, bin: NONE, before: NONE, after: NONE };
        let at = match self.free {
            NONE => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).expect("fewer entries than memory has bytes for")
            }
            at => {
                self.free = self.nodes[at as usize].after;
                self.nodes[at as usize] = node;
                at
            }
        };
        self.append(at);
        self.len += 1;
        Entry(at)
    }

    /// The oldest entry of a key, and its value.
    pub(super) fn first(&self, key: Key) -> Option<(Entry, u64)> {
        let mut at = self.bins[self.bin(key) as usize].first;
        while at != NONE {
            let node = &self.nodes[at as usize];
            if node.key == key {
                return Some((Entry(at), node.value));
            }
            at = node.after;
        }
        None
    }

    /// Removes an entry, which must not have been removed before.
    pub(super) fn remove(&mut self, entry: Entry) {
        let Node { bin, before, after, .. } = self.nodes[entry.0 as usize];
        let bin = bin as usize;
        match before {
            NONE => self.bins[bin].first = after,
            before => self.nodes[before as usize].after = after,
        }
        match after {
            NONE => self.bins[bin].last = before,
            after => self.nodes[after as usize].before = before,
        }
        self.nodes[entry.0 as usize].after = self.free;
        self.free = entry.0;
        self.len -= 1;
    }

    fn bin(&self, key: Key) -> u32 {
        // The remainder is less than the number of bins, and there are fewer of them than entries can be
        // numbered.
        #[allow(clippy::cast_possible_truncation)]
        let bin = (key.hash() & (self.bins.len() as u64 - 1)) as u32;
        bin
    }

    fn append(&mut self, at: u32) {
        let number = self.bin(self.nodes[at as usize].key);
        let bin = number as usize;
        let last = self.bins[bin].last;
        let node = &mut self.nodes[at as usize];
        (node.bin, node.before, node.after) = (number, last, NONE);
        match last {
            NONE => self.bins[bin].first = at,
            last => self.nodes[last as usize].after = at,
        }
        self.bins[bin].last = at;
    }

    /// Twice as many lists. Each is taken apart from its head, so entries of one key keep their order.
    fn grow(&mut self) {
        let twice = vec![EMPTY; 2 * self.bins.len()];
        for Bin { first, .. } in std::mem::replace(&mut self.bins, twice) {
            let mut at = first;
            while at != NONE {
                let after = self.nodes[at as usize].after;
                self.append(at);
                at = after;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(n: u8) -> Key {
        Key { class: n & 3, context: 0, source: u32::from(n >> 2), tag: u64::from(n) }
    }

    proptest! {
        #[test]
        fn the_oldest_entry_of_a_key_is_found_whatever_came_and_went(
            steps in prop::collection::vec((any::<bool>(), 0..24u8), 0..400),
        ) {
            let mut lists = Lists::new();
            let mut model: Vec<(u8, u64)> = Vec::new();
            for (number, (adds, k)) in (0..).zip(steps) {
                let oldest = model.iter().position(|&(theirs, _)| theirs == k);
                let found = lists.first(key(k));
                prop_assert_eq!(found.map(|(_, value)| value), oldest.map(|at| model[at].1));
                if adds {
                    lists.push(key(k), number);
                    model.push((k, number));
                } else if let (Some(at), Some((entry, _))) = (oldest, found) {
                    lists.remove(entry);
                    model.remove(at);
                }
                prop_assert_eq!(lists.len(), model.len());
            }
        }
    }

    #[test]
    fn an_entry_from_the_middle_can_be_removed() {
        let mut lists = Lists::new();
        let entries: Vec<Entry> = (0..5).map(|value| lists.push(key(1), value)).collect();
        for (removed, first) in [(2, 0), (0, 1), (4, 1), (1, 3)] {
            lists.remove(entries[removed]);
            assert_eq!(lists.first(key(1)).map(|(_, value)| value), Some(first));
        }
    }

    #[test]
    fn ten_thousand_tags_are_spread_over_the_lists() {
        let mut lists = Lists::new();
        for tag in 0..10_000 {
            lists.push(Key { class: 0, context: 0, source: 3, tag }, tag);
        }
        let longest = (lists.bins.iter())
            .map(|bin| {
                std::iter::successors(Some(bin.first), |&at| Some(lists.nodes.get(at as usize)?.after))
                    .count()
            })
            .max();
        assert!(longest < Some(14), "{longest:?}");
    }
}
