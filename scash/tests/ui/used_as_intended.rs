//! What the other programs here get wrong, done right.

fn start(mut dsm: scash::Dsm) -> scash::Result<()> {
    std::thread::spawn(|| ());
    dsm.barrier()?;
    dsm.alloc::<u8>(1)?;
    dsm.alloc::<[f64; 3]>(1)?;
    Ok(())
}

fn step(dsm: &mut scash::Dsm, field: &mut scash::Partition<f64>) -> scash::Result<()> {
    let old = field.all(dsm);
    assert_eq!(old[0], 1.0);
    field.publish(dsm)?;
    let one = field.parts(dsm);
    one.mine[0] = 2.0;
    let other = field.parts(dsm);
    other.mine[0] = other.before[0];
    dsm.barrier()
}

fn main() {}
