//! Matrix multiplication: `C = A·B`, for dense square matrices in plain rows.
//!
//! **Who owns what:** each worker owns neighbouring rows of all three matrices. It computes its rows of C,
//! from its rows of A and all of B: so every rank fetches what others own of B, once, and nobody is told
//! anything.
//!
//! **One barrier**, at the end. Every element adds up its products in the same order, whoever computes it.

use serde::Serialize;

use crate::crew::{Worker, WorkerNumber};
use crate::memory::{Memory, product};
use crate::owned::{Array, Division};
use crate::program::{Program, ResultRun};
use crate::random::unit;
use crate::{Error, Result};

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Matmul {
    size: usize,
}

/// What the workers share.
pub struct Matrices {
    a: Array<f64>,
    b: Array<f64>,
    c: Array<f64>,
    /// Each worker owns its rows; nobody owns anything.
    rows: Division,
    read: Division,
}

/// Rows of B that are used for all rows of C before the next ones are: few enough to stay in the cache
/// meanwhile.
const ROWS: usize = 32;

impl Matmul {
    /// Multiplies matrices of `size × size` elements.
    ///
    /// # Errors
    /// If they are empty.
    pub fn new(size: usize) -> Result<Self> {
        if size == 0 {
            return Err(Error::Empty("--size"));
        }
        Ok(Self { size })
    }

    /// The worker's rows, as elements of a matrix.
    fn rows(&self, who: WorkerNumber) -> std::ops::Range<usize> {
        let rows = who.part(self.size);
        rows.start * self.size..rows.end * self.size
    }
}

impl Program for Matmul {
    const NAME: &'static str = "matmul";
    type Arrays = Matrices;
    type Element = f64;

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Matrices> {
        let len = product(&[self.size, self.size])?;
        Ok(Matrices {
            a: memory.array(len)?,
            b: memory.array(len)?,
            c: memory.array(len)?,
            rows: Division::rows(self.size, self.size, workers),
            read: Division::read_by_all(len, workers),
        })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        &arrays.c
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        &mut arrays.c
    }

    fn owned(&self, who: WorkerNumber, _len: usize) -> Vec<ResultRun> {
        vec![ResultRun::in_place(self.rows(who))]
    }

    fn initialise(&self, worker: &mut Worker<'_>, matrices: &Matrices) -> Result<()> {
        let Matrices { a, b, c, rows: own, read } = matrices;
        worker.turn(&[a.to(own), b.to(own), c.to(own)])?;
        let rows = self.rows(worker.who());
        for (matrix, first) in [(a, 0), (b, self.size * self.size)] {
            for (at, x) in rows.clone().zip(matrix.mine(worker)) {
                *x = unit(first + at) - 0.5;
            }
        }
        c.mine(worker).fill(0.0);
        worker.turn(&[a.to(read), b.to(read)])
    }

    fn compute(&self, worker: &mut Worker<'_>, matrices: &Matrices) -> Result<()> {
        let (n, rows) = (self.size, self.rows(worker.who()));
        let (a, b) = (matrices.a.get(worker, rows), matrices.b.get(worker, 0..n * n));
        let c = matrices.c.mine(worker);
        for (block, b) in b.chunks(ROWS * n).enumerate() {
            for (a, c) in a.chunks_exact(n).zip(c.chunks_exact_mut(n)) {
                for (factor, b) in a[block * ROWS..].iter().zip(b.chunks_exact(n)) {
                    for (c, b) in c.iter_mut().zip(b) {
                        *c += factor * b;
                    }
                }
            }
        }
        worker.turn(&[matrices.c.to(&matrices.read)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Heap;
    use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};

    #[test]
    fn threads_compute_what_one_worker_does_whatever_the_sizes() {
        for size in [1, 2, 5, 31, 70] {
            agrees_on_any_number_of_threads(Matmul::new(size).unwrap());
        }
    }

    #[test]
    fn each_element_is_the_product_of_a_row_and_a_column() {
        for n in [1, 3, 32, 65] {
            let product = result_of(&Matmul::new(n).unwrap());
            let a = |i: usize, j: usize| unit(i * n + j) - 0.5;
            let b = |i: usize, j: usize| unit(n * n + i * n + j) - 0.5;
            for i in 0..n {
                for j in 0..n {
                    let expected = (0..n).fold(0.0, |sum, k| sum + a(i, k) * b(k, j));
                    assert_eq!(product[i * n + j], expected, "({i}, {j}) of {n}");
                }
            }
        }
    }

    #[test]
    fn matrices_that_no_address_space_holds_are_refused() {
        assert!(matches!(Matmul::new(0), Err(Error::Empty("--size"))));
        let huge = Matmul::new(usize::MAX).unwrap();
        assert!(matches!(huge.allocate(1, &mut Heap), Err(Error::TooLarge)));
    }
}
