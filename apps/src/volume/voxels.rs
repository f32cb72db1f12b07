//! What the volume is made of.

use crate::random::unit;
use crate::vector::{Vector, dot, plus};

/// How many clouds there are.
const CLOUDS: usize = 24;

/// An ellipsoid, dense in the middle, that thins out.
pub(super) struct Cloud {
    centre: Vector,
    /// Along each axis.
    radii: Vector,
    /// That of its middle.
    density: f64,
}

/// All clouds of the volume.
pub(super) fn clouds() -> Vec<Cloud> {
    let cloud = |number: usize| {
        let random = |which: usize| unit(8 * number + which);
        Cloud {
            centre: [0, 1, 2].map(|axis| 0.15 + 0.7 * random(axis)),
            radii: [3, 4, 5].map(|axis| 0.05 + 0.15 * random(axis)),
            density: 100.0 + 155.0 * random(6),
        }
    };
    (0..CLOUDS).map(cloud).collect()
}

/// The voxel at a place, each of whose coordinates is from 0 to 1.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 255")]
pub(super) fn voxel(clouds: &[Cloud], at: Vector) -> u8 {
    let density = |cloud: &Cloud| {
        let away = plus(at, cloud.centre, -1.0);
        let scaled = [0, 1, 2].map(|axis| away[axis] / cloud.radii[axis]);
        cloud.density * (1.0 - dot(scaled, scaled)).max(0.0)
    };
    clouds.iter().map(density).sum::<f64>().min(255.0) as u8
}
