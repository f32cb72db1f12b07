use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Marsaglia's xorshift, to fill pages.
fn random_page(seed: u64) -> PageBytes {
    let mut word = seed | 1;
    std::array::from_fn(|_| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word.to_le_bytes()[3]
    })
}

/// `old` with other values in the bytes that `which` names.
fn touched(old: &PageBytes, which: impl Fn(usize) -> bool) -> PageBytes {
    std::array::from_fn(|i| if which(i) { !old[i] } else { old[i] })
}

fn encoded(old: &PageBytes, new: &PageBytes) -> Vec<u8> {
    let mut diff = Vec::new();
    assert_eq!(encode(old, new, &mut diff), diff.len());
    diff
}

/// All bytes but 175, no two of them neighbours, at least one in each line: 176 runs.
fn is_in_the_longest(i: usize) -> bool {
    !(0..175).any(|gap| i == 12 + gap * PAGE_SIZE / 175)
}

/// The diff of a random page in which the bytes that `which` names have changed.
fn diff_of(which: impl Fn(usize) -> bool) -> Vec<u8> {
    let old = random_page(1);
    let new = touched(&old, which);
    let diff = encoded(&old, &new);
    let mut page = old;
    apply(&diff, &mut page).unwrap();
    assert!(page == new);
    diff
}

fn run_header(offset: u32, len: u32) -> [u8; 3] {
    let [low, middle, high, _] = (offset | (len - 1) << 12).to_le_bytes();
    [low, middle, high]
}

/// A diff in runs form, right or wrong, all of whose changed bytes are 0xab.
fn runs_form(runs: &[(u32, u32)]) -> Vec<u8> {
    let mut diff = vec![u8::try_from(runs.len()).unwrap()];
    runs.iter().for_each(|&(offset, len)| diff.extend(run_header(offset, len)));
    let bytes: u32 = runs.iter().map(|&(_, len)| len).sum();
    diff.resize(diff.len() + bytes as usize, 0xab);
    diff
}

/// A diff in masks form, right or wrong, with `bytes` changed bytes.
fn masks_form(changed: u64, partial: u64, masks: &[u64], bytes: usize) -> Vec<u8> {
    let words = [changed, partial].into_iter().chain(masks.iter().copied());
    let mut diff: Vec<u8> = std::iter::once(0).chain(words.flat_map(u64::to_le_bytes)).collect();
    diff.resize(diff.len() + bytes, 0xab);
    diff
}

/// The error with which a diff is refused; the page must be as before.
fn refused(diff: &[u8]) -> DiffError {
    let mut page = random_page(1);
    let error = apply(diff, &mut page).unwrap_err();
    assert!(page == random_page(1), "a refused diff changes nothing");
    error
}

#[test]
fn equal_pages_have_an_empty_diff_which_changes_nothing() {
    assert!(diff_of(|_| false).is_empty());
    assert!(Changes::between(&random_page(1), &random_page(1)).is_empty());
}

#[test]
fn one_changed_byte_takes_five() {
    let old = random_page(1);
    assert_eq!(diff_of(|i| i == 0x234), [1, 0x34, 0x02, 0x00, !old[0x234]]);
    assert_eq!(diff_of(|i| i == 4095), [1, 0xff, 0x0f, 0x00, !old[4095]]);
}

#[test]
fn a_page_that_changed_throughout_is_one_run() {
    let diff = diff_of(|_| true);
    assert_eq!(diff[..4], [1, 0x00, 0xf0, 0xff]);
    assert_eq!(diff.len(), 4 + PAGE_SIZE);
}

#[test]
fn numbers_whose_low_bytes_changed_travel_as_masks() {
    let diff = diff_of(|i| i % 8 < 6);
    assert_eq!(diff[..17], [[0].as_slice(), &[0xff; 16]].concat());
    assert_eq!(diff[17..17 + 512], [0x3f; 512]);
    assert_eq!(diff.len(), 17 + 512 + 512 * 6);
}

