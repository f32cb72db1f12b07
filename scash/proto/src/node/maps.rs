//! Maps by the numbers of pages or objects.

use std::collections::BTreeMap;
use std::ops::Range;

/// Takes all entries out whose keys are in the range.
pub(super) fn cut_out<T>(map: &mut BTreeMap<u32, T>, keys: Range<u32>) {
    let gone: Vec<u32> = map.range(keys).map(|(&key, _)| key).collect();
    for key in gone {
        map.remove(&key);
    }
}
