//! The expected queue (receives that wait for their message) and the unexpected queue (messages that wait for
//! their receive), after MPI/O2G: both are matched the moment something comes, by whoever makes progress.
//!
//! A message has a context, a source and a tag; a receive may leave source and tag open. Of several receives
//! that a message fits, the one posted first gets it; of several messages that a receive fits, the one that
//! came first. Messages of one source come in the order they were sent, so two that fit the same receives are
//! received in that order.

use super::lists::{Entry, Key, Lists};

/// What a message is matched by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    /// Separates what may not be mixed up: messages of the program, and those of collective operations.
    pub(super) context: u16,
    /// The sender's rank.
    pub(super) source: u32,
    /// The sender's word for it.
    pub(super) tag: u64,
}

/// What a receive accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) context: u16,
    /// `None`: from any rank.
    pub(super) source: Option<u32>,
    /// `None`: with any tag.
    pub(super) tag: Option<u64>,
}

/// Ways to leave something open, from nothing to both.
const CLASSES: u8 = 4;
const SOURCE_OPEN: u8 = 1;
const TAG_OPEN: u8 = 2;

impl Pattern {
    fn key(self) -> Key {
        let class = if self.source.is_none() { SOURCE_OPEN } else { 0 }
            | if self.tag.is_none() { TAG_OPEN } else { 0 };
        Key { class, context: self.context, source: self.source.unwrap_or(0), tag: self.tag.unwrap_or(0) }
    }
}

impl Envelope {
    /// The key of the patterns of a class that accept this.
    fn key(self, class: u8) -> Key {
        Key {
            class,
            context: self.context,
            source: if class & SOURCE_OPEN == 0 { self.source } else { 0 },
            tag: if class & TAG_OPEN == 0 { self.tag } else { 0 },
        }
    }
}

/// Receives that wait for their message.
#[derive(Debug)]
pub(super) struct PostedQueue {
    lists: Lists,
    /// Of each class, how many there are: classes without any are not searched.
    count: [u32; CLASSES as usize],
    posted: Vec<Posted>,
    free: Vec<u32>,
    /// Number of the next receive.
    next: u64,
}

/// A receive in the queue.
#[derive(Clone, Copy, Debug)]
struct Posted {
    /// Whose receive it is.
    request: u64,
    /// When it was posted.
    number: u64,
    entry: Entry,
    class: u8,
}

/// Names a receive in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u32);

impl PostedQueue {
    pub(super) fn new() -> Self {
        let lists = Lists::new();
        Self { lists, count: [0; CLASSES as usize], posted: Vec::new(), free: Vec::new(), next: 0 }
    }

    /// Number of receives.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lists.len()
    }

    /// Appends a receive.
    pub(super) fn post(&mut self, pattern: Pattern, request: u64) -> Slot {
        let at =
            self.free.pop().unwrap_or_else(|| u32::try_from(self.posted.len()).expect("receives fit memory"));
        let key = pattern.key();
        let entry = self.lists.push(key, u64::from(at));
        let posted = Posted { request, number: self.next, entry, class: key.class };
        match self.posted.get_mut(at as usize) {
            Some(place) => *place = posted,
            None => self.posted.push(posted),
        }
        self.next += 1;
        self.count[usize::from(key.class)] += 1;
        Slot(at)
    }

    /// Takes the receive that gets this message.
    pub(super) fn take(&mut self, message: Envelope) -> Option<u64> {
        let mut oldest: Option<(u64, u32)> = None;
        for class in (0..CLASSES).filter(|&class| self.count[usize::from(class)] > 0) {
            // The values of these lists are indices that fit.
            #[allow(clippy::cast_possible_truncation)]
            let Some(at) = self.lists.first(message.key(class)).map(|(_, at)| at as u32) else { continue };
            let number = self.posted[at as usize].number;
            if oldest.is_none_or(|(other, _)| number < other) {
                oldest = Some((number, at));
            }
        }
        let (_, at) = oldest?;
        let request = self.posted[at as usize].request;
        self.withdraw(Slot(at));
        Some(request)
    }

    /// Removes a receive that is in the queue.
    pub(super) fn withdraw(&mut self, slot: Slot) {
        let Posted { entry, class, .. } = self.posted[slot.0 as usize];
        self.lists.remove(entry);
        self.count[usize::from(class)] -= 1;
        self.free.push(slot.0);
    }
}

/// Messages that wait for their receive; `M` is what is known of one.
#[derive(Debug)]
pub(super) struct Unexpected<M> {
    /// Each message is in one list for each class of patterns.
    lists: Lists,
    arrived: Vec<Option<Arrived<M>>>,
    free: Vec<u32>,
    /// Messages that were looked at.
    #[cfg(test)]
    pub(super) looks: std::cell::Cell<usize>,
}

#[derive(Debug)]
struct Arrived<M> {
    message: M,
    entries: [Entry; CLASSES as usize],
}

