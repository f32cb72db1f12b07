use super::*;
use proptest::prelude::*;

const ONE: NonZeroU32 = NonZeroU32::MIN;
const PAGE: u64 = crate::PAGE_SIZE as u64;

fn align(pages: u32) -> NonZeroU32 {
    NonZeroU32::new(pages).unwrap()
}

/// Allocates `pages` pages and returns the first.
fn alloc(heap: &mut Heap<()>, pages: u64) -> u32 {
    heap.alloc(pages * PAGE, ONE, ()).unwrap().first
}

/// Each page is free or in one allocation; runs are maximal; the counters are right.
fn check<O>(heap: &Heap<O>) {
    let mut pieces: Vec<(u32, u32, bool)> =
        heap.free.iter().map(|(&first, &len)| (first, len, true)).collect();
    pieces.extend(heap.iter().map(|a| (a.first, a.pages, false)));
    pieces.sort_unstable();
    let mut next = 0;
    for (at, &(first, len, free)) in pieces.iter().enumerate() {
        assert_eq!(first, next, "no gap and no overlap");
        assert!(len > 0);
        assert!(!(free && at > 0 && pieces[at - 1].2), "free runs are merged");
        assert!(free || first + len <= heap.unused_from());
        next = first + len;
    }
    assert_eq!(next, heap.pages());
}

#[test]
fn an_allocation_remembers_what_was_asked_for() {
    let mut heap = Heap::new(10);
    heap.alloc(1, ONE, "first").unwrap();
    let second = heap.alloc(2 * PAGE + 1, ONE, "second").unwrap().clone();
    assert_eq!(second, Allocation { id: 1, first: 1, pages: 3, bytes: 2 * PAGE + 1, options: "second" });
    assert_eq!(second.range(), 1..4);
    assert_eq!(heap.iter().map(|a| a.options).collect::<Vec<_>>(), ["first", "second"]);
}

#[test]
fn an_allocation_of_no_bytes_has_a_page_and_an_address_of_its_own() {
    let mut heap = Heap::new(2);
    assert_eq!((alloc(&mut heap, 0), alloc(&mut heap, 0)), (0, 1));
}

#[test]
fn a_page_is_found_in_the_allocation_it_belongs_to_and_nowhere_else() {
    let mut heap = Heap::new(100);
    alloc(&mut heap, 10);
    let middle = alloc(&mut heap, 5);
    alloc(&mut heap, 20);
    heap.free(middle).unwrap();
    let first_of = |page| heap.find(page).map(|a| a.first);
    assert_eq!(
        [0, 9, 10, 14, 15, 34, 35, u32::MAX].map(first_of),
        [Some(0), Some(0), None, None, Some(15), Some(15), None, None]
    );
}

#[test]
fn options_can_be_changed_later() {
    let mut heap = Heap::new(10);
    heap.alloc(3 * PAGE, ONE, 1).unwrap();
    heap.find_mut(2).unwrap().options = 2;
    assert_eq!(heap.find(0).unwrap().options, 2);
    assert_eq!(heap.find_mut(3), None);
}

#[test]
fn freed_pages_are_not_used_again_while_there_are_fresh_ones() {
    let mut heap = Heap::new(10);
    let first = alloc(&mut heap, 4);
    heap.free(first).unwrap();
    assert_eq!(alloc(&mut heap, 4), 4);
    heap.free(4).unwrap();
    assert_eq!(heap.find(5), None, "a late access is seen for what it is");
    assert_eq!(alloc(&mut heap, 2), 8);
    assert_eq!(alloc(&mut heap, 8), 0, "freed neighbours have become one run");
}

#[test]
fn pages_freed_last_are_reused_last() {
    let mut heap = Heap::new(8);
    for _ in 0..8 {
        alloc(&mut heap, 1);
    }
    for page in [1, 3, 5] {
        heap.free(page).unwrap();
    }
    assert_eq!(alloc(&mut heap, 1), 1);
    heap.free(1).unwrap();
    assert_eq!([alloc(&mut heap, 1), alloc(&mut heap, 1), alloc(&mut heap, 1)], [3, 5, 1]);
}

#[test]
fn an_allocation_begins_at_a_multiple_of_its_alignment() {
    let mut heap = Heap::new(64);
    alloc(&mut heap, 3);
    let block = heap.alloc(20 * PAGE, align(16), ()).unwrap();
    assert_eq!(block.range(), 16..36);
    check(&heap);
    assert_eq!(
        heap.alloc(PAGE, align(7), ()).unwrap().first,
        42,
        "any number will do, not powers of two only"
    );
}

#[test]
fn pages_skipped_for_alignment_are_used_when_the_rest_is_gone() {
    let mut heap = Heap::new(64);
    alloc(&mut heap, 1);
    heap.alloc(32 * PAGE, align(32), ()).unwrap();
    assert_eq!(alloc(&mut heap, 31), 1);
    check(&heap);
}

