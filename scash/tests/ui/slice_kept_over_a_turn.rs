//! At a turn elements come to have other owners: slices of those before end.

use scash::{Division, Dsm, Split};

fn own(dsm: &mut Dsm, counts: &mut Split<u64>, read: &Division) -> scash::Result<()> {
    let mine = counts.mine(dsm);
    dsm.turn([counts.to(read)])?; //~ E0499 E0502
    mine[0] = 1;
    Ok(())
}

fn shared(dsm: &mut Dsm, counts: &mut Split<u64>) -> scash::Result<()> {
    let shown = counts.view(dsm).shared;
    dsm.barrier()?; //~ E0502
    assert_eq!(shown.get(0..1), [0]);
    Ok(())
}

fn main() {}
