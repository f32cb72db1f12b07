//! Stores on a disk that loses what it has.

use scash_ft::Epoch;
use scash_ft::store::Store;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Changes one bit of the pages that, of epochs 5 and 6 of a job of two ranks, only these have, which
/// `verify` tells.
pub fn damage(store: &Path, rank: u32, epochs: &[u64]) {
    let is_damaged = |epoch| Store::open_at(store, rank, 2).unwrap().verify(Epoch(epoch)).is_err();
    let file = OpenOptions::new().read(true).write(true).open(store).unwrap();
    let (mut at, end) = (0, i64::try_from(file.metadata().unwrap().len()).unwrap());
    // Where there are bytes, from behind: headers and maps are at the front.
    let mut pages = Vec::new();
    while let Ok(data) = nix::unistd::lseek(&file, at, nix::unistd::Whence::SeekData) {
        let hole = nix::unistd::lseek(&file, data, nix::unistd::Whence::SeekHole).unwrap_or(end);
        pages.extend((data..hole).step_by(4096));
        at = hole;
    }
    for page in pages.into_iter().rev() {
        let at = u64::try_from(page).unwrap() + 123;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 16], at).unwrap();
        if [5, 6].into_iter().all(|epoch| is_damaged(epoch) == epochs.contains(&epoch)) {
            return;
        }
        file.write_all_at(&byte, at).unwrap();
    }
    panic!("no page belongs to {epochs:?} alone");
}
