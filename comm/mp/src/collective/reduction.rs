//! How elements are combined.

/// What an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are the types of these names")]
pub enum Element {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

/// What becomes of two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Their sum; of integers, modulo the type's range.
    Sum,
    /// Their product, likewise.
    Product,
    /// The smaller one; of a number and a NaN, the number; −0 is smaller than 0.
    Min,
    /// The larger one, likewise.
    Max,
    /// The bits that both have; integers only.
    And,
    /// The bits that either has; integers only.
    Or,
    /// The bits that one of them has; integers only.
    Xor,
}

/// How elements are combined: what they are, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduction {
    element: Element,
    op: Op,
}

/// A type of [`Element`].
pub trait Reducible: Copy + Default + private::Sealed + 'static {
    /// Which one.
    const ELEMENT: Element;
}

mod private {
    pub trait Sealed {}
}

impl Reduction {
    /// Elements of this kind, combined so. `None`: floating-point numbers have no bits to be combined.
    pub fn new(element: Element, op: Op) -> Option<Self> {
        let is_float = matches!(element, Element::F32 | Element::F64);
        let is_bitwise = matches!(op, Op::And | Op::Or | Op::Xor);
        (!(is_float && is_bitwise)).then_some(Self { element, op })
    }

    /// What the elements are.
    pub fn element(self) -> Element {
        self.element
    }

    /// What becomes of two of them.
    pub fn op(self) -> Op {
        self.op
    }

    /// Bytes of an element.
    pub fn width(self) -> usize {
        match self.element {
            Element::I8 | Element::U8 => 1,
            Element::I16 | Element::U16 => 2,
            Element::I32 | Element::U32 | Element::F32 => 4,
            Element::I64 | Element::U64 | Element::F64 => 8,
        }
    }

    /// Combines the elements of `from` into those of `into`: as many bytes each, and whole elements.
    pub(crate) fn combine(self, from: &[u8], into: &mut [u8]) {
        let combine = match self.element {
            Element::I8 => integers::i8,
            Element::U8 => integers::u8,
            Element::I16 => integers::i16,
            Element::U16 => integers::u16,
            Element::I32 => integers::i32,
            Element::U32 => integers::u32,
            Element::I64 => integers::i64,
            Element::U64 => integers::u64,
            Element::F32 => floats::f32,
            Element::F64 => floats::f64,
        };
        combine(self.op, from, into);
    }
}

/// Makes of each element of `into` what `f` makes of it and the one of `from`; compiled for each width and
/// operation to a loop over vectors.
macro_rules! each {
    ($type:ty, $from:expr, $into:expr, $f:expr) => {{
        const WIDTH: usize = size_of::<$type>();
        let f: fn($type, $type) -> $type = $f;
        for (from, into) in $from.as_chunks::<WIDTH>().0.iter().zip($into.as_chunks_mut::<WIDTH>().0) {
            *into = f(<$type>::from_ne_bytes(*into), <$type>::from_ne_bytes(*from)).to_ne_bytes();
        }
    }};
}

macro_rules! integers {
    ($($type:ident),*) => {
        $(
            pub(super) fn $type(op: Op, from: &[u8], into: &mut [u8]) {
                match op {
                    Op::Sum => each!($type, from, into, $type::wrapping_add),
                    Op::Product => each!($type, from, into, $type::wrapping_mul),
                    Op::Min => each!($type, from, into, Ord::min),
                    Op::Max => each!($type, from, into, Ord::max),
                    Op::And => each!($type, from, into, |a, b| a & b),
                    Op::Or => each!($type, from, into, |a, b| a | b),
                    Op::Xor => each!($type, from, into, |a, b| a ^ b),
                }
            }
        )*
    };
}

/// What is no number has many representations, and a processor picks that of one operand. Ranks that combine
/// in another order are to have the same bits.
macro_rules! one_nan {
    ($type:ident, $value:expr) => {{
        let value = $value;
        if value.is_nan() { $type::NAN } else { value }
    }};
}

/// The one of two numbers that `$one` says, whatever their order: of two zeros, the one with these bits; of a
/// number and what is none, the number.
macro_rules! either {
    ($type:ident, $a:ident, $b:ident, $one:expr, $alike:expr) => {{
        let one = if $a == $b { $type::from_bits($alike) } else { $one };
        let one = if $b.is_nan() { $a } else { one };
        one_nan!($type, if $a.is_nan() { $b } else { one })
    }};
}

