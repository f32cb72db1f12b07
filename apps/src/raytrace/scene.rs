//! What is to be seen, and what a ray sees of it.

use crate::random::unit;
use crate::vector::{Vector, dot, length_1, plus};

/// A ball: where its centre is, its radius, its colour, and which part of the light it mirrors.
pub(super) type Ball = [f64; 8];

/// Balls of the scene: so many rows of as many.
const SIDE: usize = 8;
pub(super) const BALLS: usize = SIDE * SIDE;

/// Where the eye is.
const EYE: Vector = [0.0, 2.6, -6.0];
/// Where the light comes from: a direction of length 1.
const LIGHT: Vector = [-0.48, 0.8, -0.36];
/// Which part of a colour is seen where no light falls.
const AMBIENT: f64 = 0.15;
/// Which part of the light the floor mirrors.
const POLISH: f64 = 0.25;
/// A ray that begins on a surface meets nothing closer than this.
const NEAREST: f64 = 1e-6;
/// Light that is weaker than this is not seen.
const FAINTEST: f64 = 1.0 / 512.0;

/// A ball by its number. It lies near its point of a grid, on the floor or above it.
pub(super) fn ball(number: usize) -> Ball {
    let random = |which: usize| unit(8 * number + which);
    let [column, row] = [number % SIDE, number / SIDE].map(|at| at as f64);
    let radius = 0.2 + 0.25 * random(0);
    let [x, z] = [column - 3.5 + 0.3 * random(1), row - 1.5 + 0.3 * random(2)];
    let colour = [3, 4, 5].map(|which| 0.2 + 0.8 * random(which));
    [x, radius + 0.8 * random(6), z, radius, colour[0], colour[1], colour[2], 0.6 * random(7)]
}

/// All balls, above a floor.
pub(super) struct Scene<'a>(&'a [Ball]);

#[derive(Clone, Copy)]
struct Ray {
    from: Vector,
    /// Of length 1.
    way: Vector,
}

/// A surface where a ray meets it.
struct Surface {
    at: Vector,
    /// Of length 1, and away from the surface.
    normal: Vector,
    colour: Vector,
    mirrors: f64,
}

impl Ray {
    fn at(&self, distance: f64) -> Vector {
        plus(self.from, self.way, distance)
    }

    /// How far it is to a ball, if the ray meets it.
    fn meets(&self, &[x, y, z, radius, ..]: &Ball) -> Option<f64> {
        let to_centre = plus([x, y, z], self.from, -1.0);
        let nearest = dot(to_centre, self.way);
        let square = radius * radius - (dot(to_centre, to_centre) - nearest * nearest);
        if square < 0.0 {
            return None;
        }
        let half = square.sqrt();
        [nearest - half, nearest + half].into_iter().find(|&distance| distance > NEAREST)
    }

    /// How far it is to the floor, if the ray meets it.
    fn meets_floor(&self) -> Option<f64> {
        let distance = -self.from[1] / self.way[1];
        (self.way[1] < 0.0 && distance > NEAREST).then_some(distance)
    }
}

impl<'a> Scene<'a> {
    pub(super) fn of(balls: &'a [Ball]) -> Self {
        Self(balls)
    }

    /// The colour of a pixel, from which each coordinate is from -1 to 1, to the right and down.
    pub(super) fn pixel(&self, [right, down]: [f64; 2], depth: usize) -> Vector {
        let way = length_1([0.6 * right, -0.25 - 0.6 * down, 1.0]);
        self.seen(Ray { from: EYE, way }, depth)
    }

    /// What the ray sees if it is thrown so many times at most.
    fn seen(&self, mut ray: Ray, depth: usize) -> Vector {
        let (mut colour, mut weight) = ([0.0; 3], 1.0);
        for thrown in 0..=depth {
            let Some(surface) = self.nearest(ray) else {
                return plus(colour, sky(ray.way), weight);
            };
            let mirrors = if thrown < depth { surface.mirrors } else { 0.0 };
            colour = plus(colour, surface.colour, weight * (1.0 - mirrors) * self.light(&surface));
            weight *= mirrors;
            if weight < FAINTEST {
                break;
            }
            let way = plus(ray.way, surface.normal, -2.0 * dot(ray.way, surface.normal));
            ray = Ray { from: surface.at, way: length_1(way) };
        }
        colour
    }

