//! Pages that arrive from a rank whose memory is not mapped here.
//!
//! They come into their frames. But to touch a frame for the first time takes longer than its bytes take to
//! come: the system fills it with zeros, and the page is mapped twice. So pages without frames come into a
//! buffer that stays in the processor's cache, and the [engine](FaultEngine::fill) makes frames of it.
//!
//! **A page that has a frame after all comes anew**, with those of its run behind it. Its home may have put
//! something there since it sent what is in the buffer, and an endpoint keeps a put from landing under a get
//! only until the get is over. Either the frame is made of the buffer, and the put lands in it; or the put
//! has made it, and then the buffer is not used.
//!
//! Threads take buffers in a fault's signal handler, which may come up in a thread that is about to take one:
//! so there is no lock.

use crate::error::Result;
use crate::fault::{Access, FaultEngine, PAGE, Region};
use crate::runtime::context::{offset, span};
use crate::runtime::frames;
use memmap2::{MmapOptions, MmapRaw};
use scash_comm::GetRange;
use scash_proto::node::MOST_RUNS;
use scash_proto::{Pages, Strided};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many there are. A thread that finds none does without.
const BUFFERS: u32 = 4;

/// The buffers of a rank.
pub(crate) struct Arrivals {
    memory: MmapRaw,
    /// Pages of each.
    pages: u32,
    /// One bit for each that a thread has.
    taken: AtomicU32,
}

/// A buffer that a thread has.
struct Buffer<'a> {
    arrivals: &'a Arrivals,
    number: u32,
}

impl Arrivals {
    /// Buffers of so many pages, which take memory when they are used.
    ///
    /// # Errors
    /// There is no address space left.
    pub(crate) fn new(pages: u32) -> io::Result<Arrivals> {
        let len = BUFFERS as usize * pages.max(1) as usize * PAGE;
        let memory = MmapOptions::new().len(len).no_reserve_swap().map_anon()?.into();
        Ok(Arrivals { memory, pages, taken: AtomicU32::new(0) })
    }

    /// Brings pages that nobody here has mapped, and maps them for reading. `get` brings ranges of their
    /// home's segment, each into a frame of those pages or into a buffer that is this thread's.
    pub(crate) fn bring(
        &self,
        region: &Region,
        engine: &dyn FaultEngine,
        pages: Strided,
        mut get: impl FnMut(&[GetRange]) -> Result<()>,
    ) -> Result<()> {
        let len = pages.first.count as usize * PAGE;
        let buffer = self.buffer(pages.count());
        let mut place = buffer.as_ref().map(Buffer::base);
        let mut ranges = [GetRange { offset: 0, len, dst: ptr::null_mut() }; MOST_RUNS as usize];
        let mut count = 0;
        for (range, run) in ranges.iter_mut().zip(pages.runs()) {
            (range.offset, range.dst) = (offset(run.first), frames::frame(region, run.first));
            if let Some(place) = place.as_mut().filter(|_| engine.lack_frames(span(run))) {
                range.dst = *place;
                *place = place.wrapping_add(len);
            }
            count += 1;
        }
        get(&ranges[..count])?;
        for (range, run) in ranges.iter().zip(pages.runs()) {
            if range.dst == frames::frame(region, run.first) {
                engine.map(span(run), Access::Read)?;
            } else {
                fill(region, engine, run, range.dst, &mut get)?;
            }
        }
        Ok(())
    }

    /// A buffer, if one is free that so many pages fit into.
    fn buffer(&self, pages: u32) -> Option<Buffer<'_>> {
        let is_free = |number: &u32| {
            let bit = 1 << number;
            self.taken.fetch_or(bit, Ordering::Acquire) & bit == 0
        };
        let number = (0..BUFFERS).filter(|_| pages <= self.pages).find(is_free)?;
        Some(Buffer { arrivals: self, number })
    }
}

impl Buffer<'_> {
    /// Its first byte. Nobody else uses it as long as the buffer is held.
    fn base(&self) -> *mut u8 {
        let Arrivals { memory, pages, .. } = self.arrivals;
        memory.as_mut_ptr().wrapping_add(self.number as usize * *pages as usize * PAGE)
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        self.arrivals.taken.fetch_and(!(1 << self.number), Ordering::Release);
    }
}

