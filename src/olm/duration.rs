//! Durations as Go writes and reads them, such as `30m0s`: in this form the objects of operator lifecycle have them.

use jiff::SignedDuration;

/// The units, the longer name before one that it begins with.
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DurationError {
    #[error("a number with a unit (h, m, s, ms, us, ns) is missing, as in 1h30m")]
    Empty,
    #[error("{0:?} does not begin with a number")]
    Number(String),
    #[error("a unit (h, m, s, ms, us, ns) is missing at {0:?}")]
    Unit(String),
    #[error("it is longer than 292 years")]
    TooLong,
}

/// Reads numbers with units, one after the other, with a sign before all of them. Fractions of a nanosecond are left out.
pub(crate) fn parse(text: &str) -> Result<SignedDuration, DurationError> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(DurationError::Empty);
    }
    let (mut total, mut rest) = (0_i128, rest);
    while !rest.is_empty() {
        let (nanos, left) = part(rest)?;
        total = total.checked_add(nanos).filter(|sum| *sum <= i128::from(i64::MAX)).ok_or(DurationError::TooLong)?;
        rest = left;
    }
    let total = i64::try_from(total).map_err(|_| DurationError::TooLong)?;
    Ok(SignedDuration::from_nanos(if negative { -total } else { total }))
}

/// The first number with its unit, in nanoseconds, and what is behind it.
fn part(text: &str) -> Result<(i128, &str), DurationError> {
    let short = |text: &str| text.chars().take(20).collect::<String>();
    let split = |text| split_digits(text);
    let (whole, rest) = split(text);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), split);
    if whole.is_empty() && fraction.is_empty() {
        return Err(DurationError::Number(short(text)));
    }
    let unit = UNITS.iter().find_map(|(name, nanos)| Some((*nanos, rest.strip_prefix(name)?)));
    // `m` is not the beginning of a longer name that nobody knows.
    let unit = unit.filter(|(_, left)| left.is_empty() || left.starts_with(|c: char| c.is_ascii_digit() || c == '.'));
    let (nanos, left) = unit.ok_or_else(|| DurationError::Unit(short(text)))?;
    let number = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<i64>().ok().map(i128::from) };
    let whole = number(whole).and_then(|whole| whole.checked_mul(nanos)).ok_or(DurationError::TooLong)?;
    // What is behind the fifteenth digit is less than a nanosecond, even of hours.
    let fraction = fraction.get(..15).unwrap_or(fraction);
    let scale = 10_i128.pow(u32::try_from(fraction.len()).unwrap_or_default());
    let fraction = number(fraction).unwrap_or_default() * nanos / scale;
    Ok((whole + fraction, left))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (text, seconds) in [
            ("0", 0.0),
            ("30m0s", 1800.0),
            ("1h30m", 5400.0),
            ("1.5h", 5400.0),
            (".5s", 0.5),
            ("1.s", 1.0),
            ("1h15m30.918s", 4530.918),
            ("+45s", 45.0),
            ("-1m", -60.0),
            ("1m1m", 120.0),
            ("300ms", 0.3),
            ("10us10µs10μs", 0.00003),
            ("2562047h47m16s", 9_223_372_036.0),
        ] {
            let found = parse(text).unwrap();
            assert!((found.as_secs_f64() - seconds).abs() < 1e-6, "{text}: {found:?}");
        }
        assert_eq!(parse("1ns").unwrap().as_nanos(), 1);
    }

    #[test]
    fn what_is_wrong_with_a_duration_is_said() {
        for (text, expected) in [
            ("", "a number with a unit (h, m, s, ms, us, ns) is missing, as in 1h30m"),
            ("-", "a number with a unit"),
            ("15", "a unit (h, m, s, ms, us, ns) is missing at \"15\""),
            ("1d", "a unit (h, m, s, ms, us, ns) is missing at \"1d\""),
            ("1hour", "a unit"),
            ("soon", "\"soon\" does not begin with a number"),
            ("1h ", "a unit"),
            ("1h-5m", "a unit"),
            (".s", "\".s\" does not begin with a number"),
            ("9999999h", "longer than 292 years"),
            ("99999999999999999999h", "longer than 292 years"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_much(text in "[-+]?([0-9.]{0,25}(ns|us|ms|s|m|h|x)?){0,4}") {
            let _read = parse(&text);
        }
    }
}
