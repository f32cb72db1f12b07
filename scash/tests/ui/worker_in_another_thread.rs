//! A worker is one thread's, and so are the locks that it has.

fn share(worker: &scash::Worker<'_>, lock: scash::Lock) {
    std::thread::scope(|scope| {
        scope.spawn(|| worker.index()); //~ E0277
        let held = lock.hold(worker);
        scope.spawn(move || drop(held)); //~ E0277
    });
}

fn beside(dsm: &mut scash::Dsm) -> scash::Result<()> {
    let rest = &*dsm;
    dsm.crew(2, |worker| worker.barrier())?; //~ E0502
    assert_eq!(rest.rank(), 0);
    Ok(())
}

fn main() {}
