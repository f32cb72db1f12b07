//! Programs that divide arrays among the ranks, and meet at memory barriers.

use super::{REGION, array, part, read, write};
use scash_proto::PAGE_SIZE;
use scash_sim::program::Script;

/// Three products of two matrices of 128×128 numbers of 8 bytes: each rank has rows of the product, and reads
/// all of the second factor.
pub(super) fn matmul(ranks: u32) -> Script {
    let bytes = 128 * 128 * 8;
    let mut script = Script::new(ranks, REGION);
    let [a, b, c] = [(); 3].map(|()| array(&mut script, bytes));
    script.interval(|i| {
        for rank in 0..ranks {
            [a, b].into_iter().for_each(|matrix| write(i, rank, matrix, part(bytes, rank, ranks), 0));
        }
    });
    for product in 1..4 {
        script.interval(|i| {
            for rank in 0..ranks {
                read(i, rank, a, part(bytes, rank, ranks));
                read(i, rank, b, 0..bytes);
                write(i, rank, c, part(bytes, rank, ranks), product);
            }
        });
    }
    script
}

/// The transpositions of an FFT of 128×128 complex numbers of 16 bytes, there and back three times: each rank
/// reads, of every row, what becomes its own, and writes neighbouring rows.
pub(super) fn fft(ranks: u32) -> Script {
    let (rows, row) = (128, 128 * 16);
    let mut script = Script::new(ranks, REGION);
    let matrices = [array(&mut script, rows * row), array(&mut script, rows * row)];
    script.interval(|i| {
        (0..ranks).for_each(|rank| write(i, rank, matrices[0], part(rows * row, rank, ranks), 0))
    });
    for step in 0..6 {
        let (from, to) = (matrices[step % 2], matrices[1 - step % 2]);
        script.interval(|i| {
            for rank in 0..ranks {
                let columns = part(row, rank, ranks);
                for start in (0..rows).map(|at| at * row) {
                    read(i, rank, from, start + columns.start..start + columns.end);
                }
                write(i, rank, to, part(rows * row, rank, ranks), u32::try_from(step).unwrap_or(0) + 1);
            }
        });
    }
    script
}

/// A radix sort of 64 KiB of keys by digits of four bits, in four passes: all read the counts of all, and
/// each rank writes a run for each digit, which shares its pages with runs of others.
pub(super) fn radix(ranks: u32) -> Script {
    let (bytes, digits) = (64 << 10, 16);
    let row = digits * 4;
    let mut script = Script::new(ranks, REGION);
    let keys = [array(&mut script, bytes), array(&mut script, bytes)];
    let counts = array(&mut script, row * ranks as usize);
    script.interval(|i| (0..ranks).for_each(|rank| write(i, rank, keys[0], part(bytes, rank, ranks), 0)));
    for pass in 0..4u32 {
        let (from, to) = (keys[pass as usize % 2], keys[1 - pass as usize % 2]);
        script.interval(|i| {
            for rank in 0..ranks {
                read(i, rank, from, part(bytes, rank, ranks));
                write(i, rank, counts, part(row * ranks as usize, rank, ranks), pass);
            }
        });
        script.interval(|i| {
            for rank in 0..ranks {
                read(i, rank, counts, 0..row * ranks as usize);
                read(i, rank, from, part(bytes, rank, ranks));
                for digit in 0..digits {
                    let start = bytes / digits * digit;
                    let run = part(bytes / digits, rank, ranks);
                    write(i, rank, to, start + run.start..start + run.end, pass + 1);
                }
            }
        });
    }
    script
}

/// The passes of a radix sort of 768 KiB of keys, without counts: each rank writes behind 16 places in turn,
/// a page at a time.
pub(super) fn scatter(ranks: u32) -> Script {
    let (bytes, digits) = (768 << 10, 16);
    let mut script = Script::new(ranks, REGION);
    let keys = [array(&mut script, bytes), array(&mut script, bytes)];
    script.interval(|i| {
        for rank in 0..ranks {
            keys.into_iter().for_each(|keys| write(i, rank, keys, part(bytes, rank, ranks), 0));
        }
    });
    for pass in 0..6u32 {
        let (from, to) = (keys[pass as usize % 2], keys[1 - pass as usize % 2]);
        script.interval(|i| {
            for rank in 0..ranks {
                read(i, rank, from, part(bytes, rank, ranks));
                let run = part(bytes / digits, rank, ranks);
                for start in run.clone().step_by(PAGE_SIZE) {
                    for digit in (0..digits).map(|digit| digit * (bytes / digits)) {
                        let end = run.end.min(start + PAGE_SIZE);
                        write(i, rank, to, digit + start..digit + end, pass + 1);
                    }
                }
            }
        });
    }
    script
}

/// Ten iterations of k-means, with 16 clusters and 8 coordinates: each rank writes the sums of its blocks,
/// which all read, and then its centroids, which all read.
pub(super) fn kmeans(ranks: u32) -> Script {
    let (points, sums, centroids) = (16 * 512 * 8 * 8, 16 * 16 * 9 * 8, 16 * 8 * 8);
    let mut script = Script::new(ranks, REGION);
    let arrays = [points, sums, centroids].map(|bytes| array(&mut script, bytes));
    script.interval(|i| {
        for rank in 0..ranks {
            write(i, rank, arrays[0], part(points, rank, ranks), 0);
            write(i, rank, arrays[2], part(centroids, rank, ranks), 0);
        }
    });
    for iteration in 0..10 {
        script.interval(|i| {
            for rank in 0..ranks {
                read(i, rank, arrays[2], 0..centroids);
                read(i, rank, arrays[0], part(points, rank, ranks));
                write(i, rank, arrays[1], part(sums, rank, ranks), iteration);
            }
        });
        script.interval(|i| {
            for rank in 0..ranks {
                read(i, rank, arrays[1], 0..sums);
                write(i, rank, arrays[2], part(centroids, rank, ranks), iteration + 1);
            }
        });
    }
    script
}
