//! Epochs of a store: what they hold, and what stays.

use super::rank::no_room;
use super::*;
use crate::Incarnation;
use std::fs::File;
use std::mem;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

/// Where each test has its store, if all are threads of one process.
const AT: usize = 0x0700_0000_0000;
const AT_OF_DISK: usize = 0x0800_0000_0000;
const AT_OF_FULL: usize = 0x0900_0000_0000;
const AT_OF_SEEN: usize = 0x1000_0000_0000;
const AT_OF_KEPT: usize = 0x1100_0000_0000;
const AT_OF_DAMAGED: usize = 0x1200_0000_0000;
const AT_OF_UNSYNCED: usize = 0x1300_0000_0000;

fn open(store: &Store, base: Base) -> io::Result<RankStore> {
    open_at(AT, store, base)
}

pub(super) fn open_at(at: usize, store: &Store, base: Base) -> io::Result<RankStore> {
    // SAFETY: nothing else of this test's process is there; each test has an address of its own.
    unsafe { RankStore::map(store.file().try_clone_to_owned()?, std::ptr::without_provenance_mut(at), base) }
}

fn page(byte: u8) -> [u8; PAGE] {
    [byte; PAGE]
}

pub(super) fn save(store: &mut RankStore, pages: &[(Key, u8)]) -> u64 {
    let bytes: Vec<_> = pages.iter().map(|&(_, byte)| page(byte)).collect();
    let mut staged = store.stage();
    for (&(key, _), page) in pages.iter().zip(&bytes) {
        // SAFETY: it is a page, and outlives the stage.
        unsafe { staged.page(key, page.as_ptr()) }.unwrap();
    }
    let copied = staged.copied();
    let written = staged.written().unwrap();
    store.wrote(written).unwrap();
    store.mark([3, 4], 7).unwrap();
    copied
}

pub(super) fn contents(store: &RankStore) -> Vec<(Key, u8)> {
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

#[test]
fn an_epoch_stays_until_the_next_one_is_committed_and_only_changes_are_copied() {
    let store = Store::create(3, 4).unwrap();
    assert_eq!((store.rank(), store.base(), store.marks()), (3, Base::default(), [None; 2]));
    let mut rank = open(&store, Base::default()).unwrap();
    let first = [(Key::private(0x5000), 1), (Key::private(0x9000), 2), (Key::shared(0), 3)];
    assert_eq!(save(&mut rank, &first), 3);
    assert_eq!((store.outputs(Epoch(1)), store.barrier(Epoch(1))), (Some([3, 4]), Some(7)));
    assert!(rank.saved().is_err() || rank.epoch() == Epoch(0), "nobody has committed it");
    rank.commit();
    assert_eq!(contents(&rank), first);

    let second = [(Key::private(0x5000), 1), (Key::shared(0), 7), (Key::words(2), 8)];
    assert_eq!(save(&mut rank, &second), 2, "one is the same, one is gone");
    assert_eq!(contents(&rank), first, "the epoch before is whole");
    assert!(open(&store, at_epoch(0, 3)).is_err(), "it has another epoch of that number");

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

fn at_epoch(incarnation: u64, epoch: u64) -> Base {
    Base { incarnation: Incarnation(incarnation), epoch: Epoch(epoch) }
}

/// What is wrong with an epoch.
fn trouble(store: &Store, epoch: u64) -> String {
    store.verify(Epoch(epoch)).unwrap_err().to_string()
}

#[test]
fn a_store_on_disk_is_opened_again_and_says_what_it_has_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rank-1.store");
    let store = Store::create_at(&path, 1, 2, 77).unwrap();
    assert!(Store::create_at(&path, 1, 2, 77).is_err(), "it is there");
    let on_disk = 512 * u64::try_from(fstat(store.file()).unwrap().st_blocks).unwrap();
    let mapped = store.header.check(u64::MAX).unwrap().map_at(2);
    assert!(on_disk >= mapped, "header and bit maps must not come upon a full disk: {on_disk}");
    let mut rank = open_at(AT_OF_DISK, &store, Base::default()).unwrap();
    assert!(rank.is_durable());
    let first = [(Key::private(0x5000), 1), (Key::private(0x9000), 2), (Key::shared(0), 3)];
    save(&mut rank, &first);
    rank.commit();
    let second = [(Key::private(0x5000), 1), (Key::shared(0), 4)];
    assert_eq!(save(&mut rank, &second), 1);
    rank.commit();
    drop((rank, store));

    let store = Store::open_at(&path, 1, 2).unwrap();
    for (rank, size) in [(0, 2), (1, 3)] {
        assert!(Store::open_at(&path, rank, size).unwrap_err().to_string().contains("of rank 1 of 2"));
    }
    store.verify(Epoch(1)).unwrap();
    store.verify(Epoch(2)).unwrap();
    assert!(trouble(&store, 3).contains("no epoch 3"));
    store.set_base(at_epoch(1, 2));
    let rank = open_at(AT_OF_DISK, &store, store.base()).unwrap();
    assert_eq!(contents(&rank), second);
    let slot = rank.saved().unwrap().entries[1].slot;

    // A bit of a page, of an index; the end of the file.
    let geometry = store.header.check(u64::MAX).unwrap();
    let file = std::fs::OpenOptions::new().write(true).read(true).open(&path).unwrap();
    let flip = |at: u64| {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 4], at).unwrap();
    };
    let page = geometry.slots_at() + u64::from(slot) * PAGE as u64 + 77;
    flip(page);
    assert!(trouble(&store, 2).contains(&format!("the page in slot {slot}")));
    store.verify(Epoch(1)).unwrap();
    flip(page);
    store.verify(Epoch(2)).unwrap();
    flip(geometry.index_at(0) + geometry::DESCRIPTION + 9);
    assert!(trouble(&store, 2).contains("index"));
    file.set_len(geometry.len() / 2).unwrap();
    assert!(Store::open_at(&path, 1, 2).unwrap_err().to_string().contains("cut short"));
}

