//! Turns: at a barrier, elements of arrays come to have other owners, the same at all workers.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use scash::Division;

use crate::life::Life;
use crate::{Error, Result};

/// Other owners that an array is to have: see [`Array::to`](crate::owned::Array::to).
pub struct Turn<'a> {
    array: &'a dyn Owned,
    /// Those who have an element's lock, if there is none.
    owners: Option<&'a Division>,
}

/// An array of any type.
pub(crate) trait Owned {
    /// Where its first element is.
    fn address(&self) -> usize;
    fn len(&self) -> usize;
    /// Sees to it that this crew alone works on it.
    fn claim(&self, life: &Arc<Life>);
    /// Gives it other owners.
    fn set(&self, owners: Option<&Division>);
}

impl<'a> Turn<'a> {
    /// These owners for that array; without any, those who have an element's lock.
    pub(crate) fn new(array: &'a dyn Owned, owners: Option<&'a Division>) -> Self {
        Self { array, owners }
    }

    /// Gives the array its other owners.
    ///
    /// Only for [`Worker::turn`](crate::crew::Worker::turn), when all threads have come to it with the same
    /// ones.
    pub(crate) fn bring_about(&self) {
        self.array.set(self.owners);
    }
}

/// Numbers that stand for turns; the same for all workers that mean the same.
///
/// # Errors
/// A division does not fit.
pub(crate) fn digest(turns: &[Turn<'_>], life: &Arc<Life>, workers: usize) -> Result<[u64; 2]> {
    for Turn { array, owners } in turns {
        array.claim(life);
        if owners.is_some_and(|owners| owners.len() != array.len() || owners.owners() != workers) {
            return Err(Error::Disagree);
        }
    }
    Ok([1u64, 2].map(|salt| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        for Turn { array, owners } in turns {
            (array.address(), owners.map(Division::digest)).hash(&mut hasher);
        }
        hasher.finish()
    }))
}
