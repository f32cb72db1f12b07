//! Lengths of time as users write them: `50ms`, `2.5s`, `24h`.

#![forbid(unsafe_code)]

use std::fmt;
use std::time::Duration;

/// Units from the longest to the shortest, in nanoseconds.
const UNITS: [(&str, u128); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// A text that is no length of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoTime(String);

impl fmt::Display for NoTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "expected a time with its unit (ns, us, ms, s, m or h), as in 50ms or 2.5s, not '{}'",
            self.0
        )
    }
}

impl std::error::Error for NoTime {}

/// Reads a number with its unit: digits, perhaps with a fraction, then `ns`, `us`, `ms`, `s`, `m` or `h`.
pub fn parse(text: &str) -> Result<Duration, NoTime> {
    let wrong = || NoTime(text.to_owned());
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit_at);
    let (_, nanoseconds) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    scaled(number, *nanoseconds).ok_or_else(wrong)
}

/// A decimal number times a unit.
pub(crate) fn scaled(number: &str, nanoseconds: u128) -> Option<Duration> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = fraction.parse::<u128>().ok()? * nanoseconds / scale;
    let whole = whole.parse::<u64>().ok()?;
    let total = u128::from(whole) * nanoseconds + part;
    Some(Duration::from_nanos(u64::try_from(total).ok()?))
}

/// Writes what [`parse`] reads: in the longest unit that gives a whole number.
pub fn write(f: &mut fmt::Formatter<'_>, time: Duration) -> fmt::Result {
    let total = time.as_nanos();
    let fits = |(_, unit): &&(&str, u128)| total >= *unit && total.is_multiple_of(*unit);
    let (name, unit) = UNITS.iter().find(fits).unwrap_or(&("s", 1_000_000_000));
    write!(f, "{}{name}", total / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Text(Duration);

    impl fmt::Display for Text {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write(f, self.0)
        }
    }

    #[test]
    fn a_time_is_read_and_written_back() {
        for (text, nanoseconds, back) in [
            ("50ms", 50_000_000, "50ms"),
            ("2.5s", 2_500_000_000, "2500ms"),
            ("90s", 90_000_000_000, "90s"),
            ("120s", 120_000_000_000, "2m"),
            ("24h", 86_400_000_000_000, "24h"),
            ("0.5ns", 0, "0s"),
            ("7us", 7_000, "7us"),
        ] {
            let time = parse(text).unwrap();
            assert_eq!(time, Duration::from_nanos(nanoseconds), "{text}");
            assert_eq!(Text(time).to_string(), back);
        }
    }

    #[test]
    fn a_text_that_is_no_time_is_refused_by_name() {
        for text in
            ["", "5", "s", "-1s", "1.s", ".5s", "1,5s", "5 ms", "5min", "1e3s", "1.0000000001s", "99999999h"]
        {
            assert_eq!(parse(text), Err(NoTime(text.to_owned())));
        }
        let said = parse("5").unwrap_err().to_string();
        assert_eq!(
            said,
            "expected a time with its unit (ns, us, ms, s, m or h), as in 50ms or 2.5s, not '5'"
        );
    }
}
