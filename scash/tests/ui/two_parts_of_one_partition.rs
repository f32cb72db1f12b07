//! Two mutable slices of the same values never live at the same time.

fn step(dsm: &scash::Dsm, field: &mut scash::Partition<f64>) {
    let one = field.parts(dsm);
    let other = field.parts(dsm); //~ E0499
    one.mine[0] = other.mine[0];
}

fn main() {}