#[test]
fn when_space_runs_out_the_error_says_how_much_there_is() {
    let mut heap = Heap::new(10);
    for _ in 0..10 {
        alloc(&mut heap, 1);
    }
    for page in [2, 3, 4, 8] {
        heap.free(page).unwrap();
    }
    let error = heap.alloc(4 * PAGE, ONE, ()).unwrap_err();
    assert_eq!(error, OutOfSpace { asked: 4, align: 1, largest_free: 3, free: 4 });
    assert!(error.to_string().contains("4 are free, at most 3 in one piece"), "{error}");
    let error = heap.alloc(3 * PAGE, align(4), ()).unwrap_err();
    assert!(error.to_string().contains("at a multiple of 4"), "{error}");
    assert_eq!(alloc(&mut heap, 3), 2, "a refused allocation changes nothing");
}

#[test]
fn sizes_beyond_all_pages_are_refused_without_overflow() {
    let mut heap = Heap::new(u32::MAX);
    assert_eq!(heap.alloc(u64::MAX, ONE, ()).unwrap_err().asked, u64::MAX / PAGE + 1);
    assert_eq!(heap.alloc(u64::from(u32::MAX) * PAGE, ONE, ()).unwrap().first, 0);
    heap.free(0).unwrap();
    alloc(&mut heap, 1);
    assert_eq!(heap.alloc(PAGE, align(u32::MAX), ()).unwrap_err().largest_free, u32::MAX - 1);
    assert_eq!(Heap::new(0).alloc(1, ONE, ()).unwrap_err().free, 0);
}

#[test]
fn a_wild_page_cannot_be_freed_and_the_error_says_why() {
    let mut heap = Heap::new(10);
    alloc(&mut heap, 4);
    let inside = heap.free(2).unwrap_err();
    assert_eq!(inside, NotAllocated { page: 2, inside: Some(0) });
    assert!(inside.to_string().contains("begins at page 0"), "{inside}");
    heap.free(0).unwrap();
    let twice = heap.free(0).unwrap_err();
    assert_eq!(twice, NotAllocated { page: 0, inside: None });
    assert!(twice.to_string().contains("freed before"), "{twice}");
    check(&heap);
}

#[derive(Clone, Debug)]
enum Op {
    Alloc {
        pages: u64,
        align: u32,
    },
    /// Frees the n-th living allocation, modulo their number.
    Free(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0u64..24, 1u32..9).prop_map(|(pages, align)| Op::Alloc { pages, align }),
        2 => any::<usize>().prop_map(Op::Free),
    ]
}

/// Runs the operations and returns what each gave.
fn run(heap: &mut Heap<usize>, ops: &[Op]) -> Vec<Result<u32, OutOfSpace>> {
    let mut results = Vec::new();
    for (number, op) in ops.iter().enumerate() {
        match *op {
            Op::Alloc { pages, align: a } => {
                results.push(heap.alloc(pages * PAGE, align(a), number).map(|allocation| allocation.first));
            }
            Op::Free(n) => {
                let living: Vec<u32> = heap.iter().map(|a| a.first).collect();
                if let Some(&first) = living.get(n % living.len().max(1)) {
                    results.push(Ok(heap.free(first).unwrap().first));
                }
            }
        }
        check(heap);
    }
    results
}

proptest! {
    #[test]
    fn pages_are_never_lost_nor_given_twice(ops in prop::collection::vec(op(), 0..120)) {
        let mut heap = Heap::new(128);
        run(&mut heap, &ops);
        for page in 0..heap.pages() {
            let owners = heap.iter().filter(|a| a.range().contains(&page)).map(|a| a.id);
            prop_assert!(owners.eq(heap.find(page).map(|a| a.id)));
        }
        for first in heap.iter().map(|a| a.first).collect::<Vec<_>>() {
            heap.free(first).unwrap();
        }
        prop_assert_eq!(heap.free_pages(), 128);
        prop_assert_eq!(heap.alloc(128 * PAGE, ONE, 0).unwrap().first, 0);
    }

    #[test]
    fn the_same_calls_give_the_same_pages(ops in prop::collection::vec(op(), 0..120)) {
        prop_assert_eq!(run(&mut Heap::new(128), &ops), run(&mut Heap::new(128), &ops));
    }

    #[test]
    fn an_allocation_is_refused_only_if_no_aligned_run_fits(ops in prop::collection::vec(op(), 0..60), pages in 1u32..40, a in 1u32..9) {
        let mut heap = Heap::new(128);
        run(&mut heap, &ops);
        let fits = (0..=128 - pages).any(|first| first % a == 0 && (first..first + pages).all(|page| heap.find(page).is_none()));
        prop_assert_eq!(heap.alloc(u64::from(pages) * PAGE, align(a), 0).is_ok(), fits);
    }
}

#[test]
fn the_last_pages_are_one_allocation_that_no_other_touches() {
    let mut heap = Heap::new(100);
    heap.reserve(60, 30, ());
    assert_eq!((heap.free_pages(), heap.unused_from()), (60, 0));
    let reserved = heap.find(89).unwrap();
    assert_eq!((reserved.id, reserved.first, reserved.pages), (RESERVED, 60, 30));
    assert!(heap.find(90).is_none() && heap.find(59).is_none());
    assert_eq!(heap.alloc(61 * PAGE, ONE, ()).unwrap_err().largest_free, 60);
    assert_eq!((alloc(&mut heap, 60), heap.find(0).unwrap().id), (0, 0));
}
