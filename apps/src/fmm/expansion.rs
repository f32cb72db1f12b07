//! Expansions of a field: how they are made, moved and summed up.
//!
//! Particles of strength `m` at `z` have the field `m / (x - z)` at `x`, all complex numbers. Two kinds of
//! series have its sum:
//!
//! - the *multipole* expansion about `c`, `Σ aₖ / (x - c)ᵏ⁺¹`, far away from the particles,
//! - the *local* expansion about `c`, `Σ bₖ (x - c)ᵏ`, near `c` when all particles are far away.
//!
//! Both have the same number of terms. All sums are made in the order of the terms.

/// Real and imaginary part.
pub(super) type Complex = [f64; 2];

/// Most terms. Of more, the powers of small distances do not fit in a number.
pub(super) const MOST_TERMS: usize = 40;

pub(super) const ZERO: Complex = [0.0; 2];

pub(super) fn plus(a: Complex, b: Complex) -> Complex {
    [a[0] + b[0], a[1] + b[1]]
}

pub(super) fn minus(a: Complex, b: Complex) -> Complex {
    [a[0] - b[0], a[1] - b[1]]
}

pub(super) fn times(a: Complex, b: Complex) -> Complex {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// A real number times a complex one.
pub(super) fn scaled(x: f64, a: Complex) -> Complex {
    [x * a[0], x * a[1]]
}

/// The square of the distance from 0.
pub(super) fn square(a: Complex) -> f64 {
    a[0] * a[0] + a[1] * a[1]
}

/// 1 divided by a number.
pub(super) fn inverse(a: Complex) -> Complex {
    let square = square(a);
    [a[0] / square, -a[1] / square]
}

/// The powers of a number, from the power 0 on.
fn powers(a: Complex) -> [Complex; MOST_TERMS] {
    let mut powers = [[1.0, 0.0]; MOST_TERMS];
    for at in 1..MOST_TERMS {
        powers[at] = times(powers[at - 1], a);
    }
    powers
}

/// The field of some particles, each with its place and strength, as a multipole expansion about a centre.
pub(super) fn multipole(
    particles: impl Iterator<Item = (Complex, f64)>,
    centre: Complex,
    terms: usize,
) -> Vec<Complex> {
    let mut sums = vec![ZERO; terms];
    for (place, strength) in particles {
        let way = minus(place, centre);
        let mut power = [strength, 0.0];
        for sum in &mut sums {
            *sum = plus(*sum, power);
            power = times(power, way);
        }
    }
    sums
}

/// The value of a local expansion, at so much from its centre.
pub(super) fn value(local: &[Complex], way: Complex) -> Complex {
    local.iter().rev().fold(ZERO, |sum, &term| plus(times(sum, way), term))
}

/// The binomial coefficients that it takes to move expansions.
pub(super) struct Binomials {
    terms: usize,
    /// Row `i`, column `j`: in how many ways `j` of `i + j` things can be chosen.
    ways: Vec<f64>,
}

impl Binomials {
    pub(super) fn new(terms: usize) -> Self {
        let mut ways = vec![1.0; terms * terms];
        for i in 1..terms {
            for j in 1..terms {
                ways[i * terms + j] = ways[(i - 1) * terms + j] + ways[i * terms + j - 1];
            }
        }
        Self { terms, ways }
    }

    /// Adds a multipole expansion to one about another centre. `way` leads there from the other centre.
    pub(super) fn add_multipole(&self, sums: &mut [Complex], multipole: &[Complex], way: Complex) {
        let powers = powers(way);
        for (l, sum) in sums.iter_mut().enumerate() {
            for (k, &term) in multipole[..=l].iter().enumerate() {
                let ways = self.ways[(l - k) * self.terms + k];
                *sum = plus(*sum, scaled(ways, times(powers[l - k], term)));
            }
        }
    }

    /// Adds a multipole expansion to a local one. `way` leads from the multipole's centre to the local one's.
    pub(super) fn add_to_local(&self, local: &mut [Complex], multipole: &[Complex], way: Complex) {
        let inverse = inverse(way);
        let mut sums = [ZERO; MOST_TERMS];
        let sums = &mut sums[..self.terms];
        let mut power = inverse;
        for (&term, ways) in multipole.iter().zip(self.ways.chunks_exact(self.terms)) {
            let term = times(power, term);
            sums.iter_mut().zip(ways).for_each(|(sum, &ways)| *sum = plus(*sum, scaled(ways, term)));
            power = times(power, inverse);
        }
        let mut power = [1.0, 0.0];
        for (term, &sum) in local.iter_mut().zip(&*sums) {
            *term = plus(*term, times(power, sum));
            power = times(power, scaled(-1.0, inverse));
        }
    }

    /// A local expansion about another centre, to which `way` leads.
    pub(super) fn moved(&self, local: &[Complex], way: Complex) -> Vec<Complex> {
        let powers = powers(way);
        let term = |l: usize| {
            let terms = local[l..].iter().enumerate();
            terms.fold(ZERO, |sum, (more, &term)| {
                let ways = self.ways[more * self.terms + l];
                plus(sum, scaled(ways, times(powers[more], term)))
            })
        };
        (0..self.terms).map(term).collect()
    }
}
