//! Points and directions in space, and colours.

/// A point, a direction, or a colour: red, green and blue, from 0 to 1.
pub type Vector = [f64; 3];

/// `a`, and so many times `b`.
pub fn plus(a: Vector, b: Vector, times: f64) -> Vector {
    [0, 1, 2].map(|axis| a[axis] + times * b[axis])
}

/// The scalar product of the two.
pub fn dot(a: Vector, b: Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The direction of `a`, of length 1.
pub fn length_1(a: Vector) -> Vector {
    let length = dot(a, a).sqrt();
    a.map(|x| x / length)
}

/// A colour as a pixel: 8 bits each for red, green and blue.
pub fn pixel(colour: Vector) -> u32 {
    colour.into_iter().fold(0, |pixel, x| pixel << 8 | level(x))
}

/// A part of a colour as a number of 8 bits.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 255")]
fn level(x: f64) -> u32 {
    (x.clamp(0.0, 1.0) * 255.0).round() as u32
}