#[test]
fn a_line_that_changed_throughout_needs_no_mask() {
    let diff = diff_of(|i| if i < 2048 { i % 4 == 0 } else { i < 2048 + 1024 });
    assert_eq!(diff, [diff[..17].to_vec(), vec![0x11; 8 * 32], diff[17 + 256..].to_vec()].concat());
    assert_eq!(diff[..17], masks_form((1 << 48) - 1, (1 << 32) - 1, &[], 0));
    assert_eq!(diff.len(), 17 + 256 + 512 + 1024);
}

#[test]
fn the_longest_diff_is_as_long_as_promised() {
    assert_eq!(diff_of(is_in_the_longest).len(), MAX_ENCODED);
}

#[test]
fn the_shorter_form_is_chosen() {
    // Runs of one byte, one a line: a mask takes eight bytes, a run three, and masks have 16 bytes of header
    // more.
    assert_eq!(diff_of(|i| i % 64 == 0)[0], 64);
    // k runs in one line: 1 + 3k against 1 + 16 + 8 bytes.
    let runs_in_a_line = |k: usize| diff_of(move |i| i < 2 * k && i % 2 == 0);
    assert_eq!(runs_in_a_line(8)[0], 8);
    assert_eq!(runs_in_a_line(9)[0], 0);
}

#[test]
fn a_vector_with_room_to_spare_is_not_reallocated_and_keeps_what_it_has() {
    for which in [|i| i % 8 < 6, |_| true, is_in_the_longest, |i| i % 64 == 63] {
        let (old, mut out) = (random_page(3), Vec::with_capacity(ENCODE_ROOM + 2));
        out.extend([7, 8]);
        let place = out.as_ptr();
        let len = encode(&old, &touched(&old, which), &mut out);
        assert_eq!((out.as_ptr(), &out[..2], out.len()), (place, &[7, 8][..], 2 + len));
    }
}

#[test]
fn runs_that_are_not_apart_and_ascending_are_refused() {
    let bad = |offset, len| DiffError::BadRun(Run { offset, len });
    assert_eq!(refused(&runs_form(&[(10, 5), (14, 3)])), bad(14, 3), "overlapping");
    assert_eq!(refused(&runs_form(&[(10, 5), (15, 3)])), bad(15, 3), "touching: should have been one run");
    assert_eq!(refused(&runs_form(&[(100, 5), (0, 3)])), bad(0, 3), "descending");
    assert_eq!(refused(&runs_form(&[(10, 5), (10, 5)])), bad(10, 5), "twice");
}

#[test]
fn runs_that_leave_the_page_are_refused() {
    let bad = |offset, len| DiffError::BadRun(Run { offset, len });
    assert_eq!(refused(&runs_form(&[(4095, 2)])), bad(4095, 2));
    assert_eq!(refused(&runs_form(&[(1, 4096)])), bad(1, 4096));
    assert_eq!(refused(&runs_form(&[(0, 4094), (4095, 4096)])), bad(4095, 4096));
}

#[test]
fn masks_that_contradict_each_other_are_refused() {
    let lines = |changed, partial| DiffError::BadLines { changed, partial };
    assert_eq!(refused(&masks_form(0, 0, &[], 0)), lines(0, 0), "no change is no bytes");
    assert_eq!(refused(&masks_form(0b01, 0b10, &[1], 1)), lines(0b01, 0b10));
    let masks = |line, mask| DiffError::BadMask { line, mask };
    assert_eq!(refused(&masks_form(0b100, 0b100, &[0], 0)), masks(2, 0));
    assert_eq!(refused(&masks_form(0b111, 0b101, &[1, u64::MAX], 129)), masks(2, u64::MAX));
}

#[test]
fn a_diff_of_the_wrong_length_is_refused() {
    for diff in [runs_form(&[(0, 3), (9, 70)]), masks_form(0b11, 0b01, &[0b101], 66)] {
        let mut page = random_page(1);
        assert_eq!(apply(&diff, &mut page), Ok(()));
        for len in 1..diff.len() {
            assert!(matches!(refused(&diff[..len]), DiffError::Malformed(_)), "cut to {len}");
        }
        assert!(matches!(refused(&[&diff[..], &[0]].concat()), DiffError::Malformed(_)));
    }
    assert!(matches!(refused(&[0]), DiffError::Malformed(_)));
    assert!(matches!(refused(&[255]), DiffError::Malformed(_)));
}