    /// How much light falls on a surface.
    fn light(&self, surface: &Surface) -> f64 {
        let faces = dot(surface.normal, LIGHT);
        let to_light = Ray { from: surface.at, way: LIGHT };
        if faces <= 0.0 || self.0.iter().any(|ball| to_light.meets(ball).is_some()) {
            return AMBIENT;
        }
        AMBIENT + (1.0 - AMBIENT) * faces
    }

    /// What the ray meets first.
    fn nearest(&self, ray: Ray) -> Option<Surface> {
        let met = self.0.iter().filter_map(|ball| Some((ray.meets(ball)?, ball)));
        let ball = met.min_by(|(a, _), (b, _)| a.total_cmp(b));
        let floor = ray.meets_floor();
        match ball {
            Some((distance, ball)) if floor.is_none_or(|floor| distance < floor) => {
                let (at, &[x, y, z, radius, red, green, blue, mirrors]) = (ray.at(distance), ball);
                let normal = plus(at, [x, y, z], -1.0).map(|x| x / radius);
                Some(Surface { at, normal, colour: [red, green, blue], mirrors })
            }
            _ => {
                let at = ray.at(floor?);
                let dark = (at[0].floor() + at[2].floor()).rem_euclid(2.0) > 0.5;
                let colour = if dark { [0.2, 0.2, 0.25] } else { [0.9, 0.9, 0.85] };
                Some(Surface { at, normal: [0.0, 1.0, 0.0], colour, mirrors: POLISH })
            }
        }
    }
}

/// The colour of the sky: bluer further up.
fn sky(way: Vector) -> Vector {
    let height = way[1].max(0.0);
    [0.8 - 0.5 * height, 0.9 - 0.4 * height, 1.0]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: [Ball; 1] = [[0.0, 1.0, 0.0, 1.0, 1.0, 0.5, 0.0, 0.0]];

    fn sees(balls: &[Ball], from: Vector, way: Vector, depth: usize) -> Vector {
        Scene::of(balls).seen(Ray { from, way: length_1(way) }, depth)
    }

    #[test]
    fn a_ray_sees_the_ball_before_it_and_the_sky_past_it() {
        let ball = sees(&ALONE, [0.0, 1.0, -5.0], [0.0, 0.0, 1.0], 3);
        let facing = AMBIENT + (1.0 - AMBIENT) * 0.36;
        let close = |a: Vector, b: Vector| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(close(ball, [facing, 0.5 * facing, 0.0]), "{ball:?}");
        let up = sees(&ALONE, [0.0, 3.0, -5.0], [0.0, 1.0, 0.0], 3);
        assert!(close(up, [0.3, 0.5, 1.0]), "{up:?}");
    }

    #[test]
    fn a_ball_hides_the_light_from_the_floor() {
        let light = |x: f64, z: f64| {
            let (at, normal) = ([x, 0.0, z], [0.0, 1.0, 0.0]);
            Scene::of(&ALONE).light(&Surface { at, normal, colour: [1.0; 3], mirrors: 0.0 })
        };
        // The light comes from the left and the front.
        assert!((light(0.6, 0.45) - AMBIENT).abs() < 1e-9);
        assert!((light(-3.0, 0.0) - (AMBIENT + (1.0 - AMBIENT) * 0.8)).abs() < 1e-9);
    }

    #[test]
    fn a_mirror_shows_what_is_before_it_only_if_rays_may_be_thrown() {
        let mirror = [[0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]];
        assert_eq!(sees(&mirror, [0.0, 1.0, -5.0], [0.0, 0.0, 1.0], 0), [0.0; 3], "it is black");
        assert_ne!(sees(&mirror, [0.0, 1.0, -5.0], [0.0, 0.0, 1.0], 1), [0.0; 3], "it shows the sky");
    }

    #[test]
    fn rays_between_two_mirrors_end() {
        let mirrors = [-2.0, 2.0].map(|x| [x, 5.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.6]);
        let seen = sees(&mirrors, [0.0, 5.0, 0.0], [1.0, 0.0, 0.0], usize::MAX - 1);
        assert!(seen.into_iter().all(|x| x > 0.0 && x < 1.0));
    }
}
