//! What the ranks of a job know and nobody else does.

use crate::{Error, Result};
use memmap2::{Advice, MmapMut};
use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

/// The secret of a job: random bits that its launcher draws, and that every rank is told through its own line
/// to the launcher (see `scash_join`). It stands in no file, on no command line and in no environment.
///
/// It lies in a page of its own, which all clones share, is in no core dump, and is wiped when the last of
/// them is dropped.
#[derive(Clone)]
pub struct Secret(Arc<SecretPage>);

impl Secret {
    /// Bytes of a secret: 256 bits, which nobody guesses from recorded handshakes.
    pub const LENGTH: usize = 32;

    /// A new one.
    pub fn random() -> Result<Secret> {
        let mut page = SecretPage::new();
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
        let mut page = SecretPage::new();
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

/// A text with a secret in it, which is wiped when it is dropped. Whoever makes it has room for all of it
/// from the start: a text that grows leaves copies behind.
pub struct SecretText(String);

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl Deref for SecretText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Drop for SecretText {
    fn drop(&mut self) {
        wipe(&mut std::mem::take(&mut self.0).into_bytes());
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(..)")
    }
}

/// Bytes on their way, in order, which may have a secret among them: each is wiped once it was taken, and
/// what is left when this is dropped.
#[derive(Default)]
pub struct SecretBytes {
    bytes: Vec<u8>,
    /// So many at the front were taken.
    taken: usize,
}

impl SecretBytes {
    /// Those that were not taken yet.
    pub fn left(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Appends bytes, which are wiped where they were.
    pub fn push(&mut self, more: &mut [u8]) {
        if self.bytes.capacity() - self.bytes.len() < more.len() {
            // Moved here: a vector that grows by itself leaves copies behind.
            let mut bytes = Vec::with_capacity(2 * self.left().len() + more.len());
            bytes.extend_from_slice(self.left());
            wipe(&mut self.bytes);
            (self.bytes, self.taken) = (bytes, 0);
        }
        self.bytes.extend_from_slice(more);
        wipe(more);
    }

    /// Takes so many of those that are left, or all if there are fewer.
    pub fn take(&mut self, count: usize) {
        let end = self.bytes.len().min(self.taken.saturating_add(count));
        wipe(&mut self.bytes[self.taken..end]);
        self.taken = end;
        if self.left().is_empty() {
            self.bytes.clear();
            self.taken = 0;
        }
    }
}

impl Drop for SecretBytes {
    fn drop(&mut self) {
        wipe(&mut self.bytes);
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretBytes({})", self.left().len())
    }
}

/// A page of the system, with a secret at its start.
struct SecretPage(MmapMut);

impl SecretPage {
    /// Of zeros.
    fn new() -> Self {
        let Ok(page) = MmapMut::map_anon(Secret::LENGTH) else {
            handle_alloc_error(Layout::new::<[u8; Secret::LENGTH]>())
        };
        // If it fails, the secret is in core dumps; nothing else is wrong then.
        let _ = page.advise(Advice::DontDump);
        Self(page)
    }

    fn bytes(&self) -> &[u8; Secret::LENGTH] {
        self.0.first_chunk().expect("the page is longer")
    }

    fn bytes_mut(&mut self) -> &mut [u8; Secret::LENGTH] {
        self.0.first_chunk_mut().expect("the page is longer")
    }
}

impl Drop for SecretPage {
    fn drop(&mut self) {
        wipe(self.bytes_mut());
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
    fn bytes_that_were_taken_are_wiped_and_those_that_are_left_stay_in_order() {
        let mut all = SecretBytes::default();
        let mut sent = Vec::new();
        for round in 1..=100u8 {
            let mut more = vec![round; usize::from(round)];
            all.push(&mut more);
            assert!(more.iter().all(|&byte| byte == 0), "{more:?}");
            let count = all.left().len() / 2;
            sent.extend_from_slice(&all.left()[..count]);
            all.take(count);
            assert!(all.bytes[..all.taken].iter().all(|&byte| byte == 0), "round {round}");
        }
        sent.extend_from_slice(all.left());
        all.take(usize::MAX);
        assert!(all.left().is_empty());
        let expected = (1..=100u8).flat_map(|round| vec![round; usize::from(round)]);
        assert!(sent.into_iter().eq(expected));
        all.push(&mut [7; 3]);
        assert_eq!(format!("{all:?}"), "SecretBytes(3)");
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
