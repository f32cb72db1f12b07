use crate::random::SplitMix64;
use crate::store::tests::{contents, open_at, save};
use crate::store::{Key, PAGE, RankStore, Store};
use crate::{Base, Epoch, Incarnation};
use std::convert::Infallible;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Where the tests have their stores, and their copies.
const AT: usize = 0x0A00_0000_0000;
const COPY_AT: usize = 0x0B00_0000_0000;
const AT_OF_TORN: usize = 0x0C00_0000_0000;
const COPY_AT_OF_TORN: usize = 0x0D00_0000_0000;

/// A copy on another host, to which pieces are written.
struct Copy {
    store: Store,
    file: File,
    /// Pages' worth of pieces.
    pages: usize,
}

impl Copy {
    fn new() -> Copy {
        let store = Store::create(0, 1).unwrap();
        let file = File::from(store.file().try_clone_to_owned().unwrap());
        Copy { store, file, pages: 0 }
    }

    fn write(&mut self, piece: super::FileRange) {
        self.pages += piece.len / PAGE;
        // SAFETY: a piece is so many bytes of the store's mapping.
        let bytes = unsafe { std::slice::from_raw_parts(piece.bytes, piece.len) };
        self.file.write_all_at(bytes, piece.offset).unwrap();
    }

    /// Takes so many pieces of what is written; without the mark.
    fn take(&mut self, rank: &mut RankStore, has_nothing: bool, mut most: usize) {
        let taken: Result<(), Infallible> = rank.changes(has_nothing, |piece| {
            if most > 0 {
                most -= 1;
                self.write(piece);
            }
            Ok(())
        });
        taken.unwrap();
    }

    fn mark(&mut self, rank: &RankStore) {
        self.write(rank.mark_piece());
    }

    /// What a rank finds that comes back from it to an epoch.
    fn contents(&self, at: usize, epoch: u64) -> Vec<(Key, u8)> {
        let base = Base { incarnation: Incarnation(0), epoch: Epoch(epoch) };
        contents(&open_at(at, &self.store, base).unwrap())
    }
}

/// Some of 400 pages, in order, each of which changes now and then.
fn pages(random: &mut SplitMix64, before: &[(Key, u8)]) -> Vec<(Key, u8)> {
    let byte = |key| before.iter().find(|(known, _)| *known == key).map(|(_, byte)| *byte);
    let mut all = Vec::new();
    let keys = (0..200).map(|number| Key::private(number * PAGE)).chain((0..200).map(Key::shared));
    for key in keys {
        let changed = (random.below(4) == 0).then(|| random.below(200).to_le_bytes()[0]);
        if random.below(10) > 0 {
            all.push((key, changed.or(byte(key)).unwrap_or(0)));
        }
    }
    all
}

#[test]
fn a_copy_that_was_sent_the_changes_of_each_epoch_is_as_good_as_the_store() {
    let (store, mut copy) = (Store::create(0, 1).unwrap(), Copy::new());
    let mut rank = open_at(AT, &store, Base::default()).unwrap();
    let (mut random, mut now) = (SplitMix64::of(7, &[]), Vec::new());
    for epoch in 1..60 {
        now = pages(&mut random, &now);
        let copied = {
            let copied = save_unmarked(&mut rank, &now);
            copy.pages = 0;
            copy.take(&mut rank, false, usize::MAX);
            copied
        };
        assert!(copy.pages as u64 >= copied && copy.pages as u64 <= copied + 2, "{} of {copied}", copy.pages);
        if random.below(4) == 0 {
            rank.abandon();
            copy.mark(&rank);
            assert!(copy.store.marks().iter().flatten().all(|mark| mark.epoch < rank.epoch().next()));
            now = contents_of(&rank);
            continue;
        }
        rank.mark([1, 2], epoch).unwrap();
        copy.mark(&rank);
        rank.commit();
        assert_eq!(copy.store.marks(), store.marks());
        assert_eq!(copy.contents(COPY_AT, rank.epoch().0), now);
    }
    assert!(rank.epoch() > Epoch(20));
}

