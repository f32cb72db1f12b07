//! What this rank has printed, as part of a checkpoint: where copies of its store are on other hosts, it may
//! come back on one of them before its user has seen all of that. The launcher keeps it in files, and gives
//! up what was seen; the rest is saved.

use super::files::with_contents;
use crate::fault::PAGE;
use nix::unistd::{Whence, lseek};
use scash_ft::store::{Key, Staged, Unsaved};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

/// Saves what is kept of the two streams, or of the one that both are: so many bytes, of which the epoch
/// before has so many. Allocates nothing.
pub(super) fn save(
    files: &[File],
    printed: [u64; 2],
    known: [u64; 2],
    staged: &mut Staged<'_>,
) -> Result<(), Unsaved> {
    for (stream, file) in files.iter().enumerate() {
        let pages = u32::try_from(printed[stream].div_ceil(PAGE as u64)).unwrap_or(u32::MAX);
        // It may be the program's, too.
        let place = lseek(file, 0, Whence::SeekCur);
        for page in with_contents(file.as_fd(), 0..pages) {
            let (key, at) = (Key::printed(stream, page.into()), u64::from(page) * PAGE as u64);
            let is_known = at + PAGE as u64 <= known[stream];
            if is_known && staged.keep(key, 1) == 1 {
                continue;
            }
            let mut bytes = [0; PAGE];
            let length = usize::try_from(printed[stream] - at).unwrap_or(PAGE).min(PAGE);
            if file.read_exact_at(&mut bytes[..length], at).is_err() {
                break; // the program has cut it
            }
            // SAFETY: it is a page, and saved before it is gone.
            unsafe { staged.page(key, bytes.as_ptr()) }?;
            staged.flush();
        }
        if let Ok(place) = place {
            let _ = lseek(file, place, Whence::SeekSet);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use nix::fcntl::{FallocateFlags, fallocate};
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use scash_ft::store::{RankStore, Store};
    use scash_ft::{Base, Epoch};

    const AT: usize = 0x0b00_0000_0000;

    #[test]
    fn an_epoch_has_what_was_printed_since_the_one_before_and_what_was_not_given_up() {
        let store = Store::create(0, 1).unwrap();
        let file = store.file().try_clone_to_owned().unwrap();
        // SAFETY: nothing else of this test's process is there.
        let mut rank =
            unsafe { RankStore::map(file, std::ptr::without_provenance_mut(AT), Base::default()) }.unwrap();
        let files = [File::from(memfd_create(c"printed", MFdFlags::MFD_CLOEXEC).unwrap())];
        let text: Vec<u8> = (0..20_000_u32).map(|at| (at % 251) as u8).collect();
        let page = PAGE as u64;
        for (length, given_up) in [(10_000, 0), (10_000, 0), (10_001, page), (20_000, 2 * page)] {
            files[0].write_all_at(&text[..length], 0).unwrap();
            if given_up > 0 {
                let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
                fallocate(&files[0], flags, 0, i64::try_from(given_up).unwrap()).unwrap();
            }
            let (printed, known) = ([length as u64, 0], rank.outputs());
            let mut staged = rank.stage();
            save(&files, printed, known, &mut staged).unwrap();
            let written = staged.written().unwrap();
            rank.wrote(written).unwrap();
            rank.mark(printed, 0).unwrap();
            rank.commit();
            assert_eq!(store.printed_from(rank.epoch()).unwrap(), [given_up, 0]);
            let mut all = Vec::new();
            let take = |_, bytes: &[u8]| {
                all.extend_from_slice(bytes);
                Ok(())
            };
            store.printed(rank.epoch(), 0, given_up, take).unwrap();
            assert!(all == text[usize::try_from(given_up).unwrap()..length], "epoch {:?}", rank.epoch());
        }
        assert_eq!(rank.epoch(), Epoch(4));
    }
}