/// Maps pages that have come into a buffer, from `bytes` on. From the first one on that has a frame, they
/// come anew.
fn fill(
    region: &Region,
    engine: &dyn FaultEngine,
    pages: Pages,
    bytes: *const u8,
    get: &mut impl FnMut(&[GetRange]) -> Result<()>,
) -> Result<()> {
    // SAFETY: the buffer has the bytes of all of `pages`, one behind the other, and is no part of the region.
    let first = unsafe { engine.fill(span(pages), bytes, Access::Read) }?;
    if first < pages.end() {
        let len = (pages.end() - first) as usize * PAGE;
        get(&[GetRange { offset: offset(first), len, dst: frames::frame(region, first) }])?;
        engine.map(first..pages.end(), Access::Read)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{EngineKind, open};
    use std::cell::Cell;
    use std::sync::Arc;

    const PAGES: u32 = 64;

    /// A region, and the pages of its home: each has its number plus `age` in each byte.
    struct Rank {
        region: Arc<Region>,
        engine: Box<dyn FaultEngine>,
        arrivals: Arrivals,
        age: Cell<u8>,
        /// The ranges that were asked for.
        asked: Vec<Vec<(u64, usize)>>,
    }

    impl Rank {
        fn new(kind: EngineKind) -> Rank {
            let region = Arc::new(Region::anywhere(PAGES).unwrap());
            let engine = open(kind, Arc::clone(&region)).unwrap();
            let (arrivals, age) = (Arrivals::new(32).unwrap(), Cell::new(0));
            Rank { region, engine, arrivals, age, asked: vec![] }
        }

        fn byte(&self, page: u32) -> u8 {
            u8::try_from(page).unwrap() + self.age.get()
        }

        /// Brings pages. Their home puts what is younger into the frame of one of them right behind the first
        /// get.
        fn bring(&mut self, pages: Strided, put: Option<u32>) {
            let mut asked = vec![];
            let get = |ranges: &[GetRange]| {
                for range in ranges {
                    let first = u32::try_from(range.offset / PAGE as u64).unwrap();
                    for (page, at) in (first..).zip((0..range.len).step_by(PAGE)) {
                        // SAFETY: a page of a frame or a buffer, which is this thread's.
                        unsafe { range.dst.wrapping_add(at).write_bytes(self.byte(page), PAGE) };
                    }
                }
                if let Some(page) = put.filter(|_| asked.is_empty()) {
                    self.age.set(100);
                    // SAFETY: a page of the runtime view, which this thread alone uses.
                    unsafe { frames::frame(&self.region, page).write_bytes(self.byte(page), PAGE) };
                }
                asked.push(
                    ranges.iter().map(|range| (range.offset / PAGE as u64, range.len / PAGE)).collect(),
                );
                Ok(())
            };
            self.arrivals.bring(&self.region, &*self.engine, pages, get).unwrap();
            self.asked = asked;
        }

        /// What the program sees.
        fn seen(&self, page: u32) -> [u8; 2] {
            let at = self.region.app_base().wrapping_add(page as usize * PAGE);
            // SAFETY: a page of the application view that was mapped for reading.
            [0, PAGE - 1].map(|offset| unsafe { at.wrapping_add(offset).read_volatile() })
        }
    }

    fn rows() -> Strided {
        Strided { first: Pages { first: 40, count: 3 }, step: -10, times: 4 }
    }

    #[test]
    fn pages_come_with_one_get_whether_or_not_they_have_frames() {
        for kind in EngineKind::ALL {
            let mut rank = Rank::new(kind);
            rank.bring(Pages { first: 30, count: 3 }.into(), None);
            rank.engine.unmap(30..33).unwrap();
            rank.bring(rows(), None);
            assert_eq!(rank.asked, [[(40, 3), (30, 3), (20, 3), (10, 3)]]);
            for page in rows().iter() {
                assert_eq!(rank.seen(page), [rank.byte(page); 2], "{kind:?}");
            }
        }
    }

    #[test]
    fn what_a_home_puts_behind_a_get_is_not_overwritten_by_what_was_got() {
        for page in rows().iter() {
            let mut rank = Rank::new(EngineKind::Uffd);
            rank.bring(rows(), Some(page));
            let run = rows().runs().find(|run| run.iter().any(|other| other == page)).unwrap();
            assert_eq!(rank.asked[1..], [[(u64::from(page), (run.end() - page) as usize)]]);
            for other in rows().iter() {
                let age = if (page..run.end()).contains(&other) { 100 } else { 0 };
                assert_eq!(rank.seen(other), [u8::try_from(other).unwrap() + age; 2]);
            }
        }
    }

    #[test]
    fn each_buffer_is_one_thread_s_until_it_is_given_back() {
        let arrivals = Arrivals::new(8).unwrap();
        let mut taken: Vec<_> = (0..BUFFERS).map(|_| arrivals.buffer(8).unwrap()).collect();
        assert!(arrivals.buffer(1).is_none());
        let mut places: Vec<_> = taken.iter().map(|buffer| buffer.base() as usize).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|two| two[1] - two[0] == 8 * PAGE), "{places:x?}");
        let last = taken.pop().unwrap().base();
        assert_eq!(arrivals.buffer(1).unwrap().base(), last);
    }

    #[test]
    fn more_pages_than_fit_find_no_buffer() {
        assert!(Arrivals::new(8).unwrap().buffer(9).is_none());
    }
}
