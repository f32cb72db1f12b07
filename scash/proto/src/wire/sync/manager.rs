//! What the manager of a reader–writer lock, a semaphore, a condition or a flag is told.

use super::{Malformed, Reader, Why, Writer};

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A reader–writer lock, to read.
    Read,
    /// A reader–writer lock, to write.
    Write,
    /// One of a semaphore's count.
    Take,
    /// The signal of a condition.
    Signal,
    /// A flag's number that is at least so large.
    AtLeast(u64),
}

/// What lets others go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A reader gives a reader–writer lock back.
    HasRead,
    /// A writer does.
    HasWritten,
    /// A semaphore's count grows by so many.
    Post(u32),
    /// A condition is signalled to the first who waits for it.
    Signal,
    /// It is signalled to all who wait for it.
    Broadcast,
    /// A flag's number is at least so large from now on.
    Raise(u64),
}

impl Deed {
    /// Whether those who go on must see what was written before. (Who is signalled takes a lock, and sees it with that.)
    pub fn orders_memory(self) -> bool {
        !matches!(self, Deed::Signal | Deed::Broadcast)
    }
}

pub(super) fn put_wish(w: &mut Writer<'_>, wish: Wish) {
    match wish {
        Wish::Read => w.u8(0),
        Wish::Write => w.u8(1),
        Wish::Take => w.u8(2),
        Wish::Signal => w.u8(3),
        Wish::AtLeast(value) => {
            w.u8(4);
            w.varint(value);
        }
    }
}

pub(super) fn wish(r: &mut Reader<'_>) -> Result<Wish, Malformed> {
    let at = r.position();
    Ok(match r.u8()? {
        0 => Wish::Read,
        1 => Wish::Write,
        2 => Wish::Take,
        3 => Wish::Signal,
        4 => Wish::AtLeast(r.varint()?),
        tag => return Err(Malformed { at, why: Why::UnknownTag { tag } }),
    })
}

pub(super) fn put_deed(w: &mut Writer<'_>, deed: Deed) {
    match deed {
        Deed::HasRead => w.u8(0),
        Deed::HasWritten => w.u8(1),
        Deed::Post(count) => {
            w.u8(2);
            w.varint(u64::from(count));
        }
        Deed::Signal => w.u8(3),
        Deed::Broadcast => w.u8(4),
        Deed::Raise(to) => {
            w.u8(5);
            w.varint(to);
        }
    }
}

pub(super) fn deed(r: &mut Reader<'_>) -> Result<Deed, Malformed> {
    let at = r.position();
    Ok(match r.u8()? {
        0 => Deed::HasRead,
        1 => Deed::HasWritten,
        2 => Deed::Post(r.varint_u32()?),
        3 => Deed::Signal,
        4 => Deed::Broadcast,
        5 => Deed::Raise(r.varint()?),
        tag => return Err(Malformed { at, why: Why::UnknownTag { tag } }),
    })
}
