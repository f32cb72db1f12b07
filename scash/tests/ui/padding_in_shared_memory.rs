//! Bytes that are no part of a value have no values of their own, so they cannot travel between ranks: types
//! that have some are not plain.

#[derive(Clone, Copy)]
#[repr(C)]
struct Padded {
    small: u8,
    large: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Said {
    small: u8,
    large: u32,
}

#[derive(Clone, Copy)]
enum Choice {
    One = 1,
    Other = 2,
}

// What padding is found in is the derive's business: it is not for programs to say that there is none.
impl scash::Plain for Said {} //~ E0277

fn start(dsm: &mut scash::Dsm) -> scash::Result<()> {
    dsm.broadcast_value(Padded { small: 1, large: 2 }, 0)?; //~ E0277
    dsm.broadcast_value(Choice::One, 0)?; //~ E0277
    dsm.alloc::<bool>(1)?; //~ E0277
    dsm.alloc::<*const u8>(1)?; //~ E0277
    Ok(())
}

fn main() {}
