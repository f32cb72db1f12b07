//! Questions of ranks that have waited long, and answers: what every rank's threads do.

use crate::error::Result;
use crate::runtime::context::RankContext;
use scash_proto::Rank;
use scash_proto::wire::Kind;
use scash_proto::wire::stall::{Activities, StallMessage};
use std::collections::BTreeMap;
use std::time::Instant;

/// What has arrived of questions and answers.
#[derive(Debug, Default)]
pub(crate) struct Inquiry {
    /// Ranks that have asked and are still to be answered.
    askers: Vec<Rank>,
    /// When somebody asked last: that one tells, and others need not.
    pub(super) asked: Option<Instant>,
    pub(super) answers: BTreeMap<Rank, Activities>,
}

impl Inquiry {
    /// Takes what a peer says. The answer leaves with [`answer`](Self::answer).
    pub(crate) fn take(&mut self, from: Rank, message: StallMessage) {
        match message {
            StallMessage::Query => {
                self.asked = Some(Instant::now());
                self.askers.push(from);
            }
            StallMessage::Answer(activities) => {
                self.answers.insert(from, activities);
            }
        }
    }

    /// Whether somebody is to be answered.
    pub(crate) fn is_asked(&self) -> bool {
        !self.askers.is_empty()
    }

    /// Answers those that have asked.
    pub(crate) fn answer(&mut self, context: &RankContext, activities: Activities) -> Result<()> {
        let answer = StallMessage::Answer(activities).encode();
        for to in self.askers.drain(..) {
            context.endpoint.send(to.0, Kind::Stall.number(), &[&answer])?;
        }
        Ok(context.endpoint.flush()?)
    }
}
