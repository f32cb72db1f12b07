use super::*;
use proptest::prelude::*;

fn varint_bytes(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    Writer::new(&mut out).varint(value);
    out
}

fn read_varint(bytes: &[u8]) -> Result<u64, Malformed> {
    Reader::new(bytes).varint()
}

#[test]
fn fixed_integers_are_little_endian() {
    let mut out = vec![0xee];
    let mut w = Writer::new(&mut out);
    w.u8(0x01);
    w.u16(0x0302);
    w.u32(0x0706_0504);
    w.u64(0x0f0e_0d0c_0b0a_0908);
    assert_eq!(out[0], 0xee, "what was there stays");
    assert_eq!(out[1..], (1..=15).collect::<Vec<u8>>());
}

#[test]
fn small_numbers_take_one_byte_and_the_largest_takes_ten() {
    assert_eq!(varint_bytes(0), [0]);
    assert_eq!(varint_bytes(127), [127]);
    assert_eq!(varint_bytes(128), [0x80, 1]);
    assert_eq!(varint_bytes(u64::MAX).len(), 10);
    assert_eq!(read_varint(&varint_bytes(u64::MAX)), Ok(u64::MAX));
}

#[test]
fn a_varint_of_more_than_64_bits_is_refused() {
    let mut bytes = varint_bytes(u64::MAX);
    bytes[9] = 2;
    assert_eq!(read_varint(&bytes), Err(Malformed { at: 0, why: Why::BadVarint }));
    assert_eq!(read_varint(&[0xff; 11]), Err(Malformed { at: 0, why: Why::BadVarint }));
}

#[test]
fn a_varint_padded_with_zeros_is_refused() {
    assert_eq!(read_varint(&[0x80, 0]), Err(Malformed { at: 0, why: Why::BadVarint }));
    assert_eq!(read_varint(&[0x81, 0x80, 0]), Err(Malformed { at: 0, why: Why::BadVarint }));
}

#[test]
fn a_value_cut_short_says_where_and_by_how_much() {
    let mut r = Reader::new(&[1, 2, 3]);
    r.u8().unwrap();
    assert_eq!(r.u32(), Err(Malformed { at: 1, why: Why::Short { wanted: 4, left: 2 } }));
    assert_eq!(r.u16(), Ok(0x0302), "a refused read takes nothing");
    assert_eq!(read_varint(&[0x80]), Err(Malformed { at: 1, why: Why::Short { wanted: 1, left: 0 } }));
}

#[test]
fn a_count_that_the_message_cannot_hold_is_refused() {
    let mut out = varint_bytes(3);
    out.extend_from_slice(&[0; 11]);
    assert_eq!(
        Reader::new(&out).count(4),
        Err(Malformed { at: 0, why: Why::TooLarge { value: 3, limit: 2 } })
    );
    out.push(0);
    assert_eq!(Reader::new(&out).count(4), Ok(3));
    assert_eq!(Reader::new(&out).count(0), Ok(3), "items without bytes still count against the message");
}

#[test]
fn a_number_beyond_32_bits_is_refused_where_32_are_expected() {
    let limit = u64::from(u32::MAX);
    assert_eq!(Reader::new(&varint_bytes(limit)).varint_u32(), Ok(u32::MAX));
    let value = limit + 1;
    let refused = Err(Malformed { at: 0, why: Why::TooLarge { value, limit } });
    assert_eq!(Reader::new(&varint_bytes(value)).varint_u32(), refused);
}

#[test]
fn trailing_bytes_are_refused() {
    let mut r = Reader::new(&[1, 2, 3]);
    r.u8().unwrap();
    assert_eq!((r.position(), r.remaining()), (1, 2));
    assert_eq!(r.finish(), Err(Malformed { at: 1, why: Why::Trailing { left: 2 } }));
}

#[test]
fn the_error_text_says_what_was_wrong_and_what_to_look_at() {
    let text = Reader::new(&[9]).u64().unwrap_err().to_string();
    assert!(
        text.contains("byte 0") && text.contains("8 bytes expected, 1 left") && text.contains("same version"),
        "{text}"
    );
}

proptest! {
    #[test]
    fn what_is_written_is_read(a: u8, b: u16, c: u32, d: u64, e: u64, blob: Vec<u8>, tail: [u8; 5]) {
        let mut out = Vec::new();
        let mut w = Writer::new(&mut out);
        w.u8(a); w.u16(b); w.u32(c); w.u64(d); w.varint(e); w.blob(&blob); w.bytes(&tail);
        let mut r = Reader::new(&out);
        prop_assert_eq!((r.u8()?, r.u16()?, r.u32()?, r.u64()?, r.varint()?), (a, b, c, d, e));
        prop_assert_eq!(r.blob()?, &blob[..]);
        prop_assert_eq!(r.array::<5>()?, tail);
        prop_assert_eq!(r.finish(), Ok(()));
    }

    #[test]
    fn a_number_has_one_encoding(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
        let mut r = Reader::new(&bytes);
        if let Ok(value) = r.varint() {
            prop_assert_eq!(varint_bytes(value), &bytes[..r.position()]);
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes: Vec<u8>, ops in prop::collection::vec(0u8..9, 0..40), n: usize) {
        let mut r = Reader::new(&bytes);
        for op in ops {
            let _ = match op {
                0 => r.u8().map(drop),
                1 => r.u16().map(drop),
                2 => r.u32().map(drop),
                3 => r.u64().map(drop),
                4 => r.varint().map(drop),
                5 => r.varint_u32().map(drop),
                6 => r.count(n).map(drop),
                7 => r.bytes(n).map(drop),
                _ => r.blob().map(drop),
            };
            prop_assert_eq!(r.position() + r.remaining(), bytes.len());
        }
    }
}
