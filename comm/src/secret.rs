//! What the ranks of a job know and nobody else does.

use crate::{Error, Result};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

/// The secret of a job: random bits that its launcher draws, and that every rank is told through its own line
/// to the launcher (see `scash_join`). It stands in no file, on no command line and in no environment.
///
/// It lies in a page of its own, which all clones share, is in no core dump, and is wiped when the last of
/// them is dropped.
#[derive(Clone)]
pub struct Secret(Arc<Page>);

impl Secret {
    /// Bytes of a secret: 256 bits, which nobody guesses from recorded handshakes.
    pub const LENGTH: usize = 32;

    /// A new one.
    pub fn random() -> Result<Secret> {
        let mut page = Page::new();
        getrandom::fill(page.bytes_mut()).map_err(|error| Error::Io {
            what: "drawing the job's secret from the system's random numbers".into(),
            source: std::io::Error::other(error.to_string()),
        })?;
        Ok(Secret(Arc::new(page)))
    }

    /// The secret that another process of the job has drawn, and gave to this one. What the caller has of it
    /// besides, it has to [wipe](Self::taken_from).
    pub fn from_bytes(mut bytes: [u8; Self::LENGTH]) -> Secret {
        Self::taken_from(&mut bytes)
    }

    /// The same, which is nowhere else then: those bytes are wiped.
    pub fn taken_from(bytes: &mut [u8; Self::LENGTH]) -> Secret {
        let mut page = Page::new();
        page.bytes_mut().copy_from_slice(bytes);
        wipe(bytes);
        Secret(Arc::new(page))
    }

    /// Its bits, for a process of the job that is to have them.
    pub fn bytes(&self) -> &[u8; Self::LENGTH] {
        self.0.bytes()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    /// Without the secret: such texts end up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Overwrites bytes so that no compiler leaves it out.
pub fn wipe(bytes: &mut [u8]) {
    for byte in bytes {
        // SAFETY: a reference may be written through.
        unsafe { (&raw mut *byte).write_volatile(0) };
    }
    compiler_fence(Ordering::SeqCst);
}

/// A page of the system, with a secret at its start.
struct Page {
    at: NonNull<[u8; Secret::LENGTH]>,
    layout: Layout,
}

// SAFETY: the page belongs to this value alone.
unsafe impl Send for Page {}
// SAFETY: as above; it is written by who has it to itself.
unsafe impl Sync for Page {}

impl Page {
    /// Of zeros.
    fn new() -> Self {
        // SAFETY: a plain system call.
        let size = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(0).max(4096);
        let layout = Layout::from_size_align(size, size).expect("a page's size is a power of two");
        // SAFETY: the layout has a size.
        let page = unsafe { alloc_zeroed(layout) };
        let Some(at) = NonNull::new(page.cast()) else { handle_alloc_error(layout) };
        // If it fails, the secret is in core dumps; nothing else is wrong then.
        // SAFETY: the advice is for the whole page, which is ours, and changes none of its bytes.
        unsafe { libc::madvise(page.cast(), size, libc::MADV_DONTDUMP) };
        Self { at, layout }
    }

    fn bytes(&self) -> &[u8; Secret::LENGTH] {
        // SAFETY: the page is longer, was zeroed, and is written by who has this value to itself only.
        unsafe { self.at.as_ref() }
    }

    fn bytes_mut(&mut self) -> &mut [u8; Secret::LENGTH] {
        // SAFETY: as above.
        unsafe { self.at.as_mut() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        wipe(self.bytes_mut());
        let page = self.at.as_ptr();
        // SAFETY: as in `new`; what the memory is used for next is not secret.
        unsafe { libc::madvise(page.cast(), self.layout.size(), libc::MADV_DODUMP) };
        // SAFETY: allocated so in `new`, and used no more.
        unsafe { dealloc(page.cast(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_jobs_have_the_same_secret_and_no_log_has_any() {
        let secret = Secret::random().unwrap();
        assert_ne!(secret, Secret::random().unwrap());
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }

    #[test]
    fn a_secret_that_is_taken_is_nowhere_else() {
        let mut bytes = [7; Secret::LENGTH];
        let secret = Secret::taken_from(&mut bytes);
        assert_eq!((bytes, secret.bytes()), ([0; Secret::LENGTH], &[7; Secret::LENGTH]));
        assert_eq!(secret, Secret::from_bytes([7; Secret::LENGTH]));
    }

    #[test]
    fn the_page_of_a_secret_is_in_no_core_dump() {
        let secret = Secret::random().unwrap();
        let address = secret.bytes().as_ptr().addr();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_it = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let hex = |text: &str| usize::from_str_radix(text, 16).ok();
            if let Some((Some(from), Some(to))) = range.map(|(from, to)| (hex(from), hex(to))) {
                is_it = (from..to).contains(&address);
            }
            if let (true, Some(flags)) = (is_it, line.strip_prefix("VmFlags:")) {
                return assert!(flags.split(' ').any(|flag| flag == "dd"), "{flags}");
            }
        }
        panic!("the page is nowhere");
    }
}
