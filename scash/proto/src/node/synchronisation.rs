//! The parts of a node that order memory between two memory barriers.

use super::InUse;
use super::ahead::Ahead;
use super::atomics::Operated;
use super::conditions::ConditionWait;
use super::intervals::Intervals;
use super::locks::Locks;
use super::objects::Objects;
use super::own::{OwnObjects, Unmaking};
use super::reduce::Reductions;
use super::served::Served;

/// What orders memory between two memory barriers.
#[derive(Clone, Debug, Default)]
pub(super) struct Synchronisation {
    pub(super) objects: Objects,
    pub(super) own: OwnObjects,
    /// What threads of this rank are about to destroy.
    pub(super) unmaking: Vec<Unmaking>,
    pub(super) locks: Locks,
    pub(super) ahead: Ahead,
    pub(super) served: Served,
    /// Threads of this rank that wait for conditions.
    pub(super) waits: Vec<ConditionWait>,
    pub(super) intervals: Intervals,
    /// Of what is to be destroyed, what a thread of this rank uses that the node does not know of.
    pub(super) used: Option<InUse>,
    pub(super) operated: Operated,
    pub(super) reductions: Reductions,
}
