//! At a publication the two states change roles: slices of either end before.

fn step(dsm: &mut scash::Dsm, field: &mut scash::Partition<f64>) -> scash::Result<()> {
    let old = field.all(dsm);
    field.publish(dsm)?; //~ E0502 E0502
    assert_eq!(old[0], 1.0);
    Ok(())
}

fn main() {}
