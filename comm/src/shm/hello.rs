//! What ranks tell each other before they share memory: the layout of their inboxes, and the processors that
//! they may use.

use super::inbox::Layout;
use crate::{Error, Result};

/// Changes whenever anything in shared memory changes its place or meaning.
const MAGIC: [u8; 8] = *b"scshm\0\0\x04";

bitflags::bitflags! {
    /// The descriptors that come with an announcement, behind the inbox and in this order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct HelloDescriptors: u8 {
        /// The rank's pidfd.
        const PIDFD = 1;
        /// The eventfd that wakes it.
        const ALARM = 2;
    }
}

/// One rank's announcement.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hello {
    /// What comes with it.
    pub(super) given: HelloDescriptors,
    /// Bytes of a ring in its inbox.
    ring: u64,
    /// The processors that it may run on, as the kernel's bit mask; empty if that is not known.
    cores: Vec<u8>,
    /// How many processors' worth of time it is allowed: fewer than `cores` where a quota says so.
    quota: u32,
}

impl Hello {
    /// This rank's.
    pub(super) fn new(layout: Layout, given: HelloDescriptors) -> Self {
        let cores = affinity();
        let quota = std::thread::available_parallelism()
            .map_or(u32::MAX, |n| u32::try_from(n.get()).unwrap_or(u32::MAX));
        // Without a quota it is the number of cores: then only the mask counts.
        let quota = if quota < ones(&cores) { quota } else { u32::MAX };
        Self { given, ring: layout.ring() as u64, cores, quota }
    }

    /// The bytes that travel: magic, what is given, ring, quota, mask.
    pub(super) fn encode(&self) -> Vec<u8> {
        let given = [self.given.bits()];
        [&MAGIC[..], &given, &self.ring.to_le_bytes(), &self.quota.to_le_bytes(), &self.cores].concat()
    }

    /// The announcement of `rank`, which must fit to this rank's.
    pub(super) fn decode(blob: &[u8], rank: u32, layout: Layout) -> Result<Self> {
        let broken = |why: &str| Error::Protocol { rank, why: why.to_owned() };
        let rest =
            blob.strip_prefix(&MAGIC).ok_or_else(|| broken("it runs another version of this program"))?;
        let too_short = || broken("its announcement is too short");
        let (given, rest) = rest.split_first().ok_or_else(too_short)?;
        let given =
            HelloDescriptors::from_bits(*given).ok_or_else(|| broken("it gives what is not known here"))?;
        let (ring, rest) = rest.split_first_chunk().ok_or_else(too_short)?;
        let (quota, cores) = rest.split_first_chunk().ok_or_else(too_short)?;
        let (ring, quota) = (u64::from_le_bytes(*ring), u32::from_le_bytes(*quota));
        if ring != layout.ring() as u64 {
            let why = format!(
                "its rings have {ring} bytes, here {}: start all ranks with the same options",
                layout.ring()
            );
            return Err(broken(&why));
        }
        Ok(Self { given, ring, cores: cores.to_vec(), quota })
    }
}

/// Processors that the ranks of a host have between them, whoever may run where; at least 1.
pub(super) fn cores(hellos: &[Hello]) -> u32 {
    let bytes = hellos.iter().map(|hello| hello.cores.len()).max().unwrap_or(0);
    let union: Vec<u8> =
        (0..bytes).map(|i| hellos.iter().fold(0, |all, h| all | h.cores.get(i).unwrap_or(&0))).collect();
    let known = if ones(&union) > 0 { ones(&union) } else { u32::MAX };
    hellos.iter().fold(known, |least, hello| least.min(hello.quota)).max(1)
}

/// The processors that this thread may run on; empty if the kernel's mask is longer than we offer (more than
/// 65,536 processors).
fn affinity() -> Vec<u8> {
    let mut mask = vec![0u8; 8192];
    // The system call, not the function: it says how long the kernel's mask is, and takes any length.
    // SAFETY: the buffer is ours and as long as we say.
    let len = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, mask.len(), mask.as_mut_ptr()) };
    mask.truncate(usize::try_from(len).unwrap_or(0));
    mask
}

fn ones(mask: &[u8]) -> u32 {
    mask.iter().map(|byte| byte.count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello(cores: &[u8], quota: u32) -> Hello {
        let ring = Layout::new(2, None).ring() as u64;
        Hello { given: HelloDescriptors::PIDFD, ring, cores: cores.to_vec(), quota }
    }

    #[test]
    fn an_announcement_survives_its_journey_and_nothing_else_is_believed() {
        let layout = Layout::new(2, None);
        let mine = Hello::new(layout, HelloDescriptors::all());
        let blob = mine.encode();
        assert_eq!(Hello::decode(&blob, 1, layout).unwrap(), mine);
        for len in 0..21 {
            assert!(matches!(Hello::decode(&blob[..len], 1, layout), Err(Error::Protocol { rank: 1, .. })));
        }
        assert!(Hello::decode(&blob, 1, Layout::new(2, Some(16 << 10))).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_announcement_or_an_error(
            mut bytes in prop::collection::vec(any::<u8>(), 0..60), known in 0..30usize,
        ) {
            let layout = Layout::new(2, None);
            let good = Hello::new(layout, HelloDescriptors::PIDFD).encode();
            let known = known.min(bytes.len()).min(good.len());
            bytes[..known].copy_from_slice(&good[..known]);
            match Hello::decode(&bytes, 1, layout) {
                Ok(hello) => prop_assert_eq!(hello.encode(), bytes),
                Err(error) => prop_assert!(matches!(error, Error::Protocol { rank: 1, .. }), "{}", error),
            }
        }
    }

    #[test]
    fn ranks_pinned_to_a_core_each_have_all_of_them_together() {
        assert_eq!(cores(&[hello(&[1], u32::MAX), hello(&[2], u32::MAX)]), 2);
        assert_eq!(cores(&[hello(&[3], u32::MAX), hello(&[3, 1], u32::MAX)]), 3);
        assert_eq!(cores(&[hello(&[255], 2), hello(&[255], 2)]), 2, "a quota counts");
        assert_eq!(cores(&[hello(&[], 0)]), 1, "nobody has less than one");
    }
}