macro_rules! floats {
    ($($type:ident),*) => {
        $(
            pub(super) fn $type(op: Op, from: &[u8], into: &mut [u8]) {
                match op {
                    Op::Sum => each!($type, from, into, |a, b| one_nan!($type, a + b)),
                    Op::Product => each!($type, from, into, |a, b| one_nan!($type, a * b)),
                    Op::Min => each!($type, from, into, |a, b| {
                        either!($type, a, b, if a < b { a } else { b }, a.to_bits() | b.to_bits())
                    }),
                    // `Reduction::new` lets no bitwise operation through.
                    Op::Max | Op::And | Op::Or | Op::Xor => each!($type, from, into, |a, b| {
                        either!($type, a, b, if a > b { a } else { b }, a.to_bits() & b.to_bits())
                    }),
                }
            }
        )*
    };
}

macro_rules! reducible {
    ($($type:ident $element:ident),*) => {
        $(
            impl private::Sealed for $type {}
            impl Reducible for $type {
                const ELEMENT: Element = Element::$element;
            }
        )*
    };
}

mod integers {
    use super::Op;
    integers! { i8, u8, i16, u16, i32, u32, i64, u64 }
}

mod floats {
    use super::Op;
    floats! { f32, f64 }
}

reducible! { i8 I8, u8 U8, i16 I16, u16 U16, i32 I32, u32 U32, i64 I64, u64 U64, f32 F32, f64 F64 }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_combined_one_by_one() {
        let numbers = |values: [i32; 3]| values.map(i32::to_ne_bytes).concat();
        for (op, expected) in [
            (Op::Sum, [5, i32::MIN, -6]),
            (Op::Product, [6, i32::MAX, 9]),
            (Op::Min, [2, 1, -3]),
            (Op::Max, [3, i32::MAX, -3]),
            (Op::And, [2, 1, -3]),
            (Op::Or, [3, i32::MAX, -3]),
            (Op::Xor, [1, i32::MAX - 1, 0]),
        ] {
            let mut into = numbers([2, i32::MAX, -3]);
            Reduction::new(Element::I32, op).unwrap().combine(&numbers([3, 1, -3]), &mut into);
            assert_eq!(into, numbers(expected), "{op:?}");
        }
    }

    #[test]
    fn a_number_is_kept_rather_than_none() {
        for op in [Op::Min, Op::Max] {
            let mut into = f64::NAN.to_ne_bytes();
            Reduction::new(Element::F64, op).unwrap().combine(&2.5f64.to_ne_bytes(), &mut into);
            assert_eq!(f64::from_ne_bytes(into), 2.5);
        }
    }

    #[test]
    fn two_numbers_make_the_same_bits_in_either_order() {
        let odd = f64::from_bits(f64::NAN.to_bits() ^ 5);
        let all = [0.0, -0.0, 1.5, -2.5, f64::INFINITY, -f64::INFINITY, f64::NAN, -f64::NAN, odd];
        for op in [Op::Sum, Op::Product, Op::Min, Op::Max] {
            let one = Reduction::new(Element::F64, op).unwrap();
            let combined = |a: f64, b: f64| {
                let mut into = a.to_ne_bytes();
                one.combine(&b.to_ne_bytes(), &mut into);
                u64::from_ne_bytes(into)
            };
            for (a, b) in all.into_iter().flat_map(|a| all.map(|b| (a, b))) {
                assert_eq!(combined(a, b), combined(b, a), "{op:?} of {a:?} and {b:?}");
            }
        }
        let zeros = |op, a: f32, b: f32| {
            let mut into = a.to_ne_bytes();
            Reduction::new(Element::F32, op).unwrap().combine(&b.to_ne_bytes(), &mut into);
            f32::from_ne_bytes(into).is_sign_negative()
        };
        assert!(zeros(Op::Min, 0.0, -0.0) && !zeros(Op::Max, -0.0, 0.0));
    }

    #[test]
    fn floating_point_numbers_have_no_bits_to_be_combined() {
        assert_eq!(Reduction::new(Element::F32, Op::Xor), None);
        assert_eq!(Reduction::new(Element::F64, Op::And), None);
    }
}
