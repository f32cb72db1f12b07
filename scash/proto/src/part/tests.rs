//! A part against a model that remembers all objects, and stories.

use super::*;
use proptest::prelude::*;

const PAGES: u32 = 64;

/// A part, its words, and the objects that are there: how many bytes, by place.
struct Heap {
    part: Part,
    words: Vec<AtomicU64>,
    objects: BTreeMap<u64, u64>,
    base: u64,
    interval: u64,
}

/// What a foreign rank does: clears a bit, and notes the interval first if the object comes back later.
fn free_elsewhere(words: &[AtomicU64], place: u64, interval: Option<u64>) -> bool {
    let (page, (at, bit)) = (page_of(place), bit_of(place % PAGE));
    if let Some(interval) = interval {
        word(words, page, STAMP).store(interval, SeqCst);
    }
    is_object(words, place) && word(words, page, at).fetch_and(!bit, SeqCst) & bit != 0
}

impl Heap {
    fn new(pages: u32, base: u64) -> Heap {
        let words = (0..u64::from(pages) * WORDS).map(|_| AtomicU64::new(0)).collect();
        Heap { part: Part::new(pages), words, objects: BTreeMap::new(), base, interval: 1 }
    }

    fn alloc(&mut self, bytes: u64, align: u64) -> Result<u64, NoRoom> {
        let request = Request { bytes, align, base: self.base };
        let interval = self.interval;
        let mut stale = Vec::new();
        let place = self.part.alloc(&self.words, request, || Some(interval), &mut stale)?;
        assert!((place + self.base * PAGE).is_multiple_of(align), "{place} of {align}");
        let before = self.objects.range(..place + bytes).next_back();
        assert!(before.is_none_or(|(&at, &len)| at + len <= place), "{place}+{bytes} lies in {before:?}");
        assert!(place + bytes <= u64::from(self.part.pages()) * PAGE);
        let last = (place + bytes - 1) / PAGE;
        assert!(bytes > MOST_SMALL || last == place / PAGE, "a small object lies in two pages");
        self.objects.insert(place, bytes);
        Ok(place)
    }

