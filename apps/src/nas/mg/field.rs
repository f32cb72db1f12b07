//! A rank's part of a grid, and the four operators between grids. Each has a weight for the point itself, for
//! its 6 neighbours that share a face, the 12 that share an edge, and the 8 that share a corner; along a row,
//! the sums over the rows around it serve three points.

/// The weights of the residual: the operator of the differential equation. Neighbours that share a face have
/// none.
const A: [f64; 4] = [-8.0 / 3.0, 0.0, 1.0 / 6.0, 1.0 / 12.0];
/// The weights of the smoother, which are those of NPB's classes S, W and A. Neighbours that share a corner
/// have none.
const S: [f64; 4] = [-3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0, 0.0];

/// Values at a rank's points, and at those around them, which are copies of its neighbours'.
#[derive(Debug)]
pub(super) struct Field {
    /// Points in each dimension, with one more at either end.
    shape: [usize; 3],
    values: Vec<f64>,
}

impl Field {
    /// Zeros at so many points in each dimension.
    pub(super) fn new(points: [usize; 3]) -> Self {
        let shape = points.map(|points| points + 2);
        Self { shape, values: vec![0.0; shape.iter().product()] }
    }

    /// Points in each dimension, with those around.
    pub(super) fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// All values, row by row.
    pub(super) fn values_mut(&mut self) -> &mut [f64] {
        &mut self.values
    }

    /// All values, row by row.
    pub(super) fn values(&self) -> &[f64] {
        &self.values
    }

    /// The same value everywhere.
    pub(super) fn fill(&mut self, value: f64) {
        self.values.fill(value);
    }

    fn row(&self, y: usize, z: usize) -> &[f64] {
        &self.values[(z * self.shape[1] + y) * self.shape[0]..][..self.shape[0]]
    }

    /// A row along the first dimension.
    pub(super) fn row_mut(&mut self, y: usize, z: usize) -> &mut [f64] {
        &mut self.values[(z * self.shape[1] + y) * self.shape[0]..][..self.shape[0]]
    }

    /// Where the rank's own rows are.
    pub(super) fn own_rows(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let [_, y, z] = self.shape;
        (1..z - 1).flat_map(move |z| (1..y - 1).map(move |y| (y, z)))
    }

    /// The sum of the squares at the rank's own points.
    pub(super) fn square(&self) -> f64 {
        let own = |(y, z)| &self.row(y, z)[1..self.shape[0] - 1];
        self.own_rows().flat_map(own).map(|value| value * value).sum()
    }
}

/// Memory for sums over rows.
#[derive(Debug)]
pub(super) struct Rows {
    faces: Vec<f64>,
    edges: Vec<f64>,
    middle: Vec<f64>,
}

impl Rows {
    /// For rows of at most so many points.
    pub(super) fn new(points: usize) -> Self {
        let row = vec![0.0; points + 2];
        Self { faces: row.clone(), edges: row.clone(), middle: row }
    }

    /// The sums over the four rows that share a face with this one, and over the four that share an edge; as
    /// long as the row.
    fn around(&mut self, field: &Field, y: usize, z: usize) -> (&[f64], &[f64]) {
        let n = field.shape[0];
        let (faces, edges) = (&mut self.faces[..n], &mut self.edges[..n]);
        let [a, b, c, d] = [(y - 1, z), (y + 1, z), (y, z - 1), (y, z + 1)].map(|(y, z)| field.row(y, z));
        let [e, f, g, h] =
            [(y - 1, z - 1), (y + 1, z - 1), (y - 1, z + 1), (y + 1, z + 1)].map(|(y, z)| field.row(y, z));
        for x in 0..n {
            faces[x] = a[x] + b[x] + c[x] + d[x];
            edges[x] = e[x] + f[x] + g[x] + h[x];
        }
        (faces, edges)
    }

