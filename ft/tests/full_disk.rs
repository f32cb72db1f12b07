//! A disk that takes a part of what is written to a store, and nothing of the rest. It is a limit of this
//! process, which must have no other tests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigHandler, Signal, signal};
use scash_ft::store::{Key, PAGE, RankStore, Store, Unsaved};
use scash_ft::{Base, Epoch};

const AT: usize = 0x0700_0000_0000;

/// Writes so many pages of the region into the next epoch. `begun` is called when that is begun.
fn stage(rank: &mut RankStore, pages: &[[u8; PAGE]], begun: impl FnOnce()) -> Result<(), Unsaved> {
    let mut staged = rank.stage();
    begun();
    for (number, page) in (0..).zip(pages) {
        // SAFETY: it is a page, and outlives the stage.
        unsafe { staged.page(Key::shared(number), page.as_ptr()) }?;
    }
    let written = staged.written()?;
    rank.wrote(written).unwrap();
    Ok(())
}

fn commit(rank: &mut RankStore) {
    rank.mark([0; 2], 1).unwrap();
    rank.commit();
}

#[test]
fn an_epoch_of_which_the_disk_has_taken_a_part_is_not_saved() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::create_at(&directory.path().join("store"), 0, 1, 7).unwrap();
    let file = store.file().try_clone_to_owned().unwrap();
    // SAFETY: nothing else of this process is there.
    let rank = unsafe { RankStore::map(file, std::ptr::without_provenance_mut(AT), Base::default()) };
    let mut rank = rank.unwrap();
    stage(&mut rank, &[[1; PAGE]], || {}).unwrap();
    commit(&mut rank);
    let saved = rank.saved().unwrap();
    let first_slot = saved.bytes(saved.entries[0]).addr() - AT;

    // A file that is as long as it may be takes a part, or fails: by a signal, if that is not ignored.
    // SAFETY: no handler is installed.
    unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) }.unwrap();
    let (soft, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    let with_limit = |rank: &mut RankStore, bytes: usize| {
        // A limit that is there before is minded.
        let limits = || setrlimit(Resource::RLIMIT_FSIZE, (first_slot + bytes) as u64, hard).unwrap();
        let done = stage(rank, &[[2; PAGE]; 4], limits);
        setrlimit(Resource::RLIMIT_FSIZE, soft, hard).unwrap();
        done.unwrap_err().to_string()
    };
    for (pages, why) in [(7, "No space left on device"), (2, "File too large")] {
        let said = with_limit(&mut rank, pages * PAGE / 2);
        assert_eq!(said, format!("its store cannot be written: {why}"));
        assert!(!rank.has_written());
        store.verify(Epoch(1)).unwrap();
    }
    stage(&mut rank, &[[2; PAGE]; 4], || {}).unwrap();
    commit(&mut rank);
    store.verify(Epoch(2)).unwrap();
}
