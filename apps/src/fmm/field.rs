//! The field of all particles: up the tree come multipole expansions, and down go local ones.

use super::Fmm;
use super::expansion::{self, Binomials, Complex, ZERO, minus, plus, scaled, square};
use super::plane::{Key, Plane, Square, quartered};
use super::tree::{Content, Quarter, Tree};
use crate::Result;
use crate::crew::Worker;
use crate::runs::LockedRuns;

/// Particles that are closer to each other than this pull less, in proportion to their distance: the pull
/// would have no bounds otherwise. Particles of boxes that are apart are never so close, unless all particles
/// come much closer to 0 than in the beginning.
pub(super) const NEAREST: f64 = 1.0 / (1 << 17) as f64;

/// A tree to which nothing is added any more.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) fmm: &'a Fmm,
    pub(super) binomials: &'a Binomials,
    pub(super) plane: Plane<'a>,
    pub(super) tree: Tree<'a>,
    pub(super) root: usize,
}

impl<'a> Scene<'a> {
    /// The boxes of a cell in which there is something, and those of the keys that are in each.
    fn quartered<'b>(
        &self,
        cell: usize,
        square: Square,
        keys: &'b [Key],
    ) -> impl Iterator<Item = (Quarter, &'b [Key])> + use<'a, 'b> {
        let keys = quartered(keys, square.depth);
        self.tree.quarters(cell, square).map(move |quarter| (quarter, keys[quarter.index]))
    }

    /// The multipole expansion of a box that is not cut.
    fn multipole(&self, quarter: Quarter) -> Vec<Complex> {
        let particles = self.tree.particles(quarter);
        let particles = particles.map(|number| (self.plane.place(number), self.fmm.strength(number)));
        expansion::multipole(particles, self.plane.centre(quarter.square), self.fmm.terms)
    }

    /// That of a box which is cut, from what is kept of its cell.
    fn multipole_of_cell(&self, kept: &[Complex], cell: usize, square: Square) -> Vec<Complex> {
        let centre = self.plane.centre(square);
        let mut sum = vec![ZERO; self.fmm.terms];
        for quarter in self.tree.quarters(cell, square) {
            let way = minus(self.plane.centre(quarter.square), centre);
            self.binomials.add_multipole(&mut sum, &kept[self.tree.layout.expansion(quarter.index)], way);
        }
        sum
    }
}

/// A worker's way up: it begins with boxes in which its own particles are.
pub(super) struct Upward<'a> {
    scene: Scene<'a>,
    worker: &'a Worker<'a>,
    kept: &'a LockedRuns<Complex>,
    /// The box where the worker is, and those around it, the largest first.
    path: Vec<Quarter>,
}

impl<'a> Upward<'a> {
    pub(super) fn new(scene: Scene<'a>, worker: &'a Worker<'_>, kept: &'a LockedRuns<Complex>) -> Self {
        Self { scene, worker, kept, path: Vec::new() }
    }

    /// Makes the expansions of those boxes that are the worker's, and of those around them of which it made
    /// the last part. The worker's particles have these keys.
    pub(super) fn make(&mut self, keys: &[Key]) -> Result<()> {
        self.make_of_cell(self.scene.root, Square::ALL, keys)
    }

    fn make_of_cell(&mut self, cell: usize, square: Square, keys: &[Key]) -> Result<()> {
        for (quarter, keys) in self.scene.quartered(cell, square, keys) {
            if keys.is_empty() {
                continue;
            }
            self.path.push(quarter);
            match quarter.content {
                Content::Cell(below) => self.make_of_cell(below, quarter.square, keys)?,
                Content::Particles(_) if self.is_mine(quarter) => self.hand_up()?,
                Content::Particles(_) => {}
            }
            self.path.pop();
        }
        Ok(())
    }

    /// A box that is not cut belongs to the owner of its first particle.
    fn is_mine(&self, quarter: Quarter) -> bool {
        let own = self.worker.who().part(self.scene.fmm.particles);
        self.scene.tree.particles(quarter).next().is_some_and(|first| own.contains(&first))
    }

    /// Makes the expansion of the last box of the path. Whoever brings the last one of a cell also makes that
    /// of the box around it, and so on.
    fn hand_up(&self) -> Result<()> {
        let Some((&last, around)) = self.path.split_last() else { return Ok(()) };
        let (mut quarter, mut expansion) = (last, self.scene.multipole(last));
        for &above in around.iter().rev() {
            let Some(kept) = self.keep(quarter, &expansion)? else { return Ok(()) };
            expansion = self.scene.multipole_of_cell(&kept, quarter.cell, above.square);
            quarter = above;
        }
        self.keep(quarter, &expansion)?;
        Ok(())
    }

