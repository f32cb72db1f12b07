//! A runtime for the process that has come back: what lies in private memory is as it was; connections,
//! mappings, descriptors are made anew, and put into the place of those of the process that is gone.
//! These are never dropped: they would close and unmap what is not theirs any more. Memory of their own is
//! given back, lest ranks that come back often grow.

use super::super::core::Core;
use super::super::owned::Guard;
use super::super::start;
use super::super::{Runtime, lock};
use super::Checkpoints;
use super::restart::RestartWatch;
use crate::config::Config;
use crate::error::{Error, Result, join};
use crate::runtime::context::RankContext;
use crate::runtime::frame_sharing::FrameSharing;
use crate::runtime::inject;
use scash_comm::Exchange;
use scash_comm::descriptors::out_of_the_way;
use scash_ft::image::{self, Tracking, environment};
use scash_ft::inject::Point;
use scash_ft::store::A_RESTART;
use scash_join::boot::Member;
use scash_mp::Paused;
use std::mem;
use std::os::fd::AsFd;
use std::time::Instant;

impl Runtime {
    /// Makes all of it anew.
    pub(super) fn revive(
        &self,
        core: &mut Guard<'_, Core>,
        checkpoints: &mut Checkpoints,
        messages: &[Paused<'_>],
    ) -> Result<()> {
        let mut watch = RestartWatch::new(&environment);
        *lock(&self.fate) = inject::read(&environment, self.rank)?;
        self.passes(Point::ImageRestored);
        let (store, given) = super::open(&environment)?;
        image::streams_are(&given.prints.each_ref().map(|file| file.as_fd()));
        mem::forget(mem::replace(&mut checkpoints.store, store));
        mem::forget(mem::replace(&mut checkpoints.given, given));
        mem::forget(mem::replace(&mut checkpoints.tracking, Tracking::new(out_of_the_way)));
        // The clock of this machine may have begun anew since.
        checkpoints.started = Instant::now();
        checkpoints.resumes = true;
        let mut member = Member::from_vars(&environment).map_err(join)?;
        let identity = start::identity()?;
        // Not as lost: nothing may be asked of what the process had that is gone.
        member.hello(&identity).map_err(|error| start::cannot_join(join(error)))?;
        // All ranks may be on one host now, and have frames of their own in their images. And a rank may be
        // on another host, which has other addresses.
        let share = self.config.share && self.context.frames == FrameSharing::Shared;
        let network = Config::read(environment)?.network;
        let config = Config { share, network, ..self.config.clone() };
        let context =
            start::assemble(&mut member, &config, self.kind, Some(&checkpoints.store), &environment);
        let mut context = context.map_err(start::cannot_join)?;
        if share && context.frames != FrameSharing::Shared {
            let why = "its image shares frames with all other ranks, and ranks cannot do so any more";
            return Err(Error::Broken(why.to_owned()));
        }
        context.frames = self.context.frames;
        checkpoints.has(&context.copies);
        let moved = *lock(&self.moved_before) + self.context.endpoint.traffic();
        *lock(&self.moved_before) = moved;
        self.passes(Point::RecoveryJoined);
        // Before others see it: threads of the program run already, and are refused, as the rank meets.
        context.objects.inherit(&*self.context.objects);
        // SAFETY: this thread has come here through calls that hold no reference to the old one, which is
        // never dropped; other threads of the program leave what it has alone, as the rank meets.
        let old = unsafe { self.context.renew(context) };
        abandon(old);
        watch.time.join = watch.lap();
        self.refill(&core.node, &checkpoints.store)?;
        watch.time.shared = watch.lap();
        self.passes(Point::RecoveryCopied);
        // Nobody reads a page of a rank whose frames are not yet filled.
        member.all_gather(&[], &[]).map_err(join)?;
        for paused in messages {
            // SAFETY: this is the process that has come back, and no other thread of it passes messages until
            // this returns.
            unsafe { paused.revive(&mut member, &environment) }.map_err(join)?;
        }
        mem::replace(&mut *lock(&self.member), member).abandon();
        core.reborn(&self.config)?;
        while let Some(order) = core.node.poll_output() {
            core.execute(&self.context, order)?;
        }
        self.attend_again()?;
        give_free_memory_back();
        watch.time.resume = watch.lap();
        checkpoints.counts.restart = Some(watch.time);
        checkpoints.tell_launcher(A_RESTART);
        self.passes(Point::RecoveryResumed);
        Ok(())
    }
}

/// Gives what is free in the heap back to the system. What was needed to come back would be part of each
/// image from now on.
fn give_free_memory_back() {
    // SAFETY: the call takes a number, and has locks of its own.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Ends what the process that is gone had.
fn abandon(old: RankContext) {
    let RankContext { region, engine, endpoint, claims, marks, objects, page, copies, .. } = old;
    endpoint.abandon();
    engine.abandon();
    mem::forget((region, claims, marks, objects, page, copies));
}