#[test]
fn slots_of_an_epoch_that_came_to_nothing_are_free_again() {
    let store = Store::create(0, 1).unwrap();
    let mut rank = open_at(AT_OF_FULL, &store, Base::default()).unwrap();
    let pages = page(7);
    for round in 0..50u64 {
        let mut staged = rank.stage();
        for number in 0..100 {
            // SAFETY: it is a page, and outlives the stage.
            unsafe { staged.page(Key::shared(number), pages.as_ptr()) }.unwrap();
        }
        if round % 2 == 0 {
            drop(staged);
            rank.abandon();
        } else {
            let written = staged.written().unwrap();
            rank.wrote(written).unwrap();
            rank.mark([0, 0], 1).unwrap();
            rank.commit();
        }
    }
    let last = rank.saved().unwrap().entries.iter().map(|entry| entry.slot).max().unwrap();
    assert!(last < 200, "slots are lost: {last}");
}

#[test]
fn a_byte_that_has_changed_is_saved_wherever_it_is() {
    let store = Store::create(0, 1).unwrap();
    let mut rank = open_at(AT_OF_SEEN, &store, Base::default()).unwrap();
    let mut bytes = page(0);
    for at in [0, 1, 7, 8, PAGE / 2, PAGE - 8, PAGE - 1] {
        bytes[at] += 1;
        let mut staged = rank.stage();
        // SAFETY: it is a page, and outlives the stage.
        unsafe { staged.page(Key::shared(0), bytes.as_ptr()) }.unwrap();
        assert_eq!(staged.copied(), 1, "byte {at}");
        let written = staged.written().unwrap();
        assert!(store.marks().iter().flatten().all(|mark| mark.epoch == rank.epoch()), "its index is gone");
        rank.wrote(written).unwrap();
        rank.mark([0; 2], 1).unwrap();
        rank.commit();
        let saved = rank.saved().unwrap();
        // SAFETY: a slot is a page, and nobody writes it now.
        let saved = unsafe { std::slice::from_raw_parts(saved.bytes(saved.entries[0]), PAGE) };
        assert!(saved == bytes, "byte {at}");
    }
}