#[test]
fn error_texts_name_what_is_wrong() {
    let text = |diff: &[u8]| refused(diff).to_string();
    assert!(text(&runs_form(&[(4095, 2)])).contains("a run of 2 bytes at 4095"));
    assert!(text(&masks_form(1, 2, &[], 0)).contains("lines 0x2"));
    assert!(text(&masks_form(4, 4, &[0], 0)).contains("line 2"));
    assert!(text(&[1]).contains("3 bytes expected, 0 left"));
}

#[test]
fn whole_words_of_an_array_of_numbers_are_one_run() {
    let old = random_page(5);
    let changes = Changes::between(&old, &touched(&old, |i| (800..2400).contains(&i) && i % 8 == 7));
    assert_eq!(changes.runs().count(), 200);
    assert_eq!(changes.whole_words().runs().collect::<Vec<_>>(), [Run { offset: 800, len: 1600 }]);
}

#[test]
fn all_and_none_are_what_they_say() {
    let page = random_page(1);
    assert_eq!(Changes::between(&page, &page.map(|byte| !byte)), Changes::ALL);
    assert_eq!(Changes::between(&page, &page), Changes::NONE);
    assert_eq!((Changes::ALL.bytes(), Changes::NONE.bytes()), (PAGE_SIZE, 0));
}

/// Sets of bytes such as programs change: at random, numbers' low bytes, stretches, combinations of them.
fn some_bytes() -> impl Strategy<Value = Vec<bool>> {
    let random = (any::<u64>(), 1u8..=255)
        .prop_map(|(seed, share)| random_page(seed).map(|byte| byte < share).to_vec());
    let numbers = (prop::sample::select(vec![2usize, 4, 8, 24]), any::<u64>()).prop_map(|(size, seed)| {
        let lens = random_page(seed);
        (0..PAGE_SIZE).map(|i| i % size < usize::from(lens[i / size]) % (size + 1)).collect()
    });
    let stretches = vec((0..PAGE_SIZE, 1..400usize), 0..6).prop_map(|runs| {
        (0..PAGE_SIZE).map(|i| runs.iter().any(|&(from, len)| (from..from + len).contains(&i))).collect()
    });
    let one = prop_oneof![2 => random.boxed(), 2 => numbers.boxed(), 3 => stretches.boxed(), 1 => Just(vec![true; PAGE_SIZE])];
    (vec(one, 1..3), any::<bool>()).prop_map(|sets| match sets {
        (sets, true) => (0..PAGE_SIZE).map(|i| sets.iter().any(|set| set[i])).collect(),
        (sets, false) => (0..PAGE_SIZE).map(|i| sets.iter().all(|set| set[i])).collect(),
    })
}

/// The runs of a set, found in the plainest way.
fn plain_runs(set: &[bool]) -> Vec<Run> {
    let edges = |i: usize| (i > 0 && set[i - 1], i < PAGE_SIZE && set[i]);
    let starts = (0..PAGE_SIZE).filter(|&i| edges(i) == (false, true));
    let ends = (1..=PAGE_SIZE).filter(|&i| edges(i) == (true, false));
    let run = |(start, end): (usize, usize)| Run {
        offset: u16::try_from(start).unwrap(),
        len: u16::try_from(end - start).unwrap(),
    };
    starts.zip(ends).map(run).collect()
}

