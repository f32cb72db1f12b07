//! What a reference shows may change at the memory barrier: none lives longer.

fn step(dsm: &mut scash::Dsm, field: &mut scash::Partition<f64>) -> scash::Result<()> {
    let parts = field.parts(dsm);
    dsm.barrier()?; //~ E0502
    parts.mine[0] = parts.before[0];
    Ok(())
}

fn main() {}
