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

fn turn(dsm: &mut scash::Dsm, counts: &mut scash::Split<u64>, read: &scash::Division) -> scash::Result<()> {
    counts.mine(dsm)[0] = 1;
    dsm.turn([counts.to(read)])?;
    let shown = counts.view(dsm).shared;
    assert_eq!(shown.get(0..1), [1]);
    dsm.barrier()
}

fn share(dsm: &mut scash::Dsm, lock: scash::Lock) -> scash::Result<()> {
    dsm.crew(2, |worker| {
        drop(lock.hold(worker)?);
        worker.barrier()
    })?;
    assert_eq!(dsm.rank(), 0);
    Ok(())
}

fn main() {}