proptest! {
    #[test]
    fn changes_are_exactly_the_bytes_that_differ(set in some_bytes(), seed: u64) {
        let old = random_page(seed);
        let changes = Changes::between(&old, &touched(&old, |i| set[i]));
        let runs = plain_runs(&set);
        prop_assert_eq!(changes.bytes(), set.iter().filter(|&&changed| changed).count());
        prop_assert_eq!(changes.is_empty(), runs.is_empty());
        prop_assert_eq!(changes.runs().collect::<Vec<_>>(), runs);
        let words: Vec<bool> = (0..PAGE_SIZE).map(|i| set[i / 8 * 8..][..8].contains(&true)).collect();
        prop_assert_eq!(changes.whole_words().runs().collect::<Vec<_>>(), plain_runs(&words));
    }

    #[test]
    fn a_diff_leads_from_the_old_page_to_the_new(set in some_bytes(), seed: u64) {
        let old = random_page(seed);
        let new = touched(&old, |i| set[i]);
        let diff = encoded(&old, &new);
        prop_assert!(diff.len() <= MAX_ENCODED);
        let mut page = old;
        prop_assert_eq!(apply(&diff, &mut page), Ok(()));
        prop_assert!(page == new);
    }

    #[test]
    fn bytes_that_the_writer_left_alone_survive_its_diff(set in some_bytes(), seed: u64, other: u64) {
        let (old, other) = (random_page(seed), random_page(other));
        let new = touched(&old, |i| set[i]);
        let mut page = other;
        apply(&encoded(&old, &new), &mut page).unwrap();
        let expected: PageBytes = std::array::from_fn(|i| if set[i] { new[i] } else { other[i] });
        prop_assert!(page == expected);
    }

    #[test]
    fn diffs_of_writers_of_different_bytes_merge_in_any_order(a in some_bytes(), b in some_bytes(), seed: u64) {
        let old = random_page(seed);
        let a = encoded(&old, &touched(&old, |i| a[i] && !b[i]));
        let b = encoded(&old, &touched(&old, |i| b[i]));
        let merged = |diffs: [&[u8]; 2]| {
            let mut page = old;
            diffs.iter().for_each(|diff| apply(diff, &mut page).unwrap());
            page
        };
        prop_assert!(merged([&a, &b]) == merged([&b, &a]));
    }

    #[test]
    fn pieces_are_the_changed_runs_with_their_new_bytes(set in some_bytes(), seed: u64) {
        let old = random_page(seed);
        let new = touched(&old, |i| set[i]);
        let diff = encoded(&old, &new);
        let diff = Diff::parse(&diff).unwrap();
        prop_assert_eq!(diff.changes(), &Changes::between(&old, &new));
        let pieces: Vec<_> = plain_runs(&set).into_iter().map(|run| (run, &new[run.range()])).collect();
        prop_assert_eq!(diff.pieces().collect::<Vec<_>>(), pieces);
    }

    #[test]
    fn every_byte_of_a_page_may_be_encoded_whether_it_changed_or_not(seed: u64, other: u64) {
        let (mut diff, mut page) = (Vec::new(), random_page(other));
        Changes::ALL.encode(&random_page(seed), &mut diff);
        apply(&diff, &mut page).unwrap();
        prop_assert!(page == random_page(seed));
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in vec(any::<u8>(), 0..600), head in prop::option::of(0u8..4)) {
        let bytes: Vec<u8> = head.into_iter().chain(bytes).collect();
        let mut page = random_page(1);
        if let Err(error) = apply(&bytes, &mut page) {
            prop_assert!(page == random_page(1), "{}", error);
        }
    }

    #[test]
    fn a_damaged_diff_is_refused_or_changes_what_it_says(set in some_bytes(), at: prop::sample::Index, xor in 1u8.., cut: prop::sample::Index) {
        let old = random_page(1);
        let mut diff = encoded(&old, &touched(&old, |i| set[i]));
        prop_assume!(!diff.is_empty());
        // The beginning has the header: damage it more often.
        let at = at.index(diff.len().min(40));
        diff[at] ^= xor;
        diff.truncate(diff.len() - cut.index(2));
        let mut page = old;
        if let Ok(parsed) = Diff::parse(&diff) {
            parsed.apply(&mut page);
            let mut again = Vec::new();
            parsed.changes().encode(&page, &mut again);
            let mut same = old;
            apply(&again, &mut same).unwrap();
            prop_assert!(page == same);
        }
    }
}
