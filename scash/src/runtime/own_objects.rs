//! Objects of synchronisation that one rank makes, and one rank destroys: the calls.

use super::checks::must_be;
use super::objects::name;
use super::{Runtime, lock};
use crate::error::{Error, Result};
use scash_proto::Rank;
use scash_proto::node::{ObjectKind, OwnNumber};

impl Runtime {
    /// Makes an object of synchronisation by this rank alone, and returns its number, which means the same
    /// object on every rank. No other rank has to do with that.
    ///
    /// # Errors
    /// All ranks have made none together before ([`make_objects`](Self::make_objects)): until then, pages get
    /// their homes in a way that does without. Another thread of this rank is in a collective call. The rank
    /// has used up its numbers: of 2²⁴ objects at a time, each rank can have an even part.
    pub fn make_object(&self, kind: ObjectKind) -> Result<u32> {
        self.guarded(|| {
            let number = self.number_for(kind)?;
            let begun = self.context.objects.begin_own(self, number, kind);
            begun.inspect_err(|_| lock(&self.core).node.forget_own(number))?;
            Ok(number)
        })
    }

    fn number_for(&self, kind: ObjectKind) -> Result<u32> {
        let what = name(kind);
        let mut core = lock(&self.core);
        if core.node.in_collective_call() {
            return Err(Error::Argument(format!(
                "a {what} is made while another thread of this rank is in a collective call: let that return first"
            )));
        }
        if core.node.objects() == 0 {
            return Err(Error::Argument(format!(
                "a {what} is made by one rank before all ranks have made any together: let all make one first, once (dsm_locks_create, Dsm::locks)"
            )));
        }
        for of_all in [false, true] {
            for number in self.context.objects.gone_own(of_all) {
                core.node.forget_own(number);
            }
            if let Some(number) = core.node.make_own(kind) {
                return Ok(number);
            }
        }
        Err(Error::OutOfSpace(format!(
            "one {what} more: this rank has no number for it; destroy some that are not needed, or come to a memory barrier if many were"
        )))
    }

    /// Destroys an object that one rank has made, whichever it was: a lock, or a reader–writer lock, as soon
    /// as nobody has it. Its number means nothing then, and another object only after the next memory
    /// barrier.
    ///
    /// # Errors
    /// [`Error::InUse`]: a thread of some rank waits for it; it is as it was. There is no such object; the
    /// calling thread has it; it was made by all ranks together; a rank is gone.
    pub fn destroy_object(&self, kind: ObjectKind, number: u32) -> Result<()> {
        let what = name(kind);
        if OwnNumber::of(number).is_none() {
            must_be(&lock(&self.core), number, kind)?;
            return Err(Error::Argument(format!(
                "{what} {number} was made by all ranks together, and one is to destroy it: let all destroy it (dsm_{}s_destroy, Dsm::destroy)",
                super::objects::c_name(kind)
            )));
        }
        match self.guarded(|| self.context.objects.unmake(self, number, kind))? {
            None => Ok(()),
            Some(Rank(rank)) => Err(Error::InUse(format!(
                "{what} {number} cannot be destroyed, because a thread of rank {rank} waits for it: let it go on first (it is as it was)"
            ))),
        }
    }
}
