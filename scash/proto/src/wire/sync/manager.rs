//! What the manager of a reader–writer lock, a semaphore, a condition or a flag is told.

use super::{Malformed, Reader, Why, Writer};

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A reader–writer lock, to read.
    Read,
    /// A reader–writer lock, to write.
    Write,
    /// One of a semaphore's count.
    Take,
    /// The signal of a condition.
    Wakeup,
    /// A flag's number that is at least so large.
    AtLeast(u64),
}

/// What lets others go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A reader gives a reader–writer lock back.
    HasRead,
    /// A writer does.
    HasWritten,
    /// A semaphore's count grows by so many.
    Post(u32),
    /// A condition is signalled to the first who waits for it.
    WakeOne,
    /// It is signalled to all who wait for it.
    WakeAll,
    /// A flag's number is at least so large from now on.
    Raise(u64),
}

impl Signal {
    /// Whether those who go on must see what was written before. (Who is signalled takes a lock, and sees it
    /// with that.)
    pub fn orders_memory(self) -> bool {
        !matches!(self, Signal::WakeOne | Signal::WakeAll)
    }
}

pub(super) fn put_request(w: &mut Writer<'_>, request: Request) {
    match request {
        Request::Read => w.u8(0),
        Request::Write => w.u8(1),
        Request::Take => w.u8(2),
        Request::Wakeup => w.u8(3),
        Request::AtLeast(value) => {
            w.u8(4);
            w.varint(value);
        }
    }
}

pub(super) fn request(r: &mut Reader<'_>) -> Result<Request, Malformed> {
    let at = r.position();
    Ok(match r.u8()? {
        0 => Request::Read,
        1 => Request::Write,
        2 => Request::Take,
        3 => Request::Wakeup,
        4 => Request::AtLeast(r.varint()?),
        tag => return Err(Malformed { at, why: Why::UnknownTag { tag } }),
    })
}

pub(super) fn put_signal(w: &mut Writer<'_>, signal: Signal) {
    match signal {
        Signal::HasRead => w.u8(0),
        Signal::HasWritten => w.u8(1),
        Signal::Post(count) => {
            w.u8(2);
            w.varint(u64::from(count));
        }
        Signal::WakeOne => w.u8(3),
        Signal::WakeAll => w.u8(4),
        Signal::Raise(to) => {
            w.u8(5);
            w.varint(to);
        }
    }
}

pub(super) fn signal(r: &mut Reader<'_>) -> Result<Signal, Malformed> {
    let at = r.position();
    Ok(match r.u8()? {
        0 => Signal::HasRead,
        1 => Signal::HasWritten,
        2 => Signal::Post(r.varint_u32()?),
        3 => Signal::WakeOne,
        4 => Signal::WakeAll,
        5 => Signal::Raise(r.varint()?),
        tag => return Err(Malformed { at, why: Why::UnknownTag { tag } }),
    })
}
