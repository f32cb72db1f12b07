//! The end of objects of synchronisation: the call.

use super::objects::name;
use super::{Runtime, lock};
use crate::error::{Error, Result};
use scash_proto::node::{Collective, InUse, ObjectKind, Outcome};
use scash_proto::wire::stall::Relation;

impl Runtime {
    /// Destroys `count` objects of synchronisation of a kind, from the one with number `first` on.
    /// Collective, and includes a memory barrier. The numbers never mean other objects: who uses one later is
    /// told that it was destroyed.
    ///
    /// # Errors
    /// There are no such objects, or they are of another kind. [`Error::InUse`]: a thread of some rank has
    /// one or waits for it; all ranks are told so, none has destroyed anything, and the call was no memory
    /// barrier. Ranks made different collective calls; a rank is gone.
    pub fn destroy_objects(&self, kind: ObjectKind, first: u32, count: u32) -> Result<()> {
        if count == 0 {
            return Err(Error::Argument(format!("0 {}s are to be destroyed: name at least one", name(kind))));
        }
        self.collective_then(Collective::Destroy { kind, first, count }, |outcome| match outcome {
            Outcome::Done => Ok(()),
            Outcome::InUse(in_use) => Err(self.in_use(in_use)),
            _ => Err(Error::Broken("the end of objects had no outcome".to_owned())),
        })
    }

    fn in_use(&self, InUse { rank, object, relation }: InUse) -> Error {
        let what = lock(&self.core).node.kind(object).map_or("object", name);
        let (does, remedy) = match relation {
            Relation::Holds => ("has it", "give it back first"),
            Relation::Awaits => ("waits for it", "let it go on first"),
        };
        Error::InUse(format!(
            "{what} {object} cannot be destroyed, because a thread of {rank} {does}: {remedy} (no rank has destroyed anything, and all were told so)"
        ))
    }
}
