//! Sizes of memory as people write them.

/// The number of bytes that a text means: a number with an optional unit of 1,024, such as `4096`, `64M`,
/// `16GiB`.
///
/// # Errors
/// It means none.
pub fn parse(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => Some(0),
        "k" | "kb" | "kib" => Some(10),
        "m" | "mb" | "mib" => Some(20),
        "g" | "gb" | "gib" => Some(30),
        "t" | "tb" | "tib" => Some(40),
        _ => None,
    };
    let number = digits.trim().parse::<usize>().ok();
    let bytes = number.zip(shift).and_then(|(number, shift)| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| "expected a size such as 4096, 128M or 8G".to_owned())
}

/// A size as text, in the largest unit in which it is a whole number.
pub fn text(bytes: usize) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    unit.map_or_else(|| format!("{bytes} bytes"), |(shift, name)| format!("{} {name}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, bytes) in
            [("0", 0), ("4096", 4096), ("3k", 3072), ("128M", 128 << 20), ("8 GiB", 8 << 30), ("1T", 1 << 40)]
        {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "much", "-1", "1.5G", "99999999999T", "1 parsec", "ü"] {
            assert!(parse(text).unwrap_err().contains("128M"), "{text}");
        }
    }

    #[test]
    fn a_size_is_written_in_its_largest_unit() {
        for (bytes, shown) in [
            (0, "0 bytes"),
            (4095, "4095 bytes"),
            (1536, "1536 bytes"),
            (128 << 20, "128 MiB"),
            (1 << 40, "1 TiB"),
        ] {
            assert_eq!(text(bytes), shown);
        }
    }
}