#[test]
fn only_pages_that_the_epoch_before_has_are_kept_unseen() {
    let store = Store::create(0, 1).unwrap();
    let mut rank = open_at(AT_OF_KEPT, &store, Base::default()).unwrap();
    save(&mut rank, &[(Key::shared(2), 1), (Key::shared(3), 2), (Key::shared(4), 3), (Key::shared(8), 4)]);
    rank.commit();
    let mut staged = rank.stage();
    assert_eq!(staged.keep(Key::shared(1), 1), 0, "it has none of that page");
    assert_eq!(staged.keep(Key::shared(3), 3), 2, "it has two of these three");
    assert_eq!((staged.pages(), staged.copied()), (2, 0));
    let written = staged.written().unwrap();
    rank.wrote(written).unwrap();
    rank.mark([0; 2], 1).unwrap();
    rank.commit();
    assert_eq!(contents(&rank), [(Key::shared(3), 2), (Key::shared(4), 3)]);
}

#[test]
fn an_index_in_memory_that_has_changed_is_refused() {
    let store = Store::create(0, 1).unwrap();
    let mut rank = open_at(AT_OF_DAMAGED, &store, Base::default()).unwrap();
    save(&mut rank, &[(Key::shared(2), 1), (Key::shared(3), 2)]);
    rank.commit();
    let slot = store.header.check(u64::MAX).unwrap().index_at(1) + geometry::DESCRIPTION + 8;
    File::from(store.file().try_clone_to_owned().unwrap()).write_all_at(&[5], slot).unwrap();
    assert!(rank.saved().unwrap_err().to_string().contains("index does not have the sum"));
    drop(rank);
    assert!(open_at(AT_OF_DAMAGED, &store, at_epoch(1, 1)).is_err());
}

/// A file that cannot be written to a disk.
fn no_disk() -> OwnedFd {
    UnixStream::pair().unwrap().0.into()
}

#[test]
fn what_a_disk_has_not_taken_does_not_count() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::create_at(&directory.path().join("store"), 0, 1, 7).unwrap();
    let mut rank = open_at(AT_OF_UNSYNCED, &store, Base::default()).unwrap();
    let bytes = page(3);
    let stage = |rank: &mut RankStore| {
        let mut staged = rank.stage();
        // SAFETY: it is a page, and outlives the stage.
        unsafe { staged.page(Key::shared(0), bytes.as_ptr()) }.unwrap();
        staged.written().unwrap()
    };
    let written = stage(&mut rank);
    let disk = mem::replace(&mut rank.file, no_disk());
    assert!(rank.wrote(written).is_err() && !rank.has_written());
    rank.mark([0; 2], 1).unwrap();
    assert_eq!(store.marks(), [None; 2], "nothing was written that a mark could stand for");
    rank.file = disk;
    let written = stage(&mut rank);
    rank.wrote(written).unwrap();
    let disk = mem::replace(&mut rank.file, no_disk());
    assert!(rank.mark([0; 2], 1).is_err(), "the mark may be lost with the machine's power");
    rank.file = disk;
    let disk = mem::replace(&mut store.file, no_disk());
    assert!(store.sync().is_err());
    store.file = disk;
    store.sync().unwrap();
}

#[test]
fn a_file_that_is_no_store_is_refused() {
    let error = |write: &dyn Fn(&File)| {
        let file = File::from(Store::create(0, 1).unwrap().file().try_clone_to_owned().unwrap());
        write(&file);
        Store::open(file.into()).unwrap_err().to_string()
    };
    for magic in [b"scashSTP", b"\x7fELF\x02\x01\x01\x00", &[0; 8]] {
        assert_eq!(error(&|file| file.write_all_at(magic, 0).unwrap()), "it is no store of scash");
    }
    let slots = error(&|file| file.write_all_at(&7_u64.to_le_bytes(), 32).unwrap());
    assert_eq!(slots, "it cannot have 7 slots");
    assert!(Store::open(tempfile::tempfile().unwrap().into()).is_err());
}

#[test]
fn a_store_of_another_version_is_refused_with_both_numbers() {
    let store = Store::create(0, 1).unwrap();
    let file = File::from(store.file().try_clone_to_owned().unwrap());
    file.write_all_at(&99_u64.to_le_bytes(), 8).unwrap();
    let error = Store::open(file.into()).unwrap_err().to_string();
    assert!(error.starts_with("it is a store of version 99, and this program knows "), "{error}");
}
