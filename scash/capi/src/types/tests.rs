use super::*;

/// Options as a C program has them that wrote `= {0}`.
fn zeros() -> dsm_alloc_options_t {
    // SAFETY: a plain structure of numbers, for which zeros are values.
    unsafe { std::mem::zeroed() }
}

/// What options of numbers ask for.
fn checked(options: &dsm_alloc_options_t) -> Result<AllocOptions> {
    // SAFETY: these tests set all members.
    unsafe { options.checked() }
}

/// An enum that a C program has assigned an arbitrary int.
fn stray<T>(number: c_int) -> MaybeUninit<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the enum has an int's size and alignment, as `number` checks.
    unsafe { value.as_mut_ptr().cast::<c_int>().write(number) };
    value
}

#[test]
fn a_structure_of_zeros_asks_for_the_defaults() {
    assert_eq!(checked(&zeros()).unwrap(), AllocOptions::default());
}

#[test]
fn bytes_are_rounded_up_to_pages() {
    for (bytes, want) in [(0, 1), (1, 1), (4096, 1), (4097, 2), (1 << 20, 256)] {
        let options = dsm_alloc_options_t {
            placement: MaybeUninit::new(dsm_placement_t::DSM_PLACEMENT_CYCLIC),
            cyclic_bytes: bytes,
            block_bytes: bytes,
            rank: 3,
            ..zeros()
        };
        let checked = checked(&options).unwrap();
        assert_eq!(checked.block, want);
        assert_eq!(checked.placement, Placement::Cyclic { pages: NonZeroU32::new(want).unwrap(), first: 3 });
    }
}

#[test]
fn what_c_lets_pass_is_refused_with_a_hint() {
    let rank = MaybeUninit::new(dsm_placement_t::DSM_PLACEMENT_RANK);
    let cyclic = MaybeUninit::new(dsm_placement_t::DSM_PLACEMENT_CYCLIC);
    for (options, hint) in [
        (dsm_alloc_options_t { placement: stray(4), ..zeros() }, "DSM_PLACEMENT_"),
        (dsm_alloc_options_t { placement: stray(-1), ..zeros() }, "DSM_PLACEMENT_"),
        (dsm_alloc_options_t { protocol: stray(77), ..zeros() }, "DSM_PROTOCOL_"),
        (dsm_alloc_options_t { placement: rank, rank: -3, ..zeros() }, "no rank -3"),
        (dsm_alloc_options_t { placement: cyclic, rank: -4, ..zeros() }, "no rank -4"),
        (dsm_alloc_options_t { block_bytes: usize::MAX, ..zeros() }, "block_bytes"),
        (dsm_alloc_options_t { reserved: [0, 0, 0, 1], ..zeros() }, "= {0}"),
    ] {
        let text = checked(&options).unwrap_err().to_string();
        assert!(text.contains(hint), "{text}");
    }
}

#[test]
fn what_is_not_asked_for_is_not_looked_at() {
    let options = dsm_alloc_options_t { rank: -1, cyclic_bytes: usize::MAX, ..zeros() };
    assert_eq!(checked(&options).unwrap(), AllocOptions::default());
}
