//! A reference means nothing to another rank: types that hold one are not plain.

fn start(dsm: &mut scash::Dsm) -> scash::Result<()> {
    dsm.alloc::<&str>(1)?; //~ E0277
    dsm.alloc::<String>(1)?; //~ E0277
    Ok(())
}

fn main() {}
