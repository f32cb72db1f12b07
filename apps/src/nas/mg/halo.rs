//! The faces around a rank's points, which are copies of its neighbours'.

use scash_messages::Messages;

use super::Cube;
use super::field::Field;
use crate::Result;
use crate::nas::rank;

const TAG: u16 = 1;

/// Brings copies of neighbours' faces up to date.
pub(super) struct Halo<'a> {
    messages: &'a dyn Messages,
    cube: Cube,
    /// The faces at the lower end and at the upper end: those that go, and those that come.
    gone: [Vec<f64>; 2],
    come: [Vec<f64>; 2],
}

/// Where a face's values are: runs of neighbours at one distance from each other.
#[derive(Clone, Copy)]
struct Face {
    first: usize,
    len: usize,
    stride: usize,
    count: usize,
}

impl Face {
    /// The points whose place in a dimension is `at`, with all that are around them in the other two.
    fn new([x, y, z]: [usize; 3], axis: usize, at: usize) -> Self {
        match axis {
            0 => Self { first: at, len: 1, stride: x, count: y * z },
            1 => Self { first: at * x, len: x, stride: x * y, count: z },
            _ => Self { first: at * x * y, len: x * y, stride: 0, count: 1 },
        }
    }

    fn runs(self) -> impl Iterator<Item = std::ops::Range<usize>> {
        (0..self.count)
            .map(move |run| self.first + run * self.stride)
            .map(move |start| start..start + self.len)
    }
}

impl<'a> Halo<'a> {
    pub(super) fn new(messages: &'a dyn Messages, cube: Cube) -> Self {
        Self { messages, cube, gone: Default::default(), come: Default::default() }
    }

    /// Copies the neighbours' faces. Dimension by dimension, with what came from the one before, so that
    /// edges and corners come too.
    pub(super) fn exchange(&mut self, field: &mut Field) -> Result<()> {
        let shape = field.shape();
        for (axis, n) in shape.into_iter().enumerate() {
            let [below, first, last, above] = [0, 1, n - 2, n - 1].map(|at| Face::new(shape, axis, at));
            if self.cube.parts[axis] == 1 {
                copy(field, last, below);
                copy(field, first, above);
                continue;
            }
            for (gone, face) in self.gone.iter_mut().zip([first, last]) {
                gone.clear();
                face.runs().for_each(|run| gone.extend_from_slice(&field.values()[run]));
            }
            self.swap(axis)?;
            for (come, face) in self.come.iter().zip([below, above]) {
                let runs = face.runs().zip(come.chunks_exact(face.len));
                runs.for_each(|(run, values)| field.values_mut()[run].copy_from_slice(values));
            }
        }
        Ok(())
    }

    /// Sends the faces to both neighbours, and receives theirs.
    fn swap(&mut self, axis: usize) -> Result<()> {
        let [below, above] = self.cube.neighbours(axis).map(rank);
        for (come, gone) in self.come.iter_mut().zip(&self.gone) {
            come.resize(gone.len(), 0.0);
        }
        let ([low, high], [from_below, from_above]) = (&self.gone, &mut self.come);
        // Both neighbours may be one rank. Its first message is its lower face, which lies above here.
        let sends = [(below, &low[..]), (above, &high[..])];
        self.messages.exchange(TAG, sends, [(above, &mut from_above[..]), (below, &mut from_below[..])])?;
        Ok(())
    }
}

/// Where a rank is its own neighbour.
fn copy(field: &mut Field, from: Face, to: Face) {
    for (from, to) in from.runs().zip(to.runs()) {
        field.values_mut().copy_within(from, to.start);
    }
}
