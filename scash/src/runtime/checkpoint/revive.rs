//! A runtime for the process that has come back: what lies in private memory is as it was; connections,
//! shared memory, descriptors are made anew, and put into the place of those of the process that is gone.
//! These are never dropped: they would close and unmap what is not theirs any more. Only the largest of their
//! buffers are given back, lest ranks that come back often grow.

use super::super::core::Core;
use super::super::owned::Guard;
use super::super::start::{self, join};
use super::super::{Runtime, lock};
use super::Checkpoints;
use crate::error::{Error, Result};
use crate::fault::PAGE;
use crate::runtime::context::RankContext;
use crate::runtime::frames;
use crate::runtime::inject;
use scash_comm::Exchange;
use scash_comm::descriptors::out_of_the_way;
use scash_ft::image::{Tracking, environment};
use scash_ft::inject::Point;
use scash_ft::store::RankStore;
use scash_join::boot::Member;
use std::mem;

impl Runtime {
    /// Makes all of it anew.
    pub(super) fn revive(&self, core: &mut Guard<'_, Core>, checkpoints: &mut Checkpoints) -> Result<()> {
        *lock(&self.fate) = inject::read(&environment, self.rank)?;
        self.passes(Point::ImageRestored);
        let (store, tells) = super::open(&environment)?;
        mem::forget(mem::replace(&mut checkpoints.store, store));
        mem::forget(mem::replace(&mut checkpoints.tells, tells));
        mem::forget(mem::replace(&mut checkpoints.tracking, Tracking::new(out_of_the_way)));
        checkpoints.commit = super::commit_of(&checkpoints.store);
        checkpoints.resumes = true;
        let mut member = Member::from_vars(&environment).map_err(join)?;
        let identity = start::identity()?;
        member.hello(&identity).map_err(join)?;
        let context = start::assemble(&mut member, &self.config, self.kind)?;
        let moved = *lock(&self.moved_before) + self.context.endpoint.traffic();
        *lock(&self.moved_before) = moved;
        self.passes(Point::RecoveryJoined);
        // SAFETY: no reference to the old one lives: this thread has come here through calls that hold none,
        // and there is no other.
        let old = unsafe { self.context.renew(context) };
        self.context.objects.inherit(&*old.objects);
        abandon(old);
        self.fill_frames(&checkpoints.store)?;
        self.passes(Point::RecoveryCopied);
        // Nobody reads a page of a rank whose frames are not yet filled.
        member.all_gather(&[], &[]).map_err(join)?;
        mem::replace(&mut *lock(&self.member), member).abandon();
        core.reborn(&self.config)?;
        while let Some(order) = core.node.poll_output() {
            core.execute(&self.context, order)?;
        }
        self.attend_again()?;
        self.passes(Point::RecoveryResumed);
        Ok(())
    }

    /// Copies what was saved of shared pages into the new frames.
    fn fill_frames(&self, store: &RankStore) -> Result<()> {
        let damaged =
            |e: std::io::Error| Error::Broken(format!("the store of this rank cannot be read: {e}"));
        let saved = store.saved().map_err(damaged)?;
        let words = self.context.objects.words();
        for &entry in saved.entries {
            let to = match (entry.key.shared_page(), entry.key.words_page(), &words) {
                (Some(page), _, _) if page < self.context.region.pages() => {
                    frames::frame(&self.context.region, page)
                }
                (None, Some(page), Some(words)) if page < words.pages() => words.page(page),
                _ => continue,
            };
            // SAFETY: a frame of the new region, or a page of the new words, which nobody uses yet.
            unsafe { to.copy_from_nonoverlapping(saved.bytes(entry), PAGE) };
        }
        Ok(())
    }
}

/// Ends what the process that is gone had.
fn abandon(old: RankContext) {
    let RankContext { region, engine, endpoint, claims, marks, objects, page, .. } = old;
    endpoint.abandon();
    mem::forget((region, engine, claims, marks, objects, page));
}