    /// Keeps the expansion of a box; returns all that is kept of its cell if this was the last one. Then the
    /// cell counts from 0 again, for the next step.
    fn keep(&self, quarter: Quarter, expansion: &[Complex]) -> Result<Option<Vec<Complex>>> {
        let tree = self.scene.tree;
        let mut kept = self.kept.lock(self.worker, quarter.cell)?;
        kept[tree.layout.expansion(quarter.index)].copy_from_slice(expansion);
        kept[0][0] += 1.0;
        if kept[0][0] < tree.filled(quarter.cell) as f64 {
            return Ok(None);
        }
        kept[0][0] = 0.0;
        Ok(Some(kept.to_vec()))
    }
}

/// A worker's way down: it comes to all boxes in which its own particles are, and tells the field at each of
/// these.
pub(super) struct Downward<'a, F> {
    pub(super) scene: Scene<'a>,
    /// All multipole expansions.
    pub(super) kept: &'a [Complex],
    /// Is told a particle's number, and the field there.
    pub(super) tell: F,
}

impl<F: FnMut(usize, Complex)> Downward<'_, F> {
    /// Tells the field at the particles with these keys.
    pub(super) fn go(&mut self, keys: &[Key]) {
        let all: Vec<Quarter> = self.scene.tree.quarters(self.scene.root, Square::ALL).collect();
        let local = vec![ZERO; self.scene.fmm.terms];
        for (quarter, keys) in self.scene.quartered(self.scene.root, Square::ALL, keys) {
            self.go_to(quarter, keys, local.clone(), &all);
        }
    }

    /// Goes to a box in which there are these particles of the worker's. Its local expansion has the field of
    /// all but those in the boxes `around`.
    fn go_to(&mut self, target: Quarter, keys: &[Key], mut local: Vec<Complex>, around: &[Quarter]) {
        if keys.is_empty() {
            return;
        }
        let mut near = Vec::new();
        for &source in around {
            self.meet(target, source, &mut local, &mut near);
        }
        let Content::Cell(below) = target.content else { return self.arrive(target, keys, &local, &near) };
        let plane = self.scene.plane;
        for (quarter, keys) in self.scene.quartered(below, target.square, keys) {
            let way = minus(plane.centre(quarter.square), plane.centre(target.square));
            self.go_to(quarter, keys, self.scene.binomials.moved(&local, way), &near);
        }
    }

    /// Adds the field of what is in a box to the target's local expansion, as far as it is apart. What is
    /// left is `near`: boxes that are not cut; and, while the target is, others that are no larger than it.
    fn meet(&self, target: Quarter, source: Quarter, local: &mut [Complex], near: &mut Vec<Quarter>) {
        let Scene { binomials, plane, tree, .. } = self.scene;
        if target.square.is_apart(source.square) {
            let way = minus(plane.centre(target.square), plane.centre(source.square));
            return binomials.add_to_local(local, tree.expansion(self.kept, source), way);
        }
        let is_cut = matches!(target.content, Content::Cell(_));
        match source.content {
            Content::Cell(below) if !is_cut || source.square.is_larger(target.square) => {
                for quarter in tree.quarters(below, source.square) {
                    self.meet(target, quarter, local, near);
                }
            }
            _ => near.push(source),
        }
    }

    /// Tells the field at particles in a box that is not cut: what its local expansion has, and what comes
    /// from each particle that is near.
    fn arrive(&mut self, target: Quarter, keys: &[Key], local: &[Complex], near: &[Quarter]) {
        let Scene { fmm, plane, tree, .. } = self.scene;
        let centre = plane.centre(target.square);
        let places: Vec<Complex> = keys.iter().map(|key| plane.place(key.number() as usize)).collect();
        let mut fields: Vec<Complex> =
            places.iter().map(|&place| expansion::value(local, minus(place, centre))).collect();
        for other in near.iter().flat_map(|&source| tree.particles(source)) {
            let (there, strength) = (plane.place(other), fmm.strength(other));
            for (field, &here) in fields.iter_mut().zip(&places) {
                *field = plus(*field, field_of(minus(here, there), strength));
            }
        }
        keys.iter().zip(fields).for_each(|(key, field)| (self.tell)(key.number() as usize, field));
    }
}

/// The field of a particle, at so much from there; at 0, there is none.
fn field_of(way: Complex, strength: f64) -> Complex {
    let strength = strength / square(way).max(NEAREST * NEAREST);
    scaled(strength, [way[0], -way[1]])
}
