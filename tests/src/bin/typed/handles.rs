//! Handles that lead nowhere, and arguments that make no sense: nothing comes of them but words.

use super::{PAGE, at};
use scash::{Dsm, Error, Partition, Protocol, Result, SharedSlice};
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What is said of memory that was freed.
const FREED: &str = "was freed";

pub(crate) fn refused<T: Debug>(told: Result<T>, word: &str) {
    let error = told.expect_err("it cannot be done");
    assert!(matches!(error, Error::Argument(_)) && error.to_string().contains(word), "{error}");
}

/// Checks that a call panics, with this word.
fn panics<T: Debug>(call: impl FnOnce() -> T, word: &str) {
    let said = catch_unwind(AssertUnwindSafe(call)).expect_err("it cannot be done");
    let said = said.downcast_ref::<String>().expect("a text");
    assert!(said.contains(word), "{said}");
}

/// Runs checks of panics without a report of each.
fn quietly(checks: impl FnOnce()) {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let done = catch_unwind(AssertUnwindSafe(checks));
    std::panic::set_hook(hook);
    if let Err(wrong) = done {
        panic!("{}", wrong.downcast_ref::<String>().map_or("a check failed", String::as_str));
    }
}

/// A partition that lies where the slice was.
fn partition_in_place_of(dsm: &mut Dsm, slice: SharedSlice<u64>) -> Result<Partition<u64>> {
    for _ in 0..1000 {
        let mut field = dsm.partition(slice.len())?;
        for _ in 0..2 {
            if std::ptr::eq(field.all(dsm).as_ptr(), slice.as_ptr()) {
                return Ok(field);
            }
            field.publish(dsm)?;
        }
        field.free(dsm)?;
    }
    panic!("a region that never uses a page again")
}

/// Every copy of a handle is good until the memory is freed, and none afterwards, when it belongs to somebody
/// else.
pub(crate) fn lead_nowhere_when_the_memory_is_freed(dsm: &mut Dsm) -> Result<()> {
    let slice = dsm.alloc_with::<u64>(PAGE, at(0))?;
    let copy = slice;
    dsm.free(slice)?;
    let mut field = partition_in_place_of(dsm, copy)?;
    for _ in 0..2 {
        let parts = field.parts(dsm);
        parts.mine.fill(5);
        quietly(|| {
            panics(|| copy.get(dsm, 0), FREED);
            panics(|| copy.set(dsm, 0, 9), FREED);
            // SAFETY: no slice comes of it.
            panics(|| unsafe { copy.slice(dsm, 0..1) }.len(), FREED);
            // SAFETY: as above.
            panics(|| unsafe { copy.slice_mut(dsm, 0..1) }.len(), FREED);
        });
        refused(dsm.touch(copy, 0..1), FREED);
        refused(dsm.touch_mut(copy, 0..1), FREED);
        refused(dsm.home(copy, 0), FREED);
        assert!(parts.mine.iter().all(|v| *v == 5));
        field.publish(dsm)?;
        assert!(field.all(dsm).iter().all(|v| *v == 5));
    }
    refused(dsm.free(copy), FREED);
    refused(dsm.set_home(copy, 0..1, 0), FREED);
    refused(dsm.set_protocol(copy, Protocol::Update), FREED);
    refused(dsm.write_back(copy, 0..1), FREED);
    refused(dsm.read_home(copy, 0..1), FREED);
    refused(dsm.broadcast(copy, 0..1), FREED);
    assert!(field.all(dsm).iter().all(|v| *v == 5));
    field.free(dsm)
}

/// Elements and ranks that there are not.
pub(crate) fn have_the_elements_that_were_asked_for(dsm: &mut Dsm) -> Result<()> {
    let slice = dsm.alloc::<u64>(10)?;
    let words = "of a shared slice of 10";
    quietly(|| {
        panics(|| slice.get(dsm, 10), "element 10 of 10");
        panics(|| slice.set(dsm, usize::MAX, 1), "of 10");
        // SAFETY: no slice comes of it.
        panics(|| unsafe { slice.slice(dsm, 9..11) }.len(), words);
        // SAFETY: as above.
        panics(|| unsafe { slice.slice_mut(dsm, 11..12) }.len(), words);
    });
    for none in [10, usize::MAX] {
        refused(dsm.home(slice, none), words);
    }
    #[expect(clippy::reversed_empty_ranges, reason = "that is the mistake")]
    let ranges = [0..11, 11..11, 3..2];
    for range in ranges {
        refused(dsm.touch(slice, range.clone()), words);
        refused(dsm.touch_mut(slice, range.clone()), words);
        refused(dsm.write_back(slice, range.clone()), words);
        refused(dsm.read_home(slice, range.clone()), words);
        refused(dsm.set_home(slice, range.clone(), 0), words);
        refused(dsm.broadcast(slice, range), words);
    }
    let size = dsm.size();
    for rank in [size, usize::MAX] {
        refused(dsm.set_home(slice, 0..1, rank), &format!("there are ranks 0 to {}", size - 1));
    }
    refused(dsm.alloc::<u64>(0), "ask for at least one");
    refused(dsm.alloc::<[u64; 0]>(7), "ask for at least one");
    refused(dsm.partition::<[u64; 0]>(7), "no bytes");
    let much = dsm.alloc::<u64>(usize::MAX).expect_err("more than there is");
    assert!(matches!(much, Error::OutOfSpace(_)), "{much}");
    dsm.free(slice)
}
