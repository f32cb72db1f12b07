//! Reductions, and values of one rank for all.

#![allow(clippy::missing_safety_doc, reason = "the texts are those of the header: C has no section for it")]
#![allow(non_camel_case_types, reason = "C's way to name types")]

use crate::call::{call, status};
use crate::pointers::aligned;
use crate::types;
use scash::runtime::Runtime;
use scash::{Combine, Error, NumberKind, Result};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

/// What becomes of the values of all ranks.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dsm_reduction_t {
    /// Their sum. That of whole numbers wraps around.
    DSM_REDUCTION_SUM = 0,
    /// The least of them. NaN is none of them, unless all are.
    DSM_REDUCTION_MIN = 1,
    /// The greatest of them, likewise.
    DSM_REDUCTION_MAX = 2,
    /// The bits that all have. Of whole numbers only.
    DSM_REDUCTION_AND = 3,
    /// The bits that any of them has. Of whole numbers only.
    DSM_REDUCTION_OR = 4,
}

/// The reduction of this number.
///
/// # Safety
/// All bytes of `given` are set.
unsafe fn combine(given: MaybeUninit<dsm_reduction_t>) -> Result<Combine> {
    // SAFETY: by the caller's word.
    match unsafe { types::number(given) } {
        n if n == dsm_reduction_t::DSM_REDUCTION_SUM as c_int => Ok(Combine::Sum),
        n if n == dsm_reduction_t::DSM_REDUCTION_MIN as c_int => Ok(Combine::Min),
        n if n == dsm_reduction_t::DSM_REDUCTION_MAX as c_int => Ok(Combine::Max),
        n if n == dsm_reduction_t::DSM_REDUCTION_AND as c_int => Ok(Combine::And),
        n if n == dsm_reduction_t::DSM_REDUCTION_OR as c_int => Ok(Combine::Or),
        other => {
            Err(Error::Argument(format!("{other} is no dsm_reduction_t: use a DSM_REDUCTION_ constant")))
        }
    }
}

/// Copies `len` values out, which may lie in shared memory. There are no more than the runtime takes.
///
/// # Safety
/// There are so many at `from`, which is aligned.
unsafe fn copy_out<T: Copy + Default>(name: &str, from: *const T, len: usize) -> Result<Vec<T>> {
    if from.is_null() && len > 0 {
        return Err(Error::Argument(format!("{name}(NULL, {len}, ...): give it values")));
    }
    let mut values = vec![T::default(); len];
    if len > 0 {
        // SAFETY: `len` values are there, by the caller's word; the vector is new.
        unsafe { std::ptr::copy_nonoverlapping(from, values.as_mut_ptr(), len) };
    }
    Ok(values)
}

/// Copies values to where there are as many.
///
/// # Safety
/// There are so many at `to`, which may be null if there are none.
unsafe fn copy_in<T: Copy>(values: &[T], to: *mut T) {
    if !values.is_empty() {
        // SAFETY: as many are there, by the caller's word; the slice is private memory.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), to, values.len()) };
    }
}

/// Reduces `count` values of 64 bits.
///
/// # Safety
/// There are so many at `values`; all bytes of `reduction` are set.
unsafe fn all_reduce(
    name: &str,
    number: NumberKind,
    values: *mut u64,
    count: usize,
    reduction: MaybeUninit<dsm_reduction_t>,
) -> c_int {
    status(call(name, |runtime| {
        // SAFETY: by the caller's word.
        let combine = unsafe { combine(reduction) }?;
        runtime.check_reduction(combine, number, count)?;
        aligned(name, values)?;
        // SAFETY: by the caller's word.
        let given = unsafe { copy_out(name, values, count) }?;
        let all = runtime.all_reduce(combine, number, given)?;
        // SAFETY: there are as many as were given, and `count` values lie there.
        unsafe { copy_in(&all, values) };
        Ok(())
    }))
}

/// Replaces the `count` values at `values` by those of all ranks together, element by element: their
/// sum, their least, and so on, the same at every rank. Collective: all ranks come with as many
/// values, at most 4096, and for the same reduction; but no memory barrier. Messages go up a tree of
/// ranks, and down again.
///
/// ```c
/// double sums[2] = {x, x * x};
/// dsm_all_reduce_f64(sums, 2, DSM_REDUCTION_SUM);
/// ```
///
/// Returns 0, or -1 if there are too many values, `values` is NULL, there is no such reduction, or as
/// `dsm_barrier` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_all_reduce_i64(
    values: *mut i64,
    count: usize,
    reduction: MaybeUninit<dsm_reduction_t>,
) -> c_int {
    // SAFETY: by the caller's word; both types have 64 bits.
    unsafe { all_reduce("dsm_all_reduce_i64", NumberKind::I64, values.cast(), count, reduction) }
}

/// As `dsm_all_reduce_i64`, for values of this type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_all_reduce_u64(
    values: *mut u64,
    count: usize,
    reduction: MaybeUninit<dsm_reduction_t>,
) -> c_int {
    // SAFETY: by the caller's word; both types have 64 bits.
    unsafe { all_reduce("dsm_all_reduce_u64", NumberKind::U64, values, count, reduction) }
}

/// As `dsm_all_reduce_i64`, for values of this type.
/// Sums have the same bits at every rank, and in every run on as many ranks.
///
/// Returns 0, or -1 as there, or if the reduction is one of bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_all_reduce_f64(
    values: *mut f64,
    count: usize,
    reduction: MaybeUninit<dsm_reduction_t>,
) -> c_int {
    // SAFETY: by the caller's word; both types have 64 bits.
    unsafe { all_reduce("dsm_all_reduce_f64", NumberKind::F64, values.cast(), count, reduction) }
}

/// Waits until all ranks have come here. No memory barrier: nothing is brought to anybody, and what others
/// wrote is not seen behind it. For what needs an order, and no memory. Collective.
///
/// Returns 0, or -1 as `dsm_barrier` does.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_meet() -> c_int {
    status(call("dsm_meet", Runtime::await_all))
}

/// Replaces the `bytes` bytes at `value`, at most 32 KiB, by those of the rank `from`. Collective: all
/// ranks come with as many bytes, and name the same rank; but no memory barrier. For small values that
/// one rank knows; `dsm_broadcast` brings shared memory to all.
///
/// Returns 0, or -1 if there are too many bytes, `value` is NULL, there is no such rank, or as
/// `dsm_barrier` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_broadcast_value(value: *mut c_void, bytes: usize, from: c_int) -> c_int {
    let name = "dsm_broadcast_value";
    status(call(name, |runtime| {
        let from = types::rank(from)?;
        runtime.check_value(bytes, from)?;
        // SAFETY: by the caller's word.
        let mut all = unsafe { copy_out(name, value.cast::<u8>(), bytes) }?;
        runtime.broadcast_value(&mut all, from)?;
        // The value of that rank is its own: others of its threads may write it meanwhile.
        if runtime.rank() != from {
            // SAFETY: there are as many as were given.
            unsafe { copy_in(&all, value.cast()) };
        }
        Ok(())
    }))
}
