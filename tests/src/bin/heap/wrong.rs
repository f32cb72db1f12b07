//! Wrong frees: what a rank is told, one line each, from rank 0 or the last one.

use super::untyped;
use scash::{Dsm, Result};

/// Rank 0 allocates, and the last rank makes mistakes with it.
pub(crate) fn frees(dsm: &mut Dsm, _: usize) -> Result<()> {
    let it = untyped(dsm);
    let table = dsm.alloc::<usize>(4)?;
    let flags = dsm.flags(1)?;
    if dsm.rank() == 0 {
        let objects = [it.malloc(40)?, it.malloc(40)?, it.malloc(10_000)?];
        (0..3).for_each(|index| table.set(dsm, index, objects[index] as usize));
        flags[0].raise(dsm, 1)?;
    }
    flags[0].wait(dsm, 1)?;
    if dsm.rank() == dsm.size() - 1 {
        let at = |index: usize, offset: usize| {
            std::ptr::with_exposed_provenance_mut::<u8>(table.get(dsm, index) + offset)
        };
        it.free_object(at(0, 0))?;
        let private = 0u64;
        let told = [
            it.free_object(at(0, 0)),
            it.realloc(at(0, 0), 100).map(drop),
            it.free_object(at(1, 16)),
            it.free_object(at(1, 3)),
            it.free_object(at(2, 4096)),
            it.free_object((&raw const private).cast()),
            it.free_object(std::ptr::null()),
            it.free_object(table.as_ptr().cast_const().cast()),
            it.free(at(1, 0)),
            it.set_protocol(at(1, 0), scash::Protocol::Update),
            it.calloc(usize::MAX, 2).map(drop),
            it.memalign(24, 1).map(drop),
        ];
        for told in told {
            println!("{}", told.err().map_or("nothing".to_owned(), |error| error.to_string()));
        }
        // What is there is as good as ever.
        it.free_object(at(1, 0))?;
        it.free_object(at(2, 0))?;
    }
    dsm.barrier()?;
    let [a, b] = [it.malloc(0)?, it.malloc(0)?];
    assert!(a != b && (a as usize).is_multiple_of(16));
    for align in [1, 16, 64, 4096, 1 << 16] {
        let aligned = it.memalign(align, 100)?;
        assert!((aligned as usize).is_multiple_of(align));
        it.free_object(aligned)?;
    }
    it.free_object(a)?;
    it.free_object(b)
}