impl<M> Unexpected<M> {
    pub(super) fn new() -> Self {
        Self {
            lists: Lists::new(),
            arrived: Vec::new(),
            free: Vec::new(),
            #[cfg(test)]
            looks: std::cell::Cell::default(),
        }
    }

    /// A message is looked at: tests count that.
    fn look(&self) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
    }

    /// Number of messages.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lists.len() / usize::from(CLASSES)
    }

    /// Appends a message.
    pub(super) fn push(&mut self, envelope: Envelope, message: M) -> u32 {
        let at = self
            .free
            .pop()
            .unwrap_or_else(|| u32::try_from(self.arrived.len()).expect("messages fit memory"));
        let entries = std::array::from_fn(|class| {
            // There are four classes.
            #[allow(clippy::cast_possible_truncation)]
            let class = class as u8;
            self.lists.push(envelope.key(class), u64::from(at))
        });
        let arrived = Some(Arrived { message, entries });
        match self.arrived.get_mut(at as usize) {
            Some(place) => *place = arrived,
            None => self.arrived.push(arrived),
        }
        at
    }

    /// The oldest message that a pattern accepts.
    pub(super) fn find(&self, pattern: Pattern) -> Option<u32> {
        let (_, at) = self.lists.first(pattern.key())?;
        u32::try_from(at).ok()
    }

    /// A message in the queue.
    pub(super) fn get(&self, at: u32) -> Option<&M> {
        self.look();
        Some(&self.arrived.get(at as usize)?.as_ref()?.message)
    }

    /// A message in the queue.
    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut M> {
        Some(&mut self.arrived.get_mut(at as usize)?.as_mut()?.message)
    }

    /// Takes a message out.
    pub(super) fn remove(&mut self, at: u32) -> Option<M> {
        self.look();
        let arrived = self.arrived.get_mut(at as usize)?.take()?;
        arrived.entries.into_iter().for_each(|entry| self.lists.remove(entry));
        self.free.push(at);
        Some(arrived.message)
    }

    /// All messages, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &M)> {
        (0..).zip(&self.arrived).filter_map(|(at, arrived)| {
            self.look();
            Some((at, &arrived.as_ref()?.message))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern() -> impl Strategy<Value = Pattern> {
        let open = |most: u32| prop_oneof![Just(None), (0..most).prop_map(Some)];
        (0..2u16, open(3), open(3)).prop_map(|(context, source, tag)| Pattern {
            context,
            source,
            tag: tag.map(u64::from),
        })
    }

    fn envelope() -> impl Strategy<Value = Envelope> {
        (0..2u16, 0..3u32, 0..3u64).prop_map(|(context, source, tag)| Envelope { context, source, tag })
    }

    fn fits(pattern: Pattern, message: Envelope) -> bool {
        pattern.context == message.context
            && pattern.source.is_none_or(|source| source == message.source)
            && pattern.tag.is_none_or(|tag| tag == message.tag)
    }

    #[derive(Clone, Copy, Debug)]
    enum Move {
        Post(Pattern),
        Arrive(Envelope),
        /// The receive that is that far from the queue's head, modulo its length.
        Withdraw(usize),
    }

    fn step() -> impl Strategy<Value = Move> {
        prop_oneof![
            pattern().prop_map(Move::Post),
            envelope().prop_map(Move::Arrive),
            (0..100usize).prop_map(Move::Withdraw),
        ]
    }

    proptest! {
        #[test]
        fn what_matches_is_what_two_lists_searched_from_their_heads_would_match(
            steps in prop::collection::vec(step(), 0..300),
        ) {
            let (mut expected, mut unexpected) = (PostedQueue::new(), Unexpected::new());
            let mut receives: Vec<(Pattern, u64, Slot)> = Vec::new();
            let mut messages: Vec<(Envelope, u64)> = Vec::new();
            for (number, step) in (0..).zip(steps) {
                match step {
                    Move::Post(pattern) => {
                        let oldest = messages.iter().position(|&(message, _)| fits(pattern, message));
                        let found = unexpected.find(pattern);
                        let taken = found.and_then(|at| unexpected.remove(at));
                        prop_assert_eq!(taken, oldest.map(|at| messages.remove(at).1));
                        if taken.is_none() {
                            receives.push((pattern, number, expected.post(pattern, number)));
                        }
                    }
                    Move::Arrive(message) => {
                        let oldest = receives.iter().position(|&(pattern, ..)| fits(pattern, message));
                        let taken = expected.take(message);
                        prop_assert_eq!(taken, oldest.map(|at| receives.remove(at).1));
                        if taken.is_none() {
                            unexpected.push(message, number);
                            messages.push((message, number));
                        }
                    }
                    Move::Withdraw(at) if !receives.is_empty() => {
                        let (_, _, slot) = receives.remove(at % receives.len());
                        expected.withdraw(slot);
                    }
                    Move::Withdraw(_) => {}
                }
                prop_assert_eq!((expected.len(), unexpected.len()), (receives.len(), messages.len()));
            }
        }
    }
}