/// As [`save`], without a mark.
fn save_unmarked(rank: &mut RankStore, pages: &[(Key, u8)]) -> u64 {
    let bytes: Vec<[u8; PAGE]> = pages.iter().map(|&(_, byte)| [byte; PAGE]).collect();
    let mut staged = rank.stage();
    for (&(key, _), page) in pages.iter().zip(&bytes) {
        // SAFETY: it is a page, and outlives the stage.
        unsafe { staged.page(key, page.as_ptr()) }.unwrap();
    }
    let copied = staged.copied();
    let written = staged.written().unwrap();
    rank.wrote(written).unwrap();
    copied
}

/// What a store has, if it has an epoch.
fn contents_of(rank: &RankStore) -> Vec<(Key, u8)> {
    if rank.epoch() == Epoch(0) { Vec::new() } else { contents(rank) }
}

#[test]
fn the_epoch_before_is_whole_in_a_copy_however_much_of_the_next_one_has_arrived() {
    let (store, mut copy) = (Store::create(0, 1).unwrap(), Copy::new());
    let mut rank = open_at(AT_OF_TORN, &store, Base::default()).unwrap();
    let mut random = SplitMix64::of(3, &[]);
    let mut now = pages(&mut random, &[]);
    save_unmarked(&mut rank, &now);
    copy.take(&mut rank, true, usize::MAX);
    rank.mark([0; 2], 1).unwrap();
    copy.mark(&rank);
    rank.commit();
    for _ in 0..20 {
        let next = pages(&mut random, &now);
        save_unmarked(&mut rank, &next);
        let some = usize::try_from(random.below(40)).unwrap();
        copy.take(&mut rank, false, some);
        assert_eq!(copy.contents(COPY_AT_OF_TORN, rank.epoch().0), now, "after {some} pieces");
        let has_others = copy.store.marks().iter().flatten().any(|mark| mark.epoch != rank.epoch());
        assert!(some == 0 || !has_others, "a mark stands beside an index that arrives");
        copy.take(&mut rank, random.below(2) == 0, usize::MAX);
        rank.mark([0; 2], 1).unwrap();
        copy.mark(&rank);
        rank.commit();
        now = next;
    }
}

#[test]
fn a_new_copy_is_sent_all_of_an_epoch() {
    const AT: usize = 0x0E00_0000_0000;
    const COPY_AT: usize = 0x0F00_0000_0000;
    let (store, mut copy) = (Store::create(0, 1).unwrap(), Copy::new());
    let mut rank = open_at(AT, &store, Base::default()).unwrap();
    let mut now = pages(&mut SplitMix64::of(1, &[]), &[]);
    save(&mut rank, &now);
    rank.commit();
    now[3].1 = 201;
    save_unmarked(&mut rank, &now);
    copy.take(&mut rank, true, usize::MAX);
    rank.mark([0; 2], 1).unwrap();
    copy.mark(&rank);
    assert_eq!(copy.contents(COPY_AT, 2), now);
}

#[test]
fn a_copy_has_the_description_of_an_epoch_however_long_it_is() {
    const AT: usize = 0x1400_0000_0000;
    const COPY_AT: usize = 0x1500_0000_0000;
    let (store, mut copy) = (Store::create(0, 1).unwrap(), Copy::new());
    let mut rank = open_at(AT, &store, Base::default()).unwrap();
    for (epoch, length) in [(1, (1 << 20) + 5), (2, 7)] {
        let text: Vec<u8> = (0..=250).cycle().skip(epoch).take(length).collect();
        let mut staged = rank.stage();
        let (at, most) = staged.description();
        assert!(length <= most);
        // SAFETY: there is room for so much.
        unsafe { at.copy_from_nonoverlapping(text.as_ptr(), length) };
        staged.described(length);
        let written = staged.written().unwrap();
        rank.wrote(written).unwrap();
        copy.take(&mut rank, false, usize::MAX);
        rank.mark([0; 2], 1).unwrap();
        copy.mark(&rank);
        rank.commit();
        let back = open_at(COPY_AT, &copy.store, Base { incarnation: Incarnation(1), epoch: rank.epoch() });
        assert!(back.unwrap().saved().unwrap().description == text, "epoch {epoch}");
    }
}
