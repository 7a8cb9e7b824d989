//! Compares resource quantities by value: `1000m` equals `1`, `1Gi` equals `1024Mi`.

use serde_json::Value;

/// Quantities with more digits are compared as text, since they might not fit into the mantissa. No manifest has them.
const MAX_DIGITS: usize = 19;

/// An exact decimal number: `mantissa * 10^exponent`, the mantissa without trailing zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Amount {
    mantissa: i128,
    exponent: i32,
}

/// Whether both are the same quantity. Values that are not quantities are compared as they are.
pub(super) fn same(live: &Value, desired: &Value) -> bool {
    match (amount(live), amount(desired)) {
        (Some(live), Some(desired)) => live == desired,
        _ => live == desired,
    }
}

/// A quantity that is a whole number; `None` if it is none, or does not fit.
pub(crate) fn whole(value: &Value) -> Option<i64> {
    let Amount { mantissa, exponent } = amount(value)?;
    let scale = 10_i128.checked_pow(u32::try_from(exponent).ok()?)?;
    i64::try_from(mantissa.checked_mul(scale)?).ok()
}

/// How many parts of a unit a quantity is, rounded down, such as thousandths of a CPU; `None` if it is none, or does not fit.
pub(crate) fn parts(text: &str, in_a_unit: i128) -> Option<i128> {
    let Amount { mantissa, exponent } = parse(text)?;
    let parts = mantissa.checked_mul(in_a_unit)?;
    let scale = 10_i128.checked_pow(exponent.unsigned_abs())?;
    if exponent < 0 { Some(parts.div_euclid(scale)) } else { parts.checked_mul(scale) }
}

fn amount(value: &Value) -> Option<Amount> {
    match value {
        Value::String(text) => parse(text),
        Value::Number(number) => parse(&number.to_string()),
        _ => None,
    }
}

fn parse(text: &str) -> Option<Amount> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > MAX_DIGITS || fraction.contains('.') {
        return None;
    }
    let (binary, decimal) = scale(suffix)?;
    let mantissa = digits.parse::<i128>().ok()?.checked_mul(1_i128.checked_shl(binary)?)?;
    let exponent = decimal.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    Some(reduced(if negative { -mantissa } else { mantissa }, exponent))
}

/// The exponents of two and of ten that a suffix means.
fn scale(suffix: &str) -> Option<(u32, i32)> {
    const SUFFIXES: [(&str, u32, i32); 16] = [
        ("", 0, 0),
        ("n", 0, -9),
        ("u", 0, -6),
        ("m", 0, -3),
        ("k", 0, 3),
        ("M", 0, 6),
        ("G", 0, 9),
        ("T", 0, 12),
        ("P", 0, 15),
        ("E", 0, 18),
        ("Ki", 10, 0),
        ("Mi", 20, 0),
        ("Gi", 30, 0),
        ("Ti", 40, 0),
        ("Pi", 50, 0),
        ("Ei", 60, 0),
    ];
    if let Some((_, binary, decimal)) = SUFFIXES.iter().find(|(name, _, _)| *name == suffix) {
        return Some((*binary, *decimal));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
    Some((0, exponent))
}

fn reduced(mut mantissa: i128, mut exponent: i32) -> Amount {
    if mantissa == 0 {
        return Amount { mantissa: 0, exponent: 0 };
    }
    while mantissa % 10 == 0 {
        mantissa /= 10;
        exponent = exponent.saturating_add(1);
    }
    Amount { mantissa, exponent }
}

#[cfg(test)]
mod tests;