    /// Frees the object of that number in the order of places, here or elsewhere.
    fn free(&mut self, number: usize, here: bool, later: bool) {
        let Some((&place, _)) = self.objects.iter().nth(number % self.objects.len().max(1)) else { return };
        self.objects.remove(&place);
        let interval = later.then_some(self.interval);
        let freed = |heap: &mut Heap, here: bool| {
            if here {
                heap.part.free(&heap.words, place)
            } else {
                free_elsewhere(&heap.words, place, interval)
            }
        };
        assert!(freed(self, here), "{place} is there");
        assert!(!freed(self, !here) && !freed(self, here), "{place} was freed before");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Alloc { bytes: u64, align: u32 },
    Free { number: usize, here: bool, later: bool },
    NotAnObject(u64),
    Barrier,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![8 => 1..200u64, 4 => 200..5000u64, 1 => 5000..40_000u64];
    let alloc = (bytes, 0..14u32).prop_map(|(bytes, align)| Step::Alloc { bytes, align });
    let free = (any::<usize>(), any::<bool>(), any::<bool>()).prop_map(|(number, here, later)| Step::Free {
        number,
        here,
        later,
    });
    let other = prop_oneof![(0..u64::from(PAGES) * PAGE).prop_map(Step::NotAnObject), Just(Step::Barrier),];
    prop::collection::vec(prop_oneof![5 => alloc, 5 => free, 1 => other], 1..400)
}

proptest! {
    #[test]
    fn objects_lie_apart_and_all_memory_comes_back(steps in steps(), base in 0..9u64) {
        let mut heap = Heap::new(PAGES, base);
        for step in steps {
            match step {
                // Where there is no room, there is none for the next one.
                Step::Alloc { bytes, align } => drop(heap.alloc(bytes, 1 << align)),
                Step::Free { number, here, later } => heap.free(number, here, later),
                Step::NotAnObject(place) => {
                    let place = place / GRAIN * GRAIN;
                    if !heap.objects.contains_key(&place) {
                        prop_assert!(!heap.part.free(&heap.words, place));
                        prop_assert!(!free_elsewhere(&heap.words, place, None));
                    }
                }
                Step::Barrier => heap.interval += 1,
            }
            heap.part.check(&heap.words);
        }
        while !heap.objects.is_empty() {
            heap.free(0, heap.objects.len().is_multiple_of(2), false);
        }
        heap.interval += 1;
        // Each size keeps a page for itself until there is no other.
        let free = std::iter::from_fn(|| heap.alloc(PAGE, 1).ok()).count();
        prop_assert!(free + SIZES.len() >= PAGES as usize, "{free} pages");
        heap.part.check(&heap.words);
    }
}

#[test]
fn an_owner_and_another_rank_pass_objects_round_without_growth() {
    for later in [false, true] {
        let mut heap = Heap::new(4096, 0);
        let mut queue = std::collections::VecDeque::new();
        for round in 0..40_000u64 {
            queue.push_back(heap.alloc(64 + round % 3 * 500, 1).unwrap());
            if queue.len() > 1000 {
                let place = queue.pop_front().unwrap();
                heap.objects.remove(&place);
                assert!(free_elsewhere(&heap.words, place, later.then_some(heap.interval)));
            }
            heap.interval += u64::from(round % 100 == 0);
        }
        // A thousand objects of 600 bytes, of three sizes, have 145 pages.
        assert!(heap.part.used_pages() < 300, "{} pages, later: {later}", heap.part.used_pages());
    }
}

#[test]
fn what_is_freed_elsewhere_in_this_interval_comes_back_with_the_next_one() {
    let mut heap = Heap::new(1, 0);
    let places: Vec<u64> = (0..2).map(|_| heap.alloc(2000, 1).unwrap()).collect();
    heap.objects.clear();
    assert!(free_elsewhere(&heap.words, places[0], Some(heap.interval)));
    let none = heap.alloc(2000, 1).unwrap_err();
    assert_eq!(none, NoRoom { pages: 1, part: 1, free: 0 });
    heap.interval += 1;
    assert_eq!(heap.alloc(2000, 1), Ok(places[0]));
}

#[test]
fn what_others_wrote_has_to_be_seen_before_its_place_is_used_again() {
    let mut heap = Heap::new(8, 0);
    let (small, large) = (heap.alloc(2000, 1).unwrap(), heap.alloc(3 * PAGE, 1).unwrap());
    assert!(free_elsewhere(&heap.words, small, None) && free_elsewhere(&heap.words, large, None));
    let mut stale = Vec::new();
    let request = Request { bytes: 6 * PAGE, align: 1, base: 0 };
    heap.part.alloc(&heap.words, request, || None, &mut stale).unwrap();
    stale.sort_unstable_by_key(|pages| pages.start);
    assert_eq!(stale, [page_of(small)..page_of(small) + 1, page_of(large)..page_of(large) + 3]);
}

#[test]
fn a_word_of_a_page_says_what_it_has() {
    for kind in [Kind::Blank, Kind::Slots(16), Kind::Slots(2048), Kind::Run(1), Kind::Run(u32::MAX)] {
        assert_eq!(Kind::decode(kind.encode()), kind);
    }
    assert_eq!(Kind::decode(u64::MAX), Kind::Blank);
    assert_eq!(Kind::Slots(48).object_at(100), Some((96, 48)));
    assert_eq!(Kind::Slots(1344).object_at(4095), None);
    assert_eq!(Kind::Run(2).object_at(100), Some((0, 2 * PAGE)));
    assert_eq!(bit_of(65 * GRAIN), (USED + 1, 2));
}

#[test]
fn sizes_waste_little_and_every_alignment_has_one() {
    for bytes in 1..=MOST_SMALL {
        let size = u64::from(SIZES[class_of(bytes, 1).unwrap()]);
        assert!(size >= bytes && (size <= bytes + GRAIN || size * 5 <= bytes * 8), "{size} for {bytes}");
    }
    for align in (0..=11).map(|power| 1 << power) {
        assert!(u64::from(SIZES[class_of(1, align).unwrap()]).is_multiple_of(align));
    }
    assert_eq!((class_of(MOST_SMALL + 1, 1), class_of(1, 2 * MOST_SMALL)), (None, None));
}

/// A rank that asks for a parked object may come too late: what it clears for a moment may be the bit of what
/// the page has since.
#[test]
fn who_comes_too_late_for_a_parked_object_leaves_all_others_in_use() {
    for (size, bits) in SIZES.into_iter().filter(|&size| u64::from(size) >= LEAST_PARKED).flat_map(|size| {
        (0..PAGE / u64::from(size)).map(move |slot| (size, ParkedBits::of(slot * u64::from(size))))
    }) {
        let mut heap = Heap::new(2, 0);
        for _ in 0..PAGE / GRAIN {
            heap.alloc(GRAIN, 1).unwrap();
        }
        let parked = word(&heap.words, 0, PARKED);
        let was = parked.fetch_and(!bits.parked, SeqCst);
        // The owner looks for what others have freed, and finds nothing.
        let other = heap.alloc(GRAIN, 1).unwrap();
        assert_eq!(page_of(other), 1, "of {size}");
        word(&heap.words, 0, PARKED).store(was, SeqCst);
        heap.part.check(&heap.words);
    }
}