    /// `r = v - A·u`; without `v`, what is in `r` takes its place.
    pub(super) fn residual(&mut self, u: &Field, v: Option<&Field>, r: &mut Field) {
        for (y, z) in u.own_rows() {
            let (faces, edges) = self.around(u, y, z);
            let (u, r) = (u.row(y, z), r.row_mut(y, z));
            if let Some(v) = v {
                r.copy_from_slice(v.row(y, z));
            }
            for ((((r, u), faces), edges), edge) in
                r[1..].iter_mut().zip(&u[1..]).zip(faces.windows(3)).zip(edges.windows(3)).zip(&edges[1..])
            {
                *r = *r - A[0] * u - A[2] * (edge + faces[0] + faces[2]) - A[3] * (edges[0] + edges[2]);
            }
        }
    }

    /// `u = u + S·r`.
    pub(super) fn smooth(&mut self, r: &Field, u: &mut Field) {
        for (y, z) in r.own_rows() {
            let (faces, edges) = self.around(r, y, z);
            let (r, u) = (r.row(y, z), u.row_mut(y, z));
            for (((u, r), faces), edge) in
                u[1..].iter_mut().zip(r.windows(3)).zip(faces.windows(3)).zip(&edges[1..])
            {
                *u += S[0] * r[1] + S[1] * (r[0] + r[2] + faces[1]) + S[2] * (edge + faces[0] + faces[2]);
            }
        }
    }

    /// A coarse grid's values: means around each second point of the fine one.
    pub(super) fn restrict(&mut self, fine: &Field, coarse: &mut Field) {
        for (y, z) in coarse.own_rows() {
            let (faces, edges) = self.around(fine, 2 * y, 2 * z);
            let (r, s) = (fine.row(2 * y, 2 * z), coarse.row_mut(y, z));
            let last = s.len() - 1;
            for (x, s) in (2..).step_by(2).zip(&mut s[1..last]) {
                *s = 0.5 * r[x]
                    + 0.25 * (r[x - 1] + r[x + 1] + faces[x])
                    + 0.125 * (faces[x - 1] + faces[x + 1] + edges[x])
                    + 0.0625 * (edges[x - 1] + edges[x + 1]);
            }
        }
    }

    /// Adds to a fine grid's values what a coarse grid has there, or the mean of its points around. With
    /// those around, which are right if they were right in both.
    pub(super) fn interpolate(&mut self, coarse: &Field, fine: &mut Field) {
        let [n, height, depth] = coarse.shape;
        for z in 0..depth - 1 {
            for y in 0..height - 1 {
                let [here, beside, above, across] =
                    [(y, z), (y + 1, z), (y, z + 1), (y + 1, z + 1)].map(|(y, z)| coarse.row(y, z));
                let means = &mut self.middle[..n];
                add_between(here, fine.row_mut(2 * y, 2 * z));
                means
                    .iter_mut()
                    .zip(here.iter().zip(beside))
                    .for_each(|(mean, (a, b))| *mean = 0.5 * (a + b));
                add_between(means, fine.row_mut(2 * y + 1, 2 * z));
                means.iter_mut().zip(here.iter().zip(above)).for_each(|(mean, (a, b))| *mean = 0.5 * (a + b));
                add_between(means, fine.row_mut(2 * y, 2 * z + 1));
                let four = here.iter().zip(beside).zip(above.iter().zip(across));
                means
                    .iter_mut()
                    .zip(four)
                    .for_each(|(mean, ((a, b), (c, d)))| *mean = 0.25 * (a + b + c + d));
                add_between(means, fine.row_mut(2 * y + 1, 2 * z + 1));
            }
        }
    }
}

/// Adds a coarse row to a fine one: its values, and means of two between them.
fn add_between(coarse: &[f64], fine: &mut [f64]) {
    for (two, fine) in coarse.windows(2).zip(fine.as_chunks_mut::<2>().0) {
        fine[0] += two[0];
        fine[1] += 0.5 * (two[0] + two[1]);
    }
}
