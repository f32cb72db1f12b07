//! The body of a request for an atomic operation. A pattern of bytes that is accepted is the only one for its
//! operation: what an operation has no use for is zero.

use super::{Garbage, garbage, u64_at};
use crate::{Atomic, Rmw};

/// Bytes of an operation.
pub const OPERATION: usize = 32;

/// An atomic operation, and the word's place in the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Bytes from the segment's start to the word.
    pub offset: u64,
    /// What is done to it.
    pub op: Atomic,
}

impl Operation {
    /// The operation's bytes.
    pub fn encode(self) -> [u8; OPERATION] {
        let (width, (code, first, second)) = match self.op {
            Atomic::U32(op) => {
                let (code, first, second) = take_apart(op);
                (4, (code, first.into(), second.into()))
            }
            Atomic::U64(op) => (8, take_apart(op)),
        };
        let mut bytes = [0; OPERATION];
        bytes[..2].copy_from_slice(&[code, width]);
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&first.to_le_bytes());
        bytes[24..].copy_from_slice(&second.to_le_bytes());
        bytes
    }

    /// Reads an operation.
    ///
    /// # Errors
    /// No operation has these bytes.
    pub fn decode(bytes: &[u8; OPERATION]) -> Result<Operation, Garbage> {
        let (code, first, second) = (bytes[0], u64_at(bytes, 16), u64_at(bytes, 24));
        let op = match bytes[1] {
            _ if bytes[2..8] != [0; 6] => None,
            4 => match (u32::try_from(first), u32::try_from(second)) {
                (Ok(first), Ok(second)) => put_together(code, first, second).map(Atomic::U32),
                _ => None,
            },
            8 => put_together(code, first, second).map(Atomic::U64),
            _ => None,
        };
        match op {
            Some(op) => Ok(Operation { offset: u64_at(bytes, 8), op }),
            None => garbage(format!("an atomic operation {bytes:02x?}")),
        }
    }
}

/// An operation's code and its two operands.
fn take_apart<T: Default>(op: Rmw<T>) -> (u8, T, T) {
    let (code, operand) = match op {
        Rmw::Load => (0, T::default()),
        Rmw::Add(operand) => (1, operand),
        Rmw::And(operand) => (2, operand),
        Rmw::Or(operand) => (3, operand),
        Rmw::Xor(operand) => (4, operand),
        Rmw::Swap(operand) => (5, operand),
        Rmw::CompareSwap { expected, new } => return (6, expected, new),
    };
    (code, operand, T::default())
}

/// The operation of these parts, if there is one.
fn put_together<T: Default + PartialEq>(code: u8, first: T, second: T) -> Option<Rmw<T>> {
    let zero = T::default();
    let op = match code {
        6 => return Some(Rmw::CompareSwap { expected: first, new: second }),
        _ if second != zero => return None,
        0 if first == zero => Rmw::Load,
        1 => Rmw::Add(first),
        2 => Rmw::And(first),
        3 => Rmw::Or(first),
        4 => Rmw::Xor(first),
        5 => Rmw::Swap(first),
        _ => return None,
    };
    Some(op)
}
