//! Epochs of a store: what they hold, and what stays.

use super::rank::no_room;
use super::*;
use crate::Incarnation;

const AT: *mut u8 = std::ptr::without_provenance_mut(0x0700_0000_0000);

fn open(store: &Store, base: Base) -> io::Result<RankStore> {
    // SAFETY: nothing else of this test's process is there, and each test has a process or a turn of its own.
    unsafe { RankStore::map(store.file().try_clone_to_owned()?, AT, base) }
}

fn page(byte: u8) -> [u8; PAGE] {
    [byte; PAGE]
}

fn save(store: &mut RankStore, pages: &[(Key, u8)]) -> u64 {
    let bytes: Vec<_> = pages.iter().map(|&(_, byte)| page(byte)).collect();
    let mut staged = store.stage();
    for (&(key, _), page) in pages.iter().zip(&bytes) {
        // SAFETY: it is a page, and outlives the stage.
        unsafe { staged.page(key, page.as_ptr()) }.unwrap();
    }
    let copied = staged.copied();
    let written = staged.written();
    store.wrote(written);
    store.mark([3, 4]);
    copied
}

fn contents(store: &RankStore) -> Vec<(Key, u8)> {
    let saved = store.saved().unwrap();
    // SAFETY: a slot is a page.
    let byte = |entry| unsafe { saved.bytes(entry).wrapping_add(7).read() };
    saved.entries.iter().map(|&entry| (entry.key, byte(entry))).collect()
}

#[test]
fn a_limit_of_address_space_is_named() {
    let error = |kind: i32| no_room(5 << 20, io::Error::from_raw_os_error(kind));
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_AS).unwrap();
    // Nothing is mapped meanwhile; it is less than an address space, and more than this process has.
    setrlimit(Resource::RLIMIT_AS, 1 << 46, hard).unwrap();
    let (named, other) = (error(libc::ENOMEM).to_string(), error(libc::EACCES).to_string());
    setrlimit(Resource::RLIMIT_AS, hard, hard).unwrap();
    assert!(named.contains("`ulimit -v` allows 67108864 MiB"), "{named}");
    assert!(named.contains("takes 5 MiB"), "{named}");
    assert!(!other.contains("ulimit"), "{other}");
    assert!(!error(libc::ENOMEM).to_string().contains("ulimit"), "there is no limit");
}

/// One test: they map stores at one address.
#[test]
fn an_epoch_stays_until_the_next_one_is_committed_and_only_changes_are_copied() {
    let store = Store::create(3, 4).unwrap();
    assert_eq!((store.rank(), store.base(), store.marks()), (3, Base::default(), [None; 2]));
    let mut rank = open(&store, Base::default()).unwrap();
    let first = [(Key::private(0x5000), 1), (Key::private(0x9000), 2), (Key::shared(0), 3)];
    assert_eq!(save(&mut rank, &first), 3);
    assert_eq!(store.outputs(Epoch(1)), Some([3, 4]));
    assert!(rank.saved().is_err() || rank.epoch() == Epoch(0), "nobody has committed it");
    rank.commit();
    assert_eq!(contents(&rank), first);

    let second = [(Key::private(0x5000), 1), (Key::shared(0), 7), (Key::words(2), 8)];
    assert_eq!(save(&mut rank, &second), 2, "one is the same, one is gone");
    assert_eq!(contents(&rank), first, "the epoch before is whole");

    // A rank that comes back to the first epoch, and one that comes back to the second.
    store.set_base(Base { incarnation: Incarnation(1), epoch: Epoch(1) });
    drop(rank);
    let mut rank = open(&store, store.base()).unwrap();
    assert_eq!(contents(&rank), first);
    let third = [(Key::private(0x5000), 4), (Key::private(0x9000), 2), (Key::shared(0), 3)];
    assert_eq!(save(&mut rank, &third), 1);
    rank.commit();
    assert_eq!((contents(&rank), rank.epoch()), (third.to_vec(), Epoch(2)));
    for round in 0..100 {
        let now = [(Key::private(0x5000), round), (Key::shared(9), round)];
        save(&mut rank, &now);
        rank.commit();
        assert_eq!(contents(&rank), now);
    }
    let last = rank.saved().unwrap().entries.iter().map(|entry| entry.slot).max().unwrap();
    assert!(last < 8, "slots are used again: {last}");
    assert!(open(&store, Base { incarnation: Incarnation(2), epoch: Epoch(55) }).is_err());
}
